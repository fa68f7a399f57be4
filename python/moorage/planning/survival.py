"""Survival: which nodes, zones or pools can be lost, with every pod that runs there finding a place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from moorage.changes.cluster_changes import remove_nodes
from moorage.changes.drain import NO_CONTROLLER
from moorage.controllers.workloads.awaited_pods import why_awaited
from moorage.errors import InputError
from moorage.objects.model.pod import Pod
from moorage.objects.model.workload import Job, ReplicaSet
from moorage.objects.workloads.kinds.replacements import replacement
from moorage.objects.workloads.top_controller import Workloads
from moorage.scheduler import PodScheduler
from moorage.tables import Table, Tabular

from .node_groups import grouped_rows
from .pod_moves import pods_to_move
from .stored_pods import make_again

if TYPE_CHECKING:
    from moorage.scheduler.cycle.results import ScheduleResult

NODE = "node"
"""Stands for each node by itself."""


class LostPod(Struct, frozen=True):
    """A pod that finds no place after a loss.

    Attributes
    ----------
    pod : str
        ``namespace/name`` of the pod without a node: the one that its controller has made anew, or the lost
        one that no controller makes again.
    workload : str
        Such as ``deployment/web``.
    reason : str
    """

    pod: str
    workload: str
    reason: str


class Loss(Struct, frozen=True):
    """What is lost with the nodes of some domains.

    Attributes
    ----------
    domains : tuple of str
        The nodes, zones, or values of the label, that are lost together.
    nodes : int
        Number of nodes.
    pods : int
        Number of pods on them that have to run elsewhere.
    lost : tuple of LostPod
        Pods without a place: of these, or others that were evicted for them.
    """

    domains: tuple[str, ...]
    nodes: int
    pods: int
    lost: tuple[LostPod, ...]


@dataclass(frozen=True, repr=False)
class Survival(Tabular):
    """Whether a cluster survives the loss of any node, zone, or value of a label.

    Attributes
    ----------
    by : str
        "node", or the key of the label.
    domains : int
        Number of nodes, or of values of the label. Each was tried alone.
    without_label : int
        Number of nodes without the label, of which none was lost.
    losses : tuple of Loss
        Those after which pods have no place, most pods first.
    at_once : int
        How many domains are lost together at most.
    sets, possible : int
        How many sets of several domains were tried, and how many there are. Only domains that are survived
        alone are combined: sets with another one fail anyway.
    worst : int
        All sets among so many of the domains were tried: those with the largest share of a resource.
    """

    by: str
    domains: int
    without_label: int
    losses: tuple[Loss, ...]
    at_once: int
    sets: int = 0
    possible: int = 0
    worst: int = 0

    def __bool__(self) -> bool:
        return not self.losses

    @property
    def searched(self) -> str:
        """What was tried, in one sentence."""
        text = f"each of {self.domains} alone"
        if self.at_once > 1:
            sets = f"{self.sets} of {self.possible} sets of 2" + (f" to {self.at_once}" * (self.at_once > 2))
            whole = self.sets == self.possible
            text += f", and {sets}" + ("" if whole else f": all among the {self.worst} fullest")
        return text

    def headline(self) -> str:
        """Return the answer and what was tried in one line."""
        what = f"survives the loss of any {self.by}" if self else f"{len(self.losses)} losses leave pods out"
        return f"{what}; tried {self.searched}"

    def table(self, limit: int | None = None) -> Table:
        """Return one row for each loss, most pods first.

        Parameters
        ----------
        limit : int, optional
            Number of rows, from the first on; by default all.

        Returns
        -------
        Table
            Columns domains, nodes, pods, lost.
        """
        losses = self.losses[:limit]
        return Table(
            {
                "domains": [", ".join(loss.domains) for loss in losses],
                "nodes": np.array([loss.nodes for loss in losses], dtype=np.int64),
                "pods": np.array([loss.pods for loss in losses], dtype=np.int64),
                "lost": np.array([len(loss.lost) for loss in losses], dtype=np.int64),
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as a JSON value."""
        losses = [
            {"domains": list(loss.domains), "nodes": loss.nodes, "pods": loss.pods}
            | {"lost": [{"pod": p.pod, "workload": p.workload, "reason": p.reason} for p in loss.lost]}
            for loss in self.losses
        ]
        several = {"atOnce": self.at_once, "sets": self.sets, "possible": self.possible, "worst": self.worst}
        head = {"by": self.by, "domains": self.domains, "withoutLabel": self.without_label}
        return head | {"survived": bool(self), "losses": losses, "searched": several}


def survive(scheduler: PodScheduler, by: str, at_once: int, go_on: Callable[[], bool]) -> Survival:
    """Return which domains can be lost; see `Scheduler.survive`."""
    scheduler.sync()
    label, domains = _domains(scheduler, by)
    without = len(scheduler.context.view_order()) - sum(map(len, domains.values()))
    if not 1 <= at_once <= max(len(domains), 1):
        what = "nodes" if by == NODE else f"values of {by}"
        raise InputError(
            f"must be from 1 to {len(domains)}, the number of {what}, not {at_once}", path="at_once"
        )
    with scheduler.transaction():
        trial = _Trial(scheduler, domains)
        single = [loss for name in domains if (loss := trial.lose((name,))) is not None]
        failed = {loss.domains[0] for loss in single}
        left = [name for name in trial.fullest_first() if name not in failed]
        possible = sum(comb(len(left), size) for size in range(2, at_once + 1))
        found, sets, worst = list(single), 0, min(len(left), 1)
        for at, names in _sets(left, at_once):
            worst = at  # all sets of the domains before this one were tried
            if not go_on():
                break
            sets += 1
            if (loss := trial.lose(names)) is not None:
                found.append(loss)
        else:
            worst = len(left)
    found.sort(key=lambda loss: -len(loss.lost))  # stable: equal ones in list order
    return Survival(label, len(domains), without, tuple(found), at_once, sets, possible, worst)


def _sets(names: Sequence[str], most: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the sets of 2 to `most` names, first those of the first names, and the place of their last."""
    for at in range(1, len(names)):
        for size in range(1, most):
            for others in combinations(names[:at], size):
                yield at, (*others, names[at])


def _domains(scheduler: PodScheduler, by: str) -> tuple[str, dict[str, list[str]]]:
    """Return what the nodes are lost by, and the nodes of each domain, in list order."""
    if by == NODE:
        return by, {name: [name] for name in scheduler.context.view_order()}
    label, groups = grouped_rows(scheduler, by)
    row_name = scheduler.table.row_name
    return label, {value: [str(row_name(row)) for row in rows] for value, rows in groups.items()}


# ---- one loss ----------------------------------------------------------------------------------------------


@dataclass
class _Trial:
    """Losses of domains, each taken back, beside what is without a node already.

    Parameters
    ----------
    scheduler : Scheduler
        In a transaction. Its pending pods are placed first.
    domains : dict of str to list of str
        The nodes of each.
    """

    scheduler: PodScheduler
    domains: dict[str, list[str]]
    _before: set[str] = field(init=False)
    _unmade: int = field(init=False)
    _workloads: Workloads = field(init=False)

    def __post_init__(self) -> None:
        scheduler = self.scheduler
        result = scheduler.run()
        self._before = {*result.unschedulable, *result.skipped}
        self._unmade = len(self._not_made())
        self._workloads = Workloads([*scheduler.client.list(ReplicaSet)[0], *scheduler.client.list(Job)[0]])

    def fullest_first(self) -> list[str]:
        """Return the domains by the largest share that their pods have of a resource of the cluster."""
        table, find_row = self.scheduler.table, self.scheduler.cache.state.find_row
        rows = {
            domain: [row for name in names if (row := find_row(name)) is not None]
            for domain, names in self.domains.items()
        }
        shares = dict.fromkeys(self.domains, 0.0)
        for resource in table.resources:
            requested, total = (
                table.column("requested", resource),
                table.column("allocatable", resource).sum(),
            )
            for domain, its in rows.items() if total else ():
                shares[domain] = max(shares[domain], int(requested[its].sum()) / int(total))
        return sorted(shares, key=lambda name: -shares[name])

    def lose(self, names: tuple[str, ...]) -> Loss | None:
        """Lose domains, and return what has no place then; None if everything has one."""
        nodes = [node for name in names for node in self.domains[name]]
        moving = [pod for node in nodes for pod in pods_to_move(self.scheduler, node)]
        if not moving:
            return None
        with self.scheduler.transaction():
            remove_nodes(self.scheduler, nodes)
            lost = self._place_elsewhere(moving)
        return Loss(names, len(nodes), len(moving), tuple(lost)) if lost else None

    def _place_elsewhere(self, gone: list[Pod]) -> list[LostPod]:
        """Place lost pods elsewhere, and what is evicted for them; return those without a place.

        It ends: each round makes pods of lower priority again than those that were placed in the one before.
        """
        scheduler = self.scheduler
        lost = []
        while True:
            evicted: list[Pod] = []
            lost += [self._lost(pod, NO_CONTROLLER) for pod in gone if pod.metadata.controller() is None]
            self._make_again(gone)
            result = self._run(evicted)
            gone = evicted
            if not any(self._is_ours(pod) or pod.metadata.controller() is None for pod in gone):
                break
        lost += [
            self._lost(scheduler.client.get(Pod, *key.split("/")[::-1]), why)
            for key, why in self._failed(result)
        ]
        return lost + [self._lost(pod, why) for pod, why in islice(self._not_made(), self._unmade, None)]

    def _run(self, evicted: list[Pod]) -> ScheduleResult:
        """Run the scheduler, and note the pods that it evicts."""
        callbacks = self.scheduler.handle.on_eviction

        def note(victims: Sequence[Pod], node: str, preemptor: object) -> None:
            evicted.extend(victims)

        callbacks.append(note)
        try:
            return self.scheduler.run()
        finally:
            callbacks.remove(note)

    def _is_ours(self, pod: Pod) -> bool:
        """Whether a pod has a controller that is not simulated, so that it is made again here."""
        owner, controllers = pod.metadata.controller(), self.scheduler.controllers
        if owner is None or controllers is None:
            return owner is not None
        return not controllers.has(owner, pod.namespace) and replacement(pod) is None

    def _make_again(self, gone: Sequence[Pod]) -> None:
        """Make pods again as their controllers would."""
        scheduler = self.scheduler
        missing = [pod for pod in gone if self._is_ours(pod)]
        if missing:
            make_again(scheduler, missing)
            scheduler.sync()

    def _failed(self, result: ScheduleResult) -> Iterator[tuple[str, str]]:
        """Yield the pods without a node that had one, and why."""
        for key, failure in result.unschedulable.items():
            if key not in self._before:
                yield key, failure.search_message
        for key, why in result.skipped.items():
            if key not in self._before:
                yield key, f"not scheduled: {why}"

    def _not_made(self) -> list[tuple[Pod, str]]:
        """Return the pods that controllers cannot make now, and why."""
        awaited = [(pod, why_awaited(pod)) for pod in self.scheduler.awaited_pods()]
        return [*awaited, *((pod.pod, pod.message) for pod in self.scheduler.refused_pods())]

    def _lost(self, pod: Pod, why: str) -> LostPod:
        return LostPod(pod.key, self._workloads.of(pod).text, why)


def lost_by_workload(loss: Loss) -> dict[tuple[str, str, str], int]:
    """Count the lost pods by namespace, workload and reason.

    Returns
    -------
    dict of (str, str, str) to int
        In the order of the first pods.
    """
    return Counter((one.pod.partition("/")[0], one.workload, one.reason) for one in loss.lost)
