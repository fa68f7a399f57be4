"""Nodes and pods for tests of the core, from as little as a test wants to say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import force_setattr, replace
from tests.doors.engine import ClusterState

from moorage.objects import (
    Affinity,
    Container,
    ContainerImage,
    ContainerPort,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodSpec,
    ResourceRequirements,
    Taint,
)

ZONE = "topology.kubernetes.io/zone"


def node(
    name: str,
    zone: str = "",
    labels: dict[str, str] | None = None,
    taints: Iterable[Taint] = (),
    images: Iterable[tuple[Sequence[str], int]] = (),
    unschedulable: bool = False,
    **allocatable: Any,
) -> Node:
    """A node; an image is ((names), size), and allocatable defaults to 4 cpu, 8Gi and 10 pods."""
    return Node(
        metadata=ObjectMeta(name=name, labels=({ZONE: zone} if zone else {}) | (labels or {})),
        spec=NodeSpec(taints=tuple(taints), unschedulable=unschedulable),
        status=NodeStatus(
            allocatable={"cpu": "4", "memory": "8Gi", "pods": "10"} | allocatable,
            images=tuple(ContainerImage(names=tuple(names), size_bytes=size) for names, size in images),
        ),
    )


def declaring(node: Node, *features: str) -> Node:
    """The node, with declared features."""
    return replace(node, status=replace(node.status, declared_features=features))


def container(name: str = "c", requests: dict[str, Any] | None = None, **rest: Any) -> Container:
    """A container; requests of extended resources have equal limits."""
    asked = requests or {}
    limits = {resource: quantity for resource, quantity in asked.items() if "/" in resource}
    return Container(name=name, resources=ResourceRequirements(requests=asked, limits=limits), **rest)


def port(host_port: int, host_ip: str = "", protocol: str = "") -> ContainerPort:
    return ContainerPort(container_port=host_port, host_port=host_port, host_ip=host_ip, protocol=protocol)


def pod(
    name: str,
    on: str = "",
    requests: dict[str, Any] | None = None,
    ports: Iterable[ContainerPort] = (),
    labels: dict[str, str] | None = None,
    owner: str = "",
    **spec: Any,
) -> Pod:
    """A pod of namespace default whose UID is its name; `spec` may give other containers."""
    owners = (OwnerReference(kind="ReplicaSet", name=owner, uid=owner, controller=True),) if owner else ()
    containers = (container(requests=requests, ports=tuple(ports)),)
    return Pod(
        metadata=ObjectMeta(
            name=name, namespace="default", uid=name, labels=labels or {}, owner_references=owners
        ),
        spec=PodSpec(**({"node_name": on, "containers": containers} | spec)),
    )


def replica(template: Pod, ordinal: int) -> Pod:
    """One of the pods of a template, as the ledger makes it."""
    meta = template.metadata
    base = meta.generate_name or f"{meta.name}-"
    uid = f"{meta.namespace}/{base}#{ordinal}"
    return replace(template, metadata=replace(meta, name=f"{base}{ordinal}", uid=uid))


def pinned(name: str) -> Affinity:
    """Node affinity as a DaemonSet pod has it."""
    need = NodeSelectorRequirement(key="metadata.name", operator="In", values=(name,))
    return Affinity(
        node_affinity=NodeAffinity(
            required=NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(need,)),))
        )
    )


def pod_of(state: ClusterState, pod_class: int, pinned_to: int = 0, node_name: int = 0) -> Pod:
    """A pod of a class, which is pinned to a node and names one: symbols, 0 for none."""
    names, _ = state.symbols.names, state.classes.shape_of(pod_class)  # IndexError for no class
    affinity = pinned(names[pinned_to] or "") if pinned_to else None
    one = pod("", on=names[node_name] or "", affinity=affinity)
    force_setattr(one, "interned", state.classes.interned[pod_class])
    return one
