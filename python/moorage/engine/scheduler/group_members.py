"""The pods of a group that are to be placed, and the placements in which they are tried."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import cast

import numpy as np
import numpy.typing as npt

from moorage._core.decide.pod_batch import PodBatch
from moorage.grouped import grouped
from moorage.kube import AnyGroup, Pod, UnitKey, group_of
from moorage.lazy import NamedTuple, lazy_attribute

from ..framework import FrameworkHandle, NodeRanking, Placement, PlacementGeneratePlugin, Status, interface
from ..framework.extension_points import StatusError, check_range, note_exception, note_refused
from ..framework.group_index import GroupTree, is_composite
from ..framework.profile import Profile
from ..framework.status import Code, error_status
from ..plugins.queue_and_groups import GangScheduling, TopologyPlacementGenerator
from .cycle.engine import Engine
from .place import SEGMENTS, WHOLE_CYCLE
from .scheduler_state import SchedulerState

# ---- placement memory --------------------------------------------------------------------------------------
# Memory of what placing groups in placements gave, until a row of the placement changes.
#
# Pods that are placed by rows alone get the same nodes again as long as the rows of the placement and the
# position in the node list are the same.

Rows = npt.NDArray[np.int32]
MOST_CHAINS, MOST_PLACEMENTS = 64, 1 << 13


class Chain:
    """What a group got in placements that were searched one after the other.

    Parameters
    ----------
    start : int
        Position in the node list at which the first search begins.

    Attributes
    ----------
    starts : list of int
        By placement, the position at which the search in it begins; then the one after all searches.
    rows : list of (pods,) int32 array
        By placement that the group fits, the row of each pod; -1 for none.
    statuses : list of Status or None
        By placement, why the group fails there; None where it gets what it needs.
    fits : (count,) bool array
        By placement, whether the group gets what it needs there.
    known : bytearray
        By placement, whether the above is known: 1 or 0.
    """

    def __init__(self, count: int, start: int) -> None:
        self.starts = [start] * (count + 1)
        self.rows: list[Rows] = [np.empty(0, dtype=np.int32)] * count
        self.statuses: list[Status | None] = [None] * count
        self.fits = np.zeros(count, dtype=np.bool_)
        self.known = bytearray(count)
        # By plugin: the scores, and the placements for which they have to be asked for.
        self._scores: dict[str, tuple[npt.NDArray[np.int64], set[int]]] = {}

    def unknown(self) -> Iterator[int]:
        """Yield the placements that have to be searched, in order; `note` is called for each."""
        at = self.known.find(0)
        while at >= 0:
            yield at
            at = self.known.find(0, at + 1)

    def note(self, at: int, rows: Rows, status: Status | None, next_start: int) -> None:
        """Note the result in a placement. Later ones have to be searched again if they begin elsewhere now.

        Parameters
        ----------
        rows : (pods,) int32 array
            Not to be changed any more.
        next_start : int
            Position at which the next search begins.
        """
        self.statuses[at], self.fits[at] = status, status is None
        if status is None:  # the rows of failures are not asked for, and there can be many
            self.rows[at] = rows
        for _, unscored in self._scores.values():
            unscored.add(at)
        if self.starts[at + 1] != next_start:
            self.known[at + 1 :] = bytes(len(self.known) - at - 1)
            self.starts[at + 1] = next_start
        self.known[at] = 1  # last, so that an exception before leaves nothing half known

    def scores(self, plugin: str, score: Callable[[int], int]) -> npt.NDArray[np.int64]:
        """Return the scores of the placements that the group fits, by a plugin.

        Parameters
        ----------
        score : callable
            Returns the score of the placement of an index.

        Returns
        -------
        (n,) int64 array
        """
        if plugin not in self._scores:
            self._scores[plugin] = np.zeros(len(self.fits), dtype=np.int64), {*range(len(self.fits))}
        scores, unscored = self._scores[plugin]
        for at in sorted(unscored):
            if self.fits[at]:
                scores[at] = score(at)
        unscored.clear()
        return scores[self.fits]


Chains = dict[tuple[Hashable, int], Chain]
"""By kind of group and start."""


class PlacementMemory:
    """Remembers the results of groups in placements, until a row of the placement changes."""

    def __init__(self, handle: FrameworkHandle) -> None:
        self._cluster = handle.cache.state
        self._chains: dict[int, tuple[Sequence[Placement], Chains]] = {}  # by identity of what it keeps alive
        self._of_row: dict[int, list[tuple[Chains, int]]] = {}  # with the index of the row's placement
        self._cursor, self._version = 0, -1
        self._all_nodes: tuple[int, Placement] | None = None  # with the static version of the view

    def all_nodes(self) -> Placement:
        """Return the placement of all nodes of the view, in list order."""
        view = self._cluster.view
        if self._all_nodes is None or self._all_nodes[0] != view.static_version:
            self._all_nodes = view.static_version, Placement("", view.rows())
        return self._all_nodes[1]

    def chain(self, placements: Sequence[Placement], kind: Hashable, start: int) -> Chain:
        """Return what is known about placements in the cluster as it is.

        Parameters
        ----------
        kind : hashable
            Equal for groups that get the same nodes wherever the rows of a placement are the same.
        start : int
            Position in the node list at which the search in the first placement begins.

        Returns
        -------
        Chain
            Of which later calls know what is noted.
        """
        self._follow()
        key = id(placements[0]) if len(placements) == 1 else id(placements)
        if key not in self._chains:
            chains = Chains()
            for at, placement in enumerate(placements):
                for row in placement.rows.tolist():
                    self._of_row.setdefault(row, []).append((chains, at))
            self._chains[key] = placements, chains
        chains = self._chains[key][1]
        chain = chains.get((kind, start))
        if chain is None:
            if len(chains) >= MOST_CHAINS:
                chains.clear()
            chain = chains[kind, start] = Chain(len(placements), start)
        return chain

    def undone(self, rows: Iterable[int]) -> None:
        """Pass over changes since `chain` that have been undone.

        Parameters
        ----------
        rows : iterable of int
            Those that were changed when `chain` was called for groups below.
        """
        self._forget(rows)
        self._cursor = self._cluster.log.head

    def _follow(self) -> None:
        """Forget the results that changes of rows have made void."""
        log, view = self._cluster.log, self._cluster.view
        rows = log.rows_since(self._cursor)
        if rows is None or self._version != view.static_version or len(self._chains) > MOST_PLACEMENTS:
            self._chains, self._of_row = {}, {}
            self._version = view.static_version
        else:
            self._forget(rows)
        self._cursor = log.head

    def _forget(self, rows: Iterable[int]) -> None:
        """Forget the results in the placements of some rows."""
        for row in rows:
            for chains, at in self._of_row.get(row, ()):
                for chain in chains.values():
                    chain.known[at] = 0


# ---- members -----------------------------------------------------------------------------------------------
# The pods of a group that are to be placed: of a pod group, or group by group of a composite one.

leaf_of = cast("Callable[[Pod], UnitKey]", group_of)
"""Returns the pod group of a pod that has one."""


class Segment(NamedTuple):
    """Consecutive members of a pod group that one engine schedules in the same kind of cycle.

    Attributes
    ----------
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
    """Return the pods of each pod group, as indexes in order."""
    return grouped((leaf, at) for at, leaf in enumerate(map(leaf_of, pods)))


def in_order(leaves: Sequence[UnitKey], pods: Sequence[Pod]) -> list[int]:
    """Return the indexes of pods, pod group by pod group.

    Parameters
    ----------
    leaves : sequence of UnitKey
        The pod groups; those of other pods come last.
    """
    if [leaf for leaf, _ in groupby(map(leaf_of, pods))] == list(leaves):
        return list(range(len(pods)))
    places = by_leaf(pods)
    ordered = [at for leaf in leaves for at in places.pop(leaf, ())]
    return ordered + sorted(at for others in places.values() for at in others)


def counts_members(engine: Engine) -> bool:
    """Whether a group needs its minimum. It does not where the profile lacks GangScheduling.

    Parameters
    ----------
    engine : Engine
        Of the profile of the pods.
    """
    return not engine.handle.groups_pods or GangScheduling.name in engine.profile.names


def places_by_topology(engine: Engine) -> bool:
    """Whether all placements of a profile come from node labels."""
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
    ranking : NodeRanking or None
        Ranks nodes while the group is placed after evictions.
    segments : list of Segment
        The pending members of a pod group, cut by engine and kind of cycle.
    """

    def __init__(
        self,
        context: SchedulerState,
        engine: Engine,
        tree: GroupTree,
        pods: Sequence[Pod],
        scheduled: Sequence[Pod],
        memory: PlacementMemory | None = None,
    ) -> None:
        assert tree.group is not None
        self.context, self.engine, self.tree, self.memory = context, engine, tree, memory
        self.ranking: NodeRanking | None = None
        self.group: AnyGroup = tree.group
        self.pods, self.scheduled = pods, scheduled
        self.minimum = tree.minimum if counts_members(engine) else 0
        self.children: list[Members] = []
        self.indexes: list[list[int]] = []
        self.is_composite = is_composite(tree.key)
        if self.is_composite:  # the pods are divided among the groups
            pending, placed = by_leaf(pods), by_leaf(scheduled)
            for child in tree.children:
                at = [index for leaf in child.leaves for index in pending.get(leaf, ())]
                before = [scheduled[index] for leaf in child.leaves for index in placed.get(leaf, ())]
                self.indexes.append(at)
                its = [pods[index] for index in at]
                self.children.append(Members(context, engine, child, its, before, memory))

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
        engines = [self.engine]
        for members in self:
            engines += [] if members.is_composite else [segment.engine for segment in members.segments]
        return list(dict.fromkeys(engines))


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


# ---- placements --------------------------------------------------------------------------------------------
# Placements of a pod group and their scores.
#
# A placement is a set of nodes; all pods of a group go to one placement (kube-scheduler v1.37,
# framework/runtime/framework.go, RunPlacementGeneratePlugins and RunPlacementScorePlugins).


def make_placements(
    profile: Profile, group: AnyGroup, scheduled: Sequence[Pod], parent: interface.Placement
) -> Sequence[interface.Placement]:
    """Run the PlacementGenerate plugin of a profile.

    Parameters
    ----------
    scheduled : sequence of Pod
        Pods of the group that have a node.
    parent : Placement
        The placement of all nodes.

    Returns
    -------
    sequence of Placement
        `parent` alone where the profile has no such plugin.

    Raises
    ------
    StatusError
        The plugin failed.
    """
    plugins = profile.at(interface.PlacementGeneratePlugin)
    if not plugins:
        return [parent]
    try:
        return plugins[0].generate_placements(group, scheduled, parent)
    except Exception as error:  # an exception of a plugin fails the group
        note_exception(plugins[0], f"pod group {group.key}", error)
        raise StatusError(Status(Code.ERROR, err=error)) from error


def score_placements(
    profile: Profile,
    group: AnyGroup,
    count: int,
    raw: Callable[[interface.PlacementScorePlugin], npt.NDArray[np.int64]],
) -> npt.NDArray[np.int64]:
    """Run the PlacementScore plugins of a profile.

    Parameters
    ----------
    count : int
        Number n of placements that the group fits.
    raw : callable
        Returns the scores of these placements by a plugin, not normalized, as an array of the caller.

    Returns
    -------
    (n,) int64 array
        Weighted totals.

    Raises
    ------
    StatusError
        A plugin failed, or left the range of 0 to 100.
    """
    totals = np.zeros(count, dtype=np.int64)
    for plugin in profile.at(interface.PlacementScorePlugin):
        step = "PlacementScore"
        try:
            own = raw(plugin)
            step = "NormalizePlacementScore on PlacementScore"
            scores = np.asarray(plugin.normalize_placement_scores(own))
        except Exception as error:  # an exception of a plugin fails the group
            note_exception(plugin, f"pod group {group.key}", error)
            text = f'running {step} plugins: plugin "{plugin.name}" failed with'
            raise StatusError(error_status(text, Status(Code.ERROR, err=error))) from error
        values = scores.tolist()  # faster than an array where placements are few
        if min(values) < 0 or max(values) > interface.MAX_NODE_SCORE:
            try:
                check_range({plugin.name: scores}, "PlacementScore")
            except StatusError as failed:
                if plugin.handle is not None:
                    note_refused(plugin.handle.plugin_errors, f"pod group {group.key}", failed)
                raise
        totals += profile.placement_weight(plugin) * scores
    return totals
