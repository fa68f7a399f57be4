"""moorage: a scheduling engine with the exact semantics of kube-scheduler 1.34 to 1.37.

The public names are imported when they are first used (PEP 562).
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from moorage._version import __version__

if TYPE_CHECKING:
    from ._core.base.quantity import Quantity as Quantity
    from .changes.change import Change as Change
    from .controllers.workloads import PodTimes as PodTimes
    from .controllers.workloads import Rollout as Rollout
    from .errors import InputError as InputError
    from .errors import MoorageError as MoorageError
    from .explain.explain_document import Explanation as Explanation
    from .facade import Scheduler as Scheduler
    from .framework.plugin.any_node_info import NodeInfo as NodeInfo
    from .framework.plugin.cycle_state import CycleState as CycleState
    from .framework.plugin.interface import BindPlugin as BindPlugin
    from .framework.plugin.interface import Code as Code
    from .framework.plugin.interface import EnqueueExtensions as EnqueueExtensions
    from .framework.plugin.interface import FilterPlugin as FilterPlugin
    from .framework.plugin.interface import NominatingInfo as NominatingInfo
    from .framework.plugin.interface import PermitPlugin as PermitPlugin
    from .framework.plugin.interface import PostBindPlugin as PostBindPlugin
    from .framework.plugin.interface import PostFilterPlugin as PostFilterPlugin
    from .framework.plugin.interface import PostFilterResult as PostFilterResult
    from .framework.plugin.interface import PreBindPlugin as PreBindPlugin
    from .framework.plugin.interface import PreBindPreFlightResult as PreBindPreFlightResult
    from .framework.plugin.interface import PreEnqueuePlugin as PreEnqueuePlugin
    from .framework.plugin.interface import PreFilterPlugin as PreFilterPlugin
    from .framework.plugin.interface import PreFilterResult as PreFilterResult
    from .framework.plugin.interface import PreScorePlugin as PreScorePlugin
    from .framework.plugin.interface import QueueSortPlugin as QueueSortPlugin
    from .framework.plugin.interface import ReservePlugin as ReservePlugin
    from .framework.plugin.interface import ScorePlugin as ScorePlugin
    from .framework.plugin.interface import SignPlugin as SignPlugin
    from .framework.plugin.interface import Status as Status
    from .framework.plugin.nodes_view import NodesView as NodesView
    from .framework.profiles.native_library import load_native_plugin as load_native_plugin
    from .framework.profiles.plugin_registry import Registry as Registry
    from .objects.edit import edit as edit
    from .objects.model.cluster import Cluster as Cluster
    from .objects.model.node import Namespace as Namespace
    from .objects.model.node import Node as Node
    from .objects.model.node import Taint as Taint
    from .objects.model.pod import Pod as Pod
    from .objects.model.pod import Toleration as Toleration
    from .objects.read.load import load as load
    from .objects.read.one_object import read_object as read_object
    from .objects.read.write import object_to_dict as object_to_dict
    from .plugins.registry import default_profile as default_profile
    from .scheduler import Profile as Profile
    from .scheduler.cycle.results import Examination as Examination
    from .scheduler.cycle.results import Feasibility as Feasibility
    from .scheduler.cycle.results import ScheduleResult as ScheduleResult
    from .scheduler.difference import Difference as Difference
    from .scheduler.expanded import expanded as expanded
    from .scheduler.placing.preempt_pods import Preemption as Preemption
    from .sim.replay import History as History
    from .sim.replay import Verification as Verification
    from .sim.replay import replay as replay
    from .sim.replay import verify as verify
    from .sim.synthetic import synthetic as synthetic
    from .sim.timeline import Timeline as Timeline
    from .sim.timeline import bursts as bursts
    from .sim.timeline import diurnal as diurnal
    from .sim.timeline import exponential as exponential
    from .sim.timeline import lognormal as lognormal
    from .sim.timeline import poisson as poisson
    from .store import ObjectStore as ObjectStore

# Where each public name lives; the imports above say the same to type checkers.
_MODULES = {
    "BindPlugin": "framework.plugin.interface",
    "Change": "changes.change",
    "Cluster": "objects.model.cluster",
    "Code": "framework.plugin.interface",
    "CycleState": "framework.plugin.cycle_state",
    "Difference": "scheduler.difference",
    "EnqueueExtensions": "framework.plugin.interface",
    "Examination": "scheduler.cycle.results",
    "Explanation": "explain.explain_document",
    "Feasibility": "scheduler.cycle.results",
    "FilterPlugin": "framework.plugin.interface",
    "History": "sim.replay",
    "InputError": "errors",
    "MoorageError": "errors",
    "Namespace": "objects.model.node",
    "Node": "objects.model.node",
    "NodeInfo": "framework.plugin.any_node_info",
    "NodesView": "framework.plugin.nodes_view",
    "NominatingInfo": "framework.plugin.interface",
    "ObjectStore": "store",
    "PermitPlugin": "framework.plugin.interface",
    "Pod": "objects.model.pod",
    "PodTimes": "controllers.workloads",
    "PostBindPlugin": "framework.plugin.interface",
    "PostFilterPlugin": "framework.plugin.interface",
    "PostFilterResult": "framework.plugin.interface",
    "PreBindPlugin": "framework.plugin.interface",
    "PreBindPreFlightResult": "framework.plugin.interface",
    "PreEnqueuePlugin": "framework.plugin.interface",
    "PreFilterPlugin": "framework.plugin.interface",
    "PreFilterResult": "framework.plugin.interface",
    "PreScorePlugin": "framework.plugin.interface",
    "Preemption": "scheduler.placing.preempt_pods",
    "Profile": "scheduler",
    "Quantity": "_core.base.quantity",
    "QueueSortPlugin": "framework.plugin.interface",
    "Registry": "framework.profiles.plugin_registry",
    "ReservePlugin": "framework.plugin.interface",
    "Rollout": "controllers.workloads",
    "ScheduleResult": "scheduler.cycle.results",
    "Scheduler": "facade",
    "ScorePlugin": "framework.plugin.interface",
    "SignPlugin": "framework.plugin.interface",
    "Status": "framework.plugin.interface",
    "Taint": "objects.model.node",
    "Timeline": "sim.timeline",
    "Toleration": "objects.model.pod",
    "Verification": "sim.replay",
    "bursts": "sim.timeline",
    "default_profile": "plugins.registry",
    "diurnal": "sim.timeline",
    "edit": "objects.edit",
    "expanded": "scheduler.expanded",
    "exponential": "sim.timeline",
    "load": "objects.read.load",
    "load_native_plugin": "framework.profiles.native_library",
    "lognormal": "sim.timeline",
    "object_to_dict": "objects.read.write",
    "poisson": "sim.timeline",
    "read_object": "objects.read.one_object",
    "replay": "sim.replay",
    "synthetic": "sim.synthetic",
    "verify": "sim.replay",
}
__all__ = ["__version__", *_MODULES]

if "t" in sys.abiflags:
    raise ImportError("moorage needs a Python with the GIL: its compiled core was not made for free threads")
if find_spec("moorage._core.decide.placer") is None:
    raise ImportError(
        "the compiled core of moorage is missing: run `pip install .` (or `make build`) in its source tree",
        name="moorage._core.decide.placer",
    )


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        from moorage.errors import nearest

        hint = "" if name.startswith("_") else nearest(name, _MODULES)  # tools ask for such names
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}", name=name)
    value: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(globals().keys() | _MODULES.keys())
