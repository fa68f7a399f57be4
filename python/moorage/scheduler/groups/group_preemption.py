"""Preemption for a pod group that fits nowhere (KEP-5710).

kube-scheduler v1.36, DefaultPreemption at PodGroupPostFilter, framework/preemption/podgrouppreemption.go. All
units of lower priority in the cluster are removed, and the group is placed. Then the units are put back one
after the other, and those with which the group does not fit become the victims.
"""

from __future__ import annotations

from collections.abc import Sequence

from moorage._core.decide.decider import num_feasible_nodes_to_find
from moorage._core.preempt.bound_pods import not_terminating
from moorage._core.preempt.lower_units import LowerUnits, has_pods_below
from moorage.framework import Code, Status, StatusError
from moorage.framework.runtime.preempt_handle import budgets_of
from moorage.objects import AnyGroup, Pod
from moorage.preemption.actuation import evict_victims
from moorage.preemption.default_preemption import DefaultPreemption, preemption_plugins
from moorage.preemption.eligibility import NEVER, TERMINATING, is_leaving
from moorage.preemption.eviction_units import EvictionUnits, Unit, violations

from .composite_attempt import CompositeAttempt, CompositeMembers, decide_tree, groups_of
from .group_attempt import GroupAttempt, Members
from .group_room import decides_by_room, leaves_of, taken_by

NO_VICTIMS = "No preemption victims found for incoming preemptor"
TOPOLOGY = "workload aware preemption is not supported for pod groups with scheduling constraints"
NO_PLUGIN = "default preemption plugin is not registered, workload aware preemption is disabled"
WHOLE_CLUSTER = "cluster"
"""Stands for the node in the events of victims: they may be on any node of the cluster."""


def preempt_for_group(
    members: Members | CompositeMembers, group: AnyGroup, failed: GroupAttempt | CompositeAttempt
) -> None:
    """Evict pods for a group that failed.

    Parameters
    ----------
    members : Members or CompositeMembers
    group : PodGroup or CompositePodGroup
    failed : GroupAttempt or CompositeAttempt
        Changed in place: its placed pods are nominated to their nodes if evictions make room. Otherwise the
        reason why they do not is appended to its reason.

    Raises
    ------
    StatusError
        The cycle of the group fails.
    """
    search = _Search(members, group)
    why = search.run()
    if why:
        failed.reason = f"{failed.message}, {why}"
        return
    failed.nominates = True
    handle = members.engine.handle
    evict_victims(handle, WHOLE_CLUSTER, group, not_terminating(search.victims), DefaultPreemption.name)


class _Search:
    """The search for victims of a group. It leaves the cache and the rotation as they were.

    Attributes
    ----------
    victims : sequence of Pod
        By unit, the most important unit first.
    """

    def __init__(self, members: Members | CompositeMembers, group: AnyGroup) -> None:
        self.members, self.group = members, group
        self.context, self.handle = members.context, members.engine.handle
        self.cache = self.context.cache
        self.units = EvictionUnits(self.handle, for_group=True)
        self.priority = group.spec.priority or 0
        self.victims: Sequence[Pod] = []

    def run(self) -> str:
        """Search for victims; return why preemption does not help, or "". Raises StatusError if the cycle of
        the group fails."""
        if why := self._not_eligible():
            return why
        state, lowest = self.cache.state, self.context.groups.lowest_priority
        if lowest >= self.priority and not has_pods_below(state, self.priority):
            return NO_VICTIMS
        units = LowerUnits(state, self.priority, self.units)
        if not len(units):
            return NO_VICTIMS
        rotation = self.context.rotation
        with self.members.engines_in_cycle(evicts=False):
            leaving: list[int] | str | None = None
            if decides_by_room(self.members):
                leaving = self._by_room(units)
            if leaving is None:
                with self.cache.transaction():
                    leaving = self._by_placing(units)
                    start = rotation.start
                rotation.start = start
        if isinstance(leaving, str):
            return leaving
        self.victims = units.pods_of(leaving)
        return ""

    def _not_eligible(self) -> str:
        """Return why the group may not preempt, or ""."""
        pods = self.members.pods
        if not preemption_plugins(self.members.engine.profile):
            return NO_PLUGIN
        if any(group.topology_keys for group in groups_of(self.members)):
            return TOPOLOGY
        if any(pod.spec.preemption_policy == "Never" for pod in pods):
            return NEVER
        for name in sorted({pod.status.nominated_node_name for pod in pods} - {""}):
            info = self.cache.node_info(name)
            lower = (p for p in info.pods if self.units.priority_of(p) < self.priority) if info else ()
            if any(map(is_leaving, lower)):
                return TERMINATING
        return ""

    def _protected(self, units: LowerUnits) -> list[int]:
        """Return the indexes of the units that a disruption budget protects, which return first."""
        budgets = tuple(budgets_of(self.handle))
        budgeted = units.budgeted(budgets) if budgets else []
        members = [Unit(units.pods(at), 0) for at in budgeted]
        is_v1alpha2 = self.group.is_v1alpha2
        costs = violations(members, budgets, stops=is_v1alpha2, by_unit=is_v1alpha2)
        return [at for at, cost in zip(budgeted, costs, strict=True) if cost]

    def _by_room(self, units: LowerUnits) -> list[int] | None:
        """Return the indexes of the units that have to go, by the number of pods that find room on nodes.

        Returns None where the group does not fit, or where a search would not examine all nodes, so that the
        rotation would advance.
        """
        members, view = self.members, self.cache.state.view
        engine, pods = members.engine, len(members.pods)
        engine.search.search_in(None)
        leaving, nodes, searched = units.to_leave(
            engine.search,
            leaves_of(members)[0].batch,
            pods,
            self._protected(units),
            lambda room: taken_by(members, room).succeeds,
        )
        wanted = num_feasible_nodes_to_find(engine.decider.percentage, view.size)
        return leaving if searched == view.size and nodes <= wanted else None

    def _by_placing(self, units: LowerUnits) -> list[int] | str:
        """Return the indexes of the units that have to go, by placing the group without each of them; why it
        does not fit without all of them either."""
        state, protected = self.cache.state, self._protected(units)
        pods = [units.pods(at) for at in range(len(units))]  # read before the cache changes
        for unit in pods:
            self._remove(unit)
        if self.context.group_cycle_bugs:  # upstream searches on a copy, whose images are on no node
            state.view.drop_counts()
        try:
            attempt = decide_tree(self.members, commit=False)
        except StatusError as failed:
            if failed.status.code == Code.ERROR:
                raise
            return failed.status.message()
        if attempt.error:
            raise StatusError(Status(Code.ERROR, (attempt.error_of_group,)))
        if not attempt.succeeded:
            return attempt.message
        leaving: list[int] = []
        last = set(range(len(units))).difference(protected)
        for at in (*protected, *sorted(last)):
            for pod in pods[at]:
                state.assume_pod(pod)
            if not self._fits():
                self._remove(pods[at])
                leaving.append(at)
        return units.most_important_first(leaving)

    def _remove(self, pods: Sequence[Pod]) -> None:
        """Remove the pods of a unit from the cache."""
        for pod in pods:
            self.cache.state.discard_pod(pod)

    def _fits(self) -> bool:
        """Whether the group fits; no error counts."""
        try:
            return decide_tree(self.members, commit=False).succeeded
        except StatusError:
            return False
