"""The room that nodes lack for the requests of a pod, and who holds room that pods do not seem to need."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from msgspec.structs import replace

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import ZERO, PodGates
from moorage.cluster.amounts import asked_by, compared, held_by, quantity_text, readable
from moorage.cluster.helpful_changes import HelpfulChange, lowered
from moorage.cluster.requirements import Constraint, effective_request, lower
from moorage.engine.devices.claim_requests import MAX_RESULTS
from moorage.engine.framework import Status
from moorage.engine.framework.evidence import Evidence, Fact, FindEvidence, Need, RejectedPod, Rows
from moorage.engine.plugins.node_resources import resource_of
from moorage.kube import Container, LimitRange, Pod
from moorage.kube.admission.pod_requests import container_defaults, defaulted_by_limit_range
from moorage.kube.model.meta import condition_of, whole
from moorage.store import ObjectClient

from ..probe import Probe, largest

# ---- who holds room ----------------------------------------------------------------------------------------
# Nominated pods, pods that are being deleted, resizes that are not done, and init containers whose request
# sets the sum. They are named where the node would have room without them.

PENDING, SCHEDULED, INITIALIZED = "PodResizePending", "PodScheduled", "Initialized"
NOT_DONE = "not done"
Holder = tuple[Fact, int]
"""A pod that holds room, and how much of it the node would have back."""


def quantities(resource: str, **amounts: int | None) -> dict[str, str]:
    """Return amounts of a resource as quantities, without those that are None."""
    return {name: quantity_text(resource, amount) for name, amount in amounts.items() if amount is not None}


class Amounts:
    """What pods request of a resource, whole and without parts; as the engine counts it."""

    def __init__(self, gates: PodGates, resource: str) -> None:
        self._gates = gates
        self.resource = resource

    def of(self, pod: Pod, resizes: bool = True) -> int:
        """Return what a pod holds of a node; without resizes, what a pending pod asks for."""
        if self.resource == "pods":
            return 1
        requests = (held_by if resizes else asked_by)(pod, self._gates)
        return whole(self.resource, requests.get(self.resource, ZERO))

    def held(self, amount: int) -> str:
        """Return an amount as a quantity, with its resource."""
        if self.resource == "pods":
            return "1 of the node's pods"
        return f"{readable(self.resource, amount)} {self.resource}"

    def holder(self, pod: Pod, node: str) -> Holder | None:
        """Return a pod on a node that holds room which it does not seem to need, and how much room there
        would be without it; None for other pods."""
        spec, status = pod.spec, pod.status
        since = pod.metadata.deletion_timestamp
        if not (since is not None or spec.init_containers or status.container_statuses or status.resources):
            return None
        amount = self.of(pod)
        if not amount:
            return None
        held = self.held(amount)
        if since is not None:
            text = f"being deleted, deletionTimestamp {since}; holds {held} of {node}"
            return self._holder("terminating-pod", pod, node, text, amount, since=str(since))
        now, done = self.of(_without_resize(pod)), self.of(pod, False)
        if min(now, done) < amount:
            pending = condition_of(pod.status.conditions, PENDING)
            reason = pending.reason if pending and pending.reason else NOT_DONE
            other = readable(self.resource, min(now, done))
            text = f"counts {held} on {node} until its resize to {other} is done"
            if now < amount:
                text = f"counts {held} on {node}, as its resize is {reason}; it has {other}"
            values = {"reason": reason, "grows": now < amount}
            return self._holder("resizing-pod", pod, node, text, amount, min(now, done), **values)
        without = self.of(_without_init_containers(pod))
        if without < amount:
            initialized = condition_of(pod.status.conditions, INITIALIZED)
            ended = initialized is not None and initialized.status == "True"
            of = f"init container {self._largest(pod)}" + (", which has ended" if ended else "")
            rest = readable(self.resource, without)
            text = f"holds {held} of {node} for {of}; its containers ask for {rest}"
            values = {"container": self._largest(pod), "ended": ended}
            return self._holder("pod", pod, node, text, amount, without, **values)
        return None

    def _holder(
        self, kind: str, pod: Pod, node: str, text: str, amount: int, without: int | None = None, **more: Any
    ) -> Holder:
        values = {"node": node, "resource": self.resource}
        values |= quantities(self.resource, amount=amount, without=without)
        return Fact(kind, pod.key, text, values=values | more), amount - (without or 0)

    def nominated(self, pod: Pod, node: str) -> Holder | None:
        """Return a nominated pod that keeps room of a node from pods of lower or equal priority; None if it
        asks for none."""
        amount, priority = self.of(pod), pod.spec.priority or 0
        if not amount:
            return None
        scheduled = condition_of(pod.status.conditions, SCHEDULED)
        values: dict[str, Any] = {"priority": priority}
        if scheduled is not None and scheduled.last_transition_time is not None:
            values["since"] = str(scheduled.last_transition_time)
        of = f" since {values['since']}" if "since" in values else ""
        text = f"priority {priority}, nominated to {node}{of}, keeps {self.held(amount)}"
        return self._holder("nominated-pod", pod, node, text, amount, **values)

    def own(self, pod: Pod, limit_ranges: Iterable[LimitRange]) -> Fact | None:
        """Return the parts of a pending pod's request; None if it is the sum of its containers'."""
        if self.resource == "pods":
            return None
        amount = self.of(pod, False)
        level = pod.spec.resources is not None and self.resource in pod.spec.resources.requests
        bare = replace(pod, spec=replace(pod.spec, overhead={}, resources=None))
        containers = self.of(_without_init_containers(bare), False)
        overhead = whole(self.resource, Quantity(pod.spec.overhead.get(self.resource, 0)))
        by_init = not level and self.of(bare, False) > containers
        alone = self.of(replace(bare, spec=replace(bare.spec, init_containers=())), False)
        sidecars = 0 if level or by_init else containers - alone
        defaulted = defaulted_by_limit_range(pod)
        by_default = [
            name for name, fields in defaulted.items() if self.resource in fields.requests | fields.limits
        ]
        if not (overhead or by_init or sidecars or by_default or (level and amount > containers)):
            return None
        values: dict[str, Any] = {}
        values |= quantities(self.resource, amount=amount, containers=containers, overhead=overhead)
        values |= {"container": self._largest(pod)} if by_init else {}
        parts = [f"set by init container {values['container']}"] if by_init else []
        parts += ["set by spec.resources of the pod"] if level else []
        values |= quantities(self.resource, sidecars=sidecars) if sidecars else {}
        compared_amount, own = compared(self.resource, amount, containers - sidecars)
        parts += [f"with {readable(self.resource, overhead)} of overhead"] if overhead else []
        names = [
            init.name
            for init in pod.spec.init_containers
            if init.restart_policy == "Always" and init.resources.requests.get(self.resource)
        ]
        of = f"sidecar{'s' if len(names) > 1 else ''} {', '.join(names)}"
        parts += [f"with {readable(self.resource, sidecars)} of {of}"] if sidecars else []
        text = f"it asks for {compared_amount} {self.resource}"
        text += f", {', '.join(parts)}; its containers for {own}" if parts else ""
        ranges = (each.key for each in limit_ranges if self.resource in container_defaults(each)[1])
        named = ", ".join(ranges) if by_default else ""
        text += f"; {f'LimitRange {named}' if named else 'a LimitRange'} has set it in " * bool(by_default)
        text += ", ".join(by_default)
        return Fact("request", self.resource, text, text, values | {"podLevel": level})

    def _largest(self, pod: Pod) -> str:
        """Return the name of the init container that sets the request of a pod."""

        def alone(container: Container) -> int:
            at = pod.spec.init_containers.index(container)
            before = tuple(init for init in pod.spec.init_containers[:at] if init.restart_policy == "Always")
            return self.of(replace(pod, spec=replace(pod.spec, init_containers=(*before, container))), False)

        inits = [init for init in pod.spec.init_containers if init.restart_policy != "Always"]
        return max(inits, key=alone).name


def _without_resize(pod: Pod) -> Pod:
    """Return a pod as if the kubelet had rejected its resize: what it wants does not count."""
    pending = condition_of(pod.status.conditions, PENDING)
    if pending is None:
        return pod
    others = (condition for condition in pod.status.conditions if condition.type != PENDING)
    rejected = (replace(pending, reason="Infeasible"), *others)
    return replace(pod, status=replace(pod.status, conditions=rejected))


def _without_init_containers(pod: Pod) -> Pod:
    """Return a pod with its sidecars as its only init containers."""
    sidecars = tuple(init for init in pod.spec.init_containers if init.restart_policy == "Always")
    return replace(pod, spec=replace(pod.spec, init_containers=sidecars))


def find_holders(
    amounts: Amounts, node: str, pods: list[Pod], nominated: list[Pod], missing: int
) -> Iterator[Fact]:
    """Yield the pods that hold room of a node, if the node would have enough without it.

    Parameters
    ----------
    pods, nominated : list of Pod
        On the node, and nominated to it.
    missing : int
        What the pod lacks there.
    """
    keeping = [amounts.nominated(pod, node) for pod in nominated]
    holding = [amounts.holder(pod, node) for pod in pods]
    holders = [holder for holder in (*keeping, *holding) if holder is not None]
    if sum(freed for _, freed in holders) >= missing:
        yield from (fact for fact, _ in holders)


# ---- the room that nodes lack ------------------------------------------------------------------------------

NEAREST = 16
"""Maximum number of nodes of which it is said who holds their room: those that lack least."""


@dataclass(frozen=True)
class RoomEvidence(Evidence):
    """A resource of which nodes have too little left.

    Attributes
    ----------
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
        return dataclasses.replace(
            self, least=least, most=most, allocatable=same, nodes=self.nodes + other.nodes
        )

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
        return f"it has {number} of {self.allocatable} pods"

    def facts(self) -> dict[str, Any]:
        return quantities(
            self.resource,
            requested=self.requested,
            least=self.least,
            most=self.most,
            allocatable=self.allocatable,
        )


def evidence(probe: Probe, inquiry: RejectedPod) -> FindEvidence:
    """Return the function that finds how much nodes lack of the resources that NodeResourcesFit names."""
    state = inquiry.search.state
    needs = {"pods": 1} | inquiry.state.shape.needs
    client = cast("ObjectClient", probe.engine.handle.client)

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
            own = amounts.own(inquiry.pod, client.list(LimitRange, inquiry.pod.namespace)[0])
            if own is not None:
                yield dataclasses.replace(own, nodes=len(rows))

    return find


def _of_node(
    inquiry: RejectedPod, amounts: Amounts, row: int, allocatable: int, missing: int
) -> Iterator[Evidence]:
    """Yield what a node does not give to pods, where the pod would have room with it (it is reserved, or
    devices are not healthy), and who holds its room."""
    node, resource = inquiry.node(row), amounts.resource
    capacity = whole(resource, Quantity(node.status.capacity.get(resource, 0)))
    if capacity - allocatable >= missing:
        values = quantities(resource, capacity=capacity, allocatable=allocatable)
        text = f"capacity {values['capacity']}, allocatable {values['allocatable']}"
        yield Need("capacity", resource, words=text, values=values)
    yield from find_holders(amounts, node.name, inquiry.pods_on(row), inquiry.nominated_on(row), missing)


# ---- lower requests ----------------------------------------------------------------------------------------


def loosened(probe: Probe, request: Constraint) -> Iterator[HelpfulChange]:
    """Yield the change to the largest request that fits some node."""
    resource, table = request.name, probe.table
    rows = probe.feasible(request.drop(probe.pod))
    if not len(rows):
        return
    free = table.allocatable[resource][rows] - table.requested[resource][rows]
    most = max(int(np.max(free)), 0)
    if probe.evicts or (probe.devices is not None and resource in probe.devices.resources):
        before = effective_request(probe.pod, resource, probe.gates)
        most = max(most, _most_tried(probe, resource, before))
    for change in lowered(probe.pod, resource, most, probe.gates):
        yield from probe.tried(change)


def _most_tried(probe: Probe, resource: str, before: int) -> int:
    """Return the largest request below the present one that helps, where free room does not tell it: of a
    resource that is provided as devices, or of a pod that evicts others."""

    def fits(amount: int) -> bool:
        smaller = lower(probe.pod, resource, amount, probe.gates)
        return smaller is not None and probe.count_feasible(smaller[0]) > 0

    return largest(before - 1 if probe.evicts else min(before - 1, MAX_RESULTS), fits)
