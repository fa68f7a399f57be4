"""Moves of pods: each is evicted, made again by its controller, and scheduled elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import numpy as np
from msgspec.structs import replace

from moorage.cluster import PodScheduler
from moorage.cluster.node_changes import NO_CONTROLLER, mark_unschedulable, stays
from moorage.controllers.store_control import admission_of
from moorage.document import Document
from moorage.errors import examples
from moorage.kube import Object, PodDisruptionBudget
from moorage.kube.admission.request import RefusedError
from moorage.kube.model.node import Node
from moorage.kube.model.pod import Pod
from moorage.kube.model.workload import ControllerRevision
from moorage.kube.workloads.disruption import BudgetSelectors, ignores_budgets
from moorage.kube.workloads.missing_pods import MAKERS, MadeOf
from moorage.kube.workloads.ownership import is_healthy
from moorage.store import ObjectStore

from .asked_pods import FIXED, as_template, checked_needs, make_again, node_verdicts, reason_not_scheduled

SEVERAL = "several PodDisruptionBudgets select it, so it cannot be evicted"
TOLERATES = "it tolerates unschedulable nodes, and would be placed on one again"
_BUDGET = 'PodDisruptionBudget "{}" needs {} healthy pods and has {}: it allows no disruption'
LOST = "its node does not report, so it stays until the node has the taint node.kubernetes.io/out-of-service"


class Move(Document, frozen=True):
    """The move of one pod between nodes."""

    pod: str
    """``namespace/name`` of the pod that is evicted. The name of the one that takes its place may differ."""
    source: str
    target: str


class Blocker(Document, frozen=True):
    """A pod that prevents its node from being emptied."""

    pod: str
    """``namespace/name``."""
    node: str
    reason: str
    lasts: bool
    """Whether no order of moves changes that."""
    changes: tuple[str, ...] = ()
    """What lets the pod go, each change tried alone; for nodes that are drained."""

    @property
    def text(self) -> str:
        """The blocker in one line."""
        return f"{self.pod} cannot leave {self.node}: {self.reason}"


def unhealthy_pods(pods: Iterable[Pod], selectors: BudgetSelectors, budget: PodDisruptionBudget) -> list[Pod]:
    """Return the pods that a budget selects and that are not ready."""
    own = (pod for pod in pods if pod.namespace == budget.namespace and not is_healthy(pod))
    return [pod for pod in own if budget in selectors.of(pod)]


def must_move(pod: Pod) -> bool:
    """Whether a pod has to run elsewhere when its node goes: it does not stay, and is not being deleted."""
    return not stays(pod) and pod.metadata.deletion_timestamp is None


def pods_to_move(scheduler: PodScheduler, node: str) -> list[Pod]:
    """Return the pods on a node that have to leave it (see `must_move`)."""
    state = scheduler.cache.state
    row = state.find_row(node)
    return [] if row is None else [pod for pod in state.pods_of(row) if must_move(pod)]


class Mover:
    """Moves pods inside a transaction.

    Parameters
    ----------
    scheduler : Scheduler
        In a transaction.
    force : bool
        Whether pods without a controller may be moved; somebody has to make them again.
    """

    def __init__(self, scheduler: PodScheduler, force: bool) -> None:
        self._scheduler, self._force = scheduler, force
        self._store = cast(ObjectStore, scheduler.client)
        self._budgets = BudgetSelectors(self._store.list(PodDisruptionBudget)[0])
        self._admission, self._unready = admission_of(self._store), dict[str, str]()
        kinds: tuple[type[Object], ...] = (*MAKERS, ControllerRevision)
        self._made_of = MadeOf(obj for kind in kinds for obj in self._store.list(kind)[0])

    def movable(self, node: str) -> list[Pod]:
        """Return the pods that have to leave a node: higher priority first, then larger."""
        classes, pods = self._scheduler.cache.state.classes, pods_to_move(self._scheduler, node)
        shape_of, intern = classes.shape_of, classes.intern
        sizes = {pod.key: shape_of(intern(pod)).requests for pod in pods}
        return sorted(
            pods, key=lambda pod: (-(pod.spec.priority or 0), *(-n for n in sizes[pod.key]), pod.key)
        )

    def cordon(self, nodes: Iterable[str], value: bool = True) -> None:
        """Make nodes unschedulable, or schedulable again."""
        mark_unschedulable(self._store, [self._store.get(Node, name) for name in nodes], value)
        self._scheduler.sync()

    def reason_to_stay(self, pod: Pod) -> str:
        """Return why a pod cannot be evicted and made again; "" if it can.

        Budgets count by the disruptions that they allow now: moves follow one another, and each pod runs
        again before the next one is evicted.
        """
        if pod.metadata.controller() is None and not self._force:
            return NO_CONTROLLER
        controllers = self._scheduler.controllers
        if controllers is not None and controllers.kubelets.grace_of_eviction(pod):
            return LOST
        budgets = self._budgets.blocking(pod)
        if len(budgets) > 1:
            return SEVERAL
        for budget in budgets:
            status = budget.status
            numbers = _BUDGET.format(budget.name, status.desired_healthy, status.current_healthy)
            return numbers + self._not_ready(budget)
        try:
            why = reason_not_scheduled(self._scheduler, self.made_again(pod))
        except RefusedError as error:
            why = str(error)
        return f"not scheduled again: {why}" if why else ""

    def budgets_of(self, pod: Pod) -> Sequence[PodDisruptionBudget]:
        """Return the budgets that count an eviction of a pod."""
        return () if ignores_budgets(pod) else self._budgets.of(pod)

    def _not_ready(self, budget: PodDisruptionBudget) -> str:
        """Return which pods of a budget are not ready, as the end of a sentence; "" for none."""
        if budget.key not in self._unready:
            pods = unhealthy_pods(self._store.list(Pod)[0], self._budgets, budget)
            names = examples([pod.key for pod in pods], 3)
            self._unready[budget.key] = f"; not ready: {names}" if pods else ""
        return self._unready[budget.key]

    def made_again(self, pod: Pod) -> Pod:
        """Return the pod that takes the place of one: as its controller makes it, and as it is admitted.
        Quotas do not count, since the first pod is gone by then.

        Returns
        -------
        Pod
            Of the same name; with the same spec if its template is not known.

        Raises
        ------
        RefusedError
            The API server refuses it.
        """
        again, pod_made = as_template(pod), self._made_of.pod_like(pod)
        if pod_made is None:
            return again
        new = self._admission.admit_uncharged(
            replace(pod_made, metadata=replace(pod_made.metadata, name=pod.name))
        )
        return replace(again, metadata=replace(again.metadata, labels=new.metadata.labels), spec=new.spec)

    def move(self, pod: Pod, node: str) -> Move | Blocker:
        """Move a pod from its node to the one that the scheduler chooses. A pod for which others would be
        evicted cannot be moved.

        Parameters
        ----------
        node : str
            Is unschedulable.

        Returns
        -------
        Move or Blocker
            With a Blocker, the pod is on no node.
        """
        why = self.reason_to_stay(pod)
        if why:
            return Blocker(pod.key, node, why, True)
        (new,) = make_again(self._scheduler, [self.made_again(pod)])
        self._scheduler.sync()
        result = self._scheduler.schedule_pods([new])
        if result.failure is None:
            target = str(result.nodes[0])
            if self._store.get(Node, target).spec.unschedulable:
                return Blocker(pod.key, node, TOLERATES, False)
            return Move(pod.key, node, target)
        return Blocker(pod.key, node, result.failure.search_message, fits_nowhere_else(self._scheduler, new))


def fits_nowhere_else(scheduler: PodScheduler, pod: Pod) -> bool:
    """Whether a pod fits on none of the schedulable nodes, even if they had no pods."""
    table, needs = scheduler.table, checked_needs(scheduler, pod)
    with scheduler.cache.lock:
        verdicts = node_verdicts(scheduler, pod)
    fixed = [
        kind
        for kind, status in verdicts.statuses.items()
        if status.plugin and FIXED.issuperset(status.plugin.split())
    ]
    may_fit = ~np.isin(verdicts.kinds, np.array(fixed, dtype=np.uint64))
    for name, need in needs.items():
        may_fit &= table.column("allocatable", name)[verdicts.rows] >= need
    return not may_fit.any()


# ---- smaller pods leave another node first -----------------------------------------------------------------

MOST_TRIES = 1_000
"""The most moves that are tried for one question."""


class RoomMaker:
    """Moves pods away from nodes, and makes room for them on others.

    A pod that finds no place has smaller ones leave a node, which may do the same. Each asks for no more of
    any resource than the pod that it makes room for, and for less of one, so that it ends.

    Parameters
    ----------
    scheduler : Scheduler
        In a transaction.
    """

    def __init__(self, scheduler: PodScheduler, mover: Mover) -> None:
        self._scheduler, self._mover, self._tries = scheduler, mover, 0

    def move(self, pod: Pod, node: str) -> list[Move] | Blocker:
        """Move a pod, after others if need be: all of them, or none.

        Parameters
        ----------
        node : str
            Is unschedulable.

        Returns
        -------
        list of Move or Blocker
            A node that a pod leaves is unschedulable meanwhile.
        """
        with self._scheduler.transaction() as transaction:
            self._tries += 1
            move = self._mover.move(pod, node)
            if isinstance(move, Move):
                transaction.commit()
                return [move]
        if not move.lasts:
            for other, smaller in self._rooms(pod):
                with self._scheduler.transaction() as transaction:
                    moves = self._after(pod, node, other, smaller)
                    if moves:
                        transaction.commit()
                        return moves
        return move

    def _after(self, pod: Pod, node: str, other: str, smaller: list[Pod]) -> list[Move]:
        """Move a pod to another node, or elsewhere, after smaller ones have left that node; return no moves
        where one of them has no place."""
        moves = list[Move]()
        self._mover.cordon([other])
        for leaving in smaller:
            move = self.move(leaving, other)
            if isinstance(move, Blocker):
                return []
            moves += move
        self._mover.cordon([other], False)
        last = self._mover.move(pod, node)
        return [*moves, last] if isinstance(last, Move) else []

    def _rooms(self, pod: Pod) -> Iterator[tuple[str, list[Pod]]]:
        """Yield schedulable nodes, and few smaller pods of each without which it has room for a pod: first
        where the fewest have to leave."""
        needs = checked_needs(self._scheduler, pod)
        nodes: list[Node] = self._scheduler.client.list(Node)[0]
        names = [node.name for node in nodes if not node.spec.unschedulable]
        rooms = [(name, leaving) for name in names if (leaving := self._leaving(name, needs))]
        for name, leaving in sorted(rooms, key=lambda room: len(room[1])):
            if self._tries < MOST_TRIES:
                yield name, leaving

    def _leaving(self, node: str, needs: dict[str, int]) -> list[Pod]:
        """Return few pods on a node that are smaller than these needs, without which it has room for them;
        none where they are not enough, or room is not what is lacking."""
        table, leaving = self._scheduler.table, list[Pod]()
        row = table.find_row(node)
        lacking = {
            name: need + int(table.column("requested", name)[row] - table.column("allocatable", name)[row])
            for name, need in needs.items()
        }
        lacking = {name: amount for name, amount in lacking.items() if amount > 0}
        if not lacking:
            return []
        sized = [(pod, checked_needs(self._scheduler, pod)) for pod in self._mover.movable(node)]
        smaller = [
            (pod, own)
            for pod, own in sized
            if own != needs and all(amount <= needs.get(name, 0) for name, amount in own.items())
        ]
        smaller.sort(key=lambda each: -min(min(each[1].get(name, 0) / n, 1.0) for name, n in lacking.items()))
        for pod, own in smaller:
            if any(own.get(name) for name in lacking) and not self._mover.reason_to_stay(pod):
                leaving.append(pod)
                lacking = {name: n - own.get(name, 0) for name, n in lacking.items() if n > own.get(name, 0)}
            if not lacking:
                return leaving
        return []
