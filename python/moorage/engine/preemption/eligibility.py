"""The first step of preemption: which pods may preempt others, and on which nodes evictions could help.

kube-scheduler v1.36, defaultpreemption/default_preemption.go and framework/preemption/preemption.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from moorage.kube import Pod
from moorage.kube.model.pod import DISRUPTION_TARGET

from ..framework import Code, FrameworkHandle, Status
from .eviction_units import EvictionUnits, priority_of

NEVER = "not eligible due to preemptionPolicy=Never."
TERMINATING = "not eligible due to a terminating pod on the nominated node."
NO_VICTIMS = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("No preemption victims found for incoming pod",))
"""The status of a node without pods of lower priority."""

ABSENT = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
"""The status of a node that the search did not reach."""

NO_VICTIM = 'expected at least one victim pod on node "{}"'

BY_SCHEDULER = "PreemptionByScheduler"


def is_leaving(pod: Pod) -> bool:
    """Whether a pod terminates because the scheduler has preempted it."""
    if pod.metadata.deletion_timestamp is None:
        return False
    condition = next((each for each in pod.status.conditions if each.type == DISRUPTION_TARGET), None)
    return condition is not None and (condition.status, condition.reason) == ("True", BY_SCHEDULER)


def potential_nodes(statuses: Mapping[str, Status]) -> list[str]:
    """Return the nodes where evictions could help: those with the code Unschedulable, in list order."""
    return [name for name, status in statuses.items() if status.code == Code.UNSCHEDULABLE]


def num_candidates(nodes: int, percentage: int, absolute: int) -> int:
    """Return the number of candidates after which dry runs end (kube-scheduler v1.36,
    GetOffsetAndNumCandidates).

    Parameters
    ----------
    nodes : int
        Number of potential nodes.
    percentage : int
        minCandidateNodesPercentage, in percent of `nodes`.
    absolute : int
        minCandidateNodesAbsolute.

    Returns
    -------
    int
        At most `nodes`.
    """
    return min(nodes, max(nodes * percentage // 100, absolute))


def why_not_eligible(handle: FrameworkHandle, pod: Pod, statuses: Mapping[str, Status]) -> str:
    """Return why a pod may not preempt others (kube-scheduler v1.36, PodEligibleToPreemptOthers).

    A pod whose status nominates it to a node waits while pods that the scheduler evicted terminate there, if
    the node exists and did not reject the pod as UnschedulableAndUnresolvable.

    Parameters
    ----------
    statuses : mapping of str to Status
        Node name to the status that rejected the node.

    Returns
    -------
    str
        "" if it may.
    """
    if pod.spec.preemption_policy == "Never":
        return NEVER
    name = pod.status.nominated_node_name or unwritten_nomination(handle, pod)
    info = handle.cache.node_info(name) if name else None
    if info is None or statuses.get(name, ABSENT).code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return ""
    priority_as_victim = EvictionUnits(handle).priority_of
    waits = any(priority_as_victim(other) < priority_of(pod) and is_leaving(other) for other in info.pods)
    return TERMINATING if waits else ""


def unwritten_nomination(handle: FrameworkHandle, pod: Pod) -> str:
    """Return the node to which a pod is nominated, if its status does not tell that yet; else ""."""
    if pod.status.nominated_node_name or not handle.writes.is_beside:
        return ""
    return handle.nominator.nodes.get(pod.metadata.uid, "")
