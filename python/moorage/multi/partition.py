"""Partitions: nodes that a scheduler prefers, so that schedulers conflict less often.

A partition is a preference, as in Gödel, whose schedulers fall back to the whole cluster. On a scheduler's
own copy of the cluster the nodes of other schedulers have a taint; a pod that does not fit elsewhere gets a
toleration of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from msgspec.structs import replace

from moorage.objects import Node, Pod, Taint, Toleration
from moorage.objects.model.node import ZONE

KEY = "moorage.dev/partition"
ELSEWHERE = Toleration(key=KEY, operator="Exists")


def assign_owners(nodes: Sequence[Node], schedulers: int, how: str) -> list[int] | None:
    """Assign nodes to schedulers.

    Parameters
    ----------
    nodes : sequence of Node
        The nodes of the cluster.
    schedulers : int
        Number of schedulers.
    how : {"none", "zone", "hash"}
        ``none``: no partitions. ``zone``: whole zones in descending order of size, each to the scheduler with
        the fewest nodes so far. ``hash``: by a hash of the node's name.

    Returns
    -------
    list of int or None
        Index of the scheduler by node; None without partitions.

    Raises
    ------
    ValueError
        `how` is unknown.
    """
    if how == "none":
        return None
    if how == "hash":
        return [crc32(node.name.encode()) % schedulers for node in nodes]
    if how != "zone":
        raise ValueError(f"partition must be one of none, zone, hash, not {how!r}")
    zones: dict[str, int] = {}
    for node in nodes:
        zone = node.metadata.labels.get(ZONE, "")
        zones[zone] = zones.get(zone, 0) + 1
    sizes, of_zone = [0] * schedulers, dict[str, int]()
    for zone, count in sorted(zones.items(), key=lambda item: -item[1]):
        of_zone[zone] = sizes.index(min(sizes))
        sizes[of_zone[zone]] += count
    return [of_zone[node.metadata.labels.get(ZONE, "")] for node in nodes]


def mark_partition(scheduler: int, node: Node, owner: int) -> Node:
    """Return a node as in a scheduler's copy of the cluster.

    Parameters
    ----------
    scheduler : int
        Index of the scheduler that owns the copy.
    owner : int
        Index of the scheduler to whose partition the node belongs.

    Returns
    -------
    Node
        With a taint if the node belongs to another scheduler.
    """
    if owner == scheduler:
        return node
    taint = Taint(key=KEY, value=str(owner), effect="NoSchedule")
    return replace(node, spec=replace(node.spec, taints=(*node.spec.taints, taint)))


def tolerate_partitions(pod: Pod) -> Pod:
    """Return a pod that tolerates the nodes of other partitions."""
    return replace(pod, spec=replace(pod.spec, tolerations=(*pod.spec.tolerations, ELSEWHERE)))
