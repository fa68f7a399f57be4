"""Plans that empty nodes: drain_plan and defragment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, product
from math import inf
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import UNSET, Meta, UnsetType

from moorage.autoscalers.group_settings import NodeGroup
from moorage.autoscalers.hourly_cost import HourlyCost
from moorage.autoscalers.providers.pool_types import Types
from moorage.cluster import ChangingScheduler, PodScheduler
from moorage.cluster.amounts import compared
from moorage.cluster.helpful_changes import HelpfulChange
from moorage.cluster.references import select_nodes
from moorage.controllers.api_server import admission_of
from moorage.document import Amount, Count, Document
from moorage.errors import InputError, examples, number_of
from moorage.kube import Object
from moorage.kube.admission.request import RefusedError
from moorage.kube.model.event import NodeEvent
from moorage.kube.model.node import Node
from moorage.kube.model.pod import Pod
from moorage.kube.model.workload import ControllerRevision
from moorage.kube.workloads.missing_pods import MAKERS, MadeOf
from moorage.lazy import NamedTuple
from moorage.store import ObjectClient
from moorage.table import Table, Tabular

from .asked_pods import checked_needs, free_amounts
from .drain_blockers import with_changes
from .nodes.node_room import Room
from .nodes.paid_room import node_prices, price_fields
from .pod_moves import Blocker, Move, Moved, Mover, RoomMaker, must_move

FOUND, IMPOSSIBLE, NOT_FOUND = "found", "impossible", "not found"
PlanStatus = Annotated[str, Meta(extra_json_schema={"enum": [FOUND, IMPOSSIBLE, NOT_FOUND]})]
ELSEWHERE = "{}: {} requested by pods that must move, {} free on the other nodes"
LARGEST = (
    "{}: {} requested by pods that must be on a node, {} allocatable (or requested, where that is more) on "
    "the {} largest nodes"
)
FREE = "{}: {} wanted on one node, {} free on all nodes together"
SIZE = "{}: {} wanted on one node, no schedulable node has more than {}"


class EmptyingPlanDocument(Document, frozen=True, kw_only=True):
    """The answer of ``moorage plan drain`` and ``plan defragment``."""

    api_version: Literal["plan.moorage.dev/v1"] = "plan.moorage.dev/v1"
    kind: Literal["EmptyingPlan"] = "EmptyingPlan"
    status: PlanStatus
    nodes: tuple[str, ...]
    """Emptied nodes, in order."""
    moves: tuple[Move, ...]
    blockers: tuple[Blocker, ...]
    proof: str | UnsetType = UNSET
    """Why no answer exists; only with impossible."""
    changes: tuple[str, ...] = ()
    """What would let all nodes be drained, each tried alone."""
    drained_alone: int = 0
    """How many nodes were drained, each without the others; 0 where nodes are emptied together."""
    price: Amount | UnsetType = UNSET
    """What the emptied nodes cost per hour at most, where that is known of some."""
    unpriced: Count = 0
    """How many of them have no known price, where some have one."""
    least: Amount | UnsetType = UNSET
    """Where price is a bound, as a spot price is not known: what they cost at least."""


class NodeReport(Document, frozen=True, kw_only=True):
    """The answer of ``moorage explain node/NAME`` about a node that no autoscaler removes."""

    api_version: Literal["explain.moorage.dev/v1"] = "explain.moorage.dev/v1"
    kind: Literal["NodeReport"] = "NodeReport"
    room: Room
    """Of the node, with all workloads that hold it."""
    status: PlanStatus
    """What a drain of the node alone comes to."""
    moves: tuple[Move, ...]
    """Of the drain."""
    blockers: tuple[Blocker, ...]
    proof: str | UnsetType = UNSET
    """Why it cannot be drained; only with impossible."""
    changes: tuple[str, ...] = ()
    """What would let it be drained, each tried alone."""
    events: tuple[NodeEvent, ...] = ()
    """That the input has, the newest first."""


@dataclass(frozen=True, repr=False)
class EmptyingPlan(Tabular):
    """A plan that empties nodes: in the given order, pod by pod.

    The nodes of the plan are to be cordoned before its first move, and drained in order; another node that a
    pod leaves is to be cordoned while it moves.

    Attributes
    ----------
    status : str
        "found"; "impossible", where `proof` says why no plan exists; or "not found": the search is greedy, so
        there may be one.
    nodes : tuple of str
        The emptied nodes, in order, those that were empty already included. With "impossible" and "not
        found": those that can be emptied nevertheless.
    moves : tuple of Move
        In order; also those of pods that are evicted for others.
    blockers : tuple of Blocker
        Pods that prevent other nodes from being emptied.
    proof : str
        One sentence; "" unless `status` is "impossible".
    resource : str
        The devices that are free on the nodes, whose other pods stay; "" where whole nodes are emptied.
    changes : tuple of HelpfulChange
        Each lets all nodes be drained; what lets single pods go, `blockers` has.
    drained_alone : int
        How many nodes were drained, each without the others and with none of `moves`; 0 where nodes are
        emptied together.
    price, least : float or UNSET
        What the emptied nodes cost per hour at most, where a command asks for it, and it is known of some;
        and at least, where that is less.
    unpriced : int
        How many have no known price, where some have one.
    notes : tuple of str
        Where prices are from, and why pods stay that no change lets go.
    """

    status: str
    nodes: tuple[str, ...]
    moves: tuple[Move, ...]
    blockers: tuple[Blocker, ...] = ()
    proof: str = ""
    resource: str = ""
    changes: tuple[HelpfulChange, ...] = ()
    drained_alone: int = 0
    price: float | UnsetType = UNSET
    least: float | UnsetType = UNSET
    unpriced: int = 0
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.status == FOUND

    def headline(self) -> str:
        """Return the status and numbers in one line."""
        nodes = number_of(len(self.nodes), "node", "nodes")
        moves = number_of(len(self.moves), "move", "moves")
        counts = f"{self.status}: {nodes}, {moves}"
        if self.drained_alone:
            number = len(self.nodes)
            counts = f"{number} of {self.drained_alone} nodes can be drained, each alone"
        if self.price is not UNSET:
            price = HourlyCost.of(self.least, self.price)
            counts += f"; {price.text()} less without {'it' if len(self.nodes) == 1 else 'them'}"
            counts += f", of {self.unpriced} the price is unknown" if self.unpriced else ""
        return "; ".join(filter(None, (counts, self.obstacle())))

    def with_prices(
        self, client: ObjectClient, types: Types | None, groups: Sequence[NodeGroup] = ()
    ) -> EmptyingPlan:
        """Return the plan with what its nodes cost; see `node_prices`."""
        if self.drained_alone or not self.nodes:
            return self
        nodes = [client.get(Node, name) for name in self.nodes]
        price_of, notes = node_prices(client, types, groups, nodes)
        known = [price for price in map(price_of, nodes) if price.is_known]
        fields = {key: value for key, value in price_fields(known, len(nodes)).items() if value is not UNSET}
        return replace(self, notes=(*self.notes, *notes), **fields) if known else self

    def obstacle(self) -> str:
        """Return what prevents nodes from being emptied in one line; "" where nothing does."""
        if self or not (self.proof or self.blockers):
            return ""
        more = len(self.blockers) - 1
        others = f" (and {number_of(more, 'more pod', 'more pods')})" if more > 0 else ""
        return f"{self.proof or self.blockers[0].text}{others}"

    def table(self, limit: int | None = None) -> Table:
        """Return one row for each move.

        Parameters
        ----------
        limit : int, optional
            Number of rows, from the first on; by default all.

        Returns
        -------
        Table
            Columns pod, source, target.
        """
        moves = self.moves[:limit]
        columns = ("pod", "source", "target")
        return Table({name: [getattr(move, name) for move in moves] for name in columns})

    def document(self) -> EmptyingPlanDocument:
        """Return the answer of ``moorage plan drain`` or ``plan defragment``."""
        return EmptyingPlanDocument.from_object(self, changes=tuple([change.text for change in self.changes]))


# ---- one node ----------------------------------------------------------------------------------------------


def _drained(scheduler: ChangingScheduler, mover: Mover, node: str, most: float = inf) -> Moved | None:
    """Drain a node, if nothing stays there and every pod has a place then; None where that takes more than
    `most` moves."""
    with scheduler.transaction() as transaction:
        moved = mover.drain(node)
        if moved.blockers:
            return moved
        if len(moved.moves) > most:
            return None
        transaction.commit()
    return moved


def _move_all(
    scheduler: ChangingScheduler, node: str, pods: list[Pod], most: float, maker: Mover | RoomMaker
) -> Moved | None:
    """Move pods away from a node, by at most `most` moves, those that make room included: all of them, or
    none; None where there are too many."""
    if len(pods) > most:
        return None
    moves = list[Move]()
    with scheduler.transaction() as transaction:
        scheduler.change.cordon([node])
        for pod in pods:
            moved = maker.move(pod, node)
            if moved.blockers:
                return moved
            moves += moved.moves
            if len(moves) > most:
                return None
        transaction.commit()
    return Moved(moves, [], Counter())


# ---- given nodes -------------------------------------------------------------------------------------------


class Beginning(NamedTuple):
    """How the cluster of a drain came about.

    Attributes
    ----------
    make : callable
        Returns it as it was before pods were placed and nodes came: what helps is changed there.
    lead : callable
        Does what comes before the drain.
    """

    make: Callable[[], ChangingScheduler]
    lead: Callable[[Any], object]


def drain_plan(
    scheduler: ChangingScheduler,
    nodes: str | int | Sequence[str] | None,
    force: bool,
    progress: Callable[[int, int], object],
    begun: Beginning | None = None,
) -> EmptyingPlan:
    """Return an order in which nodes can be emptied; see `Questions.drain_plan`.

    Parameters
    ----------
    begun : Beginning, optional
        Where the changes that help begin; by default with the cluster as it is.
    """
    scheduler.sync()
    if isinstance(nodes, int) and not isinstance(nodes, bool):
        return _empty_some(scheduler, nodes, float("inf"), force, makes_room=False)
    alone = nodes is None
    selected = scheduler.context.view_order() if nodes is None else _selected(scheduler, nodes)

    def planned(scheduler: ChangingScheduler, names: Collection[str], force: bool) -> EmptyingPlan:
        plan = _drain_each if alone else _drain
        with scheduler.transaction():
            mover = Mover(scheduler, force, empties=False)
            return plan(scheduler, mover, [name for name in selected if name in names], progress)

    plan = planned(scheduler, selected, force)
    if plan:
        back = [move.pod for move in plan.moves if move.target in plan.nodes]
        pods = number_of(len(back), "pod tolerates", "pods tolerate")
        note = f"{pods} unschedulable nodes, and is placed on a drained one: {examples(back, 3)}."
        return replace(plan, notes=(note,)) if back else plan

    def again(changed: ChangingScheduler, names: Collection[str], force: bool) -> Sequence[Blocker]:
        if begun is not None:
            begun.lead(changed)
        return planned(changed, names if alone else selected, force).blockers

    make = (lambda: scheduler) if begun is None else begun.make
    blockers, changes, notes = with_changes(scheduler, make, plan.blockers, again, force, alone)
    return replace(plan, blockers=blockers, changes=changes, notes=notes)


def _drain(
    scheduler: ChangingScheduler,
    mover: Mover,
    selected: list[str],
    progress: Callable[[int, int], object] = lambda ended, of: None,
) -> EmptyingPlan:
    """Empty nodes that are cordoned together, those with few pods first, as long as one of them can be
    emptied."""
    scheduler.change.cordon(selected)
    left = sorted(selected, key=lambda name: len(mover.movable(name)))
    order: list[str] = []
    moves: list[Move] = []
    tried: dict[str, Moved] = {}
    while left:
        before = len(order)
        for at, node in enumerate(left):
            progress(at, len(left))
            if (moved := _drained(scheduler, mover, node)) is not None:
                tried[node] = moved
                order += [] if moved.blockers else [node]
                moves += [] if moved.blockers else moved.moves
        left = [node for node in left if node not in order]
        if len(order) == before:
            break
    remaining = tuple(chain.from_iterable(tried[node].blockers for node in left))
    proof = _lack_elsewhere(scheduler, sum((tried[node].needs for node in left), Counter[str]()))
    status, proof = _status(remaining, proof)
    return EmptyingPlan(status, tuple(order), tuple(moves), remaining, proof)


def _drain_each(
    scheduler: ChangingScheduler, mover: Mover, selected: list[str], progress: Callable[[int, int], object]
) -> EmptyingPlan:
    """Empty each node alone."""
    blockers: dict[str, list[Blocker]] = {}
    for at, node in enumerate(selected):
        progress(at, len(selected))
        with scheduler.transaction():
            blockers[node] = mover.drain(node).blockers
    remaining = tuple(chain.from_iterable(blockers.values()))
    order = tuple([node for node, own in blockers.items() if not own])
    status, proof = _status(remaining)
    return EmptyingPlan(status, order, (), remaining, proof, drained_alone=len(selected))


def _status(blockers: Sequence[Blocker], proof: str = "") -> tuple[str, str]:
    """Return what a drain comes to, and the proof where there is no answer."""
    if not blockers:
        return FOUND, ""
    lasting = next((blocker.text for blocker in blockers if blocker.lasts), "")
    return (IMPOSSIBLE, lasting or proof) if lasting or proof else (NOT_FOUND, "")


def _selected(scheduler: PodScheduler, nodes: str | int | Sequence[str]) -> list[str]:
    """Return the names of nodes that are named or selected by labels, in list order."""
    order = scheduler.context.view_order()
    if not isinstance(nodes, Sequence) or not all(isinstance(name, str) for name in nodes):
        raise InputError("drain_plan: give a label selector, a number of nodes, or names of nodes")
    wanted = {node.name for node in select_nodes(scheduler.client, nodes)}
    if not wanted:
        raise InputError("drain_plan: give at least one node")
    return [name for name in order if name in wanted]


def _lack_elsewhere(scheduler: PodScheduler, needs: Mapping[str, int]) -> str:
    """Return a proof that the schedulable nodes have not enough free for what pods request, or ""."""
    others = _schedulable(scheduler)
    for name, need in needs.items():
        free = int(free_amounts(scheduler, name)[others].sum())
        if need > free:
            return ELSEWHERE.format(name, *compared(name, need, free))
    return ""


def _schedulable(scheduler: PodScheduler) -> list[int]:
    """Return the rows of the nodes that are not cordoned, in list order."""
    objects = scheduler.table.objects
    rows = scheduler.context.view_rows().tolist()
    return [row for row in rows if (node := objects[row]) is not None and not node.spec.unschedulable]


# ---- some nodes --------------------------------------------------------------------------------------------


def most_emptied(scheduler: ChangingScheduler) -> EmptyingPlan:
    """Return as many nodes as can be emptied one after the other, those with few pods first."""
    scheduler.sync()
    return _empty_some(scheduler, None, inf, force=False, makes_room=False)


def _empty_some(
    scheduler: ChangingScheduler, count: int | None, most: float, force: bool, makes_room: bool
) -> EmptyingPlan:
    """Empty a number of nodes, None for all that can be, by at most `most` moves, those with few pods first;
    at last by moves between other nodes, too."""
    order: list[str] = []
    moves: list[Move] = []
    blockers: dict[str, list[Blocker]] = {}
    rows = _schedulable(scheduler)
    if count is not None and not 1 <= count <= len(rows):
        bounds = f"from 1 to {len(rows)}, the number of schedulable nodes"
        raise InputError(f"the number of nodes to empty must be {bounds}, not {count}")
    with scheduler.transaction():
        mover = Mover(scheduler, force)
        proof = "" if count is None else _lack_on_largest(scheduler, rows, count)
        makers = (None, RoomMaker(scheduler, mover)) if makes_room else (None,)
        for maker, node in [] if proof else product(makers, [*_by_load(scheduler, rows)]):
            if len(order) == count:
                break
            if node in order:
                continue
            left = most - len(moves)
            if maker is None:
                moved = _drained(scheduler, mover, node, left)
            else:
                moved = _move_all(scheduler, node, mover.movable(node), left, maker)
            if moved is not None and moved.blockers:
                blockers[node] = moved.blockers
            elif moved is not None:
                order.append(node)
                moves += moved.moves
    if len(order) == count or count is None:
        plan = EmptyingPlan(FOUND, tuple(order), tuple(moves))
        if any(move.target in order for move in moves):  # else no pod moves onto a node that is emptied later
            with scheduler.transaction():
                together = _drain(scheduler, Mover(scheduler, force), order)
            plan = together if together and len(together.moves) < len(moves) else plan
        return plan
    stay = tuple(chain.from_iterable(own for node, own in blockers.items() if node not in order))
    status = IMPOSSIBLE if proof else NOT_FOUND
    return EmptyingPlan(status, tuple(order), tuple(moves), stay, proof)


def _by_load(scheduler: PodScheduler, rows: list[int]) -> Iterator[str]:
    """Yield nodes by their number of pods, then by requested cpu and memory, then in list order."""
    table = scheduler.table
    columns = [table.column("requested", name)[rows] for name in ("memory", "cpu", "pods")]
    for at in np.lexsort((np.arange(len(rows)), *columns)).tolist():
        yield table.row_name(rows[at])


def _lack_on_largest(scheduler: PodScheduler, rows: list[int], count: int) -> str:
    """Return a proof that the pods that must be somewhere do not fit on all but `count` nodes, or ""."""
    table, left = scheduler.table, len(rows) - count
    names = ("cpu", "memory", *(name for name in table.resources if name not in ("cpu", "memory")))
    room = {}
    for name in names:  # a node that is overcommitted may keep its pods
        most = np.maximum(table.column("allocatable", name)[rows], table.column("requested", name)[rows])
        room[name] = int(np.sort(most)[-left or len(rows) :].sum())
    short = [name for name in names if int(table.column("requested", name)[rows].sum()) > room[name]]
    if not short:
        return ""
    needs: Counter[str] = Counter()
    kinds: tuple[type[Object], ...] = (*MAKERS, ControllerRevision)
    made_of = MadeOf(obj for kind in kinds for obj in scheduler.client.list(kind)[0])
    admission = admission_of(scheduler.client)
    for row in rows:
        for pod in scheduler.cache.state.pods_of(row):
            if must_move(pod):
                own = again = checked_needs(scheduler, pod)
                if (new := made_of.pod_like(pod)) is not None:
                    with suppress(RefusedError):
                        again = checked_needs(scheduler, admission.admit_uncharged(new))
                needs.update({name: min(need, again.get(name, 0)) for name, need in own.items()})
    for name in short:
        if needs[name] > room[name]:
            return LARGEST.format(name, *compared(name, needs[name], room[name]), left)
    return ""


# ---- defragmentation ---------------------------------------------------------------------------------------


def defragment(
    scheduler: ChangingScheduler,
    nodes: int | None,
    gpus: int | None,
    resource: str,
    max_moves: int | None,
    force: bool,
) -> EmptyingPlan:
    """Return moves that free whole nodes or devices; see `Questions.defragment`."""
    if (nodes is None) == (gpus is None):
        raise InputError("defragment: give either nodes or gpus")
    if max_moves is not None and max_moves < 0:
        raise InputError(f"max_moves must be a whole number of at least 0, not {max_moves}")
    scheduler.sync()
    most = float("inf") if max_moves is None else float(max_moves)
    if nodes is not None:
        return _empty_some(scheduler, nodes, most, force, makes_room=True)
    assert gpus is not None
    if gpus < 1:
        raise InputError(f"gpus must be a positive whole number, not {gpus}")
    return _free_devices(scheduler, resource, gpus, most, force)


def _free_devices(
    scheduler: ChangingScheduler, resource: str, wanted: int, most: float, force: bool
) -> EmptyingPlan:
    """Free devices of one node by few moves."""
    rows, free = _schedulable(scheduler), free_amounts(scheduler, resource)
    sizes = scheduler.table.column("allocatable", resource)
    total = int(free[rows].sum())
    largest = int(max((sizes[row] for row in rows), default=0))
    if largest < wanted:
        return EmptyingPlan(IMPOSSIBLE, (), (), (), SIZE.format(resource, wanted, largest))
    if total < wanted:
        return EmptyingPlan(IMPOSSIBLE, (), (), (), FREE.format(resource, wanted, total))
    blockers = dict[str, list[Blocker]]()
    with scheduler.transaction():
        mover = Mover(scheduler, force)
        choices = [
            (len(users), str(scheduler.table.row_name(row)), users)
            for row in rows
            if sizes[row] >= wanted
            for users in _users(scheduler, mover, row, resource, wanted - int(free[row]))
        ]
        choices.sort(key=lambda each: each[0])  # stable: in list order
        makers: tuple[Mover | RoomMaker, ...] = mover, RoomMaker(scheduler, mover)
        for maker, (_, name, users) in product(makers, choices):
            moved = _move_all(scheduler, name, users, most, maker)
            if moved is not None and moved.blockers:
                blockers.setdefault(name, moved.blockers)
            elif moved is not None:
                return EmptyingPlan(FOUND, (name,), tuple(moved.moves), resource=resource)
    return EmptyingPlan(NOT_FOUND, (), (), tuple(chain.from_iterable(blockers.values())))


def _users(
    scheduler: ChangingScheduler, mover: Mover, row: int, resource: str, need: int
) -> Iterator[list[Pod]]:
    """Yield pods on a row that together use so many devices: few of them, and small ones."""
    shapes, budgets = scheduler.cache.state.classes, mover.selectors()
    uses = [
        (use, pod)
        for pod in mover.movable(str(scheduler.table.row_name(row)))
        if (use := shapes.shape_of(shapes.intern(pod)).needs.get(resource, 0))
        and mover.may_leave(pod, budgets)
    ]
    largest = sorted(uses, key=lambda each: -each[0])
    for order in (largest, largest[::-1]):
        chosen, left = list[tuple[int, Pod]](), need
        for use, pod in order:
            if left > 0:
                chosen.append((use, pod))
                left -= use
        if left <= 0:
            for node in [*chosen]:  # without those that the others make superfluous
                if left + node[0] <= 0:
                    chosen.remove(node)
                    left += node[0]
            yield [pod for _, pod in sorted(chosen, key=lambda each: -each[0])]
