"""DefaultPreemption: pods that fit nowhere evict pods of lower priority."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from moorage._core.decide.bulk_operations import has_pods_below
from moorage.errors import MoorageError
from moorage.framework.plugin.cycle_state import CycleState
from moorage.framework.plugin.events import (
    POD,
    QUEUE_SKIP,
    ActionType,
    ClusterEventWithHint,
    QueueingHint,
    on,
)
from moorage.framework.plugin.handle import FrameworkHandle
from moorage.framework.plugin.interface import EnqueueExtensions, PostFilterResult, PreEnqueuePlugin
from moorage.framework.plugin.status import Code, Status
from moorage.framework.profiles.in_core import CorePostFilter
from moorage.framework.runtime.preempt_handle import PreemptHandle
from moorage.objects.model.pod import Pod

from .eligibility import NEVER, NO_VICTIMS, num_candidates, reason_against_pod, why_not_eligible
from .evaluator import Found, find_candidates, no_candidates, preempt, preempt_in_core, preemptor_of
from .eviction_units import groups_of

if TYPE_CHECKING:
    from moorage._core.state.pod_class import Shape

PREFIX = "preemption: "
RUNNING = "waiting for the preemption for this pod to be finished"


class DefaultPreemption(PreEnqueuePlugin, CorePostFilter, EnqueueExtensions):
    """kube-scheduler v1.36, defaultpreemption/.

    The core's, as long as nobody could be evicted: then its answer is known without looking at nodes.

    Its event is the deletion of a pod, whose hint never queues one: it only has gated pods looked at again.
    """

    name = "DefaultPreemption"
    default_args = {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 100}

    def __init__(
        self, args: Mapping[str, object] | None = None, handle: FrameworkHandle | None = None
    ) -> None:
        super().__init__(args, handle)
        self.preempting: set[str] = set()  # UIDs of pods whose victims are on their way out
        self.reason_against = ""  # why no pod evicts others by itself, in a pod group cycle

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """A pod whose victims are still being deleted is kept back."""
        if pod.metadata.uid in self.preempting:
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (RUNNING,), self.name)
        return None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return [on(POD, ActionType.DELETE, self.after_pod_deleted)]

    def after_pod_deleted(self, pod: Pod, old: Pod, new: None) -> QueueingHint:
        """What the other rejectors of the pod say decides."""
        return QUEUE_SKIP

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: Mapping[str, Status]
    ) -> tuple[PostFilterResult | None, Status | None]:
        handle = self._handle()
        if reason := reason_against_pod(handle.handle, pod):
            return None, Status(Code.UNSCHEDULABLE, (PREFIX + reason,), self.name)
        self.preempting.add(pod.metadata.uid)
        try:
            result, status = self._preempt(handle, state, pod, statuses)
        finally:
            self.preempting.discard(pod.metadata.uid)
        if status is None or not status.message():
            return result, status
        return result, Status(status.code, (PREFIX + status.message(),), self.name)

    def _preempt(
        self, handle: PreemptHandle, state: CycleState, pod: Pod, statuses: Mapping[str, Status]
    ) -> tuple[PostFilterResult | None, Status | None]:
        nodes, preemptor = len(statuses), preemptor_of(handle, pod, statuses)
        if preemptor is None:
            found = self.find_candidates(state, pod, statuses)
            return preempt(handle, pod, found, nodes, self.name)
        if message := why_not_eligible(handle.handle, pod, statuses):
            return None, Status(Code.UNSCHEDULABLE, (message,))
        return preempt_in_core(preemptor, handle, state, pod, nodes, self.args, self.name)

    def find_candidates(
        self,
        state: CycleState,
        pod: Pod,
        statuses: Mapping[str, Status],
        handle: PreemptHandle | None = None,
    ) -> Found:
        """Look for nodes to make room on, from an offset on until there are enough; nothing is changed. With
        a `handle`, among the nodes of its cache and by the filters of its framework."""
        handle = handle or self._handle()
        percentage = self.args["minCandidateNodesPercentage"]
        absolute = self.args["minCandidateNodesAbsolute"]
        return find_candidates(
            handle,
            state,
            pod,
            statuses,
            lambda nodes: handle.handle.preemption_offset(pod, nodes),
            lambda nodes: num_candidates(nodes, percentage, absolute),
        )

    def may_preempt(self, shape: Shape, potential: int) -> bool:
        """Whether somebody could be evicted: a pod of lower priority is in the cache, or there is a group of
        lower priority that is evicted whole."""
        if not potential or not shape.may_preempt or self.reason_against:
            return False
        handle = self._handle().handle
        groups = groups_of(handle)
        if groups is not None and groups.lowest_priority_of_whole < shape.priority:
            return True
        return has_pods_below(handle.cache.state, shape.priority)

    def futile_message(self, shape: Shape, nodes: int, potential: int) -> tuple[str, bool]:
        if self.reason_against:
            return PREFIX + self.reason_against, False
        if not shape.may_preempt:
            return PREFIX + NEVER, False
        reasons = dict.fromkeys(NO_VICTIMS.reasons, potential) if potential else {}
        return PREFIX + no_candidates(nodes, reasons, nodes - potential), True

    def _handle(self) -> PreemptHandle:
        """All that it works with."""
        if self.handle is None:
            raise MoorageError(f'plugin "{self.name}" is not part of a scheduler')
        return self.handle.preempt_handle()
