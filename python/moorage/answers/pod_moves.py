"""Moves of pods: each is evicted, made again by its controller, and scheduled elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from moorage.cluster import ChangingScheduler, PodScheduler
from moorage.cluster.cluster_changes import empty_nodes
from moorage.cluster.node_changes import LASTING, reason_to_stay, stays
from moorage.document import Document
from moorage.engine.scheduler.cycle.results import GATED, OTHER_SCHEDULER, ScheduleResult
from moorage.errors import examples
from moorage.grouped import grouped
from moorage.kube import PodDisruptionBudget
from moorage.kube.model.node import Node
from moorage.kube.model.pod import Pod
from moorage.kube.workloads.disruption import BudgetSelectors
from moorage.kube.workloads.ownership import FINISHED, controller_of, is_healthy
from moorage.lazy import NamedTuple
from moorage.store import ObjectClient, find_object

from .asked_pods import FIXED, as_template, checked_needs, node_verdicts
from .homeless_pods import EVICTED, REFUSED, UNSCHEDULABLE, HomelessPods, noting_victims

FINALIZERS = "it is being deleted and stays, as it has finalizers"
TOLERATES = "it tolerates unschedulable nodes, and would be placed on one again"
LOST = "its node does not report, so it stays until the node has the taint node.kubernetes.io/out-of-service"


class Move(Document, frozen=True):
    """The move of one pod between nodes."""

    pod: str
    """``namespace/name`` of the pod that is evicted. The name of the one that takes its place may differ."""
    source: str
    target: str


class Blocker(Document, frozen=True):
    """A pod that prevents a node from being emptied."""

    pod: str
    """``namespace/name``."""
    node: str
    reason: str
    lasts: bool
    """Whether no order of moves changes that."""
    elsewhere: bool = False
    """Whether it is no pod of the node, but one that has no place then: it waits, or is evicted for a pod of
    the node."""
    changes: tuple[str, ...] = ()
    """What lets the pod go, each change tried alone; for nodes that are drained."""

    @property
    def text(self) -> str:
        """The blocker in one line."""
        verb = "has no node without" if self.elsewhere else "cannot leave"
        return f"{self.pod} {verb} {self.node}: {self.reason}"


def unhealthy_pods(
    client: ObjectClient, selectors: BudgetSelectors, namespaces: Iterable[str]
) -> dict[str, list[Pod]]:
    """Return the pods of namespaces that are not ready, by the key of each budget that selects them."""
    pods = (pod for namespace in {*namespaces} for pod in client.list(Pod, namespace)[0])
    return grouped((budget.key, pod) for pod in pods if not is_healthy(pod) for budget in selectors.of(pod))


def must_move(pod: Pod) -> bool:
    """Whether a pod has to run elsewhere when its node goes: it does not stay, and is not being deleted."""
    return not stays(pod) and pod.metadata.deletion_timestamp is None


def pods_to_move(scheduler: PodScheduler, node: str) -> list[Pod]:
    """Return the pods on a node that have to leave it (see `must_move`)."""
    state = scheduler.cache.state
    row = state.find_row(node)
    return [] if row is None else [pod for pod in state.pods_of(row) if must_move(pod)]


class Moved(NamedTuple):
    """What becomes of pods that are evicted.

    Attributes
    ----------
    moves : list of Move
        In order; also of pods that were evicted for them.
    blockers : list of Blocker
        What stays, and what has no place then.
    needs : Counter of str
        What the pods that come in their place request.
    """

    moves: list[Move]
    blockers: list[Blocker]
    needs: Counter[str]


class Mover:
    """Evicts pods by the verbs of a change, and sees what becomes of them. Inside a transaction.

    Parameters
    ----------
    scheduler : Scheduler
        In a transaction.
    force : bool
        Whether pods without a controller are evicted; somebody makes them again.
    empties : bool
        Whether nodes have to be empty then; else a pod that tolerates a cordon may come back.
    """

    def __init__(self, scheduler: ChangingScheduler, force: bool, empties: bool = True) -> None:
        self._scheduler, self._force, self._empties = scheduler, force, empties
        if scheduler.controllers is not None:
            scheduler.controllers.budgets.look_ahead()
        with scheduler.transaction():
            self._homeless = HomelessPods(scheduler)

    def movable(self, node: str) -> list[Pod]:
        """Return the pods that have to leave a node: higher priority first, then larger."""
        classes, pods = self._scheduler.cache.state.classes, pods_to_move(self._scheduler, node)
        shape_of, intern = classes.shape_of, classes.intern
        sizes = {pod.key: shape_of(intern(pod)).requests for pod in pods}
        return sorted(
            pods, key=lambda pod: (-(pod.spec.priority or 0), *(-n for n in sizes[pod.key]), pod.key)
        )

    def may_leave(self, pod: Pod, budgets: BudgetSelectors) -> bool:
        """Whether a pod may be evicted now."""
        return not (reason_to_stay(pod, self._force) or budgets.blocking(pod))

    def drain(self, node: str) -> Moved:
        """Drain a node as far as that goes, and place its pods."""

        def drained() -> tuple[dict[str, str], list[ScheduleResult]]:
            emptied = empty_nodes(self._scheduler.change, [node], self._force)
            return emptied.kept, [emptied.result]

        return self._seen(node, self.movable(node), drained)

    def move(self, pod: Pod, node: str) -> Moved:
        """Evict one pod of a node, which is unschedulable, and place it."""

        def evicted() -> tuple[dict[str, str], list[ScheduleResult]]:
            if why := reason_to_stay(pod, self._force):
                return {pod.full_name: why}, []
            kept = self._scheduler.change.evict([pod]).kept
            return kept, [] if kept else [self._scheduler.run()]

        return self._seen(node, [pod], evicted)

    def _seen(
        self, node: str, pods: list[Pod], act: Callable[[], tuple[dict[str, str], list[ScheduleResult]]]
    ) -> Moved:
        """Return what becomes of the pods of a node by what takes them from it: the pods that it keeps, with
        the reasons, and the results of runs."""
        scheduler, selectors = self._scheduler, self.selectors()
        with noting_victims(scheduler) as victims:
            kept, results = act()
            staying = [(pod, why) for pod in pods if (why := kept.get(pod.full_name))]
            unready = unhealthy_pods(scheduler.client, selectors, [pod.namespace for pod, _ in staying])
            blockers = [
                Blocker(pod.key, node, why + _not_ready(unready, budgets), lasts)
                for pod, why in staying
                for budgets in [selectors.blocking(pod)]
                # a budget that allowed a disruption before the drain may do so again
                for lasts in [why in LASTING or bool(budgets) or not selectors.of(pod)]
            ]
            gone = [pod for pod in pods if pod.full_name not in kept]
            blockers += [Blocker(pod.key, node, why, True) for pod in gone if (why := self._why_left(pod))]
            named = {blocker.pod for blocker in blockers}
            gone = [pod for pod in gone if pod.key not in named]
            if alone := [as_template(pod) for pod in gone if pod.metadata.controller() is None]:
                scheduler.change.apply(alone)
                results.append(scheduler.run())
        later = {blocker.pod for blocker in blockers if not blocker.lasts}
        moves, needs, left = list[Move](), Counter[str](), _Predecessors([*gone, *victims])
        own = {pod.metadata.uid for pod in gone}
        for key, target in ((key, to) for result in results for key, to in result.placements.items()):
            new = find_object(scheduler.client, Pod, *key.split("/")[::-1])
            if new is None or (old := left.take(new)) is None:
                continue
            moves.append(Move(old.key, old.spec.node_name, target))
            if old.metadata.uid in own:
                needs.update(checked_needs(scheduler, new))
            if self._empties and scheduler.client.get(Node, target).spec.unschedulable:
                blockers.append(Blocker(old.key, node, TOLERATES, False))
        owned = [*victims, *(pod for pod in gone if pod.metadata.controller() is not None)]
        for each in self._homeless.after(owned, results[-1]) if results else ():
            old = left.take(each.pod)
            is_own = old is not None and old.metadata.uid in own
            key = each.pod.key if old is None else old.key
            if key not in named:
                lasts = is_own and (  # no order of moves gives the pod a place
                    fits_nowhere_else(scheduler, each.pod)
                    if each.problem == UNSCHEDULABLE
                    else each.problem in (EVICTED, REFUSED, GATED, OTHER_SCHEDULER)
                )
                blockers.append(Blocker(key, node, each.why, lasts, not is_own))
            if is_own and each.problem == UNSCHEDULABLE:
                needs.update(checked_needs(scheduler, each.pod))
        return Moved(moves, sorted(blockers, key=lambda blocker: blocker.pod in later), needs)

    def _why_left(self, pod: Pod) -> str:
        """Return why a pod without a controller is there still, though it was evicted, so that nobody can
        make it again; "" for any other."""
        stored = find_object(self._scheduler.client, Pod, pod.name, pod.namespace)
        is_there = stored is not None and stored.metadata.uid == pod.metadata.uid
        if stored is None or not is_there or pod.metadata.controller() is not None:
            return ""
        return FINALIZERS if stored.status.phase in FINISHED else LOST

    def selectors(self) -> BudgetSelectors:
        """Return the budgets as they are now."""
        return BudgetSelectors(self._scheduler.client.list(PodDisruptionBudget)[0])


def _not_ready(unready: dict[str, list[Pod]], budgets: list[PodDisruptionBudget]) -> str:
    """Return which pods of the budget that keeps a pod are not ready, as the end of a sentence; "" for
    none."""
    pods = unready.get(budgets[0].key, ()) if len(budgets) == 1 else ()
    return f"; not ready: {examples([pod.key for pod in pods], 3)}" if pods else ""


class _Predecessors:
    """Finds the pods in whose place others come: those of the same name, or else of the same controller."""

    def __init__(self, pods: Iterable[Pod]) -> None:
        self._left = {pod.metadata.uid: pod for pod in pods}

    def take(self, new: Pod) -> Pod | None:
        """Return the pod in whose place one comes, once; None if there is none."""
        owner = controller_of(new)
        same = [old for old in self._left.values() if old.key == new.key]
        same += [old for old in self._left.values() if owner is not None and controller_of(old) == owner]
        return self._left.pop(same[0].metadata.uid) if same else None


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

    def __init__(self, scheduler: ChangingScheduler, mover: Mover) -> None:
        self._scheduler, self._mover, self._tries = scheduler, mover, 0

    def move(self, pod: Pod, node: str) -> Moved:
        """Move a pod, after others if need be: all of them, or none.

        Parameters
        ----------
        node : str
            Is unschedulable, as a node is that a pod leaves for this one.
        """
        with self._scheduler.transaction() as transaction:
            self._tries += 1
            moved = self._mover.move(pod, node)
            if not moved.blockers:
                transaction.commit()
                return moved
        if not any(blocker.lasts for blocker in moved.blockers):
            for other, smaller in self._rooms(pod):
                with self._scheduler.transaction() as transaction:
                    moves = self._after(pod, node, other, smaller)
                    if moves:
                        transaction.commit()
                        return Moved(moves, [], Counter())
        return moved

    def _after(self, pod: Pod, node: str, other: str, smaller: list[Pod]) -> list[Move]:
        """Move a pod to another node, or elsewhere, after smaller ones have left that node; return no moves
        where one of them has no place."""
        moves = list[Move]()
        self._scheduler.change.cordon([other])
        for leaving in smaller:
            moved = self.move(leaving, other)
            if moved.blockers:
                return []
            moves += moved.moves
        self._scheduler.change.uncordon([other])
        last = self._mover.move(pod, node)
        return [] if last.blockers else [*moves, *last.moves]

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
        table, leaving, budgets = self._scheduler.table, list[Pod](), self._mover.selectors()
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
            if any(own.get(name) for name in lacking) and self._mover.may_leave(pod, budgets):
                leaving.append(pod)
                lacking = {name: n - own.get(name, 0) for name, n in lacking.items() if n > own.get(name, 0)}
            if not lacking:
                return leaving
        return []
