"""In-tree plugins: their verdicts and scores are the core's, or they have nothing to say about most pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from moorage.framework.plugin.interface import (
    EnqueueExtensions,
    FilterPlugin,
    Plugin,
    PostFilterPlugin,
    PreFilterPlugin,
    PreFilterResult,
    SignPlugin,
)
from moorage.framework.plugin.signing import volumes
from moorage.framework.plugin.status import SKIP, Status
from moorage.objects.model.meta import Object
from moorage.objects.model.pod import Pod

if TYPE_CHECKING:
    from moorage._core.state.cluster_state import ClusterState
    from moorage._core.state.pod_class import Shape
    from moorage.framework.plugin.cycle_state import CycleState
    from moorage.framework.plugin.nodes_view import AnyNodeInfo, NodesView
    from moorage.framework.runtime.kernels import Kernels
    from moorage.framework.runtime.runtime import Framework

T = TypeVar("T", bound=Object)
T_co = TypeVar("T_co", covariant=True)


class NativePlugin(Plugin):
    """Verdicts and scores are kernels of the compiled core.

    PreFilter and PreScore read `CycleState.shape`, `CycleState.terms` and the node that the pod is pinned to
    only: the framework keeps their answers with the terms.
    """

    in_core = True
    # By point, upstream's words where what the plugin's PreFilter or PreScore should have written is missing.
    missing_state_text: ClassVar[Mapping[type[Plugin], str]] = {}

    def plan_arguments(self, state: ClusterState) -> dict[str, Any]:
        """What a plan must know of this plugin's arguments; see `moorage._core.decide.plan.Plan`."""
        return {}

    def reasons(self, bits: int, shape: Shape) -> tuple[str, ...]:
        """Upstream's texts for the reason bits of a verdict."""
        raise NotImplementedError

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodesView) -> PreFilterResult | Status | None:
        return None

    def filter(self, state: CycleState, pod: Pod, node_info: AnyNodeInfo) -> Status | None:
        return self._kernels().filter(self, state, node_info)

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodesView) -> Status | None:
        return None

    def score(self, state: CycleState, pod: Pod, node_info: AnyNodeInfo) -> int | Status:
        return self._kernels().score(self, state, node_info)

    def shape_of(self, pod: Pod) -> Shape:
        """What decisions read of a pod, for queueing hints."""
        classes = self.required_handle().cache.state.classes
        return classes.shape_of(classes.intern(pod))

    def normalized_scores(self, state: CycleState, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """The scores of rows of the node table, which are all the feasible ones, brought to 0 to 100."""
        return self._kernels().search.scores(self.name, rows, *state.target)[1]

    def _framework(self) -> Framework:
        framework = self.required_handle().framework
        if framework is None:
            raise RuntimeError(f'plugin "{self.name}" is not part of a scheduler')
        return framework

    def _kernels(self) -> Kernels:
        kernels = self._framework().kernels
        if kernels is None:
            raise RuntimeError(f'plugin "{self.name}" is not part of a scheduler')
        return kernels


class CorePostFilter(PostFilterPlugin):
    """A PostFilter plugin that tells cheaply where it cannot do anything for a pod: then it is not asked, and
    what it would have said is made when somebody reads it."""

    in_core = True
    reason_against = ""
    """Why it helps nobody, in a pod group cycle where it does not."""

    def may_preempt(self, shape: Shape, potential: int) -> bool:
        """False where `post_filter` certainly makes no room for pods of a shape that are nominated nowhere;
        so many nodes were rejected, but not for good."""
        raise NotImplementedError

    def futile_message(self, shape: Shape, nodes: int, potential: int) -> tuple[str, bool]:
        """The reason that `post_filter` gives then, of so many nodes, and whether it ends a nomination."""
        raise NotImplementedError

    def failure(self, state: CycleState) -> Status | None:
        """The Error that `post_filter` ends with, whatever nodes say; None where it does not."""
        return None


class Lister(Protocol[T_co]):
    """What an informer's lister offers of one kind."""

    def get(self, name: str) -> T_co:
        """The object of this key; NotFoundError of the store where there is none."""

    def list(self) -> Sequence[T_co]:
        """All objects."""


class VolumePlugin(PreFilterPlugin, FilterPlugin, EnqueueExtensions, SignPlugin):
    """A plugin about volumes, which has nothing to say about pods without.

    In a profile it is idle: `in_core`, it answers Skip without being asked. Pods that use volumes are decided
    about by the profile `with_volumes`, where a copy of the same arguments (`enabled`) decides in Python.
    Hints and signatures are asked of the idle one.
    """

    in_core = True

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        return volumes(pod)

    def enabled(self) -> Self:
        """A copy of the same arguments that decides in Python."""
        out = self.another()
        out.in_core = False
        return out

    @property
    def is_idle(self) -> bool:
        """Nobody asks it about pods without volumes."""
        return self.in_core

    def skips(self, method: str) -> bool:
        """Whether it answers Skip to `pre_filter` or `pre_score` for each pod without volumes; else there are
        no reasons to reject a node, and scores of 0."""
        return True

    def fits_everywhere(self, state: CycleState, pod: Pod, nodes: NodesView) -> bool:
        """Whether its Filter lets a pod on each of these nodes, whatever pods are there; False where it does
        not know."""
        return False

    def lister(self, kind: type[T]) -> Lister[T]:
        """What is known of the objects of a kind."""
        lister: Lister[T] = self.required_handle().informers.lister(kind)
        return lister


class UnitPlugin(Plugin):
    """A plugin about pod groups, which has nothing to say about pods without one: these stay in the core. Of
    the pods of a group it is asked at Permit where they come one by one."""

    in_core = True


class UnbuiltPlugin(Plugin):
    """A plugin known by name, order, weight and arguments, whose decisions this version leaves out.

    It answers Skip, which is what upstream's answers for a pod that does not use it.
    """

    in_core = True

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return None

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodesView) -> PreFilterResult | Status | None:
        return SKIP

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodesView) -> Status | None:
        return SKIP


def always_skips(plugin: Plugin, method: str) -> bool:
    """Whether a plugin answers Skip in PreFilter or PreScore whatever it is asked."""
    if isinstance(plugin, VolumePlugin):
        return plugin.is_idle and plugin.skips(method)
    return getattr(type(plugin), method) is getattr(UnbuiltPlugin, method)
