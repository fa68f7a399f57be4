"""The first step of preemption: who may preempt, and on which nodes that could help.

kube-scheduler v1.36, defaultpreemption/default_preemption.go and framework/preemption/preemption.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from moorage.framework.plugin.nodes_view import AnyNodeInfo
from moorage.framework.plugin.status import Code, Status, code_of
from moorage.objects.model.pod import Pod

NEVER = "not eligible due to preemptionPolicy=Never."
TERMINATING = "not eligible due to a terminating pod on the nominated node."
NO_VICTIMS = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("No preemption victims found for incoming pod",))
"""What is said of a node without pods of lower priority."""

NO_VICTIM = 'expected at least one victim pod on node "{}"'

DISRUPTION_TARGET = "DisruptionTarget"
BY_SCHEDULER = "PreemptionByScheduler"


def priority_of(pod: Pod) -> int:
    """A pod's priority; 0 where it has none."""
    return pod.spec.priority or 0


def pod_eligible_to_preempt_others(
    pod: Pod,
    nominated_node: AnyNodeInfo | None,
    nominated_status: Status | None,
    priority_as_victim: Callable[[Pod], int] = priority_of,
) -> tuple[bool, str]:
    """Whether a pod may preempt others, and why not.

    Parameters
    ----------
    nominated_node : NodeInfo or None
        The node that the pod's status nominates it to, where there is one. While victims of the scheduler
        are leaving it, the pod waits for them.
    nominated_status : Status or None
        What was said of that node in this cycle: one that is lost for good is not waited for.
    priority_as_victim : callable
        The priority by which a pod on a node is evicted.
    """
    if pod.spec.preemption_policy == "Never":
        return False, NEVER
    if nominated_node is None or code_of(nominated_status) == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return True, ""
    priority = priority_of(pod)
    if any(priority_as_victim(other) < priority and is_leaving(other) for other in nominated_node.pods):
        return False, TERMINATING
    return True, ""


def is_leaving(pod: Pod) -> bool:
    """Whether a pod terminates because the scheduler has preempted it."""
    if pod.metadata.deletion_timestamp is None:
        return False
    condition = next((one for one in pod.status.conditions if one.type == DISRUPTION_TARGET), None)
    return condition is not None and (condition.status, condition.reason) == ("True", BY_SCHEDULER)


def potential_nodes(statuses: Mapping[str, Status]) -> list[str]:
    """The nodes where others could make room: not those that nothing can help."""
    return [name for name, status in statuses.items() if status.code == Code.UNSCHEDULABLE]


def num_candidates(nodes: int, percentage: int, absolute: int) -> int:
    """How many candidates are looked for among so many potential nodes (GetOffsetAndNumCandidates)."""
    return min(nodes, max(nodes * percentage // 100, absolute))
