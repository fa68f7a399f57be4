"""The plugins that look at what a node has for a pod: NodeResourcesFit, NodeResourcesBalancedAllocation,
NodePorts, ImageLocality.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from msgspec import structs

from moorage._core.base.quantity import Quantity, parse, wrap_int64
from moorage._core.base.resources import ZERO, is_counted, pod_requests
from moorage._core.decide.decider import most_allocated
from moorage._core.state.cluster_state import ClusterState
from moorage._core.state.images import normalized_image_name
from moorage._core.state.pod_class import Shape
from moorage.engine import framework as fwk
from moorage.errors import MoorageError
from moorage.kube import AnyGroup, Node, Pod, PodStatus, group_of
from moorage.kube.model.resource_claims import OF_DEVICE_CLASS, DeviceClass
from moorage.kube.releases import DEFAULT_GATES

from .. import devices as dra
from ..framework import events, in_tree_plugins
from ..framework.events import (
    NODE,
    POD,
    ActionType,
    gates_of_changes,
    is_live,
    is_same_pod,
    of_class,
    on,
    queue_if,
)
from ..framework.in_tree_plugins import InTreePlugin

# ---- node resources fit ------------------------------------------------------------------------------------

TOO_MANY_PODS, INSUFFICIENT = "Too many pods", "Insufficient "


class NodeResourcesFit(
    InTreePlugin,
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
        return in_tree_plugins.requests(self, pod)

    def score_placement(self, group: AnyGroup, assignments: fwk.Assignments) -> int:
        """Score the total allocation of a placement's nodes with the pods of the group (KEP-5732).

        The strategy is MostAllocated over the sums of all nodes.

        Parameters
        ----------
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

    # ---- queueing hints ------------------------------------------------------------------------------------

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        nodes = ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE
        registered = [
            on(events.POD, ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN, self.after_pod_change),
            on(events.NODE, nodes, self.after_node_change),
        ]
        if self.handle is not None and self.handle.release.shrunk_nodes_wake_nominated:
            registered.append(on(events.NODE, ActionType.UPDATE_NODE_ALLOCATABLE, self.after_node_shrinks))
        if self._delegates():
            classes = ActionType.ADD | ActionType.UPDATE
            registered.append(on(events.DEVICE_CLASS, classes, self.after_device_class_change))
        return registered

    def _delegates(self) -> bool:
        """Whether devices may back extended resources (the feature gate DRAExtendedResource)."""
        return self.handle is None or self.handle.feature_gates["DRAExtendedResource"]

    @of_class
    def after_pod_change(self, pod: Pod, old: Pod, new: Pod | None) -> fwk.QueueingHint:
        """Queue if a pod was deleted, or requests less of a resource that the pod requests."""
        if new is None:
            return queue_if(is_live(old))
        return queue_if(is_same_pod(pod, new) or (new.spec.node_name and self._frees(pod, old, new)))

    def _frees(self, pod: Pod, old: Pod, new: Pod) -> bool:
        """Whether another pod requests less than before of a resource that a pod requests (kube-scheduler
        v1.36, isSchedulableAfterPodScaleDown)."""
        gates = DEFAULT_GATES if self.handle is None else self.handle.feature_gates
        counted = gates_of_changes(gates)
        saturates = gates.release.quantities_saturate
        was, now, wanted = (pod_requests(each, counted) for each in (old, new, pod))
        return any(
            _counted_amount(name, now, saturates) < _counted_amount(name, was, saturates)
            for name, amount in wanted.items()
            if amount != ZERO and (name in ("cpu", "memory") or is_counted(name))
        )

    @of_class
    def after_node_change(self, pod: Pod, old: Node | None, new: Node) -> fwk.QueueingHint:
        """Queue if the pod fits the empty node and the node has more of some resource than before.

        As upstream, ignored resources count.
        """
        requests = _wanted(self.shape_of(_by_spec(pod)))
        saturates = self.handle is not None and self.handle.release.quantities_saturate
        now = _allocatable(new, requests, saturates)
        delegated = {name for name in requests if not now[name] and self._is_delegated(name)}
        if now["pods"] < 1 or any(now[name] < requests[name] for name in requests if name not in delegated):
            return queue_if(False)
        if old is None or delegated:
            return fwk.QUEUE
        was = _allocatable(old, requests, saturates)
        return queue_if(any(now[name] > was[name] for name in now))

    def after_node_shrinks(self, pod: Pod, old: Node, new: Node) -> fwk.QueueingHint:
        """Queue if the pod is nominated to a node, without a group, and no longer fits it when it is empty:
        it may preempt others elsewhere."""
        if pod.status.nominated_node_name != new.name or group_of(pod) is not None:
            return fwk.QUEUE_SKIP
        wanted = _wanted(self.shape_of(_by_spec(pod)))
        wanted = {name: wanted[name] for name in ("cpu", "memory", "ephemeral-storage") if name in wanted}
        saturates = self.required_handle().release.quantities_saturate
        was, now = (_allocatable(node, wanted, saturates) for node in (old, new))
        return queue_if(
            any(now[name] < wanted[name] for name in wanted)
            and all(was[name] >= wanted[name] for name in wanted)
        )

    def _is_delegated(self, name: str) -> bool:
        """Whether an extended resource belongs to a device class."""
        if (
            self.handle is None
            or not self._delegates()
            or not is_counted(name)
            or name == "ephemeral-storage"
        ):
            return False
        return any(
            name in _names(device_class) for device_class in self.handle.informers.lister(DeviceClass).list()
        )

    @of_class
    def after_device_class_change(
        self, pod: Pod, old: DeviceClass | None, new: DeviceClass
    ) -> fwk.QueueingHint:
        """Queue if a device class has an extended resource that the pod requests."""
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


def _counted_amount(name: str, requests: Mapping[str, Quantity], saturates: bool) -> int:
    """The request of a resource as kube-scheduler counts it (Resource.SetMaxResource): rounded up, cpu to
    thousandths, others to integers; amounts that 64 bits do not hold as `Quantity.amount` has them."""
    return max(0, requests.get(name, ZERO).amount(-3 if name == "cpu" else 0, saturates))


def _allocatable(node: Node, names: Iterable[str], saturates: bool) -> dict[str, int]:
    """The allocatable quantities of some resources, and of pods."""
    allocatable = node.status.allocatable
    scales = {name: -3 if name == "cpu" else 0 for name in (*names, "pods")}
    return {name: parse(allocatable.get(name, 0)).amount(scale, saturates) for name, scale in scales.items()}


def _names(device_class: DeviceClass) -> set[str | None]:
    """The extended resources of a device class."""
    return {device_class.spec.extended_resource_name, f"{OF_DEVICE_CLASS}{device_class.name}"}


def resource_of(reason: str) -> str:
    """Return the resource that a reason of NodeResourcesFit names; "" for another reason."""
    if reason == TOO_MANY_PODS:
        return "pods"
    return reason.removeprefix(INSUFFICIENT) if reason.startswith(INSUFFICIENT) else ""


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


# ---- node resources balanced allocation --------------------------------------------------------------------

PANICS = "kube-scheduler v1.36.2 panics when it scores {}: its DeviceClass {} has selectors"


class NodeResourcesBalancedAllocation(InTreePlugin, fwk.PreScorePlugin, fwk.ScorePlugin):
    """Score of kube-scheduler v1.36, balanced_allocation.go.

    `Release.balance_by_change` selects the formula. Argument: ``resources``, with names and weights.
    """

    name = "NodeResourcesBalancedAllocation"
    may_reject_if = ()
    default_weight = 1
    default_args = {"resources": ({"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1})}

    def pre_score(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Status | None:
        shape = state.shape
        cpu, memory = shape.requests
        requests = {"cpu": cpu, "memory": memory} | shape.other_requests
        scored = [name for name, _ in weighted_resources(self.args["resources"]) if requests.get(name)]
        if not scored:
            return fwk.SKIP
        return self._unscorable(scored, nodes)

    def _unscorable(self, scored: Sequence[str], nodes: fwk.NodesView) -> fwk.Status | None:
        """An error where upstream panics: it has no cache for the expressions of a class of devices."""
        handle = self.handle
        if handle is None or handle.informers is None or not handle.informers.lister(DeviceClass).changes:
            return None
        classes = handle.shared(dra.device_state.DeviceState.of).by_resource()
        for name in scored:
            device_class = classes.get(name)
            if device_class is None or not device_class.spec.selectors:
                continue
            if not all(info.allocatable.scalar_resources.get(name) for info in nodes):
                return fwk.as_status(MoorageError(PANICS.format(name, device_class.name)))
        return None

    def plan_arguments(self, state: ClusterState) -> dict[str, Any]:
        return {"balanced": weighted_resources(self.args["resources"])}

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        return in_tree_plugins.requests(self, pod)


# ---- node ports --------------------------------------------------------------------------------------------

ANY_IP = "0.0.0.0"
HostPort = tuple[int, int, int]
"""A host port: the symbols of its address and protocol, and its number."""


class NodePorts(InTreePlugin, fwk.PreFilterPlugin, fwk.FilterPlugin):
    """Filter of kube-scheduler v1.36, node_ports.go, for ports of containers and sidecars."""

    name = "NodePorts"
    may_reject_if = ()
    reason_texts = ("node(s) didn't have free ports for the requested pod ports",)
    missing_state_text = {fwk.FilterPlugin: 'reading "PreFilterNodePorts"'}

    def pre_filter(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Status | None:
        return None if state.shape.ports else fwk.SKIP

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        """Return the numbers of all host ports, including those of init containers."""
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        return {"hostPorts": sorted({port.host_port for item in containers for port in item.ports} - {0})}

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        return [on(POD, ActionType.DELETE, self.after_pod_deleted), on(NODE, ActionType.ADD)]

    @of_class
    def after_pod_deleted(self, pod: Pod, old: Pod, new: None) -> fwk.QueueingHint:
        """Queue if the deleted pod used a port that the pod needs."""
        return queue_if(is_live(old) and self._conflicts(pod, old))

    def _conflicts(self, pod: Pod, other: Pod) -> bool:
        """Whether two pods need the same port, protocol and address."""
        everywhere = self.required_handle().cache.state.symbols.intern(ANY_IP)
        pairs = product(self.shape_of(pod).ports, self.shape_of(other).ports)
        return any(has_conflict(*ports, everywhere) for ports in pairs)


def has_conflict(port: HostPort, other: HostPort, everywhere: int) -> bool:
    """Whether two host ports conflict on one node; `everywhere` is the symbol of `ANY_IP` (kube-scheduler
    v1.36, framework/types.go HostPortInfo.CheckConflict)."""
    return port[1:] == other[1:] and (port[0] == other[0] or everywhere in (port[0], other[0]))


# ---- image locality ----------------------------------------------------------------------------------------


class ImageLocality(InTreePlugin, fwk.ScorePlugin):
    """Score of kube-scheduler v1.36, image_locality.go.

    The number of nodes with an image is the one at the time when the node was last copied to the view.
    """

    name = "ImageLocality"
    default_weight = 1

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        return {"images": sorted({normalized_image_name(container.image) for container in containers})}
