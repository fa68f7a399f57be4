"""Nodes that are there, as Karpenter sees them: a node, its claim, and what is free on it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from moorage._core.base.quantity import Quantity, parse
from moorage._core.provision.domain_counts import Host
from moorage._core.provision.host_table import room_of
from moorage._core.provision.label_requirements import RequirementSet
from moorage.kube import CSINode, Node, NodeClaim, Pod, Taint
from moorage.kube.model.cluster import seconds
from moorage.kube.model.meta import condition_of
from moorage.kube.model.node import HOSTNAME

from ..providers.instance_type import INSTANCE_TYPE, POOL, InstanceType
from .claim import TriedPod, conflicts
from .claim_template import Daemon
from .pod_shape import HostPort, PodShape, ShapeBook
from .pod_validation import GROUP, Storage, Volumes, is_terminal, joined, owned_by, volumes_of
from .topology import Topology

# ---- nodes as Karpenter sees them: a node, the claim that it came from, or both ----------------------------
# Rules: Karpenter v1.15.0, pkg/controllers/state/statenode.go and cluster.go.

REGISTERED, INITIALIZED = f"{GROUP}/registered", f"{GROUP}/initialized"
_READINESS = "readiness.k8s.io/"
_EPHEMERAL = frozenset(
    {
        ("node.kubernetes.io/not-ready", "NoSchedule"),
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoSchedule"),
        ("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule"),
        (f"{GROUP}/unregistered", "NoExecute"),
    }
)
"""Keys and effects of taints that a new node has for a moment."""
_REBOOTING = (f"{GROUP}/rebooting", "NoSchedule")
_HOUR = 3600.0

T = TypeVar("T")


def is_true(of: Node | NodeClaim, kind: str) -> bool:
    """Whether a condition of an object holds."""
    status = condition_of(of.status.conditions, kind)
    return status is not None and status.status == "True"


class StateNode(Struct, eq=False, dict=True):
    """A node, its claim, or both."""

    node: Node | None
    claim: NodeClaim | None
    marked: bool = False
    _kept: dict[Hashable, tuple[tuple[object, ...], Any]] = msgspec.field(default_factory=dict)

    def kept(self, what: Hashable, parts: tuple[object, ...], make: Callable[[], T]) -> T:
        """What was made of it and of equal parts last; it is made anew of others."""
        known = self._kept.get(what)
        if known is None or known[0] != parts:
            known = self._kept[what] = parts, make()
        value: T = known[1]
        return value

    @cached_property
    def is_registered(self) -> bool:
        return self.claim is None or self._says(REGISTERED)

    @cached_property
    def is_initialized(self) -> bool:
        return self.claim is None or self._says(INITIALIZED)

    def _says(self, label: str) -> bool:
        return self.node is not None and self.node.metadata.labels.get(label) == "true"

    @cached_property
    def _identity(self) -> Node | NodeClaim:
        """Whose name and labels count."""
        if self.node is None or (self.claim is not None and not self.is_registered):
            assert self.claim is not None
            return self.claim
        return self.node

    @cached_property
    def name(self) -> str:
        return self._identity.name

    @cached_property
    def labels(self) -> Mapping[str, str]:
        return self._identity.metadata.labels

    @property
    def host(self) -> str:
        return self.labels.get(HOSTNAME) or self.name

    @cached_property
    def is_leaving(self) -> bool:
        """Whether the node is being deleted, or is marked for that."""
        if self.marked:
            return True
        if self.claim is not None:
            terminating = is_true(self.claim, "InstanceTerminating")
            return self.claim.metadata.deletion_timestamp is not None or terminating
        return self.node is not None and self.node.metadata.deletion_timestamp is not None

    @cached_property
    def is_rebooting(self) -> bool:
        return self.claim is not None and is_true(self.claim, "Rebooting")

    @cached_property
    def counts(self) -> bool:
        """Whether it counts for budgets: an instance that is there, and ready or rebooting."""
        if self.claim is None or self.node is None or is_true(self.claim, "InstanceTerminating"):
            return False
        return self.is_initialized or self.is_rebooting

    @cached_property
    def is_going(self) -> bool:
        """Whether it takes one from a budget."""
        is_ready = self.node is not None and is_true(self.node, "Ready")
        return self.is_leaving or self.is_rebooting or not is_ready

    @cached_property
    def last_change(self) -> float:
        """When pods came or went last, else when it became ready (seconds since 1970)."""
        if self.claim is None:
            return float("-inf")
        initialized = condition_of(self.claim.status.conditions, "Initialized")
        begun = initialized.last_transition_time if initialized is not None else None
        time = self.claim.status.last_pod_event_time or begun
        return seconds(time) if time else float("-inf")

    @cached_property
    def offered_until(self) -> float:
        """Until when the claim is too young to be asked whether its type is still offered (seconds since
        1970)."""
        assert self.claim is not None
        created = self.claim.metadata.creation_timestamp
        return seconds(created) + _HOUR if created else float("-inf")

    @cached_property
    def taints(self) -> tuple[Taint, ...]:
        """Taints that stay once the node is ready."""
        if self.claim is None:
            return self.node.spec.taints if self.node is not None else ()
        taints = self.claim.spec.taints
        if self.node is not None and self.is_registered:
            taints = self.node.spec.taints
        if self.is_initialized and not self.is_rebooting:
            return taints
        startup = {
            (startup_taint.key, startup_taint.effect) for startup_taint in self.claim.spec.startup_taints
        }
        passing = _EPHEMERAL | startup | {_REBOOTING}
        return tuple(
            [
                taint
                for taint in taints
                if (taint.key, taint.effect) not in passing and not taint.key.startswith(_READINESS)
            ]
        )

    @cached_property
    def capacity(self) -> dict[str, Quantity]:
        return self._amounts("capacity") | {"nodes": Quantity("1")}

    @cached_property
    def capacity_amounts(self) -> dict[str, int]:
        """Capacity in units of 10**-9."""
        return {name: amount.nanos() for name, amount in self.capacity.items()}

    @cached_property
    def allocatable(self) -> dict[str, Quantity]:
        return self._amounts("allocatable")

    def _amounts(self, field: str) -> dict[str, Quantity]:
        """Amounts of the node; those that a node not initialized reports as zero are the claim's."""
        shown: dict[str, Quantity] = {}
        if self.node is not None:
            shown = {name: parse(raw) for name, raw in getattr(self.node.status, field).items()}
        if self.claim is None or self.is_initialized:
            return shown
        for name, raw in getattr(self.claim.status, field).items():
            if name not in shown or not shown[name].sign():
                shown[name] = parse(raw)
        return shown


def state_nodes(
    nodes: Sequence[Node],
    claims: Sequence[NodeClaim],
    marked: Iterable[str] = (),
    earlier: Iterable[StateNode] = (),
) -> list[StateNode]:
    """Join nodes and claims by the provider's ID; in order of their names.

    Parameters
    ----------
    marked : iterable of str
        Names of nodes, or of claims without one, that Karpenter is about to remove.
    earlier : iterable of StateNode
        Nodes that were joined before; those that are still the same are returned again.
    """
    by_provider_id: dict[str, tuple[Node | None, NodeClaim | None]] = {}
    for claim in claims:
        if claim.status.provider_id:
            by_provider_id[claim.status.provider_id] = None, claim
    for node in nodes:
        labels, provider = node.metadata.labels, node.spec.provider_id
        pool = labels.get(POOL)
        if pool and (not provider or not (labels.get(INSTANCE_TYPE) or labels.get(INITIALIZED))):
            continue
        provider = provider or node.name
        by_provider_id[provider] = node, by_provider_id.get(provider, (None, None))[1]
    names, states = frozenset(marked), list[StateNode]()
    known = {(id(each.node), id(each.claim), each.marked): each for each in earlier}
    for pair in by_provider_id.values():
        is_marked = bool(names) and any(obj is not None and obj.name in names for obj in pair)
        before = known.get((id(pair[0]), id(pair[1]), is_marked))
        states.append(StateNode(*pair, is_marked) if before is None else before)
    return sorted(states, key=lambda each: each.name)


# ---- a node that is there, and what is free on it ----------------------------------------------------------
# Rules: Karpenter v1.15.0, pkg/controllers/provisioning/scheduling/existingnode.go.


@dataclass(eq=False)
class ExistingNode:
    """A node as pods can go there.

    Attributes
    ----------
    free : dict of str to int
        What is left of each resource, in units of 10**-9.
    """

    state: StateNode
    host: RequirementSet
    requirements: RequirementSet
    free: dict[str, int]
    ports: list[tuple[str, tuple[HostPort, ...]]]
    volumes: Volumes
    volume_limits: Mapping[str, int]
    pods: list[TriedPod] = field(default_factory=list)

    @cached_property
    def room(self) -> tuple[float, ...]:
        """What is left, as tables of hosts have it."""
        return room_of(self.free)

    @cached_property
    def _slots(self) -> dict[PodShape, float]:
        return {}

    def slots(self, shape: PodShape) -> float:
        """How many pods of a shape its room may hold, and no more."""
        slots = self._slots.get(shape)
        if slots is None:
            sizes = zip(self.room, shape.wanted, strict=True)
            slots = max(min((left // size for left, size in sizes if size > 0), default=inf), 0.0)
            self._slots[shape] = slots
        return slots

    def copied(self) -> ExistingNode:
        """The node, for a pass that places pods there."""
        parts = self.state, self.host, self.requirements, dict(self.free), [*self.ports]
        return ExistingNode(*parts, self.volumes, self.volume_limits, [*self.pods])

    def as_host(self, requirements: RequirementSet) -> Host:
        return Host(self.state.host, self.state.taints, requirements, self.host, False)

    def placement(self, candidate: TriedPod, topology: Topology) -> RequirementSet | None:
        """What the node would have to have with a pod; None if it cannot take it."""
        shape = candidate.shape
        if shape.constraints.taint_refusal(self.state.taints):
            return None
        if candidate.volumes or self.volumes:
            volumes = joined(self.volumes, candidate.volumes)
            if any(
                len(claims) > self.volume_limits.get(name, len(claims)) for name, claims in volumes.items()
            ):
                return None
        if shape.ports and conflicts(candidate.pod.key, shape.ports, self.ports):
            return None
        free = self.free
        for name, amount in shape.amounts.items():
            if amount > free.get(name, 0):
                return None
        if min(free.values(), default=0) < 0:
            return None
        host = self.as_host(self.requirements)
        if host.refusal(shape.constraints.requirements):
            return None
        ways = candidate.groups.ways(host, candidate.alternatives, topology.ties)
        return next((way for way in ways if isinstance(way, RequirementSet)), None)

    def add(self, candidate: TriedPod, requirements: RequirementSet) -> None:
        """Take a pod."""
        shape = candidate.shape
        self.pods.append(candidate)
        for name, amount in shape.amounts.items():
            self.free[name] = self.free.get(name, 0) - amount
        self.requirements = requirements
        candidate.groups.record(self.as_host(requirements))
        if shape.ports:
            self.ports.append((candidate.pod.key, shape.ports))
        if candidate.volumes:
            self.volumes = joined(self.volumes, candidate.volumes)


class NodeContents(Struct, frozen=True, dict=True):
    """What is on nodes when a pass begins, or will be: pods by node, CSI nodes by name, daemons."""

    pods: Mapping[str, Sequence[Pod]]
    csi_nodes: Mapping[str, CSINode]
    storage: Storage
    book: ShapeBook
    daemons: Sequence[Daemon]

    @cached_property
    def coming(self) -> list[tuple[object, ...]]:
        """What counts of daemons."""
        return [
            (each.shape.amounts, each.constraints.tolerations, each.constraints.strict_requirements)
            for each in self.daemons
        ]


def existing_node(state: StateNode, contents: NodeContents, of_type: InstanceType | None) -> ExistingNode:
    """What is free on a node: daemons that are still to come have their room."""
    name = state.node.name if state.node is not None else ""
    pods, csi_node = contents.pods.get(name, ()) if name else (), contents.csi_nodes.get(name)
    parts = (csi_node, of_type, contents.coming, contents.storage, pods)
    return state.kept("free", parts, lambda: _existing_node(state, contents, pods, csi_node, of_type))


def _existing_node(
    state: StateNode,
    contents: NodeContents,
    pods: Sequence[Pod],
    csi_node: CSINode | None,
    of_type: InstanceType | None,
) -> ExistingNode:
    vocabulary = contents.book.vocabulary
    labels = vocabulary.of_labels(state.labels)
    coming: dict[str, int] = {}
    for daemon in contents.daemons:
        if daemon.runs_there(state.taints, labels):
            _add(coming, daemon.shape.amounts)
    used: dict[str, int] = {}
    volumes: Volumes = {}
    ports = []
    for pod in pods:
        if is_terminal(pod):
            continue
        shape = contents.book.shape(pod)
        _add(used, shape.amounts)
        if owned_by(pod, "DaemonSet", "apps/v1"):
            _add(coming, {name: -amount for name, amount in shape.amounts.items()})
        if shape.ports:
            ports.append((pod.key, shape.ports))
        if pod.spec.volumes:
            volumes = joined(volumes, volumes_of(pod, contents.storage))
    free = {
        name: amount.nanos() - used.get(name, 0) - max(coming.get(name, 0), 0)
        for name, amount in state.allocatable.items()
    }
    # of drivers that the CSINode does not name, those of the type
    limits = dict(of_type.volume_limits) if of_type is not None else {}
    for driver in csi_node.spec.drivers if csi_node is not None else ():
        limits.pop(driver.name, None)
        if driver.allocatable is not None and driver.allocatable.count is not None:
            limits[driver.name] = driver.allocatable.count
    return ExistingNode(
        state,
        vocabulary.set_of([vocabulary.key(HOSTNAME).one_of(state.host)]),
        labels.without(HOSTNAME),
        free,
        ports,
        volumes,
        limits,
    )


def _add(amounts: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        amounts[name] = amounts.get(name, 0) + amount
