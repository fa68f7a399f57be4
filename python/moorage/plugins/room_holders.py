"""Who holds room of a node that its pods do not seem to need: evidence of NodeResourcesFit.

Nominated pods, pods that are being deleted, resizes that are not done, and init containers whose request sets
the sum. They are named where the node would have room without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import ZERO, PodGates
from moorage.framework.plugin.amounts import asked_by, held_by, quantity_text
from moorage.framework.plugin.evidence import Evidence
from moorage.objects import Container, Pod

PENDING, SCHEDULED, INITIALIZED = "PodResizePending", "PodScheduled", "Initialized"


@dataclass(frozen=True)
class RoomHolder(Evidence):
    """A pod that holds room of a node.

    Attributes
    ----------
    pod, node, resource : str
    amount : int
        What it holds, in millicores, bytes or the resource's own unit.
    """

    pod: str
    node: str
    resource: str
    amount: int

    @property
    def name(self) -> str:
        return self.pod

    def facts(self) -> dict[str, Any]:
        return super().facts() | _quantities(self.resource, self, ("amount", "without"))

    @property
    def held(self) -> str:
        """The amount as a quantity, with its resource."""
        if self.resource == "pods":
            return "1 of the node's pods"
        return f"{quantity_text(self.resource, self.amount)} {self.resource}"


@dataclass(frozen=True)
class NominatedPod(RoomHolder):
    """A pod that is nominated to the node: it keeps room for it from pods of lower or equal priority.

    Attributes
    ----------
    priority : int
    since : str or None
        When it was last found unschedulable, which is when it was nominated.
    """

    kind = "nominated-pod"
    priority: int
    since: str | None = None

    @property
    def detail(self) -> str:
        since = f" since {self.since}" if self.since else ""
        return f"priority {self.priority}, nominated to {self.node}{since}, keeps {self.held}"


@dataclass(frozen=True)
class TerminatingPod(RoomHolder):
    """A pod that is being deleted, and holds its room until it has ended.

    Attributes
    ----------
    since : str
        Its deletionTimestamp.
    """

    kind = "terminating-pod"
    since: str

    @property
    def detail(self) -> str:
        return f"being deleted, deletionTimestamp {self.since}; holds {self.held} of {self.node}"


@dataclass(frozen=True)
class ResizingPod(RoomHolder):
    """A pod whose resize is not done. The most of what it has and wants counts.

    Attributes
    ----------
    without : int
        What it would hold without the resize; if it gets smaller, once it is done.
    reason : str
        Deferred, or what else the kubelet says.
    grows : bool
    """

    kind = "resizing-pod"
    without: int
    reason: str
    grows: bool

    @property
    def detail(self) -> str:
        other = quantity_text(self.resource, self.without)
        if self.grows:
            return f"counts {self.held} on {self.node}, as its resize is {self.reason}; it has {other}"
        return f"counts {self.held} on {self.node} until its resize to {other} is done"


@dataclass(frozen=True)
class InitContainerSum(RoomHolder):
    """A pod whose request is set by an init container, also after that has ended.

    Attributes
    ----------
    container : str
    without : int
        What the pod would hold without its init containers (sidecars stay).
    ended : bool
    """

    kind = "pod"
    container: str
    without: int
    ended: bool

    @property
    def detail(self) -> str:
        ended = ", which has ended" if self.ended else ""
        of = f"init container {self.container}{ended}"
        rest = quantity_text(self.resource, self.without)
        return f"holds {self.held} of {self.node} for {of}; its containers ask for {rest}"


@dataclass(frozen=True)
class OwnRequest(Evidence):
    """What the pod's own request is made of, where that is more than the sum of its containers.

    Attributes
    ----------
    resource : str
    amount, containers, overhead : int
        The request; what its containers and sidecars ask for; the overhead of its runtime class.
    container : str or None
        The init container that sets the request.
    pod_level : bool
        Whether spec.resources of the pod sets it.
    """

    kind = "request"
    resource: str
    amount: int
    containers: int
    overhead: int
    container: str | None
    pod_level: bool

    @property
    def name(self) -> str:
        return self.resource

    def facts(self) -> dict[str, Any]:
        return super().facts() | _quantities(self.resource, self, ("amount", "containers", "overhead"))

    @property
    def text(self) -> str:
        amount, containers, overhead = (
            quantity_text(self.resource, value) for value in (self.amount, self.containers, self.overhead)
        )
        parts = [f"set by init container {self.container}"] if self.container else []
        parts += ["set by spec.resources of the pod"] if self.pod_level else []
        parts += [f"with {overhead} of overhead"] if self.overhead else []
        return f"it asks for {amount} {self.resource}, {', '.join(parts)}; its containers for {containers}"

    @property
    def detail(self) -> str:
        return self.text


def _quantities(resource: str, of: object, names: Iterable[str]) -> dict[str, str]:
    amounts = {name: getattr(of, name, None) for name in names}
    return {name: quantity_text(resource, one) for name, one in amounts.items() if one is not None}


class Amounts:
    """What pods request of a resource, whole and without parts; as the engine counts it."""

    def __init__(self, gates: PodGates, resource: str) -> None:
        self._gates = gates
        self.resource = resource

    def of(self, pod: Pod, resizes: bool = True) -> int:
        """Return what a pod holds of a node; without resizes, what a pending pod asks for."""
        if self.resource == "pods":
            return 1
        found = (held_by if resizes else asked_by)(pod, self._gates)
        return self._whole(found.get(self.resource, ZERO))

    def _whole(self, quantity: Quantity) -> int:
        return quantity.milli_value() if self.resource == "cpu" else quantity.value()

    def holder(self, pod: Pod, node: str) -> RoomHolder | None:
        """Return a pod on a node that holds room which it does not seem to need; None for other pods."""
        spec, status = pod.spec, pod.status
        leaves = pod.metadata.deletion_timestamp is not None
        if not (leaves or spec.init_containers or status.container_statuses or status.resources):
            return None
        amount = self.of(pod)
        if not amount:
            return None
        common = (pod.key, node, self.resource, amount)
        if leaves:
            return TerminatingPod(*common, str(pod.metadata.deletion_timestamp))
        now, done = self.of(_without_resize(pod)), self.of(pod, False)
        if min(now, done) < amount:
            reason = next((one.reason for one in pod.status.conditions if one.type == PENDING), "")
            return ResizingPod(*common, min(now, done), reason or "not done", now < amount)
        without = self.of(_without_init_containers(pod))
        if without < amount:
            ended = any(one.type == INITIALIZED and one.status == "True" for one in pod.status.conditions)
            return InitContainerSum(*common, self._largest(pod), without, ended)
        return None

    def nominated(self, pod: Pod, node: str) -> NominatedPod | None:
        """Return a nominated pod that keeps room of a node; None if it asks for none."""
        amount = self.of(pod)
        since = [one.last_transition_time for one in pod.status.conditions if one.type == SCHEDULED]
        told = str(since[0]) if since and since[0] is not None else None
        if not amount:
            return None
        return NominatedPod(pod.key, node, self.resource, amount, pod.spec.priority or 0, told)

    def own(self, pod: Pod) -> OwnRequest | None:
        """Return the parts of a pending pod's request; None if it is the sum of its containers'."""
        if self.resource == "pods":
            return None
        amount = self.of(pod, False)
        level = pod.spec.resources is not None and self.resource in pod.spec.resources.requests
        bare = replace(pod, spec=replace(pod.spec, overhead={}, resources=None))
        containers = self.of(_without_init_containers(bare), False)
        overhead = self._whole(Quantity(pod.spec.overhead.get(self.resource, 0)))
        by_init = not level and self.of(bare, False) > containers
        if not (overhead or by_init or (level and amount > containers)):
            return None
        container = self._largest(pod) if by_init else None
        return OwnRequest(self.resource, amount, containers, overhead, container, level)

    def _largest(self, pod: Pod) -> str:
        """Return the name of the init container that sets the request of a pod."""

        def alone(container: Container) -> int:
            at = pod.spec.init_containers.index(container)
            before = tuple(one for one in pod.spec.init_containers[:at] if one.restart_policy == "Always")
            return self.of(replace(pod, spec=replace(pod.spec, init_containers=(*before, container))), False)

        inits = [one for one in pod.spec.init_containers if one.restart_policy != "Always"]
        return max(inits, key=alone).name


def _without_resize(pod: Pod) -> Pod:
    """Return a pod as if the kubelet had rejected its resize: what it wants does not count."""
    conditions = pod.status.conditions
    pending = [replace(one, reason="Infeasible") for one in conditions if one.type == PENDING]
    if not pending:
        return pod
    others = [one for one in conditions if one.type != PENDING]
    return replace(pod, status=replace(pod.status, conditions=(*pending, *others)))


def _without_init_containers(pod: Pod) -> Pod:
    """Return a pod with its sidecars as its only init containers."""
    sidecars = tuple(one for one in pod.spec.init_containers if one.restart_policy == "Always")
    return replace(pod, spec=replace(pod.spec, init_containers=sidecars))


def find_holders(
    amounts: Amounts, node: str, pods: list[Pod], nominated: list[Pod], missing: int
) -> Iterator[RoomHolder]:
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
    holders = [one for one in (*keeping, *holding) if one is not None]
    freed = sum(one.amount - getattr(one, "without", 0) for one in holders)
    if freed >= missing:
        yield from holders
