"""Nodes of NodePools as they are once they are ready: of a claim or of an instance type, as templates for
a plan, and with what a dump leaves out of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import inf
from operator import itemgetter

from msgspec.structs import replace

from moorage.cluster import ChangingScheduler, PodScheduler
from moorage.cluster.change import with_own_uids
from moorage.errors import number_of
from moorage.kube import (
    Condition,
    Node,
    NodeClaim,
    NodePool,
    ObjectMeta,
    Pod,
    Quantity,
)
from moorage.kube.model.autoscaling import NodeClaimStatus
from moorage.kube.model.node import HOSTNAME, NodeSpec, NodeStatus
from moorage.notes import RoutineNote
from moorage.store import NotFoundError

from .karpenter.cluster_view import ClusterView
from .karpenter.new_nodes_result import NewClaim
from .karpenter.pod_validation import GROUP
from .karpenter.type_columns import KnownType
from .providers.instance_type import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    MADE_HERE,
    POOL,
    ZONE,
    InstanceType,
    Offering,
    stated_labels,
)
from .providers.known_labels import known_labels_of
from .scale_up_answer import KARPENTER, NewNode

# ---- nodes as they are once they are ready: of a claim, or of an instance type of a pool -------------------

READY_NODE = (Condition(type="Ready", status="True"),)
READY_CLAIM = tuple(
    [Condition(type=kind, status="True") for kind in ("Launched", "Registered", "Initialized", "Ready")]
)
TERMINATION = f"{GROUP}/termination"
"""The finalizer that keeps a claim until its node is gone."""
READY_LABELS = {"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}


def claim_and_node(claim: NewClaim, name: str, pool: NodePool) -> tuple[NodeClaim, Node]:
    """The claim of a node, and the node of its cheapest offering."""
    assert claim.launched is not None
    labels = {key: rule["In"][0] for key, rule in claim.requirements.items() if len(rule.get("In", ())) == 1}
    node = launched_node(name, pool, *claim.launched[:2], labels, claim.labels)
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
    conditions = tuple([replace(each, last_transition_time=time) for each in READY_CLAIM])
    metadata = replace(claim.metadata, creation_timestamp=claim.metadata.creation_timestamp or time)
    return replace(claim, metadata=metadata, status=replace(claim.status, conditions=conditions))


def launched_node(
    name: str,
    pool: NodePool,
    kind: InstanceType,
    offering: Offering,
    wanted_labels: Mapping[str, str],
    labels: Mapping[str, str],
) -> Node:
    """The node of an offering. What the type has goes before what is asked of it, and labels before both.

    kube-scheduler does not know that a provider reads one key as another, so the node has the topology keys
    that CSI drivers set on their nodes.
    """
    own = stated_labels(kind, offering)
    fixed = {INSTANCE_TYPE: kind.name, ZONE: offering.zone, CAPACITY_TYPE: offering.capacity_type}
    every = {**wanted_labels, **own, **labels, **fixed, **READY_LABELS, POOL: pool.name, HOSTNAME: name}
    capacity, allocatable = kind.capacity, kind.allocatable(offering.capacity_override)
    if kind.shown is not None:
        capacity, allocatable = {**kind.shown.capacity}, {**kind.shown.allocatable}
    every |= known_labels_of([pool]).of_drivers(every)
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


def remove_claims(scheduler: ChangingScheduler, claims: Mapping[str, str]) -> None:
    """Delete claims with their nodes, which are empty, by the names of both; a node may have never come."""
    client = scheduler.client
    nodes: list[Node] = client.list(Node)[0]
    names = {*claims.values()}
    scheduler.change.remove_nodes([node.name for node in nodes if node.name in names])
    left: list[NodeClaim] = client.list(NodeClaim)[0]
    for claim in left:
        if claim.name in claims:
            client.update(replace(claim, metadata=replace(claim.metadata, finalizers=())))
            with suppress(NotFoundError):  # its finalizers alone have kept it
                client.delete(NodeClaim, claim.name)
    scheduler.sync()


# ---- what a dump leaves out of nodes that came from NodePools: their claims, and that they are ready -------


def assume_claims(scheduler: PodScheduler, since: str = "") -> list[str]:
    """Write what Karpenter would find of nodes and claims without any condition, and the claims of nodes of
    pools that have none, which may have come at a known time; return what was assumed."""
    client = scheduler.client
    pools: dict[str, NodePool] = {pool.name: pool for pool in client.list(NodePool)[0]}
    claims: list[NodeClaim] = client.list(NodeClaim)[0]
    nodes: list[Node] = [node for node in client.list(Node)[0] if node.metadata.labels.get(POOL) in pools]
    bare = [claim for claim in claims if not claim.status.conditions]
    for claim in bare:
        client.update(replace(claim, status=replace(claim.status, conditions=READY_CLAIM)))
    known = {claim.status.provider_id for claim in claims}
    without = [node for node in nodes if node.spec.provider_id not in known or not node.spec.provider_id]
    unready = [node for node in nodes if not node.status.conditions]
    alone = {node.name for node in without}
    for node in nodes:
        new = node
        if not node.status.conditions:
            new = replace(new, status=replace(new.status, conditions=READY_NODE))
        if node.name in alone:
            spec = replace(new.spec, provider_id=node.spec.provider_id or f"{MADE_HERE}{node.name}")
            labels = node.metadata.labels | READY_LABELS
            new = replace(new, spec=spec, metadata=replace(new.metadata, labels=labels))
        if new is not node:
            client.update(new)
        if node.name in alone:
            claim = claim_of(new, pools[node.metadata.labels[POOL]])
            client.create(*with_own_uids(client, [ready_since(claim, since) if since else claim]))
    scheduler.sync()
    notes = list[str]()
    if without:
        nodes_text = number_of(len(without), "node of NodePools has", "nodes of NodePools have")
        notes.append(RoutineNote(f"{nodes_text} no NodeClaim; each is taken to have one."))
    if bare or unready:
        of_kinds = (unready, "node", "nodes"), (bare, "NodeClaim", "NodeClaims")
        taken = ", ".join(number_of(len(each), *words) for each, *words in of_kinds if each)
        notes.append(RoutineNote(f"Taken to be ready, as they have no conditions: {taken}."))
    return notes


# ---- new nodes that pools could have, of the types that promise the lowest price for pods ------------------

CHEAPEST, LARGE = 3, 2
"""How many types of a pool are tried: of all, and of those on which each of the pods fits."""


def promising_nodes(view: ClusterView, pods: Iterable[Pod]) -> Iterator[tuple[Node, float]]:
    """Yield nodes of each pool in each of its zones, with their prices, of the types that promise the lowest
    price for pods: that of as many nodes as their requests fill. Offerings without a known price are left
    out."""
    amounts = [view.book.shape(pod).amounts for pod in pods]
    for template in view.templates[0]:
        offers = view.finisher.offers(template.columns, template.requirements)
        for kind, zones in _chosen(zip(template.columns.types, offers.launchable, strict=True), amounts):
            for each in zones.values():
                offered = kind.name, each.zone, each.capacity_type, each.price
                new = NewNode("", KARPENTER, template.name, *offered, 0)
                of_type = template.pool, kind.type, each
                yield launched_node(new.kind_name, *of_type, {}, template.labels), each.price


_OfferedType = tuple[KnownType, dict[str, Offering]]
"""A type with its cheapest offering in each zone."""


def _chosen(
    types: Iterable[tuple[KnownType, Sequence[Offering]]], amounts: Sequence[Mapping[str, int]]
) -> Iterable[_OfferedType]:
    """The types that promise the lowest price for pods, by what each requests in units of 10**-9."""
    names = {name for each in amounts for name in each}
    total, least, most = (
        {name: of([each.get(name, 0) for each in amounts]) for name in names} for of in (sum, min, max)
    )
    promised = dict[str, tuple[float, bool, _OfferedType]]()
    for kind, offerings in types:
        known = [each for each in offerings if each.price < inf and not each.is_bound]
        zones = {each.zone: each for each in sorted(known, key=lambda each: -each.price)}
        have = kind.groups[0][0]
        fits, fits_all = (all(need <= have.get(name, 0) for name, need in of.items()) for of in (least, most))
        if fits and zones:
            nodes = max((-(-total[name] // have[name]) for name in names if have.get(name, 0) > 0), default=0)
            price = nodes * min(each.price for each in zones.values())
            promised.setdefault(kind.name, (price, fits_all, (kind, zones)))  # one for each system, too
    ordered = sorted(promised.values(), key=itemgetter(0))
    large = [each for each in ordered if each[1]][:LARGE]
    return {each[0].name: each for *_, each in [*ordered[:CHEAPEST], *large]}.values()
