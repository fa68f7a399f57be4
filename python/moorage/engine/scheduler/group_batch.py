"""The turn of groups in a run; and several pod groups, placed one after the other by one call of the core."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from operator import attrgetter
from typing import Protocol, cast

from moorage._core.decide.batch_rows import Sink
from moorage._core.decide.decider import TieBreak
from moorage._core.decide.pod_batch import PodBatch, Route
from moorage._core.queue.in_flight import pods_of
from moorage.kube import AnyGroup, Pod, UnitKey

from ..framework import PlacementScorePlugin
from ..framework.group_index import GroupTree, is_composite
from ..plugins.queue_and_groups import GangScheduling
from ..queue import QueuedPodInfo
from .cycle.binding_cycle import BindingOutcome
from .cycle.cycle import binding_cycle, report_failure
from .cycle.engine import Engine
from .cycle.results import Failure, ScheduleResult
from .cycle.status_writes import patch_groups, patch_outcomes
from .group_attempt import GroupResult, decide
from .group_members import (
    Members,
    PlacementMemory,
    counts_members,
    in_cycle,
    in_order,
    leaf_of,
    places_by_topology,
)
from .options import check_readable
from .place import LEDGER, SEGMENTS, WHOLE_CYCLE
from .place_group import has_condition, one_cycle, place_group, rejected
from .scheduler_state import SchedulerState
from .valid_groups import why_invalid

GROWTH = 16
MOST_PODS = 4096
"""Pods of one call, at least those of one group: a transaction takes memory for each."""
PROFILE = int(Route.PROFILE)
NONE = -1


class GroupBatch:
    """Pods of several groups, with the rows where they are placed.

    The result is that of one cycle for each group (`place_group`). A group that needs more than the core, or
    of which a pod fits nowhere, is left to its own cycle. For speed alone
    (`tests/house/special_paths.toml`).

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
        context: SchedulerState,
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

    def groups_of(self, first: int, end: int) -> list[AnyGroup]:
        """Return those of some groups, and of the groups below them, that get a condition.

        Parameters
        ----------
        first, end : int
            Index of the first group, and index after the last.
        """
        trees = [tree for tree in self._trees[first:end] if tree is not None]
        groups = [members.group for tree in trees for members in tree if members.group is not None]
        return [group for group in groups if has_condition(self.context, group)]

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
        if not (self.scheduled[at] or self.context.handle.release.hierarchies_are_validated):
            return True
        return not why_invalid(self.context, group, (self.batch.pod(self.begin(at)), *self.scheduled[at]))


# ---- the turn of groups in a run ---------------------------------------------------------------------------

GONE = "pod group object not found for the pod group of the pods"


class Run(Protocol):
    """What the turn of groups needs of a `Loop`, which notes what becomes of the pods."""

    is_live: bool
    time_passes: bool
    result: ScheduleResult
    evictions: int
    retried: dict[str, int]

    def assumed(self, infos: list[QueuedPodInfo], nodes: list[str]) -> None:
        """Record pods that were placed, and are to be bound together."""

    def failed(self, infos: list[QueuedPodInfo], failures: list[Failure]) -> None:
        """Record the failures of pods, and return the pods to the queue."""

    def record(self, outcome: BindingOutcome) -> None:
        """Record the state of a binding cycle."""

    def spend(self, began: float, tried: int = 0) -> None:
        """Count the time since an attempt began, which tried so many pods together."""


class GroupTurn:
    """Tries the groups that a run has popped, and has those that failed tried again when that may help.

    Attributes
    ----------
    failed : dict of UnitKey to Pod
        A pod of each group that has failed since the last event that may help groups.
    """

    def __init__(self, context: SchedulerState, run: Run) -> None:
        self._context, self._run = context, run
        self.failed = dict[UnitKey, Pod]()
        self._helped = dict[UnitKey, Pod]()  # the same of groups that have failed before it

    def retry(self) -> None:
        """Have failed groups tried again when no other pod is left, after an event that may help them."""
        self._helped |= self.failed
        self.failed.clear()

    def take_helped(self) -> list[Pod]:
        """Return a pod of each group that is to be tried again, and forget them."""
        pods = list(self._helped.values())
        self._helped.clear()
        return pods

    def nominated(self, infos: Sequence[QueuedPodInfo]) -> set[str]:
        """Return which of the pods are nominated, by ``namespace/name``."""
        return self._context.nominator.nominated_keys(pods_of(infos))

    def follow_nominations(self, infos: Sequence[QueuedPodInfo], held: set[str]) -> None:
        """Have groups tried again after an attempt without evictions that has changed nominations.

        A group whose pods were nominated tries these nodes first. It does so once between two evictions, so
        that the run ends. A nomination that a failed pod has lost leaves room for other groups.

        Parameters
        ----------
        infos : sequence of QueuedPodInfo
            The pods that were tried: of groups, or without any.
        held : set of str
            Those of them that were nominated before.
        """
        run, nominated = self._run, self.nominated(infos)
        if infos[0].unit is not None and (new := nominated - held):
            if any(run.retried.get(key) != run.evictions for key in new):
                run.retried.update(dict.fromkeys(new, run.evictions))
                self._context.sync()
                self.retry()
        elif (held - nominated) & run.result.unschedulable.keys():
            self.retry()

    def attempt(self, infos: Sequence[QueuedPodInfo]) -> Iterator[int]:
        """Try the pods of groups; yield how many have been tried, after each group that may have evicted
        pods."""
        groups = self._context.groups
        units = [
            (cast(UnitKey, unit), self._in_order(cast(UnitKey, unit), list(pods)))
            for unit, pods in groupby(infos, attrgetter("unit"))
        ]
        infos = [info for _, pods in units for info in pods]
        batch = GroupBatch(
            self._context,
            [groups.get(unit) for unit, _ in units],
            [[info.pod for info in pods] for _, pods in units],
            groups.scheduled(*[unit for unit, _ in units]),
        )
        at = 0
        while at < len(units):
            began = time.perf_counter()
            placed = batch.place(at)  # groups that fit as a whole
            self._run.spend(began, batch.begin(placed) - batch.begin(at))
            if placed > at:
                context, pods = self._context, range(batch.begin(at), batch.begin(placed))
                self._run.assumed(infos[pods.start : pods.stop], batch.result.nodes_of(pods))
                context.queue.end_attempts(infos[pods.start : pods.stop])
                since, writes = context.bindings.condition_time(context.handle), context.handle.writes
                patch_groups(context.client, batch.groups_of(at, placed), since=since, writes=writes)
                for scheduled in batch.scheduled[at:placed]:
                    self._allow(scheduled)
                at = placed
            else:
                self._try(*units[at], batch.groups[at], batch.scheduled[at])
                at += 1
            yield batch.begin(at)

    def _in_order(self, unit: UnitKey, infos: list[QueuedPodInfo]) -> list[QueuedPodInfo]:
        """Return the pods of a group in the order to try: of a tree, pod group by pod group."""
        if not is_composite(unit):
            return infos
        leaves = self._context.groups.tree(unit).leaves
        return [infos[at] for at in in_order(leaves, pods_of(infos))]

    def _try(
        self,
        unit: UnitKey,
        infos: Sequence[QueuedPodInfo],
        group: AnyGroup | None,
        scheduled: Sequence[Pod],
    ) -> None:
        """Place the pods of a group or a tree, as many as it needs or none."""
        context, run = self._context, self._run
        done, is_live = self._place([info.pod for info in infos], group, scheduled), run.is_live
        failures = done.failures
        for fails, consecutive in groupby(range(len(infos)), (done.rows < 0).tolist().__getitem__):
            part = list(consecutive)
            if fails:
                for at in part if is_live else ():
                    engine = context.engine_of(infos[at].pod)
                    report_failure(context, engine, infos[at].pod, failures[at])
                run.failed([infos[at] for at in part], [failures[at] for at in part])
                for at in () if is_live else part:
                    context.nominate(infos[at].pod, failures[at].nominating)
            for at in () if fails else part:
                if at not in done.started:
                    run.assumed([infos[at]], [context.cache.state.table.row_name(done.rows[at])])
                else:
                    run.record(binding_cycle(context.bindings, done.started[at]))
        since, writes = context.bindings.condition_time(context.handle), context.handle.writes
        patch_outcomes(context.client, done.outcomes, done.reason, since=since, writes=writes)
        if done.succeeded:
            self._allow(scheduled)
        elif not run.time_passes:
            self.failed[unit] = infos[0].pod
        context.queue.end_attempts(infos, done.succeeded, done.is_error)

    def _allow(self, pods: Sequence[Pod]) -> None:
        """Allow pods of a group that were placed before the others and wait for them on Permit."""
        for pod in pods:
            started = self._context.bindings.waiting.get(pod.metadata.uid)
            if started is not None and started.waiting is not None:
                started.waiting.allow(GangScheduling.name)

    def _place(self, pods: Sequence[Pod], group: AnyGroup | None, scheduled: Sequence[Pod]) -> GroupResult:
        """Place the pods of a group, some of which may have a node already."""
        context, began = self._context, time.perf_counter()
        engines = context.engines_of(pods)
        if group is None or len(engines) > 1:
            return rejected(
                context, pods, group, GONE if group is None else why_invalid(context, group, pods)
            )
        done = place_group(context, engines.pop(), group, pods, scheduled, evicts=True)
        self._run.spend(began, len(pods))
        return done
