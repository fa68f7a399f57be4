"""Nodes of NodePools as they are once they are ready: of a claim or of an instance type, as templates for
a plan, and with what a dump leaves out of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from math import inf
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from moorage._core.base.resources import PodGates
from moorage.cluster import ChangingScheduler, PodScheduler
from moorage.cluster.change import with_own_uids
from moorage.engine.framework.evidence import asked_by
from moorage.errors import number_of
from moorage.kube import (
    Condition,
    Node,
    NodeClaim,
    NodePool,
    NodeSelectorRequirement,
    ObjectMeta,
    Pod,
    Quantity,
)
from moorage.kube.model.autoscaling import NodeClaimStatus
from moorage.kube.model.node import HOSTNAME, NodeSpec, NodeStatus
from moorage.notes import RoutineNote
from moorage.store import NotFoundError

from .karpenter.claim_template import ClaimTemplate, claim_template, is_dynamic
from .karpenter.karpenter_options import KarpenterOptions
from .karpenter.new_nodes_result import NewClaim
from .karpenter.pod_validation import GROUP
from .karpenter.type_columns import Catalogue, KnownType
from .providers.instance_type import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    MADE_HERE,
    POOL,
    ZONE,
    InstanceType,
    Offering,
)
from .providers.known_labels import known_labels_of
from .providers.pool_types import PoolTypes

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
    own = {
        requirement.key: requirement.values[0]
        for requirement in (*kind.requirements, *offering.requirements)
        if _tells(requirement)
    }
    fixed = {INSTANCE_TYPE: kind.name, ZONE: offering.zone, CAPACITY_TYPE: offering.capacity_type}
    every = {**wanted_labels, **own, **labels, **fixed, **READY_LABELS, POOL: pool.name, HOSTNAME: name}
    capacity, allocatable = kind.capacity, kind.allocatable(offering.capacity_override)
    if kind.shown is not None:
        capacity, allocatable = {**kind.shown.capacity}, {**kind.shown.allocatable}
    of_drivers = known_labels_of([pool]).normalized
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


def _tells(requirement: NodeSelectorRequirement) -> bool:
    return requirement.operator == "In" and len(requirement.values) == 1


def remove_claims(scheduler: ChangingScheduler, claims: Mapping[str, str]) -> None:
    """Delete claims with their nodes, which are empty, by the names of both; a node may have never come."""
    client = scheduler.client
    nodes: list[Node] = client.list(Node)[0]
    names = {*claims.values()}
    scheduler.remove_nodes([node.name for node in nodes if node.name in names])
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
        of_nodes = number_of(len(unready), "node", "nodes")
        of_claims = number_of(len(bare), "NodeClaim", "NodeClaims")
        notes.append(RoutineNote(f"Taken to be ready, as they have no conditions: {of_nodes}, {of_claims}."))
    return notes


# ---- new nodes that pools could have, as templates for a plan: the types that promise the lowest price -----

CHEAPEST, LARGE = 3, 2
"""How many types of a pool are tried: of all, and of those on which each of the pods fits."""


class PoolTemplates(Struct):
    """Templates of new nodes.

    Attributes
    ----------
    prices : dict of str to float
        By the name of a template; those that are known.
    types : int
        How many types the pools allow.
    tried : int
        How many of them have templates.
    """

    nodes: list[Node] = msgspec.field(default_factory=list)
    prices: dict[str, float] = msgspec.field(default_factory=dict)
    types: int = 0
    tried: int = 0


class _Demand(NamedTuple):
    """What pods request, by resource in units of 10**-9: together, each at least, and each at most."""

    total: Mapping[str, int]
    smallest: Mapping[str, int]
    largest: Mapping[str, int]


def pool_templates(
    pools: Iterable[NodePool],
    types: PoolTypes,
    pods: Iterable[Pod],
    gates: PodGates,
    options: KarpenterOptions,
) -> PoolTemplates:
    """Return nodes of each pool in each of its zones, of the types that promise the lowest price for pods.

    A type promises what all pods would cost if they filled its nodes without a gap.
    """
    templates, demand = PoolTemplates(), _demand(pods, gates)
    for pool in filter(is_dynamic, pools):
        of_pool = types.by_pool.get(pool.name, ())
        catalogue = Catalogue(dataclasses.replace(options, provider=types.provider))
        template = claim_template(pool, catalogue, catalogue.known(of_pool), (), True)
        if isinstance(template, str):
            continue
        chosen = _chosen(template, demand)
        templates.types += len(template.columns.types)
        templates.tried += len(chosen)
        for kind in chosen:
            for offering in _by_zone(template, kind).values():
                parts = pool.name, kind.name, offering.capacity_type, offering.zone
                name = ".".join(filter(None, parts)).lower()
                templates.nodes.append(launched_node(name, pool, kind.type, offering, {}, template.labels))
                if offering.price < inf:
                    templates.prices[name] = round(offering.price, 6)
    return templates


def _demand(pods: Iterable[Pod], gates: PodGates) -> _Demand:
    amounts = [{name: amount.nanos() for name, amount in asked_by(pod, gates).items()} for pod in pods]
    names = sorted({name for amount in amounts for name in amount})
    each = {name: [amount.get(name, 0) for amount in amounts] for name in names}
    return _Demand(
        {name: sum(of) for name, of in each.items()} | {"pods": len(amounts) * 10**9},
        {name: min(of) for name, of in each.items()},
        {name: max(of) for name, of in each.items()},
    )


def _chosen(template: ClaimTemplate, demand: _Demand) -> list[KnownType]:
    """The types of a template that promise the lowest price."""
    promised = []
    for at, kind in enumerate(template.columns.types):
        have = kind.groups[0][0]
        prices = [each.price for each in _by_zone(template, kind).values()]
        part = max((_part(amount, have.get(name, 0)) for name, amount in demand.total.items()), default=0.0)
        fits, fits_all = (
            all(amount <= have.get(name, 0) for name, amount in bound.items())
            for bound in (demand.smallest, demand.largest)
        )
        if prices and fits and part < inf:
            price = min(prices)
            promised.append((part * (price if price < inf else 1.0), at, fits_all, kind))
    promised.sort(key=lambda each: each[:2])
    promised = [*{each[3].name: each for each in reversed(promised)}.values()][
        ::-1
    ]  # one for each system, too
    large = [each for each in promised if each[2]][:LARGE]
    return [kind for _, _, _, kind in dict.fromkeys([*promised[:CHEAPEST], *large])]


def _part(amount: int, have: int) -> float:
    return 0.0 if not amount else amount / have if have > 0 else inf


def _by_zone(template: ClaimTemplate, kind: KnownType) -> dict[str, Offering]:
    """The cheapest offering of a type in each zone in which the pool could have it."""
    by_zone: dict[str, Offering] = {}
    for zone, offering in _launchable(template, kind):
        if zone not in by_zone or offering.price < by_zone[zone].price:
            by_zone[zone] = offering
    return by_zone


def _launchable(template: ClaimTemplate, kind: KnownType) -> Iterator[tuple[str, Offering]]:
    for known in kind.offerings:
        if known.offering.is_launchable and not template.requirements.refusal(known.requirements, True):
            yield known.offering.zone, known.offering
