"""A node that is there, and what is free on it.

Rules: Karpenter v1.15.0, pkg/controllers/provisioning/scheduling/existingnode.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import Struct

from moorage.autoscalers.instance_types.instance_type import InstanceType
from moorage.kube import CSINode, Pod
from moorage.kube.model.node import HOSTNAME

from ..claims.claim import Candidate, narrowed, refusal_of
from ..claims.daemon_overhead import Daemon
from ..claims.type_filter import conflicts
from ..pods.pod_shape import HostPort, ShapeBook
from ..pods.pod_validation import is_terminal, owned_by
from ..pods.volume_alternatives import Storage, Volumes, joined, volumes_of
from ..requirements.requirement_set import RequirementSet
from ..topology.topology import Host, Topology
from .state_nodes import StateNode


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
    pods: list[Candidate] = field(default_factory=list)

    def copied(self) -> ExistingNode:
        """The node, for a pass that places pods there."""
        return replace(self, free=dict(self.free), ports=[*self.ports], pods=[*self.pods])

    def as_host(self, requirements: RequirementSet) -> Host:
        return Host(self.state.host, self.state.taints, requirements, self.host, False)

    def placement(self, candidate: Candidate, topology: Topology) -> RequirementSet | None:
        """What the node would have to have with a pod; None if it cannot take it."""
        shape = candidate.shape
        if shape.taint_refusal(self.state.taints):
            return None
        volumes = joined(self.volumes, candidate.volumes)
        if any(len(claims) > self.volume_limits.get(name, len(claims)) for name, claims in volumes.items()):
            return None
        if shape.ports and conflicts(candidate.pod.key, shape.ports, self.ports):
            return None
        free = self.free
        if any(amount > free.get(name, 0) for name, amount in shape.amounts.items()):
            return None
        if min(free.values(), default=0) < 0:
            return None
        host = self.as_host(self.requirements)
        if refusal_of(host, shape.requirements):
            return None
        ways = narrowed(host, candidate, topology)
        return next((found for found in ways if isinstance(found, RequirementSet)), None)

    def add(self, candidate: Candidate, requirements: RequirementSet, topology: Topology) -> None:
        """Take a pod."""
        shape = candidate.shape
        self.pods.append(candidate)
        for name, amount in shape.amounts.items():
            self.free[name] = self.free.get(name, 0) - amount
        self.requirements = requirements
        topology.record(candidate.uid, shape, self.as_host(requirements))
        if shape.ports:
            self.ports.append((candidate.pod.key, shape.ports))
        self.volumes = joined(self.volumes, candidate.volumes)


class NodeContents(Struct, frozen=True):
    """What is on nodes when a pass begins: pods by node, CSI nodes by name."""

    pods: Mapping[str, Sequence[Pod]]
    csi_nodes: Mapping[str, CSINode]
    storage: Storage
    book: ShapeBook


def existing_node(
    state: StateNode,
    contents: NodeContents,
    daemons: Sequence[Daemon],
    of_type: InstanceType | None,
) -> ExistingNode:
    """What is free on a node: daemons that are still to come have their room."""
    vocabulary = contents.book.vocabulary
    labels = vocabulary.of_labels(state.labels)
    coming: dict[str, int] = {}
    for daemon in daemons:
        if daemon.runs_there(state.taints, labels):
            _add(coming, daemon.shape.amounts)
    there = (
        [pod for pod in contents.pods.get(state.node.name, ()) if not is_terminal(pod)] if state.node else []
    )
    used: dict[str, int] = {}
    volumes: Volumes = {}
    ports = []
    for pod in there:
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
    return ExistingNode(
        state,
        vocabulary.set_of([vocabulary.key(HOSTNAME).one_of(state.host)]),
        labels.without(HOSTNAME),
        free,
        ports,
        volumes,
        _volume_limits(state, contents, of_type),
    )


def _add(amounts: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        amounts[name] = amounts.get(name, 0) + amount


def _volume_limits(state: StateNode, contents: NodeContents, of_type: InstanceType | None) -> dict[str, int]:
    """Limits by driver: those that the CSINode states; of drivers that it does not name the type's."""
    limits = dict(of_type.volume_limits) if of_type is not None else {}
    csi_node = contents.csi_nodes.get(state.node.name) if state.node is not None else None
    for driver in csi_node.spec.drivers if csi_node is not None else ():
        limits.pop(driver.name, None)
        if driver.allocatable is not None and driver.allocatable.count is not None:
            limits[driver.name] = driver.allocatable.count
    return limits
