"""Preemption for a pod group that fits nowhere: its pods get their nodes together, and others leave for that.

kube-scheduler v1.37, DefaultPreemption at PodGroupPostFilter, framework/preemption/podgrouppreemption.go;
KEP-5710. All units of lower priority in the cluster are taken away and the group is placed; then they come
back one after the other, unless a pod of the group would not fit its node with them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from moorage._core.pod_spec import bound
from moorage.framework.call import StatusError
from moorage.framework.interface import NominatingInfo
from moorage.framework.status import Status
from moorage.objects.pod import Pod
from moorage.objects.pod_group import PodGroup
from moorage.preemption.actuation import preempt_pod
from moorage.preemption.default_preemption import DefaultPreemption
from moorage.preemption.eligibility import NEVER, TERMINATING, is_leaving
from moorage.preemption.handle import budgets_of
from moorage.preemption.importance import Unit, units_by_importance, violations
from moorage.preemption.units import Units, has_pods_below
from moorage.store import ApiError

from .check import check
from .engine import Engine
from .group_attempt import Members
from .pod_groups import GroupResult, try_members, unseen
from .pod_status import patch_pod

if TYPE_CHECKING:
    from .scheduler import Scheduler

logger = logging.getLogger("moorage.preemption")

PREFIX = "pod group preemption: "
NOBODY = "No preemption victims found for incoming preemptor"
TOPOLOGY = "not supported with topology constraints"
EVERYWHERE = "cluster"
"""What stands for the node in the events of victims."""


def preempt_for_group(
    scheduler: Scheduler,
    engine: Engine,
    group: PodGroup,
    pods: Sequence[Pod],
    scheduled: Sequence[Pod],
    failed: GroupResult,
) -> GroupResult:
    """Evict pods for a group that has failed, if that makes room for it, and nominate its pods to the nodes
    that they will get. The failure, with nominations or with what preemption says; arguments as those of
    `place_group`."""
    with scheduler.cache.lock:
        members = Members(scheduler, engine, group, pods, scheduled)
        search = _Search(members, group)
        why = search.run()
    why = why or _evict(engine, group, search.victims)
    if why:
        return replace(failed, message=f"{failed.message}; {PREFIX}{why}")
    failures = dict(failed.failures)
    for at, node in search.nodes.items():
        engine.handle.nominator.add_nominated_pod(pods[at], NominatingInfo(node))
        patch_pod(scheduler.client, pods[at], None, NominatingInfo(node))
        failures[at] = replace(failures[at], nominated_node=node)
    return replace(failed, failures=failures)


def _evict(engine: Engine, group: PodGroup, victims: Iterable[Pod]) -> str:
    """Let the victims go; why one cannot be deleted, which ends it."""
    for victim in victims:
        if victim.metadata.deletion_timestamp is not None:
            continue
        try:
            preempt_pod(engine.handle, EVERYWHERE, group, victim, DefaultPreemption.name)
        except ApiError as error:
            logger.error("Tried to preempt pod %s for %s: %s", victim.key, group.key, error)
            return str(error)
    return ""


class _Search:
    """Whom a group would have to evict; nothing is changed.

    Attributes
    ----------
    victims : list of Pod
        The most important unit first.
    nodes : dict of int to str
        The nodes of the group's pods then, by their positions.
    """

    def __init__(self, members: Members, group: PodGroup) -> None:
        self.members, self.group = members, group
        self.scheduler, self.handle = members.scheduler, members.engine.handle
        self.cache = self.scheduler.cache
        self.units = Units(self.handle, for_group=True)
        self.priority = group.spec.priority or 0
        self.victims: list[Pod] = []
        self.nodes: dict[int, str] = {}

    def run(self) -> str:
        """Why there is no room; "" where there is."""
        if why := self._not_eligible():
            return why
        state = self.cache.state
        lowest = self.scheduler.groups.lowest_priority
        if lowest >= self.priority and not has_pods_below(state, self.priority):
            return NOBODY
        there = self.units.of(chain.from_iterable(map(state.pods_of, self.scheduler.view_rows().tolist())))
        ordered = units_by_importance(unit for unit in there if unit.priority < self.priority)
        if not ordered:
            return NOBODY
        is_local = self._is_local()
        with unseen(self.members.engines), self.cache.transaction():
            for unit in ordered:
                self._take_away(unit)
            try:
                attempt = try_members(self.members, keep=False)
            except StatusError as error:
                return error.status.message()
            if not attempt.succeeded:
                return attempt.error or attempt.message
            names = self.scheduler.table.row_name
            placed = np.flatnonzero(attempt.rows >= 0).tolist()
            self.nodes = {at: names(attempt.rows[at]) for at in placed}
            gone = self._reprieve(ordered, is_local)
        self.victims = [pod for at in sorted(gone) for pod in ordered[at].pods]
        return "" if gone else NOBODY

    def _not_eligible(self) -> str:
        """Why the group may evict nobody."""
        pods = self.members.pods
        if self.group.topology_keys:
            return TOPOLOGY
        if any(pod.spec.preemption_policy == "Never" for pod in pods):
            return NEVER
        for name in sorted({pod.status.nominated_node_name for pod in pods} - {""}):
            info = self.cache.node_info(name)
            lower = (p for p in info.pods if self.units.priority_of(p) < self.priority) if info else ()
            if any(map(is_leaving, lower)):
                return TERMINATING
        return ""

    def _is_local(self) -> bool:
        """Whether pods on other nodes do not matter to any pod of the group."""
        return all(in_core for _, in_core, *_ in self.members.runs) and all(
            engine.cycle.terms_of(int(self.members.classes[at]), int(self.members.pinned[at])).is_empty
            for engine, _, first, end in self.members.runs
            for at in range(first, end)
        )

    def _reprieve(self, ordered: Sequence[Unit], is_local: bool) -> list[int]:
        """The places of those units that cannot come back; those come first that a budget protects."""
        costs = violations(ordered, budgets_of(self.handle))
        used, gone = set(self.nodes.values()), []
        for at in sorted(range(len(ordered)), key=lambda at: not costs[at]):
            unit = ordered[at]
            for pod in unit.pods:
                self.cache.state.assume_pod(pod)
            if is_local and used.isdisjoint(pod.spec.node_name for pod in unit.pods):
                continue
            if not self._all_fit():
                self._take_away(unit)
                gone.append(at)
        return gone

    def _take_away(self, unit: Unit) -> None:
        state = self.cache.state
        for pod in unit.pods:
            (state.forget_pod if state.is_assumed_pod(pod) else state.remove_pod)(pod)

    def _all_fit(self) -> bool:
        """Whether all pods of the group that have got a node fit it, one after the other."""
        with self.cache.transaction():
            for engine, _, first, end in self.members.runs:
                engine.take_turn()
                for at in range(first, end):
                    if at not in self.nodes:
                        continue
                    pod, node = self.members.pods[at], self.nodes[at]
                    if isinstance(check(engine, pod, node, ()), Status):
                        return False
                    self.cache.assume_pod(bound(pod, node))
        return True
