"""Replaces nodes one at a time, as the upgrade of a pool of nodes does."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from msgspec.structs import replace

from moorage.errors import InputError
from moorage.kube import Pod

from .change import Change, preemptions, select_nodes
from .cluster_changes import add_nodes, drain, evict, remove_nodes
from .pod_scheduler import PodScheduler


def upgrade_nodes(scheduler: PodScheduler, nodes: str | Sequence[str], surge: int) -> Change:
    """Replace nodes by copies: see `Scheduler.upgrade_nodes`."""
    old = [node.name for node in select_nodes(scheduler.client, nodes)]
    if not 0 <= surge <= len(old):
        raise InputError(f"must be between 0 and {len(old)}, the number of nodes, not {surge}", path="surge")
    parts = [add_nodes(scheduler, 1, name) for name in old[:surge]]
    for at, name in enumerate(old):
        emptied, kept = _empty(scheduler, name)
        parts += emptied
        if kept:
            waiting = {f"Node {left}": f"is upgraded after {name}" for left in old[at + 1 :]}
            return replace(_together(parts), kept=kept | waiting)
        if not surge:
            parts.append(add_nodes(scheduler, 1, name))
        parts.append(replace(remove_nodes(scheduler, name), deleted=(f"Node {name}",)))
        if surge and at + surge < len(old):
            parts.append(add_nodes(scheduler, 1, old[at + surge]))
    return _together(parts)


def _empty(scheduler: PodScheduler, node: str) -> tuple[list[Change], dict[str, str]]:
    """Drain a node, and place its pods, until all are gone or none can go; return the pods that stay.

    It ends: each round evicts a pod that stayed before.
    """
    parts = [drain(scheduler, node)]
    while True:
        parts.append(preemptions(scheduler.run()))
        kept = parts[-2].unfinished
        if not kept or not parts[-2].deleted:
            return parts, kept
        pods = [scheduler.client.get(Pod, *name.removeprefix("Pod ").split("/")[::-1]) for name in kept]
        parts.append(evict(scheduler, pods))


def _together(parts: Sequence[Change]) -> Change:
    """Return changes as one, without what was kept."""

    def all_of(field: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(chain.from_iterable(getattr(part, field) for part in parts)))

    created, changed, deleted, notes = map(all_of, ("created", "changed", "deleted", "notes"))
    preempted = dict(chain.from_iterable(part.preempted.items() for part in parts))
    return Change(created, changed, deleted, preempted=preempted, notes=notes)
