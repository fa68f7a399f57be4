"""Groups that are bound to topologies, placed by the core alone with the memory of earlier groups.

What a group gets in a placement depends on the rows of the placement and on the position in the node list,
for pods whose filters and scores read rows alone. So the algorithm of `group_attempt.decide` runs over
remembered results. Groups of a tree that were placed before are noted, and counted on rows only where a
placement with one of their nodes has to be searched. The result is that of the tree's own cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from moorage._core.decide.batch_rows import Sink
from moorage._core.decide.decider import TieBreak
from moorage._core.decide.pod_batch import PodBatch
from moorage.framework import Assignments, Placement, PlacementGeneratePlugin, PlacementScorePlugin
from moorage.framework.plugin.group_index import GroupTree
from moorage.framework.runtime.placements import make_placements
from moorage.objects import AnyGroup
from moorage.plugins.topology_placement_generator import TopologyPlacementGenerator
from moorage.scheduler.cycle.engine import Engine
from moorage.scheduler.cycle.results import ScheduleResult
from moorage.scheduler.placing.place import LEDGER
from moorage.scheduler.scheduling_context import SchedulingContext

from .members import leaf_of
from .placement_memory import Found, PlacementMemory

Rows = npt.NDArray[np.int32]
NO_SINK = Sink()


class PluginFailedError(Exception):
    """A plugin fails for a pod of a group. The group's own cycle reports how."""


def places_by_topology(engine: Engine) -> bool:
    """Whether all placements of a profile come from node labels.

    Parameters
    ----------
    engine : Engine
        Of the profile.
    """
    plugins = engine.profile.at(PlacementGeneratePlugin)
    return all(type(plugin) is TopologyPlacementGenerator for plugin in plugins)


def place_all(engine: Engine, result: ScheduleResult, pods: range, spare: int) -> None:
    """Choose nodes for pods among those of `Search.search_in`, until too few are left, and count the pods on
    them.

    Parameters
    ----------
    engine : Engine
    result : ScheduleResult
        Of a batch; receives the row of each pod, -1 for one that fits nowhere or is not tried.
    pods : range
        The indexes of the pods, for which `Placer.reads_rows_alone`.
    spare : int
        Number of pods that may fit nowhere.

    Raises
    ------
    PluginFailedError
        The pods before that pod are counted; the caller undoes it.
    """
    assert result.batch is not None
    at, has_failed, rows = pods.start, False, result.rows
    rows[pods.start : pods.stop] = -1
    while at < pods.stop and spare >= 0:
        # As in `MemberPlacing.place_together`: the core passes over pods like one that fits nowhere.
        stop = min(pods.stop, at + spare + 1) if has_failed else pods.stop
        done = engine.placer.place(result.batch, result, at, stop, NO_SINK, _go_on if has_failed else _stop)
        if done < stop and has_failed:
            raise PluginFailedError
        has_failed = has_failed or done < stop
        spare -= int(np.count_nonzero(rows[at:done] < 0))
        at = done


def _go_on(at: int) -> bool:
    """Go on after an unschedulable pod."""
    return False


def _stop(at: int) -> bool:
    """Stop before an unschedulable pod."""
    return True


@dataclass(slots=True, eq=False)
class Node:
    """A group of a tree, with its pods.

    Attributes
    ----------
    group : PodGroup or CompositePodGroup
    kind : int
        See `PlacementMemory.kind`.
    minimum : int
        Number of pods, or of groups, that it needs.
    pods : range
        Their indexes in the batch.
    children : list of Node
        None for a pod group.
    """

    group: AnyGroup
    kind: int
    minimum: int
    pods: range
    children: list[Node] | None = None

    def leaves(self) -> Iterator[Node]:
        """Yield the pod groups."""
        if self.children is None:
            yield self
        for child in self.children or ():
            yield from child.leaves()


class Placed(NamedTuple):
    """A pod group that was placed before the one at hand.

    Attributes
    ----------
    pods : range
    rows : (pods,) int32 array
    nodes : frozenset of int
        The rows.
    """

    pods: range
    rows: Rows
    nodes: frozenset[int]


class TreePlacement:
    """Places groups and trees of groups, none of whose pods has a node, one after the other.

    Parameters
    ----------
    context : SchedulingContext
        The caller holds the lock of its cache.
    engine : Engine
        Has the rotation; see `places_by_topology`.
    result : ScheduleResult
        Of a batch.
    """

    def __init__(self, context: SchedulingContext, engine: Engine, result: ScheduleResult) -> None:
        self._context, self._engine, self._state = context, engine, context.cache.state
        self._batch, self._result = cast(PodBatch, result.batch), result
        self._scorers = engine.profile.at(PlacementScorePlugin)
        self._weights = [engine.profile.placement_weight(plugin) for plugin in self._scorers]
        in_core = all(plugin.in_core for plugin in self._scorers)
        self._suits = in_core and engine.decider.tie_break != TieBreak.RANDOM
        self._memory = engine.handle.derived(PlacementMemory)
        self._placed: list[Placed] = []

    def place(self, tree: GroupTree, pods: range) -> bool:
        """Assume the pods of a tree, and return whether this was done. If not, nothing has changed.

        Parameters
        ----------
        tree : GroupTree
            Each pod group has as many pods as it needs.
        pods : range
            The indexes of the pods, those of one pod group after the other. The view is refreshed.

        Returns
        -------
        bool
        """
        engine, memory = self._engine, self._memory
        if not self._suits or not engine.placer.reads_rows_alone(self._batch, pods.start, pods.stop):
            return False
        memory.follow()
        root, start = self._node(tree, pods), engine.decider.start
        scope = engine.search.states.open_scope()  # remembered failures concern other nodes
        try:
            rows = self._decide(root, memory.all_nodes())
        except PluginFailedError:
            rows = None
        finally:
            engine.search.states.scope = scope
            placed, self._placed = self._placed, []
        if rows is None or rows.min() < 0:
            engine.decider.start = start
            return False
        self._result.rows[pods.start : pods.stop] = rows
        self._state.atomically(self._enter, placed)
        return True

    def _enter(self, placed: Sequence[Placed]) -> None:
        """Count the pods on their rows, and enter them in the ledger."""
        self._engine.batching.scored = None
        for pods, _, _ in placed:
            self._engine.placer.account(self._batch, self._result, pods.start, pods.stop)
            LEDGER.enter(self._batch, self._result, pods.start, pods.stop)

    def _node(self, tree: GroupTree, pods: range) -> Node:
        """Return a tree with the pods of its groups."""
        leaves, kind_of = tree.leaves, self._memory.kind
        ends = [pods.start, pods.stop]
        if len(leaves) > 1:
            counts = Counter([leaf_of(self._batch.pod(at)) for at in pods])
            ends = list(accumulate((counts[leaf] for leaf in leaves), initial=pods.start))
        pods_of = {leaf: range(*ends[at : at + 2]) for at, leaf in enumerate(leaves)}

        def made(one: GroupTree) -> Node:
            group = one.group
            assert group is not None
            if one.key in pods_of:
                own, least = pods_of[one.key], one.minimum
                what = self._engine, (*group.topology_keys,), least, self._batch.key(own.start, own.stop)
                return Node(group, kind_of(what), least, own)
            children = [made(child) for child in one.children]
            key = self._engine, (*group.topology_keys,), one.minimum, *[child.kind for child in children]
            own = range(children[0].pods.start, children[-1].pods.stop)
            return Node(group, kind_of(key), one.minimum, own, children)

        return made(tree)

    # ---- the algorithm -------------------------------------------------------------------------------------

    def _decide(self, node: Node, parent: Placement) -> Rows | None:
        """Place a group on the nodes of a placement, in the best part of it if it is bound to a topology.

        Returns the row of each pod, -1 for those of groups that have failed; None where the group fails.
        """
        decider, placed, feasible = self._engine.decider, self._placed, list[Found]()
        kind, start = node.kind, decider.start
        for known in self._memory.known(make_placements(self._engine.profile, node.group, (), parent)):
            is_as_remembered = not placed or all(one.nodes.isdisjoint(known.rows) for one in placed)
            found = known.results.get((kind, start)) if is_as_remembered else None
            if found is None:
                decider.start = start
                found = self._try(node, known.placement)
                if is_as_remembered:
                    known.remember(kind, start, found)
            start = found.next_start
            if found.fits:
                feasible.append(found)
        decider.start = start
        if not feasible:
            return None
        rows = feasible[self._best(feasible)].rows
        for leaf in node.leaves():
            own = rows[leaf.pods.start - node.pods.start : leaf.pods.stop - node.pods.start]
            if (own >= 0).any():
                self._placed.append(Placed(leaf.pods, own, frozenset(own.tolist())))
        return rows

    def _try(self, node: Node, placement: Placement) -> Found:
        """Place a group in a placement, and undo it. The groups of a composite group are tried in order,
        until too few are left."""
        if node.children is None:
            return self._search(node, placement)
        satisfied, left, before = 0, len(node.children), len(self._placed)
        rows = np.full(len(node.pods), -1, dtype=np.int32)
        for child in node.children:
            if satisfied + left < node.minimum:
                break
            left -= 1
            own = self._decide(child, placement)
            if own is not None:
                satisfied += 1
                rows[child.pods.start - node.pods.start : child.pods.stop - node.pods.start] = own
        del self._placed[before:]
        fits = satisfied >= node.minimum
        scores: list[int] = []
        if fits:
            with self._counted(placement):
                scores = self._scores(node, placement, rows)
        return Found(fits, rows, self._engine.decider.start, scores)

    def _search(self, node: Node, placement: Placement) -> Found:
        """Place the pods of a pod group in a placement, and undo it."""
        engine, state, pods = self._engine, self._state, node.pods
        is_part = len(placement.rows) < state.view.size
        engine.search.search_in(placement.rows if is_part else None)
        engine.search.states.open_scope()
        try:
            with self._counted(placement):
                mark = state.begin()
                try:
                    place_all(engine, self._result, pods, len(pods) - node.minimum)
                    next_start, rows = engine.decider.start, self._result.rows[pods.start : pods.stop].copy()
                finally:
                    state.rollback(mark)
                placed = int(np.count_nonzero(rows >= 0))
                fits = placed > 0 and placed >= node.minimum
                scores: list[int] = []
                if fits:
                    scores = self._scores(node, placement, rows)
        finally:
            engine.search.search_in(None)
            self._memory.skip()
        return Found(fits, rows, next_start, scores)

    @contextmanager
    def _counted(self, placement: Placement) -> Iterator[None]:
        """Count the pod groups that were placed before on the rows of a placement, for the block."""
        rows = self._memory.known((placement,))[0].rows
        counted = [one for one in self._placed if not one.nodes.isdisjoint(rows)]
        if not counted:
            yield
            return
        mark = self._state.begin()
        try:
            for pods, own, _ in counted:
                for at in pods:
                    if own[at - pods.start] >= 0:
                        self._result.rows[at] = own[at - pods.start]
                        self._engine.placer.account(self._batch, self._result, at, at + 1)
            yield
        finally:
            self._state.rollback(mark)
            self._memory.skip()

    def _scores(self, node: Node, placement: Placement, rows: Rows) -> list[int]:
        """The scores of a placement for a group, by plugin."""
        found = Assignments(placement, self._batch.pods[node.pods.start : node.pods.stop], rows, 0)
        return [plugin.score_placement(node.group, found) for plugin in self._scorers]

    def _best(self, feasible: Sequence[Found]) -> int:
        """Return the index of the placement with the highest score. Ties are broken as among nodes."""
        if len(feasible) == 1:
            return 0
        totals = np.zeros(len(feasible), dtype=np.int64)
        for at, (plugin, weight) in enumerate(zip(self._scorers, self._weights, strict=True)):
            own = np.array([found.scores[at] for found in feasible], dtype=np.int64)
            # Scores of plugins of the core are 0 to 100.
            totals += weight * np.asarray(plugin.normalize_placement_scores(own))
        return self._engine.decider.pick(totals)
