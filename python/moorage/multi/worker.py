"""Worker: a scheduler with its own copy of the cluster, which the binder keeps up to date."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import groupby
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from moorage._core.state.pod_spec import bound
from moorage.errors import NotBuiltError
from moorage.framework.runtime.preempt_handle import budgets_of
from moorage.framework.runtime.runtime import Target
from moorage.objects import Cluster, CompositePodGroup, Pod, UnitKey, group_of
from moorage.preemption.eviction_units import Unit, violations
from moorage.scheduler import PodScheduler
from moorage.scheduler.cycle.cycle import schedule_pod
from moorage.scheduler.cycle.engine import Engine
from moorage.scheduler.cycle.results import ScheduleResult
from moorage.scheduler.groups.place_group import place_group
from moorage.scheduler.placing.place import Placing
from moorage.scheduler.placing.preempt_pods import why_not_at_once
from moorage.scheduler.placing.routes import SEGMENTS, WHOLE_CYCLE

from .partition import mark_partition, tolerate_partitions

Ints = npt.NDArray[np.int32]
NO_NODE = -1


@dataclass(frozen=True, slots=True)
class WorkerInit:
    """The arguments of a worker, which are sent to its process.

    Attributes
    ----------
    cluster : Cluster
        The cluster without the pending pods.
    pods : tuple of Pod
        The pending pods of all workers. Messages refer to pods by index in this tuple, and to nodes by index
        in ``cluster.nodes``.
    number : int
        Index of this worker.
    owners : list of int or None
        See `partition.assign_owners`.
    settings : mapping of str to object
        Keyword arguments of its `Scheduler`.
    """

    pods: tuple[Pod, ...]
    cluster: Cluster
    number: int = 0
    owners: Sequence[int] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProposedPlacements:
    """The placements that a worker proposes to the binder.

    Attributes
    ----------
    pods, nodes : (n,) int32 array
        Index of each pod, in the order of the decisions, and of its node; -1 for none.
    victims : dict of int to (tuple of str, int)
        By index of a preemptor, the UIDs of its victims and the number of them that a PodDisruptionBudget
        protects.
    """

    pods: Ints
    nodes: Ints
    victims: dict[int, tuple[tuple[str, ...], int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BinderUpdate:
    """The decisions of the binder since the last update.

    Attributes
    ----------
    rejected : sequence of int
        Indices of pods of this worker whose placement was rejected.
    pods, nodes : (n,) int32 array
        Indices of pods of other workers that were bound, and of their nodes.
    deleted : sequence of str
        UIDs of all evicted pods.
    """

    rejected: Sequence[int]
    pods: Ints
    nodes: Ints
    deleted: Sequence[str] = ()


class Worker:
    """A scheduler with its own copy of the cluster; the binder resolves conflicts with other workers.

    Parameters
    ----------
    init : WorkerInit
        Arguments of the worker.

    Raises
    ------
    NotBuiltError
        The cluster has composite pod groups, and a gate for pod groups is on.
    """

    def __init__(self, init: WorkerInit) -> None:
        self.init = init
        nodes = list(init.cluster.nodes)
        if init.owners is not None:
            owned = zip(nodes, init.owners, strict=True)
            nodes = [mark_partition(init.number, node, owner) for node, owner in owned]
        cluster = Cluster(nodes, init.cluster.pods, init.cluster.namespaces, init.cluster.others)
        self.scheduler = PodScheduler(cluster, **init.settings)
        if self.scheduler.queue.groups_pods and any(
            isinstance(other, CompositePodGroup) for other in cluster.others
        ):
            raise NotBuiltError("composite pod groups with several schedulers")
        for engine in self.scheduler.engines.values():
            engine.runs_post_filter = False  # preemption is done by `_preempt`
        rows = [cast(int, self.scheduler.table.find_row(node.name)) for node in nodes]
        self._node_of = np.full(max(rows, default=-1) + 2, NO_NODE, dtype=np.int32)  # row -1 is the last item
        self._node_of[rows] = np.arange(len(nodes), dtype=np.int32)
        self._victims: dict[int, list[Pod]] = {}
        self._anywhere = cache(lambda at: tolerate_partitions(self.init.pods[at]))

    def propose(self, pods: Ints) -> ProposedPlacements:
        """Choose nodes for pods in order: in the partition, then on all nodes, then by preemption.

        Parameters
        ----------
        pods : (n,) int32 array
            Indices in `WorkerInit.pods`.
        """
        nodes = self._schedule([self.init.pods[at] for at in pods.tolist()])
        proposed = ProposedPlacements(pods, nodes)
        unplaced = np.flatnonzero(nodes < 0)
        if self.init.owners is not None and len(unplaced):
            nodes[unplaced] = self._schedule([self._anywhere(at) for at in pods[unplaced].tolist()])
            unplaced = np.flatnonzero(nodes < 0)
        for place in unplaced.tolist():
            if self._unit_of(self.init.pods[int(pods[place])]) is None:  # no worker evicts pods for a group
                self._preempt(proposed, place)
        return proposed

    def _schedule(self, pods: list[Pod]) -> Ints:
        """Choose nodes and assume the pods on them without binding them; return the nodes."""
        if not self.scheduler.queue.groups_pods:
            return self._node_of[self._rows(pods)]
        rows = [np.zeros(0, dtype=np.int32)]
        for unit, some in groupby(pods, key=self._unit_of):
            equal = list(some)
            rows.append(self._rows(equal) if unit is None else self._rows_of_unit(unit, equal))
        return self._node_of[np.concatenate(rows)]

    def _rows(self, pods: list[Pod]) -> Ints:
        context = self.scheduler.context
        batch, result = context.batch_of(pods), ScheduleResult(context.cache.state, len(pods))
        for first, end, route in batch.cut(SEGMENTS):
            engine = context.engine_of_route(route)
            if not route & WHOLE_CYCLE:
                Placing(context, engine, batch, result).place(first, end)
                continue
            for at in range(first, end):
                result.rows[at] = self._choose(engine, pods[at], batch.target(at))
        return result.rows

    def _unit_of(self, pod: Pod) -> UnitKey | None:
        return group_of(pod) if self.scheduler.queue.groups_pods else None

    def _rows_of_unit(self, unit: UnitKey, pods: list[Pod]) -> Ints:
        """The rows of the pods of a group; -1 for all if the group fails."""
        scheduler, engines = self.scheduler, {self.scheduler.context.engine_of(pod) for pod in pods}
        group = scheduler.groups.get(unit)
        if len(engines) > 1 or group is None:
            return np.full(len(pods), NO_NODE, dtype=np.int32)
        scheduled = [pod for pod in self._members[unit] if scheduler.cache.state.has_pod(pod)]
        return place_group(scheduler.context, engines.pop(), group, pods, scheduled).rows

    @cached_property
    def _members(self) -> dict[UnitKey, list[Pod]]:
        """The pods of each group, of all workers."""
        members: dict[UnitKey, list[Pod]] = {}
        for pod in self._known.values():
            unit = group_of(pod)
            if unit is not None:
                members.setdefault(unit, []).append(pod)
        return members

    def _choose(self, engine: Engine, pod: Pod, target: Target) -> int:
        """The row that a full cycle with Python plugins chooses for one pod."""
        with self.scheduler.cache.lock:
            context = self.scheduler.context
            context.rotation.take(engine)
            decision, _ = schedule_pod(engine, pod, engine.cycle_target(pod, target), context.view_order)
            if decision.node is None:
                return NO_NODE
            context.assume(pod, decision.node)
            return engine.row_in_view(decision.node)

    def _preempt(self, proposed: ProposedPlacements, place: int) -> None:
        """Place a pod by preemption if possible."""
        number, scheduler = int(proposed.pods[place]), self.scheduler
        pod = self.init.pods[number] if self.init.owners is None else self._anywhere(number)
        engine = scheduler.context.engine_of(pod)
        if pod.spec.preemption_policy == "Never" or why_not_at_once(engine, pod):
            return
        with scheduler.preempt_pods([pod]) as preemption:
            row, evicted = int(preemption.rows[0]), preemption.victims(0)
        if row < 0:
            return
        for victim in evicted:
            self._remove(victim)
        scheduler.cache.assume_pod(bound(pod, scheduler.table.row_name(row)))
        proposed.nodes[place] = self._node_of[row]
        self._victims[number] = evicted
        (protected,) = violations([Unit(tuple(evicted), 0)], budgets_of(engine.handle))
        proposed.victims[number] = tuple(victim.metadata.uid for victim in evicted), protected

    def update(self, update: BinderUpdate) -> None:
        """Apply the decisions of the binder: remove rejected and evicted pods, add bound ones.

        Parameters
        ----------
        update : BinderUpdate
            The decisions.
        """
        cache, pods, nodes = self.scheduler.cache, self.init.pods, self.init.cluster.nodes
        for number in update.rejected:
            self._remove(pods[number])
        kept = [victim for number in update.rejected for victim in self._victims.pop(number, ())]
        cache.add_pods([victim for victim in kept if victim.metadata.uid not in update.deleted])
        cache.add_bound_pods(
            [pods[number] for number in update.pods.tolist()],
            [nodes[node].name for node in update.nodes.tolist()],
        )
        for uid in update.deleted:
            if cache.state.has_pod(self._known[uid]):
                self._remove(self._known[uid])

    @cached_property
    def _known(self) -> dict[str, Pod]:
        """Pods by UID."""
        return {pod.metadata.uid: pod for pod in (*self.init.cluster.pods, *self.init.pods)}

    def _remove(self, pod: Pod) -> None:
        cache = self.scheduler.cache
        cache.discard_pod(cache.get_pod(pod))
