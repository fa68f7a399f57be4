"""PreemptHandle: the interface that preemption had (kube-scheduler v1.19 and v1.20, framework/interface.go).

Only the interfaces are here; `moorage.preemption.runtime_handle` has them over today's runtime.
DefaultPreemption works with nothing else, and so can a plugin in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from moorage.objects.model.node import Node
from moorage.objects.model.pod import Pod
from moorage.objects.model.policy import PodDisruptionBudget

from .extender import Extender
from .status import Code, Status

if TYPE_CHECKING:
    from moorage.cache import NodeInfo, NodeInfoClone

    from .cycle_state import CycleState
    from .handle import FrameworkHandle
    from .nodes_view import AnyNodeInfo


@dataclass(frozen=True, slots=True)
class NodeScore:
    """What one plugin gives one node."""

    name: str
    score: int


PluginToNodeScores = dict[str, list[NodeScore]]
"""Plugin to its weighted scores, in the order of the nodes."""


GRAVEST = (Code.ERROR, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.UNSCHEDULABLE)


class PluginToStatus(dict[str, Status]):
    """Plugin to its rejection, in the order in which they ran; empty where the pod fits."""

    def merge(self) -> Status | None:
        """One status of all: the reasons of each, and the gravest code (Error, then
        UnschedulableAndUnresolvable, then Unschedulable, else the last); None of none."""
        if not self:
            return None
        statuses = list(self.values())
        codes = [status.code for status in statuses]
        code = next((grave for grave in GRAVEST if grave in codes), codes[-1])
        err = next((status.as_error() for status in statuses if status.code == Code.ERROR), None)
        texts = tuple(text for status in statuses for text in status.texts)
        return Status(code, texts, err=err)


class PodNominator(Protocol):
    """The pods that are expected on a node since others have to leave it for them."""

    def add_nominated_pod(self, pod: Pod, node_name: str) -> None:
        """Nominate a pod to a node; "" takes the one that its own status names, and where that names none,
        an earlier nomination ends all the same."""

    def delete_nominated_pod_if_exists(self, pod: Pod) -> None:
        """End a nomination, if there is one."""

    def update_nominated_pod(self, old: Pod, new: Pod) -> None:
        """Follow a change of a pod. A nomination that no status shows stays; else the new status decides."""

    def nominated_pods_for_node(self, node_name: str) -> list[Pod]:
        """The pods nominated to a node, in the order in which they were."""


class PluginsRunner(Protocol):
    """Runs the plugins of the profile about a pod on nodes as they might be."""

    def run_pre_score_plugins(self, state: CycleState, pod: Pod, nodes: Sequence[Node]) -> Status | None: ...

    def run_score_plugins(
        self, state: CycleState, pod: Pod, nodes: Sequence[Node]
    ) -> tuple[PluginToNodeScores | None, Status | None]:
        """The weighted scores, or None with an Error."""

    def run_filter_plugins(self, state: CycleState, pod: Pod, node_info: AnyNodeInfo) -> PluginToStatus:
        """The plugins that reject the pod with their statuses; only the Error, if there is one."""

    def run_pre_filter_extension_add_pod(
        self, state: CycleState, pod_to_schedule: Pod, pod_to_add: Pod, node_info: AnyNodeInfo
    ) -> Status | None:
        """`pod_to_add` is on the node now, as far as this state goes."""

    def run_pre_filter_extension_remove_pod(
        self, state: CycleState, pod_to_schedule: Pod, pod_to_remove: Pod, node_info: AnyNodeInfo
    ) -> Status | None:
        """`pod_to_remove` is off the node now, as far as this state goes."""


class PreemptHandle(PodNominator, PluginsRunner, Protocol):
    """`PodNominator` and `PluginsRunner`, extenders, and what v1.20 had in functions beside the handle:
    filters with nominated pods (PodPassesFiltersOnNode), and the lister of PodDisruptionBudgets.

    Attributes
    ----------
    handle : FrameworkHandle
        The framework handle, for the cache, the client, events and waiting pods.
    """

    handle: FrameworkHandle

    def extenders(self) -> Sequence[Extender]:
        """In configured order."""

    def pod_disruption_budgets(self) -> Sequence[PodDisruptionBudget]:
        """Those that are known."""

    def run_filter_plugins_with_nominated_pods(
        self, state: CycleState, pod: Pod, node_info: NodeInfo | NodeInfoClone
    ) -> Status | None:
        """Why a pod does not fit a node: with the pods of at least its priority that are nominated there,
        then without."""
