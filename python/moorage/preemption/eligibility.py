"""The first step of preemption: who may preempt, and on which nodes that could help.

kube-scheduler v1.36, defaultpreemption/default_preemption.go and framework/preemption/preemption.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from moorage.framework.plugin.handle import FrameworkHandle
from moorage.framework.plugin.nodes_view import AnyNodeInfo
from moorage.framework.plugin.status import Code, Status, code_of
from moorage.objects.model.pod import Pod
from moorage.objects.model.pod_group import PodGroup, group_of

from .eviction_units import Units, groups_of
from .importance import priority_of

NEVER = "not eligible due to preemptionPolicy=Never."
TERMINATING = "not eligible due to a terminating pod on the nominated node."
NO_VICTIMS = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("No preemption victims found for incoming pod",))
"""What is said of a node without pods of lower priority."""

ABSENT = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
"""What is said of a node that the search did not come to."""

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


def why_not_eligible(handle: FrameworkHandle, pod: Pod, statuses: Mapping[str, Status]) -> str:
    """Why a pod may not preempt others; "" where it may."""
    name = pod.status.nominated_node_name
    if not name:
        return pod_eligible_to_preempt_others(pod, None, None)[1]
    said, priority_of = statuses.get(name) or ABSENT, Units(handle).priority_of
    return pod_eligible_to_preempt_others(pod, handle.cache.node_info(name), said, priority_of)[1]


def reason_against(handle: FrameworkHandle, group: PodGroup | None) -> str:
    """Why no pod of a group evicts others by itself; "" where it may (kube-scheduler v1.36, PostFilter of
    defaultpreemption/)."""
    if handle.places_groups and group is not None and group.spec.scheduling_constraints is not None:
        return IN_PLACEMENTS
    return AS_A_WHOLE if handle.preempts_for_groups else ""


def reason_against_pod(handle: FrameworkHandle, pod: Pod) -> str:
    """Why a pod evicts nobody by itself, as its group does not."""
    groups, key = groups_of(handle), group_of(pod)
    if groups is None or key is None:
        return ""
    group = groups.get(key)
    return NO_GROUP if handle.places_groups and group is None else reason_against(handle, group)
