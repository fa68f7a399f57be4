"""DefaultPreemption: pods that fit nowhere evict pods of lower priority."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from moorage._core.batches import pods_below
from moorage.errors import MoorageError
from moorage.framework.cycle_state import CycleState
from moorage.framework.handle import FrameworkHandle
from moorage.framework.in_core import CorePostFilter
from moorage.framework.interface import PostFilterResult, PreEnqueuePlugin
from moorage.framework.status import Code, Status
from moorage.objects.pod import Pod

from .eligibility import NEVER, NO_VICTIMS
from .evaluator import no_candidates, preempt

if TYPE_CHECKING:
    from moorage._core.pod_class import Shape

PREFIX = "preemption: "
RUNNING = "waiting for the preemption for this pod to be finished"


class DefaultPreemption(PreEnqueuePlugin, CorePostFilter):
    """kube-scheduler v1.36, defaultpreemption/.

    The core's, as long as nobody could be evicted: then its answer is known without looking at nodes.

    Its event, with asynchronous preemption, is the deletion of an assigned pod, whose hint never queues the
    pod (`isPodSchedulableAfterAssignedPodDeletion`): it only has gated pods looked at again.
    """

    name = "DefaultPreemption"
    default_args = {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 100}

    def __init__(
        self, args: Mapping[str, object] | None = None, handle: FrameworkHandle | None = None
    ) -> None:
        super().__init__(args, handle)
        self.preempting: set[str] = set()  # UIDs of pods whose victims are on their way out

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """A pod whose victims are still being deleted is kept back."""
        if pod.metadata.uid in self.preempting:
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (RUNNING,), self.name)
        return None

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: Mapping[str, Status]
    ) -> tuple[PostFilterResult | None, Status | None]:
        percentage = self.args["minCandidateNodesPercentage"]
        absolute = self.args["minCandidateNodesAbsolute"]
        self.preempting.add(pod.metadata.uid)
        try:
            result, status = preempt(self._handle(), state, pod, statuses, percentage, absolute, self.name)
        finally:
            self.preempting.discard(pod.metadata.uid)
        if status is None or not status.message():
            return result, status
        return result, Status(status.code, (PREFIX + status.message(),), self.name)

    def could_help(self, shape: Shape, potential: int) -> bool:
        """Whether somebody could be evicted: a pod of lower priority is in the cache."""
        state = self._handle().cache.state
        if not potential or not shape.may_preempt or state.classes.lowest_priority >= shape.priority:
            return False
        return bool(pods_below(state, shape.priority).any())

    def unhelpful(self, shape: Shape, nodes: int, potential: int) -> tuple[str, bool]:
        if not shape.may_preempt:
            return PREFIX + NEVER, False
        reasons = dict.fromkeys(NO_VICTIMS.reasons, potential) if potential else {}
        return PREFIX + no_candidates(nodes, reasons, nodes - potential), True

    def _handle(self) -> FrameworkHandle:
        if self.handle is None:
            raise MoorageError(f'plugin "{self.name}" is not part of a scheduler')
        return self.handle
