"""Groups that are bound to a topology, placed by the core alone with the memory of earlier groups.

A placement is searched again only where one of its rows has changed since it was searched for a group of the
same kind. The result is that of the group's own cycle (`group_attempt.decide`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from moorage._core.decide.batch_rows import Sink
from moorage._core.decide.decider import TieBreak
from moorage._core.decide.pod_batch import PodBatch
from moorage.framework import Assignments, Placement, PlacementGeneratePlugin, PlacementScorePlugin
from moorage.framework.runtime.placements import make_placements, placements_to_find
from moorage.objects import PodGroup
from moorage.plugins.topology_placement_generator import TopologyPlacementGenerator
from moorage.scheduler.cycle.engine import Engine
from moorage.scheduler.cycle.results import ScheduleResult
from moorage.scheduler.placing.place import LEDGER
from moorage.scheduler.scheduling_context import SchedulingContext

from .placement_memory import NO_ROWS, PlacementMemory, PlacementResults

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


def place_all(engine: Engine, result: ScheduleResult, pods: range) -> None:
    """Choose nodes for pods among those of `Search.search_in`, and count the pods on them.

    Parameters
    ----------
    engine : Engine
    result : ScheduleResult
        Of a batch; receives the row of each pod, -1 for one that fits nowhere.
    pods : range
        The indexes of the pods, for which `Placer.reads_rows_alone`.

    Raises
    ------
    PluginFailedError
        The pods before that pod are counted; the caller undoes it.
    """
    assert result.batch is not None
    if engine.placer.place(result.batch, result, pods.start, pods.stop, NO_SINK, _go_on) < pods.stop:
        raise PluginFailedError


class GroupPlacement:
    """Places groups, none of whose pods has a node, one after the other: each in the best of several
    placements.

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
        self._context, self._engine = context, engine
        self._batch, self._result = cast(PodBatch, result.batch), result
        self._scorers = engine.profile.at(PlacementScorePlugin)
        self._weights = [engine.profile.placement_weight(plugin) for plugin in self._scorers]
        in_core = all(plugin.in_core for plugin in self._scorers)
        self._suits = in_core and engine.decider.tie_break != TieBreak.RANDOM
        self._pods = range(0)
        self._placements: Sequence[Placement] = ()

    def place(self, pods: range, group: PodGroup, needs_all: bool) -> bool:
        """Assume the pods of a group, and return whether this was done. If not, nothing has changed.

        Parameters
        ----------
        pods : range
            The indexes of the pods. The view is refreshed.
        group : PodGroup
        needs_all : bool
            Whether the group fails if one of the pods fits nowhere.

        Returns
        -------
        bool
        """
        engine = self._engine
        if not self._suits or not engine.placer.reads_rows_alone(self._batch, pods.start, pods.stop):
            return False
        memory = engine.handle.derived(PlacementMemory)
        self._placements = make_placements(engine.profile, group, (), memory.all_nodes())
        if len(self._placements) < 2:
            return False
        self._pods, start = pods, engine.decider.start
        kind = memory.kind(self._placements, (engine, self._batch.key(pods.start, pods.stop)))
        try:
            feasible = self._feasible(kind, group, needs_all)
        except PluginFailedError:
            feasible = None
        if feasible is None:
            engine.decider.start = start
            return False
        best = int(feasible[self._best(kind, feasible)])
        self._result.rows[pods.start : pods.stop] = kind.rows[best]
        self._context.cache.state.atomically(self._enter)
        return True

    def _enter(self) -> None:
        """Count the pods on their rows, and enter them in the ledger."""
        start, stop = self._pods.start, self._pods.stop
        self._engine.batching.scored = None
        self._engine.placer.account(self._batch, self._result, start, stop)
        LEDGER.enter(self._batch, self._result, start, stop)

    # ---- the search ----------------------------------------------------------------------------------------

    def _feasible(
        self, kind: PlacementResults, group: PodGroup, needs_all: bool
    ) -> npt.NDArray[np.int64] | None:
        """Search the placements in order; return the indexes of those that fit.

        Returns None without any, or where a group's own cycle is needed: a placement takes only some of the
        pods, and that may be enough, or pods may be evicted for the others.
        """
        decider, placements, found = self._engine.decider, self._placements, 0
        wanted, percentage = len(placements), self._context.percentage_of_placements
        if percentage is not None:
            nodes = sum([len(placement.rows) for placement in placements])
            wanted = placements_to_find(percentage, len(placements), nodes)
        at = self._search_outdated(kind, group) if wanted == len(placements) else 0
        while at < len(placements) and found < wanted:
            end = kind.known_until(at, decider.start)
            if end == at:
                self._search(kind, group, at)
                end = at + 1
            fitting = np.flatnonzero(kind.fits[at:end])
            if found + len(fitting) >= wanted:
                end = at + int(fitting[wanted - found - 1]) + 1
            found += len(fitting)
            decider.start, at = int(kind.next_starts[end - 1]), end
        feasible = kind.fits[:at].nonzero()[0]
        if not len(feasible) or (len(feasible) < at and not (needs_all and self._is_futile())):
            return None
        return feasible

    def _search_outdated(self, kind: PlacementResults, group: PodGroup) -> int:
        """Search the placements that have changed, while the searches of the others begin where they have
        begun; return the index of the first placement whose search does not."""
        decider = self._engine.decider
        outdated = kind.outdated(decider.start)
        if outdated is None:
            return 0
        for at in outdated:
            decider.start, before = int(kind.starts[at]), kind.next_starts[at]
            self._search(kind, group, at)
            if kind.next_starts[at] != before:
                decider.start = int(kind.next_starts[at])
                return at + 1
        decider.start = int(kind.next_starts[-1])
        return len(self._placements)

    def _is_futile(self) -> bool:
        """Whether PostFilter makes room for none of the pods."""
        shape_of = self._context.cache.state.classes.shape_of
        classes = self._batch.classes(self._pods.start, self._pods.stop)
        return not any(self._engine.may_preempt(shape_of(pod_class)) for pod_class in classes)

    def _search(self, kind: PlacementResults, group: PodGroup, at: int) -> None:
        """Place the pods in one placement, note where and how plugins score that, and undo it.

        Raises
        ------
        PluginFailedError
            It is undone, and nothing is noted.
        """
        engine, state, pods, placement = (
            self._engine,
            self._context.cache.state,
            self._pods,
            self._placements[at],
        )
        search, start = engine.search, engine.decider.start
        search.search_in(placement.rows)
        mark = state.begin()
        try:
            place_all(engine, self._result, pods)
            next_start = engine.decider.start
            rows = self._result.rows[pods.start : pods.stop]
            rows = NO_ROWS if rows.min() < 0 else rows.copy()
        finally:
            state.rollback(mark)
            search.search_in(None)
        scores: list[int] = []
        if len(rows):
            found = Assignments(placement, self._batch.pods[pods.start : pods.stop], rows, 0)
            scores = [plugin.score_placement(group, found) for plugin in self._scorers]
        kind.note(at, (start, next_start), rows, scores)

    def _best(self, kind: PlacementResults, feasible: npt.NDArray[np.int64]) -> int:
        """Return the index in `feasible` of the placement with the highest score. Ties are broken as among
        nodes."""
        if len(feasible) == 1:
            return 0
        totals = np.zeros(len(feasible), dtype=np.int64)
        for plugin, weight, scores in zip(self._scorers, self._weights, kind.scores, strict=False):
            own = scores if len(feasible) == len(scores) else scores[feasible]
            # Scores of plugins of the core are 0 to 100.
            totals += weight * np.asarray(plugin.normalize_placement_scores(own))
        return self._engine.decider.pick(totals)


def _go_on(at: int) -> bool:
    """Go on after an unschedulable pod."""
    return False
