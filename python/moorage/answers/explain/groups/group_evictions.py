"""Whom a pod group that fits nowhere would evict, and with which priority it would get nodes that way."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from moorage.engine.scheduler.cycle.engine import Engine
from moorage.engine.scheduler.groups.place_group import place_group, why_invalid
from moorage.engine.scheduler.scheduling_context import SchedulingContext
from moorage.kube import Pod, PodGroup

from ..explanation import GroupEvictions
from ..raised_priority import HIGHEST


def find_evictions(
    context: SchedulingContext, engine: Engine, group: PodGroup, pods: Sequence[Pod], scheduled: Sequence[Pod]
) -> GroupEvictions | None:
    """Find whom a group evicts that fits nowhere: with its priority, or else with the smallest higher one of
    group and pods that helps. All is undone.

    Parameters
    ----------
    engine : Engine
        Of the profile of the pods.
    pods, scheduled : sequence of Pod
        Pending members, not in the cache, and those that have a node.

    Returns
    -------
    GroupEvictions or None
        None if no priority helps, or evictions cannot be undone: the client is no ObjectStore.
    """
    if context.store is None:
        return None
    own = group.spec.priority or 0
    # Nobody can raise the priority of pods that have a node. More priority can help less: a pod that the
    # group has to be near is then evicted, too.
    there = set() if scheduled else {shape.priority for shape in context.cache.state.classes.shapes}
    for priority in (own, *sorted(one + 1 for one in there if own <= one < HIGHEST)):
        raised = replace(group, spec=replace(group.spec, priority=priority))
        same = [replace(pod, spec=replace(pod.spec, priority=priority)) for pod in pods]
        found = None if why_invalid(raised, same) else _evictions(context, engine, raised, same, scheduled)
        if found is not None:
            return GroupEvictions(priority, priority == own, *found)
    return None


def _evictions(
    context: SchedulingContext, engine: Engine, group: PodGroup, pods: Sequence[Pod], scheduled: Sequence[Pod]
) -> tuple[tuple[Pod, ...], int] | None:
    """Return whom a group evicts with its priority, and how many of its pods get a node; None for nobody."""
    victims, handle = list[Pod](), engine.handle

    def note(evicted: Sequence[Pod], node: str, preemptor: object) -> None:
        victims.extend(evicted)

    callbacks = handle.on_eviction[:]
    with context.cache.transaction():
        context.enlist()
        handle.on_eviction[:] = [note]
        try:
            result = place_group(context, engine, group, pods, scheduled, evicts=True)
        finally:
            handle.on_eviction[:] = callbacks
    if not victims:
        return None
    nominated = [failure.nominating for failure in result.failures.values()]
    placed = sum(bool(one and one.nominated_node_name) for one in nominated)
    return tuple(victims), placed
