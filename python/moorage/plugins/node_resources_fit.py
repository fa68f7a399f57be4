"""NodeResourcesFit: the requests of a pod must fit the free resources of its node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from msgspec import structs

from moorage import framework as fwk
from moorage._core.base.quantity import Quantity, parse_milli, parse_value, wrap_int64
from moorage._core.base.resources import ZERO, is_counted, pod_requests
from moorage._core.decide.decider import most_allocated
from moorage._core.state.cluster_state import ClusterState
from moorage._core.state.pod_class import Shape
from moorage.framework.plugin import events, signing
from moorage.framework.plugin.amounts import gates_of_changes, quantity_text
from moorage.framework.plugin.events import ActionType, is_live, is_same_pod, of_class, on, queue_if
from moorage.framework.plugin.evidence import Evidence, EvidencePlugin, FindEvidence, Inquiry, Rows
from moorage.framework.profiles.in_core import InTreePlugin
from moorage.objects import AnyGroup, Node, Pod, PodStatus
from moorage.objects.model.resource_claims import OF_DEVICE_CLASS, DeviceClass
from moorage.releases import DEFAULT_GATES

from .room_holders import Amounts, find_holders

TOO_MANY_PODS, INSUFFICIENT = "Too many pods", "Insufficient "
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
        least, most = (quantity_text(self.resource, amount) for amount in (self.least, self.most))
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
        return _quantities(self, "requested", "least", "most", "allocatable")


@dataclass(frozen=True)
class ReservedEvidence(Evidence):
    """What nodes have of a resource and do not give to pods, where the pod would have room with it: it is
    reserved, or its devices are not healthy.

    Attributes
    ----------
    resource : str
    capacity, allocatable : int
        In millicores, bytes, or the resource's own unit.
    """

    kind = "capacity"
    is_need = True
    resource: str
    capacity: int
    allocatable: int

    @property
    def name(self) -> str:
        return self.resource

    @property
    def text(self) -> str:
        capacity, allocatable = (
            quantity_text(self.resource, amount) for amount in (self.capacity, self.allocatable)
        )
        return f"capacity {capacity}, allocatable {allocatable}"

    def facts(self) -> dict[str, Any]:
        return _quantities(self, "capacity", "allocatable")


def _quantities(evidence: RoomEvidence | ReservedEvidence, *names: str) -> dict[str, str]:
    amounts = {name: getattr(evidence, name) for name in names}
    return {
        name: quantity_text(evidence.resource, amount)
        for name, amount in amounts.items()
        if amount is not None
    }


class NodeResourcesFit(
    InTreePlugin,
    EvidencePlugin,
    fwk.PreFilterPlugin,
    fwk.FilterPlugin,
    fwk.PreScorePlugin,
    fwk.ScorePlugin,
    fwk.PlacementScorePlugin,
):
    """Filters by requests and scores by a strategy (kube-scheduler v1.36, noderesources/fit.go).

    Reason bits: pods, cpu, memory, then the other requests of the shape (ephemeral-storage, then by name).
    Arguments: ``scoringStrategy``, ``ignoredResources``, ``ignoredResourceGroups``.
    """

    name = "NodeResourcesFit"
    missing_state_text = {fwk.FilterPlugin: 'error reading "PreFilterNodeResourcesFit"'}
    default_weight = 1
    default_args = {
        "scoringStrategy": {
            "type": "LeastAllocated",
            "resources": ({"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}),
        }
    }

    def plan_arguments(self, state: ClusterState) -> dict[str, Any]:
        strategy = self.args["scoringStrategy"]
        ratio = strategy.get("requestedToCapacityRatio") or {}
        return {
            "fit": weighted_resources(strategy["resources"]),
            "strategy": strategy["type"],
            # Scores in the configuration are 0 to 10.
            "points": [(point["utilization"], 10 * point["score"]) for point in ratio.get("shape") or ()],
            "ignored": self.args.get("ignoredResources") or (),
            "ignored_groups": self.args.get("ignoredResourceGroups") or (),
        }

    def reasons(self, bits: int, shape: Shape) -> tuple[str, ...]:
        texts = [TOO_MANY_PODS, f"{INSUFFICIENT}cpu", f"{INSUFFICIENT}memory"]
        texts += [f"{INSUFFICIENT}{name}" for name in shape.others]
        return tuple(text for bit, text in enumerate(texts) if bits >> bit & 1)

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        return signing.requests(self, pod)

    def score_placement(self, group: AnyGroup, assignments: fwk.Assignments) -> int:
        """Score the total allocation of a placement's nodes with the pods of the group (KEP-5732).

        The strategy is MostAllocated over the sums of all nodes.

        Parameters
        ----------
        group : PodGroup or CompositePodGroup
            The pod group.
        assignments : Assignments
            The pods and their nodes.

        Returns
        -------
        int
            0 to 100.
        """
        state, rows = self.required_handle().cache.state, assignments.placement.rows
        requests = self._requests(assignments)
        resources = weighted_resources(self.args["scoringStrategy"]["resources"])
        return most_allocated(
            state, rows, [(name, weight, requests.get(name, 0)) for name, weight in resources]
        )

    def _requests(self, assignments: fwk.Assignments) -> dict[str, int]:
        """The sum of the requests of the assigned pods, as counted by Score; it wraps at 64 bits."""
        pods_by_shape: dict[Shape, int] = {}
        classes = self.required_handle().cache.state.classes
        for pod, row in zip(assignments.pods, assignments.rows.tolist(), strict=True):
            if row >= 0:
                shape = classes.shape_of(classes.intern(pod))
                pods_by_shape[shape] = pods_by_shape.get(shape, 0) + 1
        total: dict[str, int] = {}
        for shape, pods in pods_by_shape.items():
            for name, amount in shape.score_requests.items():
                total[name] = total.get(name, 0) + pods * amount
        return {name: wrap_int64(amount) for name, amount in total.items()}

    # ---- evidence ------------------------------------------------------------------------------------------

    def evidence(self, inquiry: Inquiry) -> FindEvidence:
        state = inquiry.search.state
        needs = {"pods": 1} | inquiry.state.shape.needs

        def find(rows: Rows, status: fwk.Status) -> Iterator[Evidence]:
            for reason in status.reasons:
                resource = "pods" if reason == TOO_MANY_PODS else reason.removeprefix(INSUFFICIENT)
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
                    row = int(rows[at])
                    pods, nominated = inquiry.pods_on(row), inquiry.nominated_on(row)
                    node = inquiry.node(row)
                    capacity = _capacity(node, resource)
                    if capacity - int(allocatable[at]) >= missing[at]:
                        yield ReservedEvidence(resource, capacity, int(allocatable[at]))
                    yield from find_holders(amounts, node.name, pods, nominated, int(missing[at]))
                own = amounts.own(inquiry.pod)
                if own is not None:
                    yield replace(own, nodes=len(rows))

        return find

    # ---- queueing hints ------------------------------------------------------------------------------------

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        nodes = ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE
        registered = [
            on(events.POD, ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN, self.after_pod_change),
            on(events.NODE, nodes, self.after_node_change),
        ]
        if self._delegates():
            classes = ActionType.ADD | ActionType.UPDATE
            registered.append(on(events.DEVICE_CLASS, classes, self.after_device_class_change))
        return registered

    def _delegates(self) -> bool:
        """Whether devices may back extended resources (the feature gate DRAExtendedResource)."""
        return self.handle is None or self.handle.feature_gates["DRAExtendedResource"]

    @of_class
    def after_pod_change(self, pod: Pod, old: Pod, new: Pod | None) -> fwk.QueueingHint:
        """Queue if a pod was deleted, or requests less of a resource that the pod requests.

        Parameters
        ----------
        pod : Pod
            The rejected pod.
        old : Pod
            The object before the event.
        new : Pod or None
            The object after the event; None if it was deleted.
        """
        if new is None:
            return queue_if(is_live(old))
        return queue_if(is_same_pod(pod, new) or (new.spec.node_name and self._frees(pod, old, new)))

    def _frees(self, pod: Pod, old: Pod, new: Pod) -> bool:
        """Whether another pod requests less than before of a resource that a pod requests (kube-scheduler
        v1.36, isSchedulableAfterPodScaleDown)."""
        gates = DEFAULT_GATES if self.handle is None else self.handle.feature_gates
        counted = gates_of_changes(gates)
        was, now, wanted = (pod_requests(one, counted) for one in (old, new, pod))
        return any(
            _counted_amount(name, now) < _counted_amount(name, was)
            for name, amount in wanted.items()
            if amount != ZERO and (name in ("cpu", "memory") or is_counted(name))
        )

    @of_class
    def after_node_change(self, pod: Pod, old: Node | None, new: Node) -> fwk.QueueingHint:
        """Queue if the pod fits the empty node and the node has more of some resource than before.

        As upstream, ignored resources count.

        Parameters
        ----------
        pod : Pod
            The rejected pod.
        old : Node or None
            The object before the event; None if it was added.
        new : Node
            The object after the event.
        """
        requests = _wanted(self.shape_of(_by_spec(pod)))
        now = _allocatable(new, requests)
        delegated = {name for name in requests if not now[name] and self._is_delegated(name)}
        if now["pods"] < 1 or any(now[name] < requests[name] for name in requests if name not in delegated):
            return queue_if(False)
        if old is None or delegated:
            return fwk.QUEUE
        was = _allocatable(old, requests)
        return queue_if(any(now[name] > was[name] for name in now))

    def _is_delegated(self, name: str) -> bool:
        """Whether an extended resource belongs to a device class."""
        if (
            self.handle is None
            or not self._delegates()
            or not is_counted(name)
            or name == "ephemeral-storage"
        ):
            return False
        return any(name in _names(one) for one in self.handle.informers.lister(DeviceClass).list())

    @of_class
    def after_device_class_change(
        self, pod: Pod, old: DeviceClass | None, new: DeviceClass
    ) -> fwk.QueueingHint:
        """Queue if a device class has an extended resource that the pod requests.

        Parameters
        ----------
        pod : Pod
            The rejected pod.
        old : DeviceClass or None
            The object before the event; None if it was added.
        new : DeviceClass
            The object after the event.
        """
        if old is not None and old.spec.extended_resource_name == new.spec.extended_resource_name:
            return queue_if(False)
        names = _names(new) if old is None else {new.spec.extended_resource_name}
        return queue_if(names.intersection(self.shape_of(_by_spec(pod)).others))


def _by_spec(pod: Pod) -> Pod:
    """A waiting pod as upstream's hints count it: they do not look at resizes in its status."""
    return structs.replace(pod, status=PodStatus())


def _wanted(shape: Shape) -> dict[str, int]:
    """The nonzero requests of a pod."""
    cpu, memory = shape.requests
    return {
        name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if amount
    } | shape.other_requests


def _counted_amount(name: str, requests: Mapping[str, Quantity]) -> int:
    """The request of a resource as kube-scheduler counts it (Resource.SetMaxResource): rounded up, cpu to
    thousandths, others to integers; amounts that 64 bits do not hold as `Quantity.value` has them."""
    amount = requests.get(name, ZERO)
    return max(0, amount.milli_value() if name == "cpu" else amount.value())


def _allocatable(node: Node, names: Iterable[str]) -> dict[str, int]:
    """The allocatable quantities of some resources, and of pods."""
    allocatable = node.status.allocatable
    quantities = {name: parse_value(allocatable.get(name, 0)) for name in (*names, "pods")}
    if "cpu" in quantities:
        quantities["cpu"] = parse_milli(allocatable.get("cpu", 0))
    return quantities


def _capacity(node: Node, resource: str) -> int:
    """The capacity of a node, also what it does not give to pods."""
    capacity = node.status.capacity.get(resource, 0)
    return parse_milli(capacity) if resource == "cpu" else parse_value(capacity)


def _names(device_class: DeviceClass) -> set[str | None]:
    """The extended resources of a device class."""
    return {device_class.spec.extended_resource_name, f"{OF_DEVICE_CLASS}{device_class.name}"}


def weighted_resources(resources: Iterable[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Return resources and weights of a scoring strategy.

    Parameters
    ----------
    resources : iterable of mapping
        ``ResourceSpec`` values of the arguments.

    Returns
    -------
    list of (str, int)
        Name and weight of each resource.
    """
    return [(entry["name"], entry["weight"]) for entry in resources]
