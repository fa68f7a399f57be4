"""Who may preempt whom, and what is evicted together: one pod, or all pods of a group whose disruption mode
requires that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct

from moorage._core.preempt.budgets import budget_matcher
from moorage._core.preempt.importance import order_as_upstream, start_time
from moorage.kube import Pod, PodDisruptionBudget, UnitKey, group_of
from moorage.kube.model.meta import condition_of
from moorage.kube.model.pod import DISRUPTION_TARGET
from moorage.kube.releases import DEFAULT, RELEASES, Release

from ..framework import Code, FrameworkHandle, Status
from ..framework.group_index import PodGroups

# kube-scheduler v1.37, framework/preemption/types.go; KEP-5710 (spec.disruptionMode). Pods of other groups
# are evicted one by one, with the priority of the group at the top of their tree.
#
# Order of importance and protection by PodDisruptionBudgets: framework/preemption/util.go
# MoreImportantVictim, FilterVictimsWithPDBViolation.


def priority_of(pod: Pod) -> int:
    """Return a pod's priority; 0 if it has none."""
    return pod.spec.priority or 0


class Unit(Struct, frozen=True):
    """Pods that are only evicted together.

    Attributes
    ----------
    pods : tuple of Pod
        At least one, each with its node name; the most important first.
    priority : int
        The priority of the pod or of the group.
    is_group : bool
        Whether the priority is that of a group.
    """

    pods: tuple[Pod, ...]
    priority: int
    is_group: bool = False


def by_importance(pods: Iterable[Pod], by_uid: bool) -> list[Pod]:
    """Sort pods, the most important first: by priority, then by how long each has run.

    Pods that are equal in both are sorted by UID (`Release.victims_tie_by_uid`) or stay in order, as
    upstream's sort leaves their order open.
    """
    return sorted(
        pods, key=lambda pod: (-priority_of(pod), start_time(pod), pod.metadata.uid if by_uid else "")
    )


def units_by_importance(units: Iterable[Unit], by_uid: bool = False) -> list[Unit]:
    """Sort units, the most important first.

    The criteria are the priority; groups before pods; the number of the group's pods; how long the oldest pod
    has run; the UID of the first pod, if `by_uid`. Up to 12 units that are equal in all of them stay in
    order; of more, upstream's sort decides.
    """
    ordered = list(units)
    keys = [
        (
            -unit.priority,
            not unit.is_group,
            -len(unit.pods),
            min(start_time(pod) for pod in unit.pods),
            unit.pods[0].metadata.uid if by_uid else "",
        )
        for unit in ordered
    ]
    ranks = {key: rank for rank, key in enumerate(sorted(set(keys)))}
    order = order_as_upstream(np.array([ranks[key] for key in keys], dtype=np.int64))
    return [ordered[at] for at in order.tolist()]


def violations(
    units: Iterable[Unit],
    budgets: Sequence[PodDisruptionBudget],
    release: Release = RELEASES[DEFAULT],
) -> list[int]:
    """Count the pods of each unit whose eviction violates a PodDisruptionBudget.

    Each pod, in the given order, uses up one of the allowed disruptions of every budget that selects it,
    unless the budget lists the pod as disrupted already. A malformed selector selects no pod. Without
    `Release.budgets_select_as_written` an empty one does not either, and no pod without labels is selected.
    """
    violated_by = _counting(budgets, release)
    return [sum(bool(violated_by(pod)) for pod in unit.pods) for unit in units]


def violated_budgets(
    pods: Iterable[Pod], budgets: Sequence[PodDisruptionBudget], release: Release = RELEASES[DEFAULT]
) -> list[list[str]]:
    """Return the budgets that the eviction of each pod violates; see `violations`.

    Returns
    -------
    list of list of str
        One for each pod: budgets as ``namespace/name``.
    """
    violated_by = _counting(budgets, release)
    return [[budgets[at].key for at in violated_by(pod)] for pod in pods]


def violations_on(
    handle: FrameworkHandle, node: str, priority: int, victims: Iterable[Pod]
) -> dict[str, tuple[str, ...]]:
    """Return the budgets that the evictions of pods of one node violate. Those that are not evicted use up
    budgets, too, as in the dry run of preemption.

    Parameters
    ----------
    priority : int
        Of the pod that evicts them.
    victims : iterable of Pod
        Of lower priority, on the node in the cache.

    Returns
    -------
    dict of str to tuple of str
        By ``namespace/name`` of the victims that violate any: budgets as ``namespace/name``.
    """
    budgets, state = budgets_of(handle), handle.cache.state
    row = state.find_row(node) if budgets else None
    if row is None:
        return {}
    lower = by_importance(
        (pod for pod in state.pods_of(row) if priority_of(pod) < priority), handle.release.victims_tie_by_uid
    )
    violated = violated_budgets(lower, budgets, handle.release)
    by_pod = {pod.key: tuple(some) for pod, some in zip(lower, violated, strict=True) if some}
    return {pod.key: by_pod[pod.key] for pod in victims if pod.key in by_pod}


def budgets_of(handle: FrameworkHandle) -> Sequence[PodDisruptionBudget]:
    """Return the PodDisruptionBudgets known to a handle's informers.

    Returns
    -------
    sequence of PodDisruptionBudget
        Empty where the handle has no informers.
    """
    if handle.informers is None:
        return ()
    lister = handle.informers.lister(PodDisruptionBudget)
    return () if lister.is_empty else tuple(lister.list())


def _counting(budgets: Sequence[PodDisruptionBudget], release: Release) -> Callable[[Pod], list[int]]:
    """Return a function that uses up the budgets of a pod, and returns the indexes of those it violates."""
    allowed = [budget.status.disruptions_allowed for budget in budgets]
    matchers = [budget_matcher(budget, release.budgets_select_as_written) for budget in budgets]

    def violated_by(pod: Pod) -> list[int]:
        exceeded: list[int] = []
        for at, (budget, matcher) in enumerate(zip(budgets, matchers, strict=True)):
            labels = pod.metadata.labels
            if matcher is None or budget.namespace != pod.namespace:
                continue
            if not labels and not release.budgets_select_as_written:
                continue
            if not matcher.matches(labels) or pod.name in budget.status.disrupted_pods:
                continue
            allowed[at] -= 1
            if allowed[at] < 0:
                exceeded.append(at)
                if release.budgets_stop_at_violation:
                    break
        return exceeded

    return violated_by


def groups_of(handle: FrameworkHandle) -> PodGroups | None:
    """Return the index of pod groups; None where groups are ignored."""
    return handle.shared(PodGroups) if handle.groups_pods else None


class EvictionUnits:
    """The current eviction units of a cluster."""

    def __init__(self, handle: FrameworkHandle) -> None:
        self._cache, self._groups, self._release = handle.cache, groups_of(handle), handle.release
        self._pods: dict[UnitKey, dict[str, Pod]] = {}
        self._made: dict[UnitKey, Unit] = {}

    def priority_of(self, pod: Pod) -> int:
        """Return the priority of the unit that a pod belongs to."""
        key = group_of(pod)
        priority = None if self._groups is None or key is None else self._groups.priority_of(key)
        return priority_of(pod) if priority is None else priority

    def of(self, pods: Iterable[Pod]) -> list[Unit]:
        """Return the units that some pods of a node belong to.

        Returns
        -------
        list of Unit
            In the order of the first pod of each. A group has all its pods that have a node, on any node.
        """
        pods_by_unit: dict[str | UnitKey, list[Pod]] = {}
        wholes = {} if self._groups is None else self._groups.evicted_with
        for pod in pods:
            key = group_of(pod) if wholes else None
            whole = None if key is None else wholes.get(key)
            pods_by_unit.setdefault(whole or pod.metadata.uid, []).append(pod)
        return [
            self._single(members[0]) if isinstance(key, str) else self._group(key, members)
            for key, members in pods_by_unit.items()
        ]

    def _single(self, pod: Pod) -> Unit:
        """Return the unit of a pod that is evicted by itself."""
        groups = self._groups
        is_of_group = groups is not None and groups.ranks_members and group_of(pod) is not None
        return Unit((pod,), self.priority_of(pod), is_of_group)

    def lost_node(self) -> str:
        """Return the name of a node that is gone while a pod names it whose group is only evicted as a whole;
        "" for none. Upstream fails then: it knows no such node, but the pod.

        Only groups with a pod on a node that exists count.
        """
        table, ledger = self._cache.state.table, self._cache.state.ledger
        rows = range(table.used) if self._groups is not None and self._groups.whole else ()
        if all(table.is_present(row) or not ledger.pods_of(row) for row in rows):
            return ""
        for row in self._cache.state.view.rows().tolist():
            for unit in self.of(ledger.pods_of(row)):
                for pod in unit.pods:
                    pod_row = table.find_row(pod.spec.node_name)
                    if pod_row is None or not table.is_present(pod_row):
                        return pod.spec.node_name
        return ""

    def _group(self, key: UnitKey, here: Sequence[Pod]) -> Unit:
        """Return the unit of a group. `here` has pods of the group from the cache, which informers may not
        have yet."""
        assert self._groups is not None
        if key not in self._pods:
            members = self._groups.members(key)
            known = [self._cache.get_pod(pod) for pod in members if self._cache.state.has_pod(pod)]
            self._pods[key] = {pod.metadata.uid: pod for pod in known}
        pods = self._pods[key]
        before = len(pods)
        pods.update((pod.metadata.uid, pod) for pod in here)
        if key not in self._made or len(pods) > before:
            ordered = by_importance(pods.values(), self._release.victims_tie_by_uid)
            self._made[key] = Unit(tuple(ordered), self._groups.whole[key], True)
        return self._made[key]


# ---- eligibility -------------------------------------------------------------------------------------------
# The first step of preemption: which pods may preempt others, and on which nodes evictions could help.
#
# kube-scheduler v1.36, defaultpreemption/default_preemption.go and framework/preemption/preemption.go.

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
    condition = condition_of(pod.status.conditions, DISRUPTION_TARGET)
    return condition is not None and (condition.status, condition.reason) == ("True", BY_SCHEDULER)


def potential_nodes(statuses: Mapping[str, Status]) -> list[str]:
    """Return the nodes where evictions could help: those with the code Unschedulable, in list order."""
    return [name for name, status in statuses.items() if status.code == Code.UNSCHEDULABLE]


def num_candidates(nodes: int, percentage: int, absolute: int) -> int:
    """Return the number of candidates after which dry runs end (kube-scheduler v1.36,
    GetOffsetAndNumCandidates).

    Parameters
    ----------
    percentage : int
        minCandidateNodesPercentage, in percent of `nodes`.

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
