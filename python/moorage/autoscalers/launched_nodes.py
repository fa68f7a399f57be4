"""Nodes as they are once they are ready: of a claim, or of an instance type of a pool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from msgspec.structs import replace

from moorage.cluster import PodScheduler
from moorage.cluster.changes import cluster_changes as changes
from moorage.kube import Condition, Node, NodeClaim, NodePool, NodeSelectorRequirement, ObjectMeta, Quantity
from moorage.kube.model.autoscaling import NodeClaimStatus
from moorage.kube.model.node import HOSTNAME, NodeSpec, NodeStatus
from moorage.store import NotFoundError

from .instance_types.instance_type import InstanceType, Offering
from .instance_types.labels import CAPACITY_TYPE, INSTANCE_TYPE, MADE_HERE, POOL, ZONE
from .karpenter.new_nodes_result import NewClaim
from .karpenter.pods.pod_validation import GROUP
from .providers.registrations import registration_of

READY_NODE = (Condition(type="Ready", status="True"),)
READY_CLAIM = tuple(
    [Condition(type=kind, status="True") for kind in ("Launched", "Registered", "Initialized", "Ready")]
)
TERMINATION = f"{GROUP}/termination"
"""The finalizer that keeps a claim until its node is gone."""
READY_LABELS = {"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}


def new_name(
    serials: dict[str, int], of: str, name_of: Callable[[int], str], is_taken: Callable[[str], bool]
) -> str:
    """Return the name of a new node of a pool or group: that of the number after the last one, or of the
    first after it that is not taken."""
    while True:
        serials[of] = serials.get(of, 0) + 1
        name = name_of(serials[of])
        if not is_taken(name):
            return name


def claim_and_node(claim: NewClaim, name: str, pool: NodePool) -> tuple[NodeClaim, Node]:
    """The claim of a node, and the node of its cheapest offering."""
    assert claim.launched is not None
    asked = {key: rule["In"][0] for key, rule in claim.requirements.items() if len(rule.get("In", ())) == 1}
    node = launched_node(name, pool, *claim.launched, asked, claim.labels)
    return claim_of(node, pool), node


def claim_of(node: Node, pool: NodePool) -> NodeClaim:
    """The claim of a node of a pool that is ready."""
    status = node.status
    return NodeClaim(
        metadata=ObjectMeta(name=node.name, labels=node.metadata.labels, finalizers=(TERMINATION,)),
        spec=replace(pool.spec.template.spec, requirements=()),
        status=NodeClaimStatus(
            node.spec.provider_id,
            node.name,
            capacity=status.capacity,
            allocatable=status.allocatable,
            conditions=READY_CLAIM,
        ),
    )


def ready_since(claim: NodeClaim, time: str) -> NodeClaim:
    """A claim that is ready since a time, at which it was also created if nothing says when."""
    conditions = tuple([replace(one, last_transition_time=time) for one in READY_CLAIM])
    metadata = replace(claim.metadata, creation_timestamp=claim.metadata.creation_timestamp or time)
    return replace(claim, metadata=metadata, status=replace(claim.status, conditions=conditions))


def launched_node(
    name: str,
    pool: NodePool,
    kind: InstanceType,
    offering: Offering,
    asked: Mapping[str, str],
    labels: Mapping[str, str],
) -> Node:
    """The node of an offering. What the type has goes before what is asked of it, and labels before both.

    kube-scheduler does not know that a provider reads one key as another, so the node has the topology keys
    that CSI drivers set on their nodes.
    """
    own = {one.key: one.values[0] for one in (*kind.requirements, *offering.requirements) if _tells(one)}
    fixed = {INSTANCE_TYPE: kind.name, ZONE: offering.zone, CAPACITY_TYPE: offering.capacity_type}
    every = {**asked, **own, **labels, **fixed, **READY_LABELS, POOL: pool.name, HOSTNAME: name}
    capacity, allocatable = kind.capacity, kind.allocatable(offering.capacity_override)
    if kind.shown is not None:
        capacity, allocatable = {**kind.shown.capacity}, {**kind.shown.allocatable}
    of_drivers = registration_of([pool]).normalized
    every |= {key: every[read_as] for key, read_as in of_drivers.items() if every.get(read_as)}
    return Node(
        metadata=ObjectMeta(name=name, labels=every),
        spec=NodeSpec(taints=pool.spec.template.spec.taints, provider_id=f"{MADE_HERE}{name}"),
        status=NodeStatus(
            capacity=_texts({**capacity, **offering.capacity_override}),
            allocatable=_texts(allocatable),
            conditions=READY_NODE,
        ),
    )


def _texts(amounts: Mapping[str, Quantity]) -> dict[str, str | int | float]:
    return {name: str(amount) for name, amount in amounts.items()}


def _tells(one: NodeSelectorRequirement) -> bool:
    return one.operator == "In" and len(one.values) == 1


def remove_claims(scheduler: PodScheduler, claims: Mapping[str, str]) -> None:
    """Delete claims with their nodes, which are empty, by the names of both; a node may have never come."""
    client = scheduler.client
    nodes: list[Node] = client.list(Node)[0]
    names = {*claims.values()}
    changes.remove_nodes(scheduler, [node.name for node in nodes if node.name in names])
    left: list[NodeClaim] = client.list(NodeClaim)[0]
    for claim in left:
        if claim.name in claims:
            client.update(replace(claim, metadata=replace(claim.metadata, finalizers=())))
            with suppress(NotFoundError):  # its finalizers alone have kept it
                client.delete(NodeClaim, claim.name)
    scheduler.sync()
