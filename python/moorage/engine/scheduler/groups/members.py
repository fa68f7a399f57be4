"""The pods of a group that are to be placed: of a pod group, or group by group of a composite one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import NamedTuple, cast

from moorage._core.decide.pod_batch import PodBatch
from moorage.engine.framework import PlacementGeneratePlugin
from moorage.engine.framework.plugin.group_index import GroupTree, is_composite
from moorage.engine.framework.plugin.lazy_attribute import lazy_attribute
from moorage.engine.plugins.gang_scheduling import GangScheduling
from moorage.engine.plugins.topology_placement_generator import TopologyPlacementGenerator
from moorage.kube import AnyGroup, Pod, UnitKey, group_of

from ..cycle.engine import Engine
from ..placing.routes import SEGMENTS, WHOLE_CYCLE
from ..scheduling_context import SchedulingContext
from .placement_memory import PlacementMemory

leaf_of = cast("Callable[[Pod], UnitKey]", group_of)
"""Returns the pod group of a pod that has one."""


class Segment(NamedTuple):
    """Consecutive members of a pod group that one engine schedules in the same kind of cycle.

    Attributes
    ----------
    engine : Engine
    whole_cycle : bool
        Whether each member has a cycle of its own, with out-of-tree plugins or extenders.
    first, end : int
        Index of the first member, and index after the last.
    """

    engine: Engine
    whole_cycle: bool
    first: int
    end: int


def by_leaf(pods: Sequence[Pod]) -> dict[UnitKey, list[int]]:
    """Return the pods of each pod group, as indexes in order.

    Parameters
    ----------
    pods : sequence of Pod
        All have a group.
    """
    found: dict[UnitKey, list[int]] = {}
    for at, leaf in enumerate(map(leaf_of, pods)):
        found.setdefault(leaf, []).append(at)
    return found


def in_order(leaves: Sequence[UnitKey], pods: Sequence[Pod]) -> list[int]:
    """Return the indexes of pods, pod group by pod group.

    Parameters
    ----------
    leaves : sequence of UnitKey
        The pod groups; those of other pods come last.
    pods : sequence of Pod
        All have a group.
    """
    if [leaf for leaf, _ in groupby(map(leaf_of, pods))] == list(leaves):
        return list(range(len(pods)))
    found = by_leaf(pods)
    ordered = [at for leaf in leaves for at in found.pop(leaf, ())]
    return ordered + sorted(at for others in found.values() for at in others)


def counts_members(engine: Engine) -> bool:
    """Whether a group needs its minimum. It does not where the profile lacks GangScheduling.

    Parameters
    ----------
    engine : Engine
        Of the profile of the pods.
    """
    return not engine.handle.groups_pods or GangScheduling.name in engine.profile.names


def places_by_topology(engine: Engine) -> bool:
    """Whether all placements of a profile come from node labels.

    Parameters
    ----------
    engine : Engine
        Of the profile.
    """
    plugins = engine.profile.at(PlacementGeneratePlugin)
    return all(type(plugin) is TopologyPlacementGenerator for plugin in plugins)


class Members:
    """The pods of a group that are to be placed. A pod group is a tree without groups below it.

    Parameters
    ----------
    engine : Engine
        Of the profile of the pods.
    pods, scheduled : sequence of Pod
        Pending members, and those that have a node.
    memory : PlacementMemory, optional
        Knows what groups got before. Only for pods that are placed by rows alone (`Placer.reads_rows_alone`),
        in placements of node labels, and without chance.

    Attributes
    ----------
    minimum : int
        Number of pods that need a node, or of groups that have to succeed.
    is_composite : bool
        Whether the group consists of groups.
    children : list of Members
        The groups of a composite group.
    indexes : list of list of int
        By child, the indexes of its pods in `pods`.
    batch : PodBatch
        The pending members of a pod group.
    segments : list of Segment
        The pending members of a pod group, cut by engine and kind of cycle.
    """

    def __init__(
        self,
        context: SchedulingContext,
        engine: Engine,
        tree: GroupTree,
        pods: Sequence[Pod],
        scheduled: Sequence[Pod],
        memory: PlacementMemory | None = None,
    ) -> None:
        assert tree.group is not None
        self.context, self.engine, self.tree, self.memory = context, engine, tree, memory
        self.group: AnyGroup = tree.group
        self.pods, self.scheduled = pods, scheduled
        self.minimum = tree.minimum if counts_members(engine) else 0
        self.children: list[Members] = []
        self.indexes: list[list[int]] = []
        self.is_composite = is_composite(tree.key)
        if self.is_composite:
            self._add_children()

    def _add_children(self) -> None:
        """Divide the pods among the groups of a composite group."""
        pending, placed = by_leaf(self.pods), by_leaf(self.scheduled)
        for child in self.tree.children:
            at = [index for leaf in child.leaves for index in pending.get(leaf, ())]
            before = [self.scheduled[index] for leaf in child.leaves for index in placed.get(leaf, ())]
            self.indexes.append(at)
            pods = [self.pods[index] for index in at]
            self.children.append(Members(self.context, self.engine, child, pods, before, self.memory))

    def __iter__(self) -> Iterator[Members]:
        """Iterate over the tree, each group before those in it."""
        yield self
        for child in self.children:
            yield from child

    @lazy_attribute
    def kind(self) -> Hashable:
        """Equal for groups that get the same nodes wherever the rows of a placement are the same."""
        below = [child.kind for child in self.children] if self.is_composite else None
        of_pods = self.batch.key(0, len(self.pods)) if below is None else (*below,)
        return self.engine, self.group.topology_keys, self.minimum, of_pods

    @lazy_attribute
    def batch(self) -> PodBatch:
        """The pending members of a pod group."""
        return self.context.batch_of(self.pods)

    @lazy_attribute
    def segments(self) -> list[Segment]:
        """The pending members of a pod group, cut by engine and kind of cycle."""
        return [
            Segment(self.context.engine_of_route(route), bool(route & WHOLE_CYCLE), first, end)
            for first, end, route in self.batch.cut(SEGMENTS)
        ]

    @lazy_attribute
    def engines(self) -> list[Engine]:
        """The engines that schedule the members."""
        found = [self.engine]
        for members in self:
            found += [] if members.is_composite else [segment.engine for segment in members.segments]
        return list(dict.fromkeys(found))


@contextmanager
def in_cycle(engines: Sequence[Engine]) -> Iterator[None]:
    """Configure engines for the cycle of a group: no remembered failures, and no PostFilter for single
    pods."""
    before = [(engine, engine.runs_post_filter, engine.search.states.open_scope()) for engine in engines]
    for engine in engines:
        engine.runs_post_filter = False
    try:
        yield
    finally:
        for engine, runs, scope in before:
            engine.runs_post_filter, engine.search.states.scope = runs, scope
            engine.search.search_in(None)
