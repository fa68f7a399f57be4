"""SchedulingGates: keeps pods with scheduling gates out of the queue."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from moorage.engine import framework as fwk
from moorage.kube import Pod, PodSchedulingGate

from ..framework.plugin.events import POD, ActionType, is_same_pod, of_itself, on, queue_if
from ..framework.profiles.in_core import gates_only_with


@lru_cache(256)  # thousands of pods may wait for one queueing system
def rejection(gates: tuple[PodSchedulingGate, ...]) -> fwk.Status:
    """Return the status of pods with some gates."""
    text = f"waiting for scheduling gates: [{' '.join(gate.name for gate in gates)}]"
    return fwk.Status(fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,), SchedulingGates.name)


class SchedulingGates(fwk.PreEnqueuePlugin, fwk.EnqueueExtensions):
    """PreEnqueue of kube-scheduler v1.36, scheduling_gates.go."""

    name = "SchedulingGates"
    in_core = True

    @gates_only_with("scheduling_gates")
    def pre_enqueue(self, pod: Pod) -> fwk.Status | None:
        """Reject a pod with scheduling gates; the reason names them."""
        return rejection(pod.spec.scheduling_gates) if pod.spec.scheduling_gates else None

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        return [on(POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, self.after_pod_change)]

    @of_itself
    def after_pod_change(self, pod: Pod, old: Pod, new: Pod) -> fwk.QueueingHint:
        """Queue if the gates of the pod were removed."""
        return queue_if(is_same_pod(pod, new))
