"""SchedulingGates: a pod with scheduling gates does not enter the queue."""

from __future__ import annotations

from moorage.framework.interface import Code, PreEnqueuePlugin, Status
from moorage.objects.pod import Pod


class SchedulingGates(PreEnqueuePlugin):
    """kube-scheduler v1.36, scheduling_gates.go."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """A rejection that names the gates, or None."""
        if not pod.spec.scheduling_gates:
            return None
        gates = " ".join(gate.name for gate in pod.spec.scheduling_gates)
        text = f"waiting for scheduling gates: [{gates}]"
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,), self.name)
