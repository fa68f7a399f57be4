"""Preemption for a pod group that fits nowhere (KEP-5710).

kube-scheduler v1.37, framework/preemption/podgrouppreemption.go. All units of lower priority in the cluster
are removed, and the group is placed. Then the units are put back one after the other, the protected and
important ones first. Those with which the pods of the group do not fit on the nodes found for them are the
victims. Units on other nodes are not looked at, where no filter reads other rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from moorage._core.preempt.bound_pods import not_terminating
from moorage._core.preempt.lower_units import LowerUnits
from moorage.store import ApiError

from ..framework import Code, FailedGroup, FrameworkHandle, NominatingInfo, Status
from ..framework.run_plugins import Framework
from .actuation import end_nominations_below, evict_victims
from .eviction_units import (
    NEVER,
    EvictionUnits,
    Unit,
    budgets_of,
    groups_of,
    is_leaving,
    violations,
)
from .running_preemptions import RunningPreemptions
from .victim_ranking import VictimRanking

ONGOING = "ongoing preemption on nominated nodes"
NO_VICTIMS_OF_GROUP = "No preemption victims found for incoming preemptor"
FOUND = "found a placement for podgroup, preempting {} victims"
NO_DOMAIN = (
    'failed to create domain: failed to get node info for node "{0}" from snapshot: '
    'nodeinfo not found for node name "{0}"'
)
LOST_NODE = 'node "{}" not found in the snapshot'
WHOLE_CLUSTER = "cluster"
"""Stands for the node in the events of victims: they may be on any node of the cluster."""

Found = tuple[Mapping[int, NominatingInfo] | None, Status]


def preempt_for_group(handle: FrameworkHandle, failed: FailedGroup, plugin_name: str) -> Found:
    """Evict pods for a group that fits nowhere.

    Parameters
    ----------
    plugin_name : str
        Rejects victims that wait on Permit.

    Returns
    -------
    nominations : mapping of int to NominatingInfo, or None
        Of the pods of the group, by index, where evictions make room.
    """
    group, units = failed.group, EvictionUnits(handle)
    if handle.release.lost_nodes_end_preemption and (node := units.lost_node()):
        return None, Status(Code.ERROR, (NO_DOMAIN.format(node),))
    if any(pod.spec.preemption_policy == "Never" for pod in failed.pods):
        return None, Status(Code.UNSCHEDULABLE, (NEVER,))
    if _is_ongoing(handle, failed, units):
        current = {at: NominatingInfo(pod.status.nominated_node_name) for at, pod in enumerate(failed.pods)}
        return current, Status(Code.SUCCESS, (ONGOING,))
    lower = LowerUnits(handle.cache.state, group.spec.priority or 0, groups_of(handle))
    if not len(lower):
        ends = handle.release.group_without_victims_ends
        code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if ends else Code.UNSCHEDULABLE
        return None, Status(code, (NO_VICTIMS_OF_GROUP,))
    if node := lower.lost_node():
        return None, Status(Code.ERROR, (LOST_NODE.format(node),))
    costs = _violations(handle, lower)
    framework: Framework | None = handle.framework
    points = None if framework is None else framework.profile.points
    is_at_reserve = points is None or plugin_name in points.get("reserve", ())
    ranks = handle.release.nodes_are_ranked_by_victims and is_at_reserve
    ranking = VictimRanking(lower, costs) if ranks else None
    with handle.cache.transaction():
        lower.remove(failed.reads_rows_alone)
        handle.cache.state.view.drop_counts()  # upstream searches on a copy, whose images are on no node
        status = failed.place(ranking)
    if status is not None:
        return None, status
    with handle.cache.transaction():
        leaving = _leaving(handle, failed, lower, costs)
    victims = lower.pods_of(leaving)
    nominations = failed.nominations()
    if handle.release.groups_end_nominations:
        for node in dict.fromkeys(each.nominated_node_name for each in nominations.values()):
            end_nominations_below(handle, node, failed.pods[0])
    try:
        evict_victims(handle, WHOLE_CLUSTER, group, not_terminating(victims), plugin_name)
    except ApiError as error:
        return nominations, Status(Code.SUCCESS, (str(error),))
    if handle.writes.is_beside:
        handle.shared(RunningPreemptions).hold(failed.pods)
    return nominations, Status(Code.SUCCESS, (FOUND.format(len(victims)),))


def _is_ongoing(handle: FrameworkHandle, failed: FailedGroup, units: EvictionUnits) -> bool:
    """Whether pods that were evicted before terminate on a node that a pod of the group is nominated to."""
    priority = failed.group.spec.priority or 0
    for name in sorted({pod.status.nominated_node_name for pod in failed.pods} - {""}):
        info = handle.cache.node_info(name)
        lower = (pod for pod in info.pods if units.priority_of(pod) < priority) if info else ()
        if any(map(is_leaving, lower)):
            return True
    return False


def _leaving(
    handle: FrameworkHandle, failed: FailedGroup, units: LowerUnits, costs: Mapping[int, int]
) -> list[int]:
    """Return the indexes of the units that have to go, the most important first. The caller undoes what this
    changes in the cache. Units that a budget protects return first (`costs`)."""
    state, rows, searches = handle.cache.state, failed.decisive_rows(), failed.searches()
    concerned = range(len(units)) if rows is None else units.on_rows(rows)
    among = {*concerned} if costs else ()
    order = [*dict.fromkeys((*(at for at in costs if at in among), *concerned))]
    if searches is not None:
        return units.most_important_first(units.to_leave(order, searches))
    pods = {at: units.pods(at) for at in order}  # read before the cache changes
    for unit in pods.values():
        for pod in unit:
            state.discard_pod(pod)
    return units.most_important_first([at for at in order if not failed.readmit(pods[at])])


def _violations(handle: FrameworkHandle, units: LowerUnits) -> dict[int, int]:
    """Return how many pods of each unit violate a disruption budget, of those that violate any, in order."""
    budgets = tuple(budgets_of(handle))
    budgeted = units.budgeted(budgets) if budgets else []
    members = [Unit(units.pods(at), 0) for at in budgeted]
    costs = violations(members, budgets, handle.release)
    return {at: cost for at, cost in zip(budgeted, costs, strict=True) if cost}
