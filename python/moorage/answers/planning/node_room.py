"""Room on nodes: what is allocatable, requested and free, and who holds it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from moorage.cluster import PodScheduler
from moorage.kube.model.node import Node
from moorage.kube.model.workload import Job, ReplicaSet
from moorage.kube.workloads.top_controller import Workload, Workloads

from .node_groups import common_value, grouped_rows

FIRST = ("cpu", "memory")
PODS = "pods"
HOLDERS = 3
NO_LABEL, EMPTY = "(none)", "(empty)"


class Holder(Struct, frozen=True):
    """A workload that holds room on nodes.

    Attributes
    ----------
    namespace : str
    workload : str
        Such as ``deployment/web``.
    pods : int
        How many of its pods are there.
    requested : dict of str to int
        What they request, by resource: cpu in millicores, others in their own units.
    """

    namespace: str
    workload: str
    pods: int
    requested: dict[str, int]


class Room(Struct, frozen=True):
    """The room on a node, or on the nodes with one value of a label.

    Attributes
    ----------
    name : str
        Of the node, or the value of the label: "(none)" for the nodes without it, "(empty)" for an empty one.
    nodes : int
    zone, pool : str
        That of all its nodes; "" where they differ, or have none.
    schedulable : int
        How many of the nodes are not cordoned.
    allocatable, requested, free : dict of str to int
        By resource: cpu in millicores, others in their own units. pods, cpu and memory are always there, even
        if no node has any yet. Free is the sum over the nodes, of which none has less than 0.
    largest : dict of str to int
        The requests of the largest pod that still fits: what is free on the schedulable node with room for a
        pod that has the largest part of its cpu and memory together to spare. Empty where no pod fits.
    taints : tuple of str
        ``KEY=VALUE:EFFECT``, of any of the nodes.
    holders : tuple of Holder
        The workloads there, those with the largest share of a resource first.
    """

    name: str
    nodes: int
    zone: str
    pool: str
    schedulable: int
    allocatable: dict[str, int]
    requested: dict[str, int]
    free: dict[str, int]
    largest: dict[str, int]
    taints: tuple[str, ...]
    holders: tuple[Holder, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the room as a JSON value."""
        holders = [asdict(holder) for holder in self.holders]
        return asdict(self) | {"taints": list(self.taints), "holders": holders}


def node_room(scheduler: PodScheduler, names: Sequence[str] | None = None, by: str = "") -> list[Room]:
    """Return the room on nodes; see `Scheduler.node_room`."""
    scheduler.sync()
    rows: list[int] = scheduler.context.view_rows().tolist()
    if names is not None:
        wanted = {scheduler.cache.state.find_row(name) for name in names}
        rows = [row for row in rows if row in wanted]
    groups = {str(scheduler.table.row_name(row)): [row] for row in rows}
    if by:
        kept = set(rows)
        every = grouped_rows(scheduler, by)[1]
        listed = [(name or EMPTY, every[name]) for name in sorted(every)]
        labelled = {row for its in every.values() for row in its}
        listed.append((NO_LABEL, [row for row in rows if row not in labelled]))
        groups = {name: its for name, of_value in listed if (its := [row for row in of_value if row in kept])}
    return _Rooms(scheduler, HOLDERS if names is None else None).of(groups)


class _Rooms:
    """The columns of a node table, and the workloads of its pods."""

    def __init__(self, scheduler: PodScheduler, most: int | None) -> None:
        self.scheduler, self.most, table = scheduler, most, scheduler.table
        self.allocatable = {name: table.column("allocatable", name) for name in table.allocatable}
        self.requested = {name: table.column("requested", name) for name in table.allocatable}
        self.zone, self.pool = common_value(scheduler, "zone"), common_value(scheduler, "pool")
        self.workloads = Workloads([*scheduler.client.list(ReplicaSet)[0], *scheduler.client.list(Job)[0]])

    def of(self, groups: dict[str, list[int]]) -> list[Room]:
        """Return the room on the rows of each group."""
        every = np.array([row for rows in groups.values() for row in rows], dtype=np.intp)
        used = [
            name
            for name, column in self.allocatable.items()
            if name == PODS or name in FIRST or (column[every] | self.requested[name][every]).any()
        ]
        used.sort(key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
        return [self._room(name, rows, used) for name, rows in groups.items()]

    def _room(self, name: str, rows: list[int], names: list[str]) -> Room:
        allocatable = {name: int(self.allocatable[name][rows].sum()) for name in names}
        requested = {name: int(self.requested[name][rows].sum()) for name in names}
        free = {name: sum(self._free(name, row) for row in rows) for name in names}
        nodes = [node for row in rows if (node := self.scheduler.table.objects[row]) is not None]
        taints = dict.fromkeys(taint for node in nodes for taint in _taints(node))
        schedulable = [row for row, node in zip(rows, nodes, strict=True) if not node.spec.unschedulable]
        largest = self._largest(schedulable, names)
        holders = self._holders(rows, allocatable)
        counts = len(rows), self.zone(rows), self.pool(rows), len(schedulable)
        sums = allocatable, requested, free
        return Room(name, *counts, *sums, largest, tuple(taints), holders)

    def _free(self, resource: str, row: int) -> int:
        return max(int(self.allocatable[resource][row]) - int(self.requested[resource][row]), 0)

    def _largest(self, rows: list[int], names: list[str]) -> dict[str, int]:
        """Return what is free on the node with the largest pod that fits; nothing where none does."""
        rows = [row for row in rows if self._free(PODS, row)]
        if not rows:
            return {}
        most = {name: max(self._free(name, row) for row in rows) or 1 for name in FIRST}
        best = max(rows, key=lambda row: min(self._free(name, row) / most[name] for name in FIRST))
        return {name: amount for name in names if name != PODS and (amount := self._free(name, best))}

    def _holders(self, rows: list[int], allocatable: dict[str, int]) -> tuple[Holder, ...]:
        """Return the workloads, those with the largest share of a resource first."""
        state = self.scheduler.cache.state
        pods, requested = Counter[Workload](), dict[Workload, Counter[str]]()
        for row in rows:
            for pod in state.pods_of(row):
                workload = self.workloads.of(pod)
                pods[workload] += 1
                needs = state.classes.shape_of(state.classes.intern(pod)).needs
                requested.setdefault(workload, Counter()).update(needs)

        def share(workload: Workload) -> float:
            needs = requested[workload].items()
            return max(
                (need / allocatable[name] for name, need in needs if allocatable.get(name)), default=0.0
            )

        first = sorted(pods, key=lambda one: -share(one))[: self.most]
        return tuple([Holder(one.namespace, one.text, pods[one], dict(requested[one])) for one in first])


def _taints(node: Node) -> list[str]:
    return [
        f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
        for taint in node.spec.taints
    ]
