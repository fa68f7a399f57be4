"""The room that nodes lack for the requests of a pod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from moorage._core.base.quantity import parse_milli, parse_value
from moorage.engine.framework import Plugin, Status
from moorage.engine.framework.plugin.amounts import readable
from moorage.engine.framework.plugin.evidence import Evidence, FindEvidence, Inquiry, Need, Rows
from moorage.engine.plugins.node_resources_fit import resource_of
from moorage.kube import Node

from .room_holders import Amounts, find_holders, quantities

NEAREST = 16
"""Maximum number of nodes of which it is said who holds their room: those that lack least."""


@dataclass(frozen=True)
class RoomEvidence(Evidence):
    """A resource of which nodes have too little left.

    Attributes
    ----------
    resource : str
    requested, least, most : int
        What the pod asks for, and the least and the most that is missing, in millicores, bytes, or the
        resource's own unit. Room for nominated pods does not count as free.
    allocatable : int or None
        Of each of the nodes; None where they differ.
    """

    kind = "resource"
    is_need = True
    resource: str
    requested: int
    least: int
    most: int
    allocatable: int | None = None

    @property
    def name(self) -> str:
        return self.resource

    @property
    def key(self) -> object:
        return self.kind, self.resource

    def merged(self, other: Self) -> Self:
        least, most = min(self.least, other.least), max(self.most, other.most)
        same = self.allocatable if self.allocatable == other.allocatable else None
        return replace(self, least=least, most=most, allocatable=same, nodes=self.nodes + other.nodes)

    @property
    def text(self) -> str:
        if self.resource == "pods":
            return self._pods()
        least, most = (readable(self.resource, amount) for amount in (self.least, self.most))
        return f"{least} more {self.resource}" if least == most else f"{least} to {most} more {self.resource}"

    def _pods(self) -> str:
        if self.allocatable is None:
            return "as many pods as the nodes may have"
        if not self.allocatable:
            return (
                "the nodes' allocatable has no pods"
                if self.nodes > 1
                else "the node's allocatable has no pods"
            )
        least, most = self.allocatable + self.least - 1, self.allocatable + self.most - 1
        number = f"{least}" if least == most else f"{least} to {most}"
        return f"{number} of {self.allocatable} pods"

    def facts(self) -> dict[str, Any]:
        return quantities(
            self.resource,
            requested=self.requested,
            least=self.least,
            most=self.most,
            allocatable=self.allocatable,
        )


def room_evidence(plugins: Mapping[str, Plugin], inquiry: Inquiry) -> FindEvidence:
    """Return the function that finds how much nodes lack of the resources that NodeResourcesFit names."""
    state = inquiry.search.state
    needs = {"pods": 1} | inquiry.state.shape.needs

    def find(rows: Rows, status: Status) -> Iterator[Evidence]:
        for resource in map(resource_of, status.reasons):
            amounts = Amounts(state.classes.gates, resource)
            allocatable = state.table.allocatable[resource][rows]
            missing = needs[resource] - allocatable + state.table.requested[resource][rows]
            if inquiry.search.has_nominated:
                kept = [sum(map(amounts.of, inquiry.nominated_on(row))) for row in rows]
                missing = missing + np.array(kept, dtype=np.int64)
            least, most = int(missing.min()), int(missing.max())
            same = int(allocatable[0]) if (allocatable == allocatable[0]).all() else None
            yield RoomEvidence(resource, needs[resource], least, most, same, nodes=len(rows))
            for at in np.argsort(missing, kind="stable")[:NEAREST].tolist():
                yield from _of_node(inquiry, amounts, int(rows[at]), int(allocatable[at]), int(missing[at]))
            own = amounts.own(inquiry.pod)
            if own is not None:
                yield replace(own, nodes=len(rows))

    return find


def _of_node(
    inquiry: Inquiry, amounts: Amounts, row: int, allocatable: int, missing: int
) -> Iterator[Evidence]:
    """Yield what a node does not give to pods, where the pod would have room with it (it is reserved, or
    devices are not healthy), and who holds its room."""
    node, resource = inquiry.node(row), amounts.resource
    capacity = _capacity(node, resource)
    if capacity - allocatable >= missing:
        values = quantities(resource, capacity=capacity, allocatable=allocatable)
        text = f"capacity {values['capacity']}, allocatable {values['allocatable']}"
        yield Need("capacity", resource, words=text, values=values)
    yield from find_holders(amounts, node.name, inquiry.pods_on(row), inquiry.nominated_on(row), missing)


def _capacity(node: Node, resource: str) -> int:
    """The capacity of a node, also what it does not give to pods."""
    capacity = node.status.capacity.get(resource, 0)
    return parse_milli(capacity) if resource == "cpu" else parse_value(capacity)
