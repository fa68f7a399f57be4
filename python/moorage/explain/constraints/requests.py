"""Requests of resources: how they are lowered or dropped, and how much nodes lack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Self

import numpy as np

from moorage._core.base.quantity import parse_milli, parse_value
from moorage.devices.allocation.claim_requests import MAX_RESULTS
from moorage.framework import Plugin, Status
from moorage.framework.plugin.amounts import offered, quantity_text, readable
from moorage.framework.plugin.evidence import Evidence, FindEvidence, Inquiry, Need, Rows
from moorage.objects import Node, Pod
from moorage.plugins.node_resources_fit import resource_of

from ..probe import Probe, largest
from .constraint import LOWER, Change, Constraint
from .lowering import Edit, drop_request, effective, lower
from .room_holders import Amounts, find_holders, quantities

NEAREST = 16
"""Maximum number of nodes of which it is said who holds their room: those that lack least."""


class Request(Constraint):
    """The request of a pod for a resource."""

    def remedies(self, probe: Probe) -> Iterator[Change]:
        """Yield the change to the largest request that fits some node."""
        resource, gates, table = self.name, probe.gates, probe.table
        rows = probe.feasible(self.drop(probe.pod))
        if not len(rows):
            return
        free = table.allocatable[resource][rows] - table.requested[resource][rows]
        before, after = effective(probe.pod, resource, gates), max(int(np.max(free)), 0)
        if probe.devices is not None and resource in probe.devices.resources:
            after = max(after, _most_devices(probe, resource, before))
        lowered = lower(probe.pod, resource, after, gates) if after < before else None
        if lowered is None:
            return
        pod, edits = lowered
        left = effective(pod, resource, gates)
        texts = quantity_text(resource, before), quantity_text(resource, left)

        def lower_alike(other: Pod) -> Pod:
            lowered = lower(other, resource, left, gates)
            return other if lowered is None else lowered[0]

        amount = float(Fraction(before - left, before))
        values = {
            "resource": resource,
            "from": texts[0],
            "to": texts[1],
            "reduction": round(amount, 6),
            "edits": [
                {"path": edit.path, "container": edit.container, "from": edit.before, "to": edit.after}
                for edit in edits
            ],
        }
        text = _lower_text(resource, edits, offered(resource, before), offered(resource, left))
        yield Change(LOWER, text, probe.count_feasible(pod), pod, lower_alike, amount, values)


def request_constraints(probe: Probe) -> Iterator[Constraint]:
    """Yield the requests of a pod."""
    for resource in probe.resources:
        yield Request("request", resource, partial(drop_request, resource=resource))


def _most_devices(probe: Probe, resource: str, before: int) -> int:
    """Return the largest request below the present one of a resource that is provided as devices."""

    def fits(amount: int) -> bool:
        lowered = lower(probe.pod, resource, amount, probe.gates)
        return lowered is not None and probe.count_feasible(lowered[0]) > 0

    return largest(min(before - 1, MAX_RESULTS), fits)


def _lower_text(resource: str, edits: list[Edit], before: str, after: str) -> str:
    """Return the description of lower requests."""
    if len(edits) > 1:
        return f"lower the {resource} request from {before} to {after}, over {len(edits)} places"
    of = f"container {edits[0].container}" if edits[0].container else "the pod"
    return f"lower the {resource} request of {of} from {edits[0].before} to {edits[0].after}"


# ---- evidence ----------------------------------------------------------------------------------------------


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
