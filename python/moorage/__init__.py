"""moorage: a scheduling engine with the exact semantics of kube-scheduler v1.36.

The public names are imported when they are first used (PEP 562).
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .errors import InputError as InputError
    from .errors import MoorageError as MoorageError
    from .framework.cycle_state import CycleState as CycleState
    from .framework.interface import BindPlugin as BindPlugin
    from .framework.interface import Code as Code
    from .framework.interface import EnqueueExtensions as EnqueueExtensions
    from .framework.interface import FilterPlugin as FilterPlugin
    from .framework.interface import NominatingInfo as NominatingInfo
    from .framework.interface import PermitPlugin as PermitPlugin
    from .framework.interface import PostBindPlugin as PostBindPlugin
    from .framework.interface import PostFilterPlugin as PostFilterPlugin
    from .framework.interface import PostFilterResult as PostFilterResult
    from .framework.interface import PreBindPlugin as PreBindPlugin
    from .framework.interface import PreBindPreFlightResult as PreBindPreFlightResult
    from .framework.interface import PreEnqueuePlugin as PreEnqueuePlugin
    from .framework.interface import PreFilterPlugin as PreFilterPlugin
    from .framework.interface import PreFilterResult as PreFilterResult
    from .framework.interface import PreScorePlugin as PreScorePlugin
    from .framework.interface import QueueSortPlugin as QueueSortPlugin
    from .framework.interface import ReservePlugin as ReservePlugin
    from .framework.interface import ScorePlugin as ScorePlugin
    from .framework.interface import SignPlugin as SignPlugin
    from .framework.interface import Status as Status
    from .framework.nodes_view import NodesView as NodesView
    from .framework.registry import Registry as Registry
    from .objects.cluster import Cluster as Cluster
    from .objects.load import load as load
    from .objects.quantity import Quantity as Quantity
    from .scheduler import Profile as Profile
    from .scheduler import Scheduler as Scheduler
    from .sim.synthetic import synthetic as synthetic

__version__ = "0.1.0"

# Where each public name lives; the imports above say the same to type checkers.
_MODULES = {
    "BindPlugin": "framework.interface",
    "Cluster": "objects.cluster",
    "Code": "framework.interface",
    "CycleState": "framework.cycle_state",
    "EnqueueExtensions": "framework.interface",
    "FilterPlugin": "framework.interface",
    "InputError": "errors",
    "MoorageError": "errors",
    "NodesView": "framework.nodes_view",
    "NominatingInfo": "framework.interface",
    "PermitPlugin": "framework.interface",
    "PostBindPlugin": "framework.interface",
    "PostFilterPlugin": "framework.interface",
    "PostFilterResult": "framework.interface",
    "PreBindPlugin": "framework.interface",
    "PreBindPreFlightResult": "framework.interface",
    "PreEnqueuePlugin": "framework.interface",
    "PreFilterPlugin": "framework.interface",
    "PreFilterResult": "framework.interface",
    "PreScorePlugin": "framework.interface",
    "Profile": "scheduler",
    "Quantity": "objects.quantity",
    "QueueSortPlugin": "framework.interface",
    "Registry": "framework.registry",
    "ReservePlugin": "framework.interface",
    "Scheduler": "scheduler",
    "ScorePlugin": "framework.interface",
    "SignPlugin": "framework.interface",
    "Status": "framework.interface",
    "load": "objects.load",
    "synthetic": "sim.synthetic",
}
__all__ = ["__version__", *_MODULES]

if find_spec("moorage._core.cycle") is None:
    raise ImportError(
        "the compiled core of moorage is missing: run `pip install .` (or `make build`) in its source tree",
        name="moorage._core.cycle",
    )


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(globals().keys() | _MODULES.keys())
