"""Several schedulers on one cluster: how fast they are together, how often they want the same, and what then.

They work in rounds, so that the same input gives the same result: in each, every scheduler decides about its
next pods, all at the same time; then the binder takes their placements in turn, one of each scheduler; then
all hear of it. A pod whose placement is rejected is its scheduler's next one in the following round.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, zip_longest
from typing import Any

import numpy as np

from moorage.multi import (
    Binder,
    News,
    Outcome,
    Placement,
    Pool,
    Processes,
    Proposals,
    Share,
    Threads,
    owners,
)
from moorage.objects.model.cluster import Cluster
from moorage.objects.model.pod import Pod
from moorage.objects.model.pod_group import group_of
from moorage.scheduler import Result, Scheduler
from moorage.scheduler.cycle.results import Eviction

CHUNK = 256
"""Pods that a scheduler decides about in one round."""

OF_BINDER = ("profile", "profiles", "config", "feature_gates", "registry")
"""Settings of a scheduler that the binder needs as well."""

Unit = list[int]
"""Pods that are placed together or not at all: one, or the members of a group."""


@dataclass(slots=True)
class SchedulerStats:
    """What one scheduler did.

    Attributes
    ----------
    pods : int
        That were given to it.
    placements, bound : int
        Asked for, and granted by the binder.
    conflicts : Counter of str
        Reason to the number of placements that the binder rejected for it.
    """

    pods: int = 0
    placements: int = 0
    bound: int = 0
    conflicts: Counter[str] = field(default_factory=Counter)

    @property
    def retries(self) -> int:
        """Placements of pods that had been rejected before; all rejected ones are tried again."""
        return self.conflicts.total()


@dataclass(slots=True)
class Optimistic:
    """The outcome of a simulation.

    Attributes
    ----------
    result : Result
        As of one scheduler; pods that none of the several could place were tried once more at the end by a
        single one, which also says why they fit nowhere.
    scheduler : Scheduler
        That one: the cluster as it is in the end.
    schedulers : list of SchedulerStats
    rounds : int
    alone : int
        Pods that were placed at the end.
    deciding, binding, hearing, ending : float
        Seconds in which the schedulers decided, the binder checked and bound, everybody heard of it, and in
        which one scheduler tried what was left.
    """

    result: Result
    scheduler: Scheduler
    schedulers: list[SchedulerStats]
    rounds: int = 0
    alone: int = 0
    deciding: float = 0.0
    binding: float = 0.0
    hearing: float = 0.0
    ending: float = 0.0

    @property
    def bound(self) -> int:
        """Pods that the binder bound."""
        return sum(one.bound for one in self.schedulers)

    @property
    def seconds(self) -> float:
        """All that the schedulers and the binder took."""
        return self.deciding + self.binding + self.hearing + self.ending

    @property
    def pods_per_second(self) -> float:
        """Of pods that the binder bound."""
        seconds = self.deciding + self.binding + self.hearing
        return self.bound / seconds if seconds else 0.0


def simulate_optimistically(
    cluster: Cluster,
    schedulers: int,
    *,
    partition: str = "none",
    chunk: int = CHUNK,
    processes: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> Optimistic:
    """Place all pods of a cluster that wait, by several schedulers.

    Parameters
    ----------
    schedulers : int
        How many.
    partition : {"none", "zone", "hash"}
        Which nodes a scheduler looks at first; see `moorage.multi.partition`.
    chunk : int
        Pods that each decides about before it hears of the others.
    processes : bool
        Whether each works in a process of its own, instead of a thread.
    settings : mapping, optional
        Keyword arguments of each `Scheduler`; where schedulers draw lots, each has a seed of its own.
    """
    if schedulers < 1 or chunk < 1:
        raise ValueError(f"{schedulers} schedulers, chunk {chunk}: at least 1")
    settings = dict(settings or {})
    scheduler = Scheduler(cluster, **settings)
    waiting = tuple(info.pod for info in scheduler.queue.pending_pods().active)
    on_nodes = [pod for pod in cluster.pods if pod.spec.node_name]
    there = Cluster(cluster.nodes, on_nodes, cluster.namespaces, cluster.others)
    belongs, seed = owners(there.nodes, schedulers, partition), settings.pop("seed", 0)
    shares = [
        Share(waiting, there, number, belongs, settings | {"seed": seed + number})
        for number in range(schedulers)
    ]
    named = {name: settings[name] for name in OF_BINDER if name in settings}
    binder = Binder(scheduler.client, wait=scheduler.volumes.wait, **named)
    out = Optimistic(Result(), scheduler, [SchedulerStats() for _ in shares])
    with (Processes if processes else Threads)(shares) as pool:
        rounds = Rounds(out, binder, pool, waiting, there, chunk)
        rounds.run()
    rounds.finish()
    return out


class Rounds:
    """The rounds of a simulation."""

    def __init__(
        self, out: Optimistic, binder: Binder, pool: Pool, pods: Sequence[Pod], there: Cluster, chunk: int
    ) -> None:
        self.out = out
        self.binder = binder
        self.pool = pool
        self.pods = pods
        self.nodes = [node.name for node in there.nodes]
        self.chunk = chunk
        self._known = {pod.metadata.uid: pod for pod in (*there.pods, *pods)}
        self._number_of = {pod.metadata.uid: at for at, pod in enumerate(pods)}
        self._node_number = {name: at for at, name in enumerate(self.nodes)}
        self._owner = np.full(len(pods), -1, dtype=np.int32)
        self._queues: list[deque[Unit]] = [deque() for _ in out.schedulers]
        self._stuck: list[list[Unit]] = [[] for _ in out.schedulers]
        self._asking: dict[str, tuple[int, int]] = {}  # by UID: scheduler and pod, until there is an answer
        self._deal()

    def _deal(self) -> None:
        """Pods, or all pods of a group, in the order of the queue to the scheduler that has the fewest."""
        units: dict[object, Unit] = {}
        for at in range(len(self.pods)):
            units.setdefault(self._unit_of(at), []).append(at)
        for unit in units.values():
            counts = [one.pods for one in self.out.schedulers]
            number = counts.index(min(counts))
            self.out.schedulers[number].pods += len(unit)
            self._owner[unit] = number
            self._queues[number].append(unit)

    def _unit_of(self, at: int) -> object:
        """What the pods of one unit have in common."""
        return (self.out.scheduler.queue.groups_pods and group_of(self.pods[at])) or at

    def run(self) -> None:
        """Go on until no scheduler can place another pod."""
        placed = -1
        while placed < len(self.out.result.placements):
            placed = len(self.out.result.placements)
            while any(self._queues):
                self._round()
            for queue, stuck in zip(self._queues, self._stuck, strict=True):
                queue.extend(stuck)
                stuck.clear()

    def _round(self) -> None:
        self.out.rounds += 1
        began = time.perf_counter()
        taken = [self._take(queue) for queue in self._queues]
        asked = [np.array([*chain(*units)], dtype=np.int32) for units in taken]
        proposals = self.pool.propose(asked)
        decided = time.perf_counter()
        outcomes = self.binder.bind(self._in_turn(taken, proposals)) + self.binder.resume()
        bound = time.perf_counter()
        self.pool.hear(self._news(outcomes))
        self.out.deciding += decided - began
        self.out.binding += bound - decided
        self.out.hearing += time.perf_counter() - bound

    def _take(self, queue: deque[Unit]) -> list[Unit]:
        units, pods = [], 0
        while queue and pods < self.chunk:
            units.append(queue.popleft())
            pods += len(units[-1])
        return units

    def _in_turn(self, taken: Sequence[list[Unit]], proposals: Sequence[Proposals]) -> list[Placement]:
        """What the schedulers ask for, a unit of each in turn. Pods that fit nowhere wait until others are
        placed."""
        asked: list[list[list[Placement]]] = []
        for number, (units, proposal) in enumerate(zip(taken, proposals, strict=True)):
            node_of = dict(zip(proposal.pods.tolist(), proposal.nodes.tolist(), strict=True))
            asked.append([])
            for unit in units:
                placements = [
                    self._placement(number, at, node_of[at], proposal) for at in unit if node_of[at] >= 0
                ]
                left = [at for at in unit if node_of[at] < 0]
                if left:
                    self._stuck[number].append(left)
                asked[number].append(placements)
            self.out.schedulers[number].placements += sum(map(len, asked[number]))
        return [one for units in zip_longest(*asked, fillvalue=()) for unit in units for one in unit]

    def _placement(self, number: int, at: int, node: int, proposal: Proposals) -> Placement:
        pod = self.pods[at]
        self._asking[pod.metadata.uid] = number, at
        uids, violations = proposal.victims.get(at, ((), 0))
        cache, victims = self.binder.cache, []
        for uid in uids:
            victim = self._known[uid]
            victims.append(cache.get_pod(victim) if cache.state.has_pod(victim) else victim)
        return Placement(pod, self.nodes[node], tuple(victims), violations, f"scheduler-{number}")

    def _news(self, outcomes: Sequence[Outcome]) -> list[News]:
        """What each scheduler has to hear of a round, which is noted in the result."""
        result, stats = self.out.result, self.out.schedulers
        rejected: list[list[int]] = [[] for _ in stats]
        bound: list[tuple[int, int, int]] = []
        gone: list[str] = []
        for outcome in outcomes:
            placement = outcome.placement
            number, at = self._asking[placement.pod.metadata.uid]
            if outcome.status is not None:
                rejected[number].append(at)
                stats[number].conflicts[outcome.reason] += 1
                continue
            for victim in placement.victims:
                result.evicted[victim.key] = Eviction(placement.node, placement.pod.key)
                result.placements.pop(victim.key, None)
                gone.append(victim.metadata.uid)
            if outcome.waiting:
                result.waiting[placement.pod.key] = placement.node
            else:
                result.waiting.pop(placement.pod.key, None)
                result.placements[placement.pod.key] = placement.node
                stats[number].bound += 1
            bound.append((number, at, self._node_number[placement.node]))
        self._give_back(rejected, bool(bound))
        told = np.array(bound, dtype=np.int32).reshape(-1, 3)
        others = [told[told[:, 0] != number] for number in range(len(stats))]
        return [News(some, mine[:, 1], mine[:, 2], gone) for some, mine in zip(rejected, others, strict=True)]

    def _give_back(self, rejected: Sequence[list[int]], has_bound: bool) -> None:
        """Rejected pods are the next ones of their scheduler, unit by unit; where nothing at all was bound it
        would ask for the same again, and waits."""
        for number, pods in enumerate(rejected):
            units = [list(unit) for _, unit in groupby(pods, key=self._unit_of)]
            if has_bound:
                self._queues[number].extendleft(reversed(units))
            else:
                self._stuck[number] += units

    def finish(self) -> None:
        """Have a single scheduler try what is left."""
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
