"""moorage: a scheduling engine with the exact semantics of kube-scheduler 1.34 to 1.38.

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
    from .answers.difference import Difference as Difference
    from .answers.explain.explain_document import Explanation as Explanation
    from .answers.runs.admitted import Admitted as Admitted
    from .answers.runs.admitted import ObjectWarning as ObjectWarning
    from .answers.runs.admitted import admit as admit
    from .answers.runs.python_questions import check as check
    from .answers.runs.python_questions import compare as compare
    from .answers.runs.python_questions import simulate as simulate
    from .answers.scheduler import Scheduler as Scheduler
    from .cluster.change import Change as Change
    from .cluster.pod_scheduler import expanded as expanded
    from .controllers import PodTimes as PodTimes
    from .controllers import Rollout as Rollout
    from .engine.framework.interface import BindPlugin as BindPlugin
    from .engine.framework.interface import Code as Code
    from .engine.framework.interface import EnqueueExtensions as EnqueueExtensions
    from .engine.framework.interface import FilterPlugin as FilterPlugin
    from .engine.framework.interface import NominatingInfo as NominatingInfo
    from .engine.framework.interface import PermitPlugin as PermitPlugin
    from .engine.framework.interface import PostBindPlugin as PostBindPlugin
    from .engine.framework.interface import PostFilterPlugin as PostFilterPlugin
    from .engine.framework.interface import PostFilterResult as PostFilterResult
    from .engine.framework.interface import PreBindPlugin as PreBindPlugin
    from .engine.framework.interface import PreBindPreFlightResult as PreBindPreFlightResult
    from .engine.framework.interface import PreEnqueuePlugin as PreEnqueuePlugin
    from .engine.framework.interface import PreFilterPlugin as PreFilterPlugin
    from .engine.framework.interface import PreFilterResult as PreFilterResult
    from .engine.framework.interface import PreScorePlugin as PreScorePlugin
    from .engine.framework.interface import QueueSortPlugin as QueueSortPlugin
    from .engine.framework.interface import ReservePlugin as ReservePlugin
    from .engine.framework.interface import ScorePlugin as ScorePlugin
    from .engine.framework.interface import SignPlugin as SignPlugin
    from .engine.framework.interface import Status as Status
    from .engine.framework.nodes_view import NodeInfo as NodeInfo
    from .engine.framework.nodes_view import NodesView as NodesView
    from .engine.framework.out_of_tree_plugins import RowPlugin as RowPlugin
    from .engine.framework.out_of_tree_plugins import load_native_plugin as load_native_plugin
    from .engine.framework.plugin_registry import Registry as Registry
    from .engine.framework.status import CycleState as CycleState
    from .engine.plugins.registry import default_profile as default_profile
    from .engine.scheduler import Profile as Profile
    from .engine.scheduler.cycle.results import Examination as Examination
    from .engine.scheduler.cycle.results import Feasibility as Feasibility
    from .engine.scheduler.cycle.results import ScheduleResult as ScheduleResult
    from .engine.scheduler.schedule_pods import Preemption as Preemption
    from .errors import InputError as InputError
    from .errors import MoorageError as MoorageError
    from .kube.edit import edit as edit
    from .kube.model.cluster import Cluster as Cluster
    from .kube.model.node import Namespace as Namespace
    from .kube.model.node import Node as Node
    from .kube.model.node import Taint as Taint
    from .kube.model.pod import Pod as Pod
    from .kube.model.pod import Toleration as Toleration
    from .kube.read.load import load as load
    from .kube.read.load import read_object as read_object
    from .kube.read.python_values import object_to_dict as object_to_dict
    from .sim.replay import History as History
    from .sim.replay import Verification as Verification
    from .sim.replay import replay as replay
    from .sim.replay import verify as verify
    from .sim.scenario import bursts as bursts
    from .sim.scenario import diurnal as diurnal
    from .sim.scenario import exponential as exponential
    from .sim.scenario import lognormal as lognormal
    from .sim.scenario import poisson as poisson
    from .sim.synthetic import synthetic as synthetic
    from .sim.timeline import Timeline as Timeline
    from .store import ObjectStore as ObjectStore

# Where each public name lives; the imports above say the same to type checkers.
_MODULES = {
    "Admitted": "answers.runs.admitted",
    "BindPlugin": "engine.framework.interface",
    "Change": "cluster.change",
    "Cluster": "kube.model.cluster",
    "Code": "engine.framework.interface",
    "CycleState": "engine.framework.status",
    "Difference": "answers.difference",
    "EnqueueExtensions": "engine.framework.interface",
    "Examination": "engine.scheduler.cycle.results",
    "Explanation": "answers.explain.explain_document",
    "Feasibility": "engine.scheduler.cycle.results",
    "FilterPlugin": "engine.framework.interface",
    "History": "sim.replay",
    "InputError": "errors",
    "MoorageError": "errors",
    "Namespace": "kube.model.node",
    "Node": "kube.model.node",
    "NodeInfo": "engine.framework.nodes_view",
    "NodesView": "engine.framework.nodes_view",
    "NominatingInfo": "engine.framework.interface",
    "ObjectStore": "store",
    "ObjectWarning": "answers.runs.admitted",
    "PermitPlugin": "engine.framework.interface",
    "Pod": "kube.model.pod",
    "PodTimes": "controllers",
    "PostBindPlugin": "engine.framework.interface",
    "PostFilterPlugin": "engine.framework.interface",
    "PostFilterResult": "engine.framework.interface",
    "PreBindPlugin": "engine.framework.interface",
    "PreBindPreFlightResult": "engine.framework.interface",
    "PreEnqueuePlugin": "engine.framework.interface",
    "PreFilterPlugin": "engine.framework.interface",
    "PreFilterResult": "engine.framework.interface",
    "PreScorePlugin": "engine.framework.interface",
    "Preemption": "engine.scheduler.schedule_pods",
    "Profile": "engine.scheduler",
    "Quantity": "_core.base.quantity",
    "QueueSortPlugin": "engine.framework.interface",
    "Registry": "engine.framework.plugin_registry",
    "ReservePlugin": "engine.framework.interface",
    "Rollout": "controllers",
    "RowPlugin": "engine.framework.out_of_tree_plugins",
    "ScheduleResult": "engine.scheduler.cycle.results",
    "Scheduler": "answers.scheduler",
    "ScorePlugin": "engine.framework.interface",
    "SignPlugin": "engine.framework.interface",
    "Status": "engine.framework.interface",
    "Taint": "kube.model.node",
    "Timeline": "sim.timeline",
    "Toleration": "kube.model.pod",
    "Verification": "sim.replay",
    "admit": "answers.runs.admitted",
    "bursts": "sim.scenario",
    "check": "answers.runs.python_questions",
    "compare": "answers.runs.python_questions",
    "default_profile": "engine.plugins.registry",
    "diurnal": "sim.scenario",
    "edit": "kube.edit",
    "expanded": "cluster.pod_scheduler",
    "exponential": "sim.scenario",
    "load": "kube.read.load",
    "load_native_plugin": "engine.framework.out_of_tree_plugins",
    "lognormal": "sim.scenario",
    "object_to_dict": "kube.read.python_values",
    "poisson": "sim.scenario",
    "read_object": "kube.read.load",
    "replay": "sim.replay",
    "simulate": "answers.runs.python_questions",
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
