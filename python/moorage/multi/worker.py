"""Worker: a scheduler with a copy of the cluster of its own, which hears from the binder how things are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from moorage._core.state.pod_spec import bound
from moorage.framework.runtime.runtime import Target
from moorage.objects.model.cluster import Cluster
from moorage.objects.model.pod import Pod
from moorage.objects.model.pod_group import UnitKey, group_of
from moorage.preemption.importance import split_by_budget
from moorage.preemption.runtime_handle import budgets_of
from moorage.scheduler import Scheduler
from moorage.scheduler.cycle.engine import Engine
from moorage.scheduler.groups.place_group import place_group
from moorage.scheduler.placing.preempt_pods import why_not_at_once

from .partition import anywhere, as_seen_by

Ints = npt.NDArray[np.int32]
NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Share:
    """What a worker is made of.

    Attributes
    ----------
    cluster : Cluster
        Nodes, pods that are on one, and everything else; without the pods that wait.
    pods : tuple of Pod
        All pods that wait, whoever decides about them; messages name them by their place in here, and nodes
        by that in ``cluster.nodes``.
    number : int
        Of this worker.
    owners : list of int or None
        See `partition.owners`.
    settings : mapping
        Keyword arguments of its `Scheduler`.
    """

    pods: tuple[Pod, ...]
    cluster: Cluster
    number: int = 0
    owners: Sequence[int] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Proposals:
    """What a worker has decided.

    Attributes
    ----------
    pods, nodes : (n,) int32 array
        Pods, in the order of the decisions, and the node of each, -1 for one that fits nowhere.
    victims : dict of int to (tuple of str, int)
        Pod to the UIDs of those that have to go for it, and how many of them a budget protects.
    """

    pods: Ints
    nodes: Ints
    victims: dict[int, tuple[tuple[str, ...], int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class News:
    """What the binder has to tell a worker.

    Attributes
    ----------
    rejected : sequence of int
        Pods that this worker has placed and the binder has not.
    pods, nodes : (n,) int32 array
        Pods that were bound for other workers, and where.
    gone : sequence of str
        UIDs of the pods that were evicted, for whomever.
    """

    rejected: Sequence[int]
    pods: Ints
    nodes: Ints
    gone: Sequence[str] = ()


class Worker:
    """Decides about pods on its own copy of the cluster, assuming that nobody else does."""

    def __init__(self, share: Share) -> None:
        self.share = share
        nodes = list(share.cluster.nodes)
        if share.owners is not None:
            seen = zip(nodes, share.owners, strict=True)
            nodes = [as_seen_by(share.number, node, owner) for node, owner in seen]
        cluster = Cluster(nodes, share.cluster.pods, share.cluster.namespaces, share.cluster.others)
        self.scheduler = Scheduler(cluster, **share.settings)
        for engine in self.scheduler.engines.values():
            engine.runs_post_filter = False  # whom to evict is asked here
        find = self.scheduler.table.find_row
        self._node_of = {find(node.name): at for at, node in enumerate(nodes)}
        self._placed: dict[int, Pod] = {}
        self._victims: dict[int, list[Pod]] = {}
        self._anywhere = cache(lambda at: anywhere(self.share.pods[at]))

    def propose(self, pods: Ints) -> Proposals:
        """Decide about pods in their order: within the partition, then anywhere, then at others' cost."""
        nodes = np.full(len(pods), NOWHERE, dtype=np.int32)
        victims: dict[int, tuple[tuple[str, ...], int]] = {}
        self._schedule(pods, nodes, [self.share.pods[at] for at in pods.tolist()])
        left = np.flatnonzero(nodes < 0)
        if self.share.owners is not None and len(left):
            rest, found = pods[left], nodes[left]
            self._schedule(rest, found, [self._anywhere(at) for at in rest.tolist()])
            nodes[left] = found
            left = np.flatnonzero(nodes < 0)
        for place in left.tolist():
            if self._unit_of(self.share.pods[int(pods[place])]) is None:  # no worker evicts pods for a group
                self._preempt(pods, place, nodes, victims)
        return Proposals(pods, nodes, victims)

    def _schedule(self, numbers: Ints, nodes: Ints, pods: list[Pod]) -> None:
        """Choose nodes and assume the pods there; what comes after is the binder's."""
        rows: list[int] = []
        for unit, some in groupby(pods, key=self._unit_of):
            equal = list(some)
            rows += self._rows(equal) if unit is None else self._rows_of_unit(unit, equal)
        for place, (number, pod, row) in enumerate(zip(numbers.tolist(), pods, rows, strict=True)):
            if row >= 0:
                nodes[place] = self._node_of[row]
                self._placed[number] = pod

    def _rows(self, pods: list[Pod]) -> list[int]:
        scheduler, rows = self.scheduler, list[int]()
        for engine, targets, some in scheduler.segments(pods):
            if engine.is_in_core_for(some[0]):
                rows += scheduler.batches.place(engine, targets, some, rotation=False).rows.tolist()
            else:
                rows += [self._choose(engine, pod, target) for pod, target in zip(some, targets, strict=True)]
        return rows

    def _unit_of(self, pod: Pod) -> UnitKey | None:
        return group_of(pod) if self.scheduler.queue.groups_pods else None

    def _rows_of_unit(self, unit: UnitKey, pods: list[Pod]) -> list[int]:
        """All that a group needs, or none."""
        scheduler, engines = self.scheduler, {self.scheduler.engine_of(pod) for pod in pods}
        if len(engines) > 1:
            return [NOWHERE] * len(pods)
        scheduled = [pod for pod in self._members[unit] if scheduler.cache.state.has_pod(pod)]
        group = scheduler.groups.get(unit)
        rows: list[int] = place_group(scheduler, engines.pop(), group, pods, scheduled).rows.tolist()
        return rows

    @cached_property
    def _members(self) -> dict[UnitKey, list[Pod]]:
        """The pods of each group, whoever decides about them."""
        members: dict[UnitKey, list[Pod]] = {}
        for pod in self._known.values():
            unit = group_of(pod)
            if unit is not None:
                members.setdefault(unit, []).append(pod)
        return members

    def _choose(self, engine: Engine, pod: Pod, target: Target) -> int:
        """The row of one pod that plugins outside the core have a say in."""
        with self.scheduler.cache.lock:
            decision, _ = engine.schedule(pod, target, self.scheduler.view_order)
            if decision.node is None:
                return NOWHERE
            self.scheduler.batches.assume(pod, decision.node)
            return engine.row_in_view(decision.node)

    def _preempt(
        self, pods: Ints, place: int, nodes: Ints, victims: dict[int, tuple[tuple[str, ...], int]]
    ) -> None:
        """Place a pod where others go for it, if that is possible."""
        number, scheduler = int(pods[place]), self.scheduler
        pod = self.share.pods[number] if self.share.owners is None else self._anywhere(number)
        engine = scheduler.engine_of(pod)
        if pod.spec.preemption_policy == "Never" or why_not_at_once(engine, pod):
            return
        with scheduler.preempt([pod]) as tried:
            row, gone = int(tried.rows[0]), tried.victims(0)
        if row < 0:
            return
        for victim in gone:
            self._remove(victim)
        scheduler.cache.assume_pod(bound(pod, scheduler.table.row_name(row)))
        nodes[place] = self._node_of[row]
        self._placed[number], self._victims[number] = pod, gone
        protected, _ = split_by_budget(gone, budgets_of(engine.handle))
        victims[number] = tuple(victim.metadata.uid for victim in gone), len(protected)

    def hear(self, news: News) -> None:
        """Take over what the binder has decided."""
        cache, pods, nodes = self.scheduler.cache, self.share.pods, self.share.cluster.nodes
        for number in news.rejected:
            self._remove(self._placed.pop(number))
        back = [victim for number in news.rejected for victim in self._victims.pop(number, ())]
        cache.add_pods([victim for victim in back if victim.metadata.uid not in news.gone])
        cache.add_bound_pods(
            [pods[number] for number in news.pods.tolist()],
            [nodes[node].name for node in news.nodes.tolist()],
        )
        for uid in news.gone:
            if cache.state.has_pod(self._known[uid]):
                self._remove(self._known[uid])

    @cached_property
    def _known(self) -> dict[str, Pod]:
        """Pods by UID."""
        return {pod.metadata.uid: pod for pod in (*self.share.cluster.pods, *self.share.pods)}

    def _remove(self, pod: Pod) -> None:
        cache = self.scheduler.cache
        cache.discard_pod(cache.get_pod(pod))
