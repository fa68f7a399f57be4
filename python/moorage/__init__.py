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
    from .objects.cluster import Cluster as Cluster
    from .objects.load import load as load
    from .objects.quantity import Quantity as Quantity
    from .scheduler import Profile as Profile
    from .scheduler import Scheduler as Scheduler
    from .sim.synthetic import synthetic as synthetic

__version__ = "0.1.0"

# Where each public name lives; the imports above say the same to type checkers.
_MODULES = {
    "Cluster": "objects.cluster",
    "InputError": "errors",
    "MoorageError": "errors",
    "Profile": "scheduler",
    "Quantity": "objects.quantity",
    "Scheduler": "scheduler",
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
