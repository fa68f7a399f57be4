"""Several pod groups, placed one after the other by one call of the core.

The result is that of one cycle for each group (`place_group`). A group that needs more than the core, or of
which a pod fits nowhere, is left to its own cycle. For speed alone (`tests/house/special_paths.toml`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate

from moorage._core.decide.batch_rows import Sink
from moorage._core.decide.decider import TieBreak
from moorage._core.decide.pod_batch import PodBatch, Route
from moorage.kube import AnyGroup, Pod, PodGroup

from ..framework import PlacementScorePlugin
from ..framework.group_index import GroupTree
from .cycle.engine import Engine
from .cycle.results import ScheduleResult
from .group_attempt import decide
from .group_members import Members, PlacementMemory, counts_members, in_cycle, leaf_of, places_by_topology
from .options import check_readable
from .place import LEDGER, SEGMENTS, WHOLE_CYCLE
from .place_group import one_cycle, why_invalid
from .scheduling_context import SchedulingContext

GROWTH = 16
MOST_PODS = 4096
"""Pods of one call, at least those of one group: a transaction takes memory for each."""
PROFILE = int(Route.PROFILE)
NONE = -1


class GroupBatch:
    """Pods of several groups, with the rows where they are placed.

    Parameters
    ----------
    groups : sequence of PodGroup or CompositePodGroup or None
        None where the group is gone; it is left to its own cycle.
    members : sequence of sequence of Pod
        The pending pods of each group, at least one; of a composite group, those of its pod groups one after
        the other.
    scheduled : sequence of sequence of Pod
        The pods of each group that have a node.

    Attributes
    ----------
    ends : list of int
        By group, the index after its last pod.
    result : ScheduleResult
        Of the pods of all groups.
    """

    def __init__(
        self,
        context: SchedulingContext,
        groups: Sequence[AnyGroup | None],
        members: Sequence[Sequence[Pod]],
        scheduled: Sequence[Sequence[Pod]],
    ) -> None:
        self.context = context
        self.groups, self.scheduled = groups, scheduled
        self.ends = list(accumulate(map(len, members)))
        pods = [pod for of_group in members for pod in of_group]
        try:
            self.batch = PodBatch(context.cache.state, pods, context.routes_of_members)
        except ValueError:
            check_readable(pods)
            raise
        self.result = ScheduleResult(context.cache.state, len(self.batch), self.batch)
        self._trees = [None if group is None else context.groups.tree_of(group) for group in groups]
        self._suit = [
            places_by_topology(engine) and not engine.plan.follows for engine in context.rotation.engines
        ]
        self._counts_members = [counts_members(engine) for engine in context.rotation.engines]
        self._routes: list[int] = []  # by group, of those that were asked for
        self._further_routes = self._read_routes()
        self._limit = len(groups)  # groups to try at once: few after one that does not fit

    def groups_of(self, first: int, end: int) -> list[PodGroup]:
        """Return some of the groups, or the pod groups below them.

        Parameters
        ----------
        first, end : int
            Index of the first group, and index after the last.
        """
        trees = [tree for tree in self._trees[first:end] if tree is not None]
        return [members.group for tree in trees for members in tree if isinstance(members.group, PodGroup)]

    def begin(self, group: int) -> int:
        """Return the index of the first pod of a group.

        Parameters
        ----------
        group : int
            Its index.
        """
        return self.ends[group - 1] if group else 0

    def place(self, first: int) -> int:
        """Place and assume the pods of groups, in order, up to the first group that needs a cycle of its own.

        Parameters
        ----------
        first : int
            Index of the first group.

        Returns
        -------
        int
            Index of the first group that was not placed.
        """
        route, begin = self._route(first), self.begin(first)
        if route == NONE or self.context.nominator:
            return first
        if self._is_bound(first):
            return self._place_bound(self.context.engine_of_route(route), first)
        stop, latest = first + 1, min(len(self.groups), first + self._limit)
        while stop < latest and self._route(stop) == route and not self._is_bound(stop):
            if self.ends[stop] - begin > MOST_PODS:
                break
            stop += 1
        done = self._place_until(self.context.engine_of_route(route), first, stop)
        self._limit = self._limit * GROWTH if done == stop else 1
        return done

    def _is_bound(self, at: int) -> bool:
        """Whether a group, or one of its tree, has to be tried in several placements."""
        tree = self._trees[at]
        return tree is not None and tree.is_bound and self.context.handle.places_groups

    def _place_bound(self, engine: Engine, first: int) -> int:
        """Place groups that are bound to a topology; return the index of the first that was not placed."""
        at, route = first, self._route(first)
        scorers = engine.profile.at(PlacementScorePlugin)
        if engine.decider.tie_break == TieBreak.RANDOM or not all(plugin.in_core for plugin in scorers):
            return first
        with self.context.cache.lock, in_cycle([engine]):
            while at < len(self.groups) and self._route(at) == route and self._is_bound(at):
                if not self._place_with_memory(engine, at):
                    break
                at += 1
        return at

    def _place_with_memory(self, engine: Engine, at: int) -> bool:
        """Place the pods of a group where groups like it were placed before, if it is placed whole."""
        begin, end, rotation = self.begin(at), self.ends[at], self.context.rotation
        view, tree = self.context.cache.state.view, self._trees[at]
        view.refresh()
        if tree is None or not engine.placer.reads_rows_alone(self.batch, begin, end):
            return False
        memory = engine.handle.derived(PlacementMemory)
        members = Members(self.context, engine, tree, self.batch.pods[begin:end], (), memory)
        start = rotation.start
        with one_cycle(members):
            attempt = decide(members, commit=False)
        if not attempt.succeeded or -1 in attempt.rows.tolist():
            rotation.start = start
            return False
        self.result.rows[begin:end] = attempt.rows
        self.context.cache.state.atomically(self._assume, engine, begin, end)
        view.log_stale_counts(attempt.rows)
        return True

    def _assume(self, engine: Engine, begin: int, end: int) -> None:
        """Assume pods on rows that are known, in a transaction."""
        engine.batching.scored = None
        engine.placer.account(self.batch, self.result, begin, end)
        LEDGER.enter(self.batch, self.result, begin, end)

    def _place_until(self, engine: Engine, first: int, stop: int) -> int:
        """Place groups on one snapshot each; return the index of the first that was not placed."""
        state, states = self.context.cache.state, engine.search.states
        view, begin = state.view, self.begin(first)
        with self.context.cache.lock:
            view.refresh()
            scope, view.freezes_counts = states.open_scope(), True
            try:
                done = self._try(engine, first, stop)
                while first < done < stop:  # the groups after it, and what they have changed, were undone
                    done, stop = self._try(engine, first, done), done
            finally:
                view.freezes_counts, states.scope = False, scope
            if done > first:
                view.log_stale_counts(self.result.rows[begin : self.ends[done - 1]])
        return done

    def _try(self, engine: Engine, first: int, stop: int) -> int:
        """Place groups in a transaction that is undone if not all of them are placed.

        Returns the index of the first group that does not fit, or has to be placed on a later snapshot.
        """
        begin, end = self.begin(first), self.ends[stop - 1]
        with self.context.cache.transaction() as transaction:
            at = engine.placer.place(self.batch, self.result, begin, end, Sink(), lambda at: None)
            done = stop if at == end else bisect_right(self.ends, at)
            if done > first:
                view = self.context.cache.state.view
                stale = view.first_stale(self.result.rows[begin : self.ends[done - 1]])
                if stale >= 0:  # this row has other image counts on the snapshot of the next group
                    done = bisect_right(self.ends, begin + stale) + 1
            if done == stop:
                engine.batching.scored = None
                LEDGER.enter(self.batch, self.result, begin, end)
                transaction.commit()
        return done

    # ---- routes --------------------------------------------------------------------------------------------

    def _route(self, at: int) -> int:
        """Return the route of a group; NONE where it needs a cycle of its own."""
        while len(self._routes) <= at:
            self._routes.append(next(self._further_routes))
        return self._routes[at]

    def _read_routes(self) -> Iterator[int]:
        """Yield the route of each group."""
        pieces = iter(self.batch.cut(SEGMENTS))
        first, last, route = 0, 0, NONE
        for group, end in enumerate(self.ends):
            while last <= first:
                _, last, route = next(pieces)
            is_whole = end <= last and not route & WHOLE_CYCLE and self._suits(group, route // PROFILE)
            yield route if is_whole else NONE
            first = end

    def _suits(self, at: int, profile: int) -> bool:
        """Whether a group that is placed as a whole succeeds, and may be placed by the core."""
        tree, scheduled = self._trees[at], self.scheduled[at]
        if tree is None or not self._suit[profile]:
            return False
        if (scheduled and self._is_bound(at)) or not self._is_valid(at, tree):
            return False
        begin, end = self.begin(at), self.ends[at]
        if not tree.children:
            return not self._counts_members[profile] or end - begin + len(scheduled) >= tree.minimum
        pending = Counter(map(leaf_of, map(self.batch.pod, range(begin, end))))
        placed = Counter(map(leaf_of, scheduled)) if scheduled else {}
        if tree.is_bound and not all(member.children or pending.get(member.key) for member in tree):
            return False
        return self._counts_members[profile] and tree.succeeds_whole(pending, placed)

    def _is_valid(self, at: int, tree: GroupTree) -> bool:
        """Whether the pods can form a group; see `why_invalid`."""
        shape_of, group = self.context.cache.state.classes.shape_of, tree.group
        shapes = map(shape_of, self.batch.classes(self.begin(at), self.ends[at]))
        kinds = {(shape.priority, shape.may_preempt) for shape in shapes}
        if len(kinds) > 1 or group is None or {rank for rank, _ in kinds} != {group.spec.priority or 0}:
            return False
        return not (
            self.scheduled[at] and why_invalid(group, (self.batch.pod(self.begin(at)), *self.scheduled[at]))
        )
