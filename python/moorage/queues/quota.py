"""Quota in trees of cohorts (Kueue v0.17, pkg/cache/scheduler: resource_node.go, fair_sharing.go).

A node is a cluster queue or a cohort. For each resource of a flavor it has a cell, which knows the cell of
its parent: what a node can use is found by going up, and what it uses is carried up as far as it is not its
own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from math import inf
from typing import Any

from moorage._core.base.quantity import parse
from moorage.kube.model.kueue import FairSharing, ResourceGroup
from moorage.lazy import NamedTuple

from .whole_amounts import Amounts, FlavorResource, amount


class Undo(list[tuple[Any, Any]]):
    """What has a usage, with the usage that it had: cells here, leaves of a topology elsewhere.

    As a context it restores these usages at the end.
    """

    def __enter__(self) -> Undo:
        return self

    def __exit__(self, *_: object) -> None:
        for holder, usage in reversed(self):
            holder.usage = usage
        self.clear()


class QuotaCell:
    """A resource of a flavor at a node.

    Attributes
    ----------
    nominal : int
        The node's own quota.
    subtree : int
        The quota with what its children lend.
    local : int
        The part of it that only its own subtree can use.
    usage : int
        Of a queue what it uses, of a cohort what its children use beyond what is their own.
    is_given : bool
        Whether the node or one below it has a quota for it, be it 0.
    """

    __slots__ = (
        "_most",
        "borrowing",
        "is_given",
        "lending",
        "local",
        "nominal",
        "parent",
        "subtree",
        "usage",
    )

    def __init__(self, parent: QuotaCell | None) -> None:
        self.parent = parent
        self.nominal = self.subtree = self.local = self.usage = 0
        self.borrowing: int | None = None
        self.lending: int | None = None
        self.is_given = False
        self._most: int | None = None

    def available(self) -> int:
        """Return what can be used now; below 0 where more is used than there is."""
        cell, own, most = self, 0, None
        while cell.parent is not None:
            left = cell.local - cell.usage
            if left > 0:
                own += left
            if cell.borrowing is not None:
                bound = own + cell.subtree - cell.local + min(left, 0) + cell.borrowing
                most = bound if most is None else min(most, bound)
            cell = cell.parent
        from_root = own + cell.subtree - cell.usage
        return from_root if most is None else min(most, from_root)

    def potential(self) -> int:
        """Return what could be used if nothing were."""
        if self._most is None:
            if self.parent is None:
                self._most = self.subtree
            else:
                self._most = self.local + self.parent.potential()
                if self.borrowing is not None:
                    self._most = min(self._most, self.subtree + self.borrowing)
        return self._most

    def local_available(self) -> int:
        """Return how much of what is its own is not used."""
        return self.local - self.usage if self.local > self.usage else 0

    def borrows_with(self, value: int) -> bool:
        """Whether its usage and more would exceed its quota."""
        return self.usage + value > self.subtree

    def add(self, value: int, changes: Undo) -> None:
        """Add to the usage, and to that of the cells above what is not local."""
        cell: QuotaCell | None = self
        while cell is not None:
            changes.append((cell, cell.usage))
            beyond = value - cell.local_available()
            cell.usage += value
            if beyond <= 0:
                return
            cell, value = cell.parent, beyond

    def remove(self, value: int, changes: Undo) -> None:
        """Remove from the usage, and from that of the cells above what was not local."""
        cell: QuotaCell | None = self
        while cell is not None:
            changes.append((cell, cell.usage))
            stored = cell.usage - cell.local
            cell.usage -= value
            if stored <= 0:
                return
            cell, value = cell.parent, min(value, stored)


class Share(NamedTuple):
    """How much a node borrows, as fair sharing compares it.

    Attributes
    ----------
    ratio : float
        Of a thousand of what could be lent to it, of its dominant resource.
    borrowed : frozenset of (str, str)
        What it borrows.
    """

    weight: float = 1.0
    ratio: float = 0.0
    borrowed: frozenset[FlavorResource] = frozenset()

    def weighted(self) -> float:
        """The ratio by the weight; infinite if a node without weight borrows."""
        if not self.ratio:
            return 0.0
        return self.ratio / self.weight if self.weight else inf

    def order(self) -> tuple[bool, float]:
        """What is smaller for who should get more."""
        without_weight = not self.weight and bool(self.ratio)
        return without_weight, self.ratio if without_weight else self.weighted()


NO_SHARE = Share(ratio=-1.0)
"""Less than any."""


class Node:
    """A cluster queue or a cohort in its tree.

    Attributes
    ----------
    path : tuple of Node
        The cohorts above, from the parent to the root.
    root : Node
        The node at the top of the tree.
    cohorts, queues : list of Node
        Its children by name; queues that are not active count their quotas and usage, but are not there.
    height : int
        How far its deepest child is away.
    known : dict
        Of the node at the top: what was found of the tree, until something is used or released for good.
    """

    def __init__(self, name: str, parent: Node | None) -> None:
        self.name = name
        self.parent = parent
        self.path: tuple[Node, ...] = () if parent is None else (parent, *parent.path)
        self.root: Node = self if parent is None else parent.root
        self.cells: dict[FlavorResource, QuotaCell] = {}
        self.weight = 1.0
        self.cohorts: list[Node] = []
        self.queues: list[Node] = []
        self.height = 0
        self.known: dict[Hashable, Any] = {}
        self._lendable: Amounts | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def cell(self, resource: FlavorResource) -> QuotaCell:
        """Return the cell of a resource; without quota where none is set."""
        cell = self.cells.get(resource)
        if cell is None:
            cell = self.cells[resource] = QuotaCell(self.parent.cell(resource) if self.parent else None)
        return cell

    def set_quotas(self, groups: Iterable[ResourceGroup], fair_sharing: FairSharing) -> None:
        """Give the node its own quotas and weight."""
        for group in groups:
            for flavor in group.flavors:
                for quota in flavor.resources:
                    cell = self.cell((flavor.name, quota.name))
                    cell.nominal = amount(quota.name, quota.nominal_quota)
                    if quota.borrowing_limit is not None:
                        cell.borrowing = amount(quota.name, quota.borrowing_limit)
                    if quota.lending_limit is not None:
                        cell.lending = amount(quota.name, quota.lending_limit)
                    at: QuotaCell | None = cell
                    while at is not None:
                        at.is_given, at = True, at.parent
        if fair_sharing.weight is not None:
            self.weight = parse(fair_sharing.weight).nanos() / 10**9

    def lend_upwards(self) -> None:
        """Settle what the node has, when all nodes below it have settled it, and lend it to the parent."""
        for cell in self.cells.values():
            cell.subtree += cell.nominal
            cell.local = 0 if cell.lending is None else max(0, cell.subtree - cell.lending)
            if cell.parent is not None:
                cell.parent.subtree += cell.subtree - cell.local

    def is_within_quota(self, resources: Iterable[FlavorResource]) -> bool:
        """Whether no resource of some is used beyond the quota."""
        cells = self.cells
        return all(cell.usage <= cell.subtree for each in resources if (cell := cells.get(each)) is not None)

    def share(self) -> Share:
        """Return how much the node borrows from its parent, by weight."""
        used = {key: cell.usage - cell.subtree for key, cell in self.cells.items() if cell.is_given}
        over = {key: value for key, value in used.items() if value > 0}
        if self.parent is None or not over:
            return Share(self.weight)
        borrowed = Counter[str]()
        for (_, resource), value in over.items():
            borrowed[resource] += value
        lendable = self.parent.lendable()
        ratios = [
            float(value) * 1000.0 / float(lendable[resource])
            for resource, value in borrowed.items()
            if lendable.get(resource, 0) > 0
        ]
        return Share(self.weight, max(ratios, default=0.0), frozenset(over))

    def lendable(self) -> Amounts:
        """Return how much of each resource a cohort could ever give, over all flavors."""
        if self._lendable is None:
            self._lendable = {}
            for key, cell in self.root.cells.items():
                if cell.is_given:
                    potential = self.cell(key).potential()
                    self._lendable[key[1]] = self._lendable.get(key[1], 0) + potential
        return self._lendable

    def lowest_fit(self, key: FlavorResource, value: int) -> tuple[int, bool]:
        """Return the height of the lowest node on the way up in whose quota a value still fits, that of the
        root if there is none; and whether it is below the root."""
        cell = self.cells.get(key) or self.cell(key)
        if self.parent is None or cell.usage + value <= cell.subtree:
            return 0, self.parent is not None
        node: Node | None = self
        while node is not None and cell.parent is not None:
            value -= cell.local_available()
            cell, node = cell.parent, node.parent
            if node is not None and cell.usage + value <= cell.subtree:
                return node.height, node.parent is not None
        return self.root.height, False


def fit_in_quota(
    node: Node, requests: Mapping[FlavorResource, int]
) -> tuple[bool, dict[FlavorResource, int]]:
    """Return whether requests fit into what a node has left of its quota, and what of them is not local."""
    cells = {key: node.cell(key) for key in requests}
    fits = not any(cells[key].borrows_with(value) for key, value in requests.items())
    return fits, {key: max(0, value - cells[key].local_available()) for key, value in requests.items()}
