"""Groups that are bound to a topology, placed by the core alone with the memory of earlier groups.

A placement is searched again only where one of its rows has changed since it was searched for a group of the
same kind. The result is that of the group's own cycle (`group_attempt.decide`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from moorage._core.decide.decider import TieBreak
from moorage._core.decide.pod_batch import PodBatch, Sink
from moorage.framework import Assignments, Placement, PlacementGeneratePlugin, PlacementScorePlugin
from moorage.framework.runtime.placements import make_placements, placements_to_find
from moorage.objects import PodGroup
from moorage.plugins.topology_placement_generator import TopologyPlacementGenerator
from moorage.scheduler.cycle.engine import Engine
from moorage.scheduler.cycle.results import ScheduleResult
from moorage.scheduler.placing.place import LEDGER
from moorage.scheduler.scheduling_context import SchedulingContext

from .placement_memory import NO_ROWS, KindOfGroup, PlacementMemory

NOWHERE = Sink()


def places_by_topology(engine: Engine) -> bool:
    """Whether all placements of a profile come from node labels.

    Parameters
    ----------
    engine : Engine
        Of the profile.
    """
    plugins = engine.profile.at(PlacementGeneratePlugin)
    return all(type(plugin) is TopologyPlacementGenerator for plugin in plugins)


class GroupPlacement:
    """Places the pods of one group, none of which has a node, in the best of several placements.

    Parameters
    ----------
    context : SchedulingContext
        The caller holds the lock of its cache, and the view is refreshed.
    engine : Engine
        Has the rotation; see `places_by_topology`.
    result : ScheduleResult
        Of a batch.
    pods : range
        The indexes of the pods.
    group : PodGroup
    needs_all : bool
        Whether the group fails if one of the pods fits nowhere.
    """

    def __init__(
        self,
        context: SchedulingContext,
        engine: Engine,
        result: ScheduleResult,
        pods: range,
        group: PodGroup,
        needs_all: bool,
    ) -> None:
        self._context, self._engine, self._group, self._needs_all = context, engine, group, needs_all
        self._batch, self._result, self._pods = cast(PodBatch, result.batch), result, pods
        self._placements: Sequence[Placement] = ()
        self._start = engine.decider.start

    def place(self) -> bool:
        """Assume the pods, and return whether this was done. If not, nothing has changed."""
        engine, pods = self._engine, self._pods
        scores = engine.profile.at(PlacementScorePlugin)
        if engine.decider.tie_break == TieBreak.RANDOM or not all(plugin.in_core for plugin in scores):
            return False
        if not engine.placer.reads_rows_alone(self._batch, pods.start, pods.stop):
            return False
        memory = engine.handle.shared(PlacementMemory)
        self._placements = make_placements(engine.profile, self._group, (), memory.all_nodes())
        if len(self._placements) < 2:
            return False
        kind = memory.kind(self._placements, (engine, self._batch.key(pods.start, pods.stop)))
        feasible = self._feasible(kind)
        if feasible is None:
            engine.decider.start = self._start
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

    def _feasible(self, kind: KindOfGroup) -> npt.NDArray[np.int64] | None:
        """Search the placements in order; return the indexes of those that fit.

        Returns None without any, or where a group's own cycle is needed: a placement takes only some of the
        pods, and that may be enough, or pods may be evicted for the others.
        """
        decider, placements, found = self._engine.decider, self._placements, 0
        wanted, percentage = len(placements), self._context.percentage_of_placements
        if percentage is not None:
            nodes = sum([len(placement.rows) for placement in placements])
            wanted = placements_to_find(percentage, len(placements), nodes)
        at = self._search_outdated(kind) if wanted == len(placements) else 0
        while at < len(placements) and found < wanted:
            end = kind.known_until(at, decider.start)
            if end == at:
                self._search(kind, at)
                end = at + 1
            fitting = np.flatnonzero(kind.fits[at:end])
            if found + len(fitting) >= wanted:
                end = at + int(fitting[wanted - found - 1]) + 1
            found += len(fitting)
            decider.start, at = int(kind.next_starts[end - 1]), end
        feasible = kind.fits[:at].nonzero()[0]
        if not len(feasible) or (len(feasible) < at and not (self._needs_all and self._is_futile())):
            return None
        return feasible

    def _search_outdated(self, kind: KindOfGroup) -> int:
        """Search the placements that have changed, while the searches of the others begin where they have
        begun; return the index of the first placement whose search does not."""
        decider = self._engine.decider
        outdated = kind.outdated(decider.start)
        if outdated is None:
            return 0
        for at in outdated:
            decider.start, before = int(kind.starts[at]), kind.next_starts[at]
            self._search(kind, at)
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

    def _search(self, kind: KindOfGroup, at: int) -> None:
        """Place the pods in one placement, note where, and undo that."""
        engine, state, pods = self._engine, self._context.cache.state, self._pods
        search, start = engine.search, engine.decider.start
        search.search_in(self._placements[at].rows)
        mark = state.begin()
        try:
            engine.placer.place(self._batch, self._result, pods.start, pods.stop, NOWHERE, _go_on)
            next_start = engine.decider.start
            rows = self._result.rows[pods.start : pods.stop]
            rows = NO_ROWS if rows.min() < 0 else rows.copy()
        finally:
            state.rollback(mark)
            search.search_in(None)
        kind.note(at, start, next_start, rows)

    # ---- scores --------------------------------------------------------------------------------------------

    def _best(self, kind: KindOfGroup, feasible: npt.NDArray[np.int64]) -> int:
        """Return the index in `feasible` of the placement with the highest score. Ties are broken as among
        nodes."""
        if len(feasible) == 1:
            return 0

        totals = np.zeros(len(feasible), dtype=np.int64)
        for plugin in self._engine.profile.at(PlacementScorePlugin):  # those of the core keep to 0 to 100
            scores = kind.scores(plugin.name)
            own = scores if len(feasible) == len(scores) else scores[feasible]
            for at in feasible[own < 0].tolist():
                scores[at] = plugin.score_placement(self._group, self._assignments(kind, at))
            own = scores if len(feasible) == len(scores) else scores[feasible]
            totals += self._engine.profile.placement_weight(plugin) * np.asarray(
                plugin.normalize_placement_scores(own)
            )
        return self._engine.decider.pick(totals)

    def _assignments(self, kind: KindOfGroup, at: int) -> Assignments:
        """Return the nodes that the pods get in a placement."""
        pods = self._batch.pods[self._pods.start : self._pods.stop]
        return Assignments(self._placements[at], pods, kind.rows[at], 0)


def _go_on(at: int) -> bool:
    """Go on after an unschedulable pod."""
    return False
