"""SchedulingGates: a pod with scheduling gates does not enter the queue."""

from __future__ import annotations

from moorage.framework.interface import PRE_ENQUEUE, Code, Plugin, Status
from moorage.objects.pod import Pod


class SchedulingGates(Plugin):
    """kube-scheduler v1.36, scheduling_gates.go."""

    name = "SchedulingGates"
    extension_points = (PRE_ENQUEUE,)

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """A rejection that names the gates, or None."""
        if not pod.spec.scheduling_gates:
            return None
        gates = " ".join(gate.name for gate in pod.spec.scheduling_gates)
        text = f"waiting for scheduling gates: [{gates}]"
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,), self.name)
