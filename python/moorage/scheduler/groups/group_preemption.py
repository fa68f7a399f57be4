"""Preemption for a pod group that fits nowhere (KEP-5710).

kube-scheduler v1.36, DefaultPreemption at PodGroupPostFilter, framework/preemption/podgrouppreemption.go. All
units of lower priority in the cluster are removed, and the group is placed. Then the units are put back one
after the other, and those with which the group does not fit become the victims.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from moorage._core.decide.bulk_operations import has_pods_below
from moorage.framework import StatusError
from moorage.framework.runtime.preempt_handle import budgets_of
from moorage.objects import AnyGroup, Pod
from moorage.preemption.actuation import evict_victims
from moorage.preemption.default_preemption import DefaultPreemption, preemption_plugins
from moorage.preemption.eligibility import NEVER, TERMINATING, is_leaving
from moorage.preemption.eviction_units import Unit, Units, units_by_importance, violations

from .composite_attempt import CompositeAttempt, CompositeMembers, decide_tree, groups_of
from .group_attempt import Attempt, Members
from .group_room import GroupRoom, decides_by_room

NO_VICTIMS = "No preemption victims found for incoming preemptor"
TOPOLOGY = "workload aware preemption is not supported for pod groups with scheduling constraints"
NO_PLUGIN = "default preemption plugin is not registered, workload aware preemption is disabled"
EVERYWHERE = "cluster"
"""Stands for the node in the events of victims: they may be on any node of the cluster."""


def preempt_for_group(
    members: Members | CompositeMembers, group: AnyGroup, failed: Attempt | CompositeAttempt
) -> None:
    """Evict pods for a group that failed.

    Parameters
    ----------
    members : Members or CompositeMembers
    group : PodGroup or CompositePodGroup
    failed : Attempt or CompositeAttempt
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
    victims = [victim for victim in search.victims if victim.metadata.deletion_timestamp is None]
    evict_victims(handle, EVERYWHERE, group, victims, DefaultPreemption.name)


class _Search:
    """The search for victims of a group. It leaves the cache and the rotation as they were.

    Attributes
    ----------
    victims : list of Pod
        By unit, the most important unit first.
    """

    def __init__(self, members: Members | CompositeMembers, group: AnyGroup) -> None:
        self.members, self.group = members, group
        self.context, self.handle = members.context, members.engine.handle
        self.cache = self.context.cache
        self.units = Units(self.handle, for_group=True)
        self.priority = group.spec.priority or 0
        self.victims: list[Pod] = []

    def run(self) -> str:
        """Search for victims; return why preemption does not help, or "". Raises StatusError if the cycle of
        the group fails."""
        if why := self._not_eligible():
            return why
        state = self.cache.state
        lowest = self.context.groups.lowest_priority
        if lowest >= self.priority and not has_pods_below(state, self.priority):
            return NO_VICTIMS
        units = self.units.of(chain.from_iterable(map(state.pods_of, self.context.view_rows().tolist())))
        ordered = units_by_importance(unit for unit in units if unit.priority < self.priority)
        if not ordered:
            return NO_VICTIMS
        rotation = self.context.rotation
        with self.members.engines_in_cycle(evicts=False):
            by_room = decides_by_room(self.members)  # asked here: pods that leave may have affinity terms
            with self.cache.transaction():
                for unit in ordered:
                    self._remove(unit)
                why = self._does_not_fit()
                removed = [] if why else self._reprieve(ordered, by_room)
                start = rotation.start
            rotation.start = start
        self.victims = [pod for at in sorted(removed) for pod in ordered[at].pods]
        return why

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

    def _reprieve(self, ordered: Sequence[Unit], by_room: bool) -> list[int]:
        """Return the indexes of the units that have to go. Units protected by a disruption budget are put
        back first. `by_room`: see `decides_by_room`."""
        costs = violations(ordered, budgets_of(self.handle))
        room, removed = GroupRoom(self.members) if by_room else None, list[int]()
        if room is not None and not room.searches_all_nodes:
            room = None
        for at in sorted(range(len(ordered)), key=lambda at: not costs[at]):
            unit = ordered[at]
            for pod in unit.pods:
                self.cache.state.assume_pod(pod)
            rows = () if room is None else room.rows_of(unit)
            if self._does_not_fit() if room is None else not room.fits_after(rows):
                self._remove(unit)
                removed.append(at)
                if room is not None:
                    room.fits_after(rows)
        return removed

    def _remove(self, unit: Unit) -> None:
        """Remove the pods of a unit from the cache."""
        for pod in unit.pods:
            self.cache.state.discard_pod(pod)

    def _does_not_fit(self) -> str:
        """Return why the group does not fit, or ""."""
        try:
            attempt = decide_tree(self.members, commit=False)
        except StatusError as error:
            return error.status.message()
        return "" if attempt.succeeded else attempt.error or attempt.message
