"""Replaces nodes one at a time, as the upgrade of a pool of nodes does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from msgspec.structs import replace

from moorage.errors import InputError
from moorage.objects import Pod

from .change import Change
from .cluster_changes import ClusterChanges
from .selection import select_nodes


def upgrade_nodes(
    cluster: ClusterChanges, nodes: str | Sequence[str], surge: int, run: Callable[[], Iterable[str]]
) -> Change:
    """Replace nodes by copies: see `Scheduler.upgrade_nodes`.

    Parameters
    ----------
    run : callable
        Places the pending pods; returns the keys of those that were evicted for them.
    """
    old = [node.name for node in select_nodes(cluster.client, nodes)]
    if not 0 <= surge <= len(old):
        raise InputError(f"must be between 0 and {len(old)}, the number of nodes, not {surge}", path="surge")
    parts = [cluster.add_nodes(1, name) for name in old[:surge]]
    for at, name in enumerate(old):
        emptied, kept = _empty(cluster, name, run)
        parts += emptied
        if kept:
            waiting = {f"Node {left}": f"is upgraded after {name}" for left in old[at + 1 :]}
            return replace(_together(parts), kept=kept | waiting)
        if not surge:
            parts.append(cluster.add_nodes(1, name))
        parts.append(replace(cluster.remove_nodes(name), deleted=(f"Node {name}",)))
        if surge and at + surge < len(old):
            parts.append(cluster.add_nodes(1, old[at + surge]))
    return _together(parts)


def _empty(
    cluster: ClusterChanges, node: str, run: Callable[[], Iterable[str]]
) -> tuple[list[Change], dict[str, str]]:
    """Drain a node, and place its pods, until all are gone or none can go; return the pods that stay.

    It ends: each round evicts a pod that stayed before.
    """
    parts = [cluster.drain(node)]
    while True:
        parts.append(Change(deleted=tuple(f"Pod {key}" for key in run())))
        kept = parts[-2].unfinished
        if not kept or not parts[-2].deleted:
            return parts, kept
        pods = [cluster.client.get(Pod, *name.removeprefix("Pod ").split("/")[::-1]) for name in kept]
        parts.append(cluster.evict(pods))


def _together(parts: Sequence[Change]) -> Change:
    """Return changes as one, without what was kept."""

    def all_of(field: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(chain.from_iterable(getattr(part, field) for part in parts)))

    created, changed, deleted, notes = map(all_of, ("created", "changed", "deleted", "notes"))
    return Change(created, changed, deleted, notes=notes)
