"""What a dump leaves out of nodes that came from NodePools: their claims, and that they are ready."""

from __future__ import annotations

from msgspec.structs import replace

from moorage.cluster import PodScheduler
from moorage.cluster.changes.change import with_own_uids
from moorage.errors import number_of
from moorage.kube import Node, NodeClaim, NodePool

from .instance_types.labels import MADE_HERE, POOL
from .launched_nodes import READY_CLAIM, READY_LABELS, READY_NODE, claim_of, ready_since


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
    notes = []
    if without:
        nodes_text = number_of(len(without), "node of NodePools has", "nodes of NodePools have")
        notes.append(f"{nodes_text} no NodeClaim; each is taken to have one.")
    if bare or unready:
        notes.append(
            f"Taken to be ready, as they have no conditions: {number_of(len(unready), 'node', 'nodes')}, "
            f"{number_of(len(bare), 'NodeClaim', 'NodeClaims')}."
        )
    return notes
