"""Attempts to place the pods of a group: in order on the nodes of a placement, in each of several placements.

kube-scheduler v1.37, schedule_one_podgroup.go. A pod group succeeds with enough pods, a composite one with
enough groups; what is missing is passed over until too few are left. A group is tried in each of its
placements, among the nodes of the one that the group above it is tried in, and goes to that with the best
score. Groups that have succeeded are undone with a composite group that fails.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from moorage._core.decide.batch_rows import Sink
from moorage._core.decide.pod_batch import PodBatch
from moorage._core.state.cluster_state import ClusterState
from moorage.errors import MoorageError
from moorage.kube import AnyGroup, Pod

from ..framework import (
    Assignments,
    Code,
    CycleState,
    NodeRanking,
    NominatingInfo,
    Placement,
    PlacementScorePlugin,
    Status,
    StatusError,
)
from ..framework.run_plugins import Target
from .cycle.binding_cycle import Started
from .cycle.cycle import assumed_on, failure_of, prepare_for_binding_cycle, schedule_pod
from .cycle.engine import Engine
from .cycle.results import Decision, Failure, ScheduleResult
from .cycle.status_writes import UNSCHEDULABLE
from .group_members import Chain, Members, PlacementMemory, Rows, Segment, make_placements, score_placements
from .place import ALONE, LEDGER, Placing
from .scheduler_state import SchedulerState

IS_UNSCHEDULABLE = MoorageError("pod group is unschedulable")
NO_PODS = MoorageError("no pods were schedulable")
OTHER_FAILED = "failed to schedule other pod from a pod group: {}"
CHILD_FAILED = "composite pod group evaluation failed due to child error: {}"
OUT_OF_REACH = "minCount ({}) cannot be satisfied: {} scheduled, {remaining} remaining"
BELOW_THRESHOLD = (
    "scheduling policy's minimum threshold ({}) cannot be satisfied: {} scheduled, "
    "{unschedulable} unschedulable, {remaining} not-evaluated"
)
NO_PLACEMENTS = "no feasible placements found"
NONE_AVAILABLE = "0/{} placements are available, first placement status: {}"


def beginning(context: SchedulerState) -> MoorageError | None:
    """Return with what some messages about groups begin, before the reason; None for nothing."""
    return None if context.handle.release.groups_tell_threshold else IS_UNSCHEDULABLE


class GroupResult(ScheduleResult):
    """The result of a pod group cycle; no pod has a row if the group failed.

    Attributes
    ----------
    succeeded : bool
        Whether the pods with a row are assumed. Otherwise the cluster is unchanged.
    is_error : bool
        Whether the group failed with an error.
    reason : str
        The reason of a condition that says so.
    started : dict of int to Started
        Index to the argument of `binding_cycle`, for the placed pods that out-of-tree plugins have
        reserved and permitted. All others are bound like the pods of a batch.
    outcomes : list of (PodGroup or CompositePodGroup, str)
        The groups that get a condition, and why each failed; "" where it succeeded.
    """

    succeeded = is_error = False
    message, reason = "", UNSCHEDULABLE

    def __init__(self, state: ClusterState, n: int, batch: PodBatch) -> None:
        self.started: dict[int, Started] = {}
        self.outcomes: list[tuple[AnyGroup, str]] = []


class Attempt:
    """One attempt to place the pods of a group on the nodes of a placement, inside a transaction.

    Parameters
    ----------
    rows : (pods,) int32 array, optional
        The rows that are known already; by default none is.

    Attributes
    ----------
    rows : (pods,) int32 array
        The row of each pod that found a node, whatever became of the group; -1 for the others.
    failures : dict of int to Failure
        Index of each pod of a pod group that was tried in vain, to the reason.
    children : list of Attempt
        Of the groups of a composite group that were tried, in order.
    tried : int
        Number of pods, or of groups, that were tried.
    reached : int
        Number of pods with a node, or of groups that have succeeded.
    status : Status or None
        Why the group failed; None where it succeeded.
    reserved : dict of int to Started
        Index to each pod that out-of-tree plugins have reserved.
    states : dict of int to CycleState
        Of the pods that had a cycle of their own.
    result : ScheduleResult or None
        Has `rows` and `failures`, if pods of a pod group were tried.
    entered : int
        Index after the last pod that is entered in the ledger.
    searched : (rows,) int32 array or None
        The rows among which nodes are searched; None for all.
    """

    def __init__(self, members: Members, rows: Rows | None = None) -> None:
        self.members, self.context = members, members.context
        self.rows: Rows = np.full(len(members.pods), -1, dtype=np.int32) if rows is None else rows
        self.failures: dict[int, Failure] = {}
        self.children: list[Attempt] = []
        self.tried, self.reached = 0, 0 if members.is_composite else len(members.scheduled)
        self.status: Status | None = None
        self.reserved: dict[int, Started] = {}
        self.states: dict[int, CycleState] = {}
        self.result: ScheduleResult | None = None
        self.entered = 0
        self.searched: Rows | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the group has what it needs, with the pods placed before."""
        return self.status is None

    @property
    def is_error(self) -> bool:
        """Whether the group failed with an error."""
        return self.status is not None and self.status.code == Code.ERROR

    @property
    def failed(self) -> int:
        """Number of pods, or of groups, that were tried in vain."""
        before = 0 if self.members.is_composite else len(self.members.scheduled)
        return self.tried - self.reached + before

    @property
    def spare(self) -> int:
        """Number of further pods, or groups, that may fail before the minimum is out of reach; negative where
        it is already."""
        all_of_it = len(self.members.children) if self.members.is_composite else len(self.rows)
        return self.reached + all_of_it - self.tried - self.members.minimum

    def look_ahead(self) -> bool:
        """Whether the minimum can still be reached (PlacementFeasible of GangScheduling); else set the
        status."""
        if self.spare < 0:
            minimum, reached = self.members.minimum, self.reached
            text = BELOW_THRESHOLD if self.context.handle.release.groups_tell_threshold else OUT_OF_REACH
            left = self.spare + minimum - reached
            text = text.format(minimum, reached, unschedulable=self.failed, remaining=left)
            self.status = Status(Code.UNSCHEDULABLE, (text,))
        return self.status is None

    # ---- groups of a composite group -----------------------------------------------------------------------

    def place_groups(self, placement: Placement) -> None:
        """Place the groups in order, until too few are left.

        Parameters
        ----------
        placement : Placement
            The nodes to choose from.
        """
        for child, at in zip(self.members.children, self.members.indexes, strict=True):
            if not self.look_ahead():
                return
            attempt = decide(child, True, placement)
            self.children.append(attempt)
            self.tried += 1
            if attempt.status is not None and attempt.is_error:
                self.status = Status(Code.ERROR, (CHILD_FAILED.format(attempt.status.as_error()),))
            elif attempt.succeeded:
                self.reached += 1
                self.rows[at] = attempt.rows
        self.look_ahead()

    # ---- pods of a pod group -------------------------------------------------------------------------------

    def place_pods(self) -> None:
        """Place the pods in order, until too few are left. Pods that the core alone schedules are entered in
        the ledger later, by `enter`."""
        members = self.members
        if not self.look_ahead():
            assert self.status is not None
            self.status = Status(Code.UNSCHEDULABLE, self.status.texts, err=beginning(self.context))
            return
        self.result = result = ScheduleResult(self.context.cache.state, len(self.rows), members.batch)
        self.rows, self.failures = result.rows, result.failures
        for segment in members.segments:
            engine = self.context.rotation.take(segment.engine)
            MemberPlacing(
                self.context, engine, members.batch, result, Sink(), attempt=self, segment=segment
            ).place(segment.first, segment.end, until_evicts=True)
            if self.status is not None:
                break

    def note(self, end: int) -> None:
        """Note what became of the pods before an index. Only the last of them may be one too many that fits
        nowhere."""
        failed = int(np.count_nonzero(self.rows[self.tried : end] < 0))
        self.reached += end - self.tried - failed
        self.tried = end
        if failed:
            self.look_ahead()

    def enter(self, end: int) -> None:
        """Enter the pods before an index in the ledger, in the transaction that counts them on their rows."""
        if end > self.entered and self.result is not None:
            LEDGER.enter(self.members.batch, self.result, self.entered, end)
            self.entered = end

    def count(self) -> None:
        """Count the pods on rows that were known already, for the groups that are tried after them."""
        members = self.members
        for child, at in zip(members.children, members.indexes, strict=True):
            Attempt(child, self.rows[at]).count()
        if not members.is_composite:
            result = ScheduleResult(self.context.cache.state, len(self.rows), members.batch)
            result.rows[:] = self.rows
            members.engine.placer.account(members.batch, result, 0, len(self.rows))

    def unreserve(self) -> None:
        """Run Unreserve for all reserved pods in reverse order; `start` reserves them again if the group
        succeeded."""
        for started in reversed(self.reserved.values()):
            started.engine.framework.run_reserve_plugins_unreserve(
                started.state, started.assumed, started.node
            )

    def nominate_again(self) -> None:
        """Nominate the placed pods to the nodes of their statuses, the last pod first, after the attempt has
        been undone: what is tried next counts these nominations again (unreserveAndForget). Groups that
        failed have done so before."""
        for child in reversed(self.children):
            if child.succeeded:
                child.nominate_again()
        for at in () if self.members.is_composite else np.flatnonzero(self.rows >= 0)[::-1].tolist():
            self.renew_nomination(self.members.pods[at])

    def renew_nomination(self, pod: Pod) -> None:
        """Nominate a pod again that is assumed no more."""
        if pod.status.nominated_node_name:
            self.context.nominator.nominate_current(pod)

    def start(self) -> dict[int, Started]:
        """Begin the binding cycles of a group that succeeded: run Reserve again, this time to stay, and
        Permit.

        Returns
        -------
        dict of int to Started
            Index to each pod that passed Reserve and Permit of out-of-tree plugins.
        """
        started: dict[int, Started] = {}
        for at, child in zip(self.members.indexes, self.children, strict=False):
            if child.succeeded:
                started |= {at[index]: binding for index, binding in child.start().items()}
                self.rows[at] = child.rows
        for reserved in reversed(self.reserved.values()):
            self.context.cache.forget_pod(reserved.assumed)
        for index, reserved in self.reserved.items():
            outcome = prepare_for_binding_cycle(
                self.context.bindings, reserved.engine, reserved.state, reserved.pod, reserved.node
            )
            if isinstance(outcome, Started):
                started[index] = outcome
            elif outcome.failure is not None:
                self.rows[index] = -1
                self.failures[index] = outcome.failure
        return started


class MemberPlacing(Placing, kw_only=True):
    """Places the pods of a segment of a pod group, up to Reserve, until an error or too few are left."""

    attempt: Attempt
    segment: Segment

    def place_together(self, first: int, end: int) -> int:
        """Place pods by the core alone; see `Placing.place_together`.

        Returns
        -------
        int
            Index of the next pod; `end` where the attempt is over.
        """
        attempt, at = self.attempt, first
        # Plugins that follow the pods in the ledger are to see each member, and so is a ranking.
        if self.segment.whole_cycle or self.engine.plan.follows or attempt.members.ranking is not None:
            return first
        while at < end and attempt.status is None:
            # The core stops before the first pod of a kind that fits nowhere. It passes over later ones of
            # the kind, so that it may only be given as many pods as may fail.
            limit = min(end, at + attempt.spare + 1) if self.result.failures else end
            done = super().place_together(at, limit)
            attempt.note(done)
            if done < limit:
                return done if attempt.status is None else end
            at = done
        return end

    def _failure_of(self, at: int) -> Failure | None:
        """Have the core stop before a pod that fits nowhere; `_place_one` finds out why."""
        return None

    def _place_nominated(self, first: int, end: int) -> int:
        """Place no pod: the attempt follows each cycle."""
        return first

    def _place_one(self, at: int) -> bool:
        """Run the cycle of one pod up to Reserve; return whether the attempt is over."""
        attempt, context = self.attempt, self.context
        is_plain = not (self.segment.whole_cycle or context.nominator or self.batch.route(at) & ALONE)
        known = self._known_failure(self.batch.target(at)) if is_plain else None
        if known is not None:
            self.result.failures[at] = known
        else:
            self._decide(at)
        attempt.note(at + 1)
        failure = self.result.failures.get(at)
        if failure is not None and failure.is_error:
            attempt.status = Status(Code.ERROR, (OTHER_FAILED.format(failure.error),))
        return attempt.status is not None

    def _decide(self, at: int) -> None:
        """Run the cycle of one pod, and assume it on the chosen node."""
        attempt, context, pod = self.attempt, self.context, self.batch.pod(at)
        attempt.enter(at)
        attempt.entered = at + 1
        row = -1 if self.segment.whole_cycle else self._accepted_nomination(at)
        if row >= 0:
            context.assume(pod, pod.status.nominated_node_name)
            self.result.rows[at], self.engine.batching.scored = row, None
            if attempt.members.ranking is not None:
                attempt.members.ranking.condemn(row)
            return
        engine = context.rotation.take(self.engine)
        target = engine.cycle_target(pod, self.batch.target(at))
        ranking = attempt.members.ranking
        decision, state = schedule_pod(engine, pod, target)
        if ranking is not None:
            decision, state = self._schedule_ranked(engine, pod, target, (decision, state), ranking)
        attempt.states[at] = state
        if decision.node is None:
            clears = NominatingInfo() if decision.error else None
            self.result.failures[at] = failure = replace(decision.failure, nominating=clears)
            if not (self.segment.whole_cycle or context.nominator or decision.error):
                self.remember(at, decision, failure)
            return
        assumed = assumed_on(engine, state, pod, decision.node)
        context.cache.assume_pod(assumed)
        context.handle.nominator.delete_nominated_pod_if_exists(pod)
        self.result.rows[at] = self.engine.row_in_view(decision.node)
        if self.segment.whole_cycle:
            self._reserve(at, Started(engine, state, pod, assumed))
        if ranking is not None and self.result.rows[at] >= 0:
            ranking.condemn(self.result.rows[at])

    def _schedule_ranked(
        self,
        engine: Engine,
        pod: Pod,
        target: Target,
        unranked: tuple[Decision, CycleState],
        ranking: NodeRanking,
    ) -> tuple[Decision, CycleState]:
        """Choose among the nodes of the lowest rank that a pod fits, of all nodes of the placement."""
        decision, state = unranked
        if decision.node is None:
            return unranked
        context, start = self.context, engine.decider.start
        fits = context.cache.state.view.rows_at(decision.feasible)
        best = ranking.cheapest(fits)
        if len(best) < len(fits):
            engine.search.search_in(best)
            engine.decider.start = 0
            decision, state = schedule_pod(engine, pod, target)
            engine.search.search_in(self.attempt.searched)
            engine.decider.start = start
        return decision, state

    def _reserve(self, at: int, started: Started) -> None:
        """Run Reserve for an assumed pod, and forget the pod if that fails."""
        framework, state, node = started.engine.framework, started.state, started.node
        status = framework.run_reserve_plugins_reserve(state, started.assumed, node)
        if status is None:
            self.attempt.reserved[at] = started
            return
        framework.run_reserve_plugins_unreserve(state, started.assumed, node)
        self.context.cache.forget_pod(started.assumed)
        self.attempt.renew_nomination(started.pod)
        self.result.rows[at] = -1
        self.result.failures[at] = failure_of(started, status)


# ---- the algorithm -----------------------------------------------------------------------------------------


def decide_whole(members: Members, commit: bool = True) -> Attempt:
    """Place the pods of a group or a whole tree as `decide` does; without a pod that gets a node it fails."""
    attempt = decide(members, commit)
    if attempt.succeeded and not (attempt.rows >= 0).any():
        attempt.status = Status(Code.UNSCHEDULABLE, err=beginning(members.context) or NO_PODS)
    return attempt


def decide(members: Members, commit: bool = True, parent: Placement | None = None) -> Attempt:
    """Place the pods of a group; in the best of its placements, where groups are placed by topology.

    Parameters
    ----------
    commit : bool, optional
        Whether the placed pods stay if the group succeeds. Otherwise all is undone. The rotation advances in
        any case.
    parent : Placement, optional
        The nodes to choose from; by default all.
    """
    parent = parent or members.engine.handle.derived(PlacementMemory).all_nodes()
    if not members.engine.handle.places_groups:
        return _try_in(members, parent, commit)
    try:
        placements = make_placements(members.engine.profile, members.group, members.scheduled, parent)
        if not placements:
            raise StatusError(Status(Code.UNSCHEDULABLE, (NO_PLACEMENTS,)))
        return _decide_among(members, placements, commit)
    except StatusError as failed:
        attempt = Attempt(members)
        attempt.status = failed.status
        return attempt


def _decide_among(members: Members, placements: Sequence[Placement], commit: bool) -> Attempt:
    """Try the placements in order, unless it is known what they give, and place the group in the one with the
    best score of those that take it."""
    rotation, memory = members.context.rotation, members.memory
    if memory is None:
        chain = Chain(len(placements), rotation.start)
    else:
        chain = memory.chain(placements, members.kind, rotation.start)
    commits = commit and len(placements) == 1 and memory is None
    attempts: dict[int, Attempt] = {}
    nominated = _nominated(members, placements) if memory is None else -1
    if nominated >= 0:
        others = [placement for at, placement in enumerate(placements) if at != nominated]
        placements = [placements[nominated], *others]
        attempts[0] = attempt = _try_in(members, placements[0], commit)
        if attempt.is_error or (attempt.succeeded and (attempt.rows >= 0).any()):
            return attempt
        chain.note(0, attempt.rows, attempt.status, rotation.start)
    end, fits = len(placements), 0
    wanted = members.engine.profile.placements_to_find([len(placement.rows) for placement in placements])
    for at in chain.unknown() if wanted >= end else range(end):
        if not chain.known[at]:
            rotation.start = chain.starts[at]
            attempts[at] = attempt = _try_in(members, placements[at], commits)
            if attempt.is_error:
                return attempt
            if memory is not None:
                memory.undone(attempt.rows.tolist() if members.is_composite else ())
            chain.note(at, attempt.rows, attempt.status, rotation.start)
        fits += int(chain.fits[at])
        if fits == wanted < end:
            end = at + 1
            break
    rotation.start = chain.starts[end]
    feasible = np.flatnonzero(chain.fits[:end])
    if not len(feasible):
        attempt, status = attempts.get(0) or Attempt(members), chain.statuses[0]
        assert status is not None
        text = NONE_AVAILABLE.format(len(placements), status.as_error())
        attempt.status = Status(Code.UNSCHEDULABLE, (text,), err=beginning(members.context))
        return attempt
    at = int(feasible[_best(members, placements, chain, len(feasible))])
    if memory is not None:
        attempt = Attempt(members, chain.rows[at])
        if commit:
            attempt.count()
        return attempt
    if not commit or commits:
        return attempts[at]
    rotation.start = chain.starts[at]
    done = _try_in(members, placements[at], True)
    rotation.start = chain.starts[end]
    return done


def _nominated(members: Members, placements: Sequence[Placement]) -> int:
    """Return the index of the placement that is tried before all others: the only one with a node that a pod
    of the group is nominated to; -1 for none."""
    release = members.context.handle.release
    if not release.nominated_placement_is_first or members.is_composite or members.group.parent:
        return -1
    names = {pod.status.nominated_node_name for pod in members.pods} - {""}
    find = members.context.cache.state.table.find_row
    rows = [row for row in map(find, sorted(names)) if row is not None]
    holding = [at for at, placement in enumerate(placements) if np.isin(rows, placement.rows).any()]
    return holding[0] if rows and len(holding) == 1 else -1


def _best(members: Members, placements: Sequence[Placement], chain: Chain, count: int) -> int:
    """Return the index of the placement with the highest score, among those that the group fits. Ties are
    broken as among nodes."""
    if count == 1:
        return 0

    def raw(plugin: PlacementScorePlugin) -> npt.NDArray[np.int64]:
        def score(at: int) -> int:
            assignments = Assignments(placements[at], members.pods, chain.rows[at], len(members.scheduled))
            return plugin.score_placement(members.group, assignments)

        return chain.scores(plugin.name, score)[:count]

    totals = score_placements(members.engine.profile, members.group, count, raw)
    if members.memory is not None:
        return members.engine.decider.pick(totals)
    with members.context.cache.transaction():  # restores the random state, for placing the pods again
        return members.engine.decider.pick(totals)


def _try_in(members: Members, placement: Placement, commit: bool) -> Attempt:
    """Place the pods of a group on the nodes of one placement. The rotation advances in any case."""
    context, attempt = members.context, Attempt(members)
    condemned = None if members.ranking is None else members.ranking.condemned
    if members.memory is not None:  # without plugins or nominations that a transaction would have to undo
        with context.cache.trial():
            _place_in(attempt, placement)
            start = context.rotation.start
        context.rotation.start = start
        return attempt
    with context.cache.transaction() as transaction:
        _place_in(attempt, placement)
        start = context.rotation.start
        if attempt.succeeded and commit:
            attempt.enter(len(attempt.rows))
            transaction.commit()
    if not transaction.committed:
        attempt.nominate_again()
        if members.ranking is not None and condemned is not None:
            members.ranking.condemned = condemned
    context.rotation.start = start
    return attempt


def _place_in(attempt: Attempt, placement: Placement) -> None:
    """Place the pods on the nodes of a placement, as far as the engines search them."""
    members = attempt.members
    if members.is_composite:
        attempt.place_groups(placement)
        return
    if len(placement.rows) < members.context.cache.state.view.size:
        attempt.searched = placement.rows
    for segment in members.segments:
        search = segment.engine.search
        search.search_in(attempt.searched)
        if members.engine.handle.places_groups:
            search.states.open_scope()  # remembered failures concern other nodes
    try:
        attempt.place_pods()
    finally:
        attempt.unreserve()
