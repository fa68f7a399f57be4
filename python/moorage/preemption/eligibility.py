"""The first step of preemption: which pods may preempt others, and on which nodes evictions could help.

kube-scheduler v1.36, defaultpreemption/default_preemption.go and framework/preemption/preemption.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from moorage.framework import AnyNodeInfo, Code, FrameworkHandle, Status
from moorage.framework.plugin.status import code_of
from moorage.objects import Pod, PodGroup, group_of

from .eviction_units import Units, groups_of, priority_of

NEVER = "not eligible due to preemptionPolicy=Never."
TERMINATING = "not eligible due to a terminating pod on the nominated node."
NO_VICTIMS = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("No preemption victims found for incoming pod",))
"""The status of a node without pods of lower priority."""

ABSENT = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
"""The status of a node that the search did not reach."""

IN_PLACEMENTS = "not eligible due to placement-based pod group scheduling limitation"
AS_A_WHOLE = "not eligible due to workload aware preemption enabled"
NO_GROUP = "pod group for pod not found"

NO_VICTIM = 'expected at least one victim pod on node "{}"'

DISRUPTION_TARGET = "DisruptionTarget"
BY_SCHEDULER = "PreemptionByScheduler"


def pod_eligible_to_preempt_others(
    pod: Pod,
    nominated_node: AnyNodeInfo | None,
    nominated_status: Status | None,
    priority_as_victim: Callable[[Pod], int] = priority_of,
) -> tuple[bool, str]:
    """Decide whether a pod may preempt others.

    Parameters
    ----------
    pod : Pod
    nominated_node : NodeInfo or None
        The node that the pod's status nominates it to, if it exists. While victims of the scheduler terminate
        there, the pod waits for them.
    nominated_status : Status or None
        The status of that node in this cycle. With UnschedulableAndUnresolvable the pod does not wait.
    priority_as_victim : callable
        Returns the priority by which a pod on a node is evicted.

    Returns
    -------
    eligible : bool
    reason : str
        Why not, or "".
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
    """Return the nodes where evictions could help: those with the code Unschedulable, in list order."""
    return [name for name, status in statuses.items() if status.code == Code.UNSCHEDULABLE]


def num_candidates(nodes: int, percentage: int, absolute: int) -> int:
    """Return how many candidates dry runs look for (GetOffsetAndNumCandidates).

    Parameters
    ----------
    nodes : int
        The number of potential nodes.
    percentage, absolute : int
        The arguments of DefaultPreemption.
    """
    return min(nodes, max(nodes * percentage // 100, absolute))


def why_not_eligible(handle: FrameworkHandle, pod: Pod, statuses: Mapping[str, Status]) -> str:
    """Return why a pod may not preempt others, or "".

    Parameters
    ----------
    handle : FrameworkHandle
    pod : Pod
    statuses : mapping of str to Status
        By node name why the node was rejected.
    """
    name = pod.status.nominated_node_name
    if not name:
        return pod_eligible_to_preempt_others(pod, None, None)[1]
    status, priority_of = statuses.get(name) or ABSENT, Units(handle).priority_of
    return pod_eligible_to_preempt_others(pod, handle.cache.node_info(name), status, priority_of)[1]


def reason_against(handle: FrameworkHandle, group: PodGroup | None) -> str:
    """Return why the pods of a group preempt no others one by one, or "".

    kube-scheduler v1.36, PostFilter of defaultpreemption/.

    Parameters
    ----------
    handle : FrameworkHandle
    group : PodGroup or None
    """
    if handle.places_groups and group is not None and group.spec.scheduling_constraints is not None:
        return IN_PLACEMENTS
    return AS_A_WHOLE if handle.preempts_for_groups else ""


def reason_against_pod(handle: FrameworkHandle, pod: Pod) -> str:
    """Return why a pod preempts no others by itself, because of its group; "" if it may."""
    groups, key = groups_of(handle), group_of(pod)
    if groups is None or key is None:
        return ""
    group = groups.get(key)
    return NO_GROUP if handle.places_groups and group is None else reason_against(handle, group)
