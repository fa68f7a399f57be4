"""Partitions: nodes that a scheduler looks at before all others, so that it meets the others seldom.

A partition is a preference (as in Gödel, whose schedulers fall back to the whole cluster): on a scheduler's
own copy of the cluster the nodes of the others have a taint, which a pod that fits nowhere else is made to
tolerate.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from msgspec.structs import replace

from moorage.objects.model.node import Node, Taint
from moorage.objects.model.pod import Pod, Toleration

ZONE = "topology.kubernetes.io/zone"
KEY = "moorage.dev/partition"
ELSEWHERE = Toleration(key=KEY, operator="Exists")


def owners(nodes: Sequence[Node], schedulers: int, how: str) -> list[int] | None:
    """Which scheduler each node belongs to.

    Parameters
    ----------
    how : {"none", "zone", "hash"}
        To nobody (None); whole zones, the largest first, each to the scheduler that has the fewest nodes so
        far; by a hash of the node's name.
    """
    if how == "none":
        return None
    if how == "hash":
        return [crc32(node.name.encode()) % schedulers for node in nodes]
    if how != "zone":
        raise ValueError(f"partition {how!r}: one of none, zone, hash")
    zones: dict[str, int] = {}
    for node in nodes:
        zone = node.metadata.labels.get(ZONE, "")
        zones[zone] = zones.get(zone, 0) + 1
    held, of_zone = [0] * schedulers, dict[str, int]()
    for zone, count in sorted(zones.items(), key=lambda item: -item[1]):
        of_zone[zone] = held.index(min(held))
        held[of_zone[zone]] += count
    return [of_zone[node.metadata.labels.get(ZONE, "")] for node in nodes]


def as_seen_by(scheduler: int, node: Node, owner: int) -> Node:
    """A node on a scheduler's copy of the cluster."""
    if owner == scheduler:
        return node
    taint = Taint(key=KEY, value=str(owner), effect="NoSchedule")
    return replace(node, spec=replace(node.spec, taints=(*node.spec.taints, taint)))


def anywhere(pod: Pod) -> Pod:
    """The pod as it looks beyond its scheduler's partition."""
    return replace(pod, spec=replace(pod.spec, tolerations=(*pod.spec.tolerations, ELSEWHERE)))
