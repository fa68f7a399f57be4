"""Simulates several schedulers on one cluster with optimistic concurrency: throughput and conflicts.

The simulation runs in rounds, so that equal input gives equal results. In each round all schedulers choose
nodes for their next pods in parallel, the binder checks their placements, one of each scheduler in turn, and
all schedulers are updated. A pod whose placement is rejected is the first of its scheduler in the next round.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain, groupby, repeat
from operator import itemgetter
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from moorage import multi
from moorage._core.base.watch_events import keys_of
from moorage.errors import InputError
from moorage.facade import Scheduler
from moorage.objects import Cluster, Pod, group_of
from moorage.scheduler import Eviction, ScheduleResult
from moorage.scheduler.expanded import with_objects
from moorage.store import ObjectStore

CHUNK = 256
"""Pods of a scheduler per round."""

OF_BINDER = ("profile", "profiles", "config", "feature_gates", "registry")
"""Settings that schedulers and binder share."""

EXECUTORS = {"threads": multi.Threads, "ray": multi.RayActors}

Ints = npt.NDArray[np.int32]

Unit = list[int]
"""Indices of the pods of one unit of scheduling: a single pod, or the members of a group."""


@dataclass(slots=True)
class SchedulerStats:
    """Counters of one scheduler.

    Attributes
    ----------
    pods : int
        Number of pods assigned to the scheduler.
    placements, bound : int
        Number of proposed placements, and of those that the binder bound.
    conflicts : Counter of str
        Number of placements that the binder rejected, by reason.
    """

    pods: int = 0
    placements: int = 0
    bound: int = 0
    conflicts: Counter[str] = field(default_factory=Counter)

    @property
    def retries(self) -> int:
        """Number of placements of pods that had been rejected before; every rejected pod is retried."""
        return self.conflicts.total()


@dataclass(slots=True)
class Optimistic:
    """The result of a simulation of several schedulers.

    Attributes
    ----------
    result : ScheduleResult
        The result. Pods that no scheduler could place are tried at the end by a single scheduler, which
        diagnoses those that fit no node.
    scheduler : Scheduler
        The single scheduler, with the final state of the cluster.
    schedulers : list of SchedulerStats
        Counters by scheduler.
    rounds : int
        Number of rounds.
    alone : int
        Number of pods that the single scheduler placed.
    deciding, binding, updating, ending : float
        Seconds spent in decisions of the schedulers, in the binder, in updates of the schedulers, and in the
        single scheduler at the end.
    """

    result: ScheduleResult
    scheduler: Scheduler
    schedulers: list[SchedulerStats]
    rounds: int = 0
    alone: int = 0
    deciding: float = 0.0
    binding: float = 0.0
    updating: float = 0.0
    ending: float = 0.0

    @property
    def bound(self) -> int:
        """Number of pods that the binder bound."""
        return sum(stats.bound for stats in self.schedulers)

    @property
    def seconds(self) -> float:
        """Total seconds of schedulers and binder."""
        return self.deciding + self.binding + self.updating + self.ending

    @property
    def pods_per_second(self) -> float:
        """Throughput of bound pods per second, without the single scheduler at the end."""
        seconds = self.deciding + self.binding + self.updating
        return self.bound / seconds if seconds else 0.0


def simulate_optimistically(
    cluster: Cluster,
    schedulers: int,
    *,
    partition: str = "none",
    chunk: int = CHUNK,
    executor: str = "threads",
    settings: Mapping[str, Any] | None = None,
) -> Optimistic:
    """Place all pending pods of a cluster by several schedulers.

    Parameters
    ----------
    cluster : Cluster
        The objects of the cluster.
    schedulers : int
        Number of schedulers.
    partition : {"none", "zone", "hash"}
        How nodes are partitioned; see `moorage.multi.partition`.
    chunk : int
        Number of pods of each scheduler per round.
    executor : {"threads", "ray"}
        Where the schedulers run. With ``ray`` they are actors of the Ray cluster to which the process is
        connected, or of one on this machine, and so is the binder; it needs the extra ``ray``.
    settings : mapping, optional
        Keyword arguments of each `Scheduler`; the index of the scheduler is added to the seed.

    Returns
    -------
    Optimistic
        Result and counters.

    Raises
    ------
    ValueError
        There is less than one scheduler, or less than one pod per round.
    InputError
        The executor is unknown, or Ray is not installed.
    MoorageError
        A process of a scheduler or of the binder has ended.
    """
    if executor not in EXECUTORS:
        raise InputError(f"executor must be one of {', '.join(EXECUTORS)}, not {executor!r}")
    if schedulers < 1 or chunk < 1:
        raise ValueError(f"schedulers and chunk must be at least 1, not {schedulers} and {chunk}")
    settings = dict(settings or {})
    scheduler = Scheduler(cluster, **settings)
    named = {name: settings[name] for name in OF_BINDER if name in settings}
    waiting = tuple(info.pod for info in scheduler.queue.pending_pods().active)
    there = with_objects(cluster, scheduler.client)
    running = [pod for pod in there.pods if pod.spec.node_name]
    initial = Cluster(there.nodes, running, there.namespaces, there.others)
    owners, seed = multi.assign_owners(initial.nodes, schedulers, partition), settings.get("seed", 0)
    own = settings | {"controllers": False}  # those of the whole cluster make the pods
    inits = [
        multi.WorkerInit(waiting, initial, number, owners, own | {"seed": seed + number})
        for number in range(schedulers)
    ]
    out = Optimistic(ScheduleResult(scheduler.cache.state, 0), scheduler, [SchedulerStats() for _ in inits])
    with ExitStack() as stack:
        binder: multi.Binder | multi.RayBinder
        if executor == "ray":
            binder = stack.enter_context(multi.RayBinder(there, settings, named))
        else:
            binder = multi.Binder(scheduler.client, wait=scheduler.volumes.wait, **named)
        pool = stack.enter_context(EXECUTORS[executor](inits))
        rounds = Rounds(out, binder, pool, waiting, initial, chunk)
        rounds.run()
        if isinstance(binder, multi.RayBinder):
            binder.write_to(cast(ObjectStore, scheduler.client))
    rounds.finish()
    return out


@dataclass
class Rounds:
    """The state of a simulation between rounds."""

    out: Optimistic
    binder: multi.Binder | multi.RayBinder
    pool: multi.Pool
    pods: Sequence[Pod]
    initial: Cluster
    chunk: int

    def __post_init__(self) -> None:
        self.nodes = [node.name for node in self.initial.nodes]
        self._names = [f"scheduler-{number}" for number in range(len(self.out.schedulers))]
        self._pod_of_uid = {pod.metadata.uid: pod for pod in (*self.initial.pods, *self.pods)}
        self._queues: list[deque[Unit]] = [deque() for _ in self.out.schedulers]
        self._unplaced: list[list[Unit]] = [[] for _ in self.out.schedulers]
        self._waiting: dict[str, Ints] = {}  # the proposals of pods that wait for their victims, by UID
        self._assign_units()

    def _assign_units(self) -> None:
        """Assign units, in queue order, to the scheduler with the fewest pods."""
        units: dict[object, Unit] = {}
        for at in range(len(self.pods)):
            units.setdefault(self._unit_of(at), []).append(at)
        for unit in units.values():
            counts = [stats.pods for stats in self.out.schedulers]
            number = counts.index(min(counts))
            self.out.schedulers[number].pods += len(unit)
            self._queues[number].append(unit)

    def _unit_of(self, at: int) -> object:
        """The key of a pod's unit."""
        return (self.out.scheduler.queue.groups_pods and group_of(self.pods[at])) or at

    def run(self) -> None:
        """Run rounds until no scheduler can place another pod."""
        placed = -1
        while placed < len(self.out.result.placements):
            placed = len(self.out.result.placements)
            while any(self._queues):
                self._round()
            for queue, unplaced in zip(self._queues, self._unplaced, strict=True):
                queue.extend(unplaced)
                unplaced.clear()

    def _round(self) -> None:
        self.out.rounds += 1
        began = time.perf_counter()
        units_of = [self._take(queue) for queue in self._queues]
        batches = [np.array([*chain(*units)], dtype=np.int32) for units in units_of]
        proposals = self.pool.propose(batches)
        decided = time.perf_counter()
        proposed = self._in_turn(units_of, proposals)
        outcomes = self.binder.bind(self._placements(proposed, proposals))
        waiting = [at for at, one in enumerate(outcomes) if one.waiting]
        self._waiting.update((outcomes[at].placement.pod.metadata.uid, proposed[at]) for at in waiting)
        resumed = self.binder.resume()
        late = [self._waiting.pop(one.placement.pod.metadata.uid) for one in resumed]
        bound = time.perf_counter()
        self.pool.update(self._record(np.vstack((proposed, *late)), outcomes + resumed))
        self.out.deciding += decided - began
        self.out.binding += bound - decided
        self.out.updating += time.perf_counter() - bound

    def _take(self, queue: deque[Unit]) -> list[Unit]:
        units, pods = [], 0
        while queue and pods < self.chunk:
            units.append(queue.popleft())
            pods += len(units[-1])
        return units

    def _in_turn(self, units_of: Sequence[list[Unit]], proposals: Sequence[multi.ProposedPlacements]) -> Ints:
        """Return scheduler, pod and node of each proposed placement, one unit of each scheduler in turn.

        Pods without a node are retried when others have been placed.
        """
        tables, turns = [], []
        for number, (units, proposal) in enumerate(zip(units_of, proposals, strict=True)):
            turn = np.repeat(np.arange(len(units)), [len(unit) for unit in units])
            numbers = np.full(len(turn), number, dtype=np.int32)
            has_node = proposal.nodes >= 0
            tables.append(np.column_stack((numbers, proposal.pods, proposal.nodes))[has_node])
            turns.append(turn[has_node])
            self.out.schedulers[number].placements += len(turns[-1])
            left = zip(turn[~has_node].tolist(), proposal.pods[~has_node].tolist(), strict=True)
            for _, unplaced in groupby(left, key=itemgetter(0)):
                self._unplaced[number].append([at for _, at in unplaced])
        return np.concatenate(tables)[np.argsort(np.concatenate(turns), kind="stable")]

    def _placements(
        self, proposed: Ints, proposals: Sequence[multi.ProposedPlacements]
    ) -> list[multi.Placement]:
        """Return the placements that `_in_turn` has found."""
        names, pods, nodes = self._columns(proposed)
        placements = list(map(multi.Placement, pods, nodes, repeat(()), repeat(0), names))
        for proposal in proposals:
            for pod, (uids, violations) in proposal.victims.items():
                (at,) = np.flatnonzero(proposed[:, 1] == pod).tolist()
                victims = tuple(self.binder.current(self._pod_of_uid[uid]) for uid in uids)
                placements[at] = replace(placements[at], victims=victims, violations=violations)
        return placements

    def _columns(self, proposed: Ints) -> tuple[list[str], list[Pod], list[str]]:
        """Return the names of the schedulers, the pods, and the names of the nodes of some proposals."""
        number, pod, node = proposed.T.tolist()
        names, pods = list(map(self._names.__getitem__, number)), list(map(self.pods.__getitem__, pod))
        return names, pods, list(map(self.nodes.__getitem__, node))

    def _record(self, proposed: Ints, outcomes: Sequence[multi.Outcome]) -> list[multi.BinderUpdate]:
        """Record the outcomes of proposals in the result; returns the update of each scheduler."""
        result, stats = self.out.result, self.out.schedulers
        admitted = np.array([outcome.status is None for outcome in outcomes], dtype=bool)
        waits = np.array([outcome.waiting for outcome in outcomes], dtype=bool)
        rejected: list[list[int]] = [[] for _ in stats]
        for at in np.flatnonzero(~admitted).tolist():
            number, pod, _ = proposed[at].tolist()
            rejected[number].append(pod)
            stats[number].conflicts[outcomes[at].reason] += 1
        placed = proposed[admitted & ~waits]
        _, bound, nodes = self._columns(placed)
        result.placements.update(zip(keys_of(bound), nodes, strict=True))
        for number, count in enumerate(np.bincount(placed[:, 0], minlength=len(stats)).tolist()):
            stats[number].bound += count
        evicted = self._record_victims([outcome for outcome in outcomes if outcome.placement.victims])
        self._requeue(rejected, bool(admitted.any()))
        table = proposed[admitted]
        others = [table[table[:, 0] != number] for number in range(len(stats))]
        return [
            multi.BinderUpdate(pods, by_others[:, 1], by_others[:, 2], evicted)
            for pods, by_others in zip(rejected, others, strict=True)
        ]

    def _record_victims(self, outcomes: Sequence[multi.Outcome]) -> list[str]:
        """Record the victims of admitted pods, and which pods wait for them; returns the victims' UIDs."""
        result, evicted = self.out.result, list[str]()
        for outcome in outcomes:
            placement = outcome.placement
            if outcome.status is not None:
                continue
            for victim in placement.victims:
                result.evicted[victim.key] = Eviction(placement.node, placement.pod.key)
                result.placements.pop(victim.key, None)
                evicted.append(victim.metadata.uid)
            if outcome.waiting:
                result.waiting[placement.pod.key] = placement.node
            else:
                result.waiting.pop(placement.pod.key, None)
        return evicted

    def _requeue(self, rejected: Sequence[list[int]], has_bound: bool) -> None:
        """Return rejected pods to their schedulers, unit by unit, as the next ones.

        If no pod was bound in the round they are retried later, because the schedulers would propose the same
        placements again.
        """
        for number, pods in enumerate(rejected):
            units = [list(unit) for _, unit in groupby(pods, key=self._unit_of)]
            if has_bound:
                self._queues[number].extendleft(reversed(units))
            else:
                self._unplaced[number] += units

    def finish(self) -> None:
        """Schedule the remaining pods with a single scheduler."""
        result, scheduler, began = self.out.result, self.out.scheduler, time.perf_counter()
        scheduler.sync()
        alone = scheduler.run()
        self.out.ending = time.perf_counter() - began
        self.out.alone = len(alone.placements)
        for key in alone.evicted:
            result.placements.pop(key, None)
        result.placements |= alone.placements
        result.evicted |= alone.evicted
        result.unschedulable = alone.unschedulable
        result.skipped = alone.skipped
        result.warnings = alone.warnings
        result.seconds = self.out.deciding + alone.seconds
