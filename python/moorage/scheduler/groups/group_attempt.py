"""Attempts to place the pods of a group: in order, on all nodes, or in each of several placements.

kube-scheduler v1.36, schedule_one_podgroup.go: a member that fits nowhere is passed over, and the group
succeeds if Permit lets any of its pods go on. A group bound to a topology is tried in each of its placements,
and goes to the one with the best score.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from moorage._core.decide.batch_rows import Sink
from moorage._core.decide.pod_batch import PodBatch
from moorage._core.state.cluster_state import ClusterState
from moorage.cache import Transaction
from moorage.framework import NominatingInfo, PermitPlugin, Placement, PlacementGeneratePlugin
from moorage.framework.plugin.lazy_attribute import lazy_attribute
from moorage.framework.runtime.binding_points import WAITING
from moorage.framework.runtime.placements import make_placements
from moorage.objects import AnyGroup, Pod, PodGroup
from moorage.plugins.gang_scheduling import WAITS, GangScheduling
from moorage.scheduler.cycle.diagnosis import Diagnosis
from moorage.scheduler.cycle.engine import Engine
from moorage.scheduler.cycle.results import Failure, ScheduleResult
from moorage.scheduler.placing.binding_cycle import Started, assumed_on
from moorage.scheduler.placing.place import LEDGER, Placing, never
from moorage.scheduler.placing.routes import SEGMENTS, WHOLE_CYCLE
from moorage.scheduler.scheduling_context import SchedulingContext

from .choose_placement import CANNOT_BE_SATISFIED, decide_among
from .placement_memory import PlacementMemory

UNSCHEDULABLE = "pod group is unschedulable"
OTHER_FAILED = "failed to schedule other pod from a pod group: {}"
WAITS_FOR_VICTIMS = f"{UNSCHEDULABLE}, pod group is waiting for preemption to complete"
WAITS_FOR_MEMBERS = f"{UNSCHEDULABLE}, {WAITS}, {WAITING}"


class Segment(NamedTuple):
    """Consecutive members of a group that one engine schedules in the same kind of cycle.

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


@dataclass
class Members:
    """The pods of a group that are to be placed.

    Attributes
    ----------
    context : SchedulingContext
    engine : Engine
        Of the profile of the pods.
    group : PodGroup or None
        None is a group without a minimum.
    pods : sequence of Pod
        Pending members.
    scheduled : sequence of Pod
        Members that have a node.
    in_tree : bool
        Whether the group belongs to a composite group.
    minimum : int
        Number of pods with a node that the group needs.
    batch : PodBatch
        The pending members.
    segments : list of Segment
        The pending members, cut by engine and kind of cycle.
    """

    context: SchedulingContext
    engine: Engine
    group: PodGroup | None
    pods: Sequence[Pod]
    scheduled: Sequence[Pod]
    in_tree: bool = False

    def __post_init__(self) -> None:
        self.minimum = self.group.min_count if self.group and counts_members(self.engine) else 0
        self.batch = self.context.batch_of(self.pods)
        self.segments = [
            Segment(self.context.engine_of_route(route), bool(route & WHOLE_CYCLE), first, end)
            for first, end, route in self.batch.cut(SEGMENTS)
        ]

    @lazy_attribute
    def carry_terms(self) -> bool:
        """Whether affinity terms of members placed first may concern the other members."""
        shape_of = self.context.cache.state.classes.shape_of
        return len(self.pods) > 1 and any(shape_of(pod_class).carried for pod_class in self.batch.classes())

    def read_terms(self) -> None:
        """Read the counters of all terms of the members."""
        for segment in self.segments:
            for pod_class, _, pinned in self.batch.targets(segment.first, segment.end):
                segment.engine.search.terms_of(pod_class, pinned)

    @lazy_attribute
    def engines(self) -> list[Engine]:
        """The engines that schedule the members."""
        return list(dict.fromkeys([self.engine, *[segment.engine for segment in self.segments]]))

    def engines_in_cycle(self, evicts: bool) -> AbstractContextManager[None]:
        """Configure the engines for a block: no remembered failures, and PostFilter only if `evicts`.

        Parameters
        ----------
        evicts : bool
            Whether PostFilter may run.

        Returns
        -------
        context manager
        """
        return in_cycle(self.engines, evicts)


@contextmanager
def in_cycle(engines: Sequence[Engine], evicts: bool) -> Iterator[None]:
    """Configure engines for a block; see `Members.engines_in_cycle`.

    Parameters
    ----------
    engines : sequence of Engine
    evicts : bool
        Whether PostFilter may run.
    """
    before = [(one, one.runs_post_filter, one.search.states.open_scope()) for one in engines]
    for one, runs, _ in before:
        one.runs_post_filter = runs and evicts
    try:
        yield
    finally:
        for one, runs, scope in before:
            one.runs_post_filter, one.search.states.scope = runs, scope


def counts_members(engine: Engine) -> bool:
    """Whether a group needs its minimum. It does not where the gate for pod groups is on and the profile
    lacks GangScheduling.

    Parameters
    ----------
    engine : Engine
        Of the profile of the pods.
    """
    if not engine.handle.groups_pods:
        return True
    return GangScheduling.name in [plugin.name for plugin in engine.profile.at(PermitPlugin)]


class GroupResult(ScheduleResult):
    """The result of a pod group cycle; no pod has a row if the group failed.

    Parameters
    ----------
    state : ClusterState
    n : int
        Number of pods.
    batch : PodBatch

    Attributes
    ----------
    succeeded : bool
        Whether the pods with a row are assumed. Otherwise the cluster is unchanged.
    message : str
        Why the group failed.
    is_error : bool
        Whether it failed with an error.
    started : dict of int to Started
        Index to the argument of `BindingCycles.bind`, for the placed pods that out-of-tree plugins have
        reserved and permitted. All others are bound like the pods of a batch.
    outcomes : list of (PodGroup or CompositePodGroup, str)
        The group, or each group of a tree, and why it failed; "" where it succeeded.
    """

    succeeded = is_error = False
    message = ""

    def __init__(self, state: ClusterState, n: int, batch: PodBatch) -> None:
        self.started: dict[int, Started] = {}
        self.outcomes: list[tuple[AnyGroup, str]] = []

    def fail(self, failures: dict[int, Failure], message: str, is_error: bool = False) -> None:
        """Turn this into the result of a failed group.

        Parameters
        ----------
        failures : dict of int to Failure
            Index to the failure of each pod.
        message : str
            Why the group failed.
        is_error : bool, optional
            Whether it failed with an error.
        """
        self.rows[:] = -1
        self.failures.clear()
        self.failures.update(failures)
        self.message, self.is_error = message, is_error


class GroupAttempt:
    """One attempt to place the pods of a group, inside a transaction of the caller.

    Parameters
    ----------
    members : Members

    Attributes
    ----------
    reason : str
        Why the group failed, where its placements or preemption give a more specific reason than the attempt;
        else "".
    result : GroupResult
        `rows` and `failures` are those before the transaction is undone.
    reserved : dict of int to Started
        Index to each pod that out-of-tree plugins have reserved.
    error : str
        The error that ended the attempt; "" for none.
    is_permitted : bool
        Whether Permit let any pod continue. GangScheduling does once the minimum is reached.
    preempting : dict of int to str
        Index of each pod for which others are evicted, to its nominated node. Later pods are scheduled as if
        it were on that node.
    asked_to_wait : dict of int to str
        Index of each pod that Permit made wait after the minimum was reached, to the message.
    waits : bool
        Whether Permit let a pod continue after one for which others are evicted.
    nominates : bool
        Whether pods are evicted for the group, and its placed pods are nominated to their nodes.
    next_start : int
        Position in the node list at which the next search would begin.
    entered : int
        Index after the last pod that is entered in the ledger.
    """

    def __init__(self, members: Members) -> None:
        self.members = members
        self.context = members.context
        self.result = GroupResult(self.context.cache.state, len(members.pods), members.batch)
        self.rows, self.failures = self.result.rows, self.result.failures
        self.reserved: dict[int, Started] = {}
        self.error = ""
        self.is_permitted = self.waits = False
        self.preempting: dict[int, str] = {}
        self.asked_to_wait: dict[int, str] = {}
        self.nominates = False
        self.next_start = self.context.rotation.start
        self.entered = 0
        self.reason = ""

    @property
    def error_of_group(self) -> str:
        """The error of the group, and of its pods that have none of their own; "" for none."""
        return self.error and OTHER_FAILED.format(self.error)

    @property
    def succeeded(self) -> bool:
        """Whether the group can be bound now."""
        return self.is_permitted and not self.waits and not self.error

    @property
    def is_feasible(self) -> bool:
        """Whether the group has succeeded, or would after the evictions."""
        return self.is_permitted and not self.error

    @property
    def counts(self) -> bool:
        """Whether the group has what it needs, with the pods placed before."""
        return self.succeeded or len(self.members.scheduled) >= max(1, self.members.minimum)

    @property
    def placed(self) -> int:
        """Number of pods with a node or a nominated node."""
        return len(self.result.placed(0, len(self.rows))) + len(self.preempting)

    @property
    def has_placed(self) -> bool:
        """Whether a pod has a node."""
        return bool(self.result.placed(0, len(self.rows)))

    @property
    def message(self) -> str:
        """Why the group has failed."""
        return self.reason or (WAITS_FOR_VICTIMS if self.waits else UNSCHEDULABLE)

    def failed(self) -> dict[int, Failure]:
        """Return the failure of each pod of a group that failed without an error.

        Returns
        -------
        dict of int to Failure
            By index.
        """
        failures = dict.fromkeys(range(len(self.rows)), Failure(group_failure=self.message)) | self.failures
        waiting = Failure(group_failure=WAITS_FOR_MEMBERS, nominating=NominatingInfo())
        placed, table = self.result.placed(0, len(self.rows)), self.context.cache.state.table
        if self.waits or self.nominates:
            for at in placed:
                nominating = NominatingInfo(table.row_name(self.rows[at]))
                failures[at] = Failure(group_failure=self.message, nominating=nominating)
            return failures
        failures |= dict.fromkeys((*placed, *self.preempting), waiting)
        for at, text in self.asked_to_wait.items():
            failures[at] = Failure(group_failure=text, nominating=NominatingInfo())
        return failures

    @property
    def has_minimum(self) -> bool:
        """Whether the group has as many pods with a node as it needs."""
        return len(self.members.scheduled) + self.placed >= self.members.minimum

    def permit(self) -> None:
        """Record a placed pod for which no out-of-tree Permit plugin waits."""
        if self.has_minimum:
            self.is_permitted, self.waits = True, bool(self.preempting)

    def place(self) -> None:
        """Place every pod that fits. Pods that the core alone schedules are entered in the ledger later, by
        `enter`."""
        for segment in self.members.segments:
            engine, batch = self.context.rotation.take(segment.engine), self.members.batch
            MemberPlacing(
                self.context, engine, batch, self.result, Sink(), attempt=self, segment=segment
            ).place(segment.first, segment.end, never)
            if self.error:
                break
        self.next_start = self.context.rotation.start

    def enter(self) -> None:
        """Enter the remaining pods in the ledger."""
        state = self.context.cache.state
        if state.journal.depth:
            state.atomically(self.enter_until, len(self.rows))
        else:
            self.enter_until(len(self.rows))

    def enter_until(self, end: int) -> None:
        """Enter the pods before an index in the ledger.

        Parameters
        ----------
        end : int
        """
        if end > self.entered:
            LEDGER.enter(self.members.batch, self.result, self.entered, end)
            self.entered = end

    def reserve(self, at: int, started: Started) -> None:
        """Run Reserve and Permit for an assumed pod, and record the outcome.

        Parameters
        ----------
        at : int
            Index of the pod.
        started : Started
        """
        framework, state, node = started.engine.framework, started.state, started.node
        status = framework.run_reserve_plugins_reserve(state, started.assumed, node)
        if status is None:
            status, _ = framework.run_permit_plugins(state, started.assumed, node)
        if status is None or status.is_wait:
            self.reserved[at] = started
            if status is None:
                self.permit()
            elif self.has_minimum:
                self.asked_to_wait[at] = f"{UNSCHEDULABLE}, {status.message()}"
            return
        framework.run_reserve_plugins_unreserve(state, started.assumed, node)
        self.context.cache.forget_pod(started.assumed)
        self.rows[at] = -1
        self.preempting.pop(at, None)
        if status.is_rejected:
            chosen = Diagnosis(1, started.engine.profile_of(state.target), state.shape, chosen=status)
            failure = Failure(chosen, nominating=NominatingInfo())
        else:
            failure = Failure(error=status.message() or str(status.code), nominating=NominatingInfo())
        self.failures[at], self.error = failure, failure.error

    def unreserve(self) -> None:
        """Run Unreserve for all reserved pods in reverse order; `start` reserves them again if the group
        succeeded."""
        for one in reversed(self.reserved.values()):
            one.engine.framework.run_reserve_plugins_unreserve(one.state, one.assumed, one.node)

    def start(self) -> dict[int, Started]:
        """Begin the binding cycles of a group that succeeded: run Reserve and Permit again, this time to
        stay.

        Returns
        -------
        dict of int to Started
            Index to each pod that passed Reserve and Permit of out-of-tree plugins.
        """
        started: dict[int, Started] = {}
        for one in reversed(self.reserved.values()):
            self.context.cache.forget_pod(one.assumed)
        for at, one in self.reserved.items():
            outcome = self.context.bindings.reserve(one.engine, one.state, one.pod, one.node)
            if isinstance(outcome, Started):
                started[at] = outcome
            elif outcome.failure is not None:
                self.rows[at] = -1
                self.failures[at] = outcome.failure
        return started


class MemberPlacing(Placing, kw_only=True):
    """Places the pods of a segment of a group, up to Permit. An error ends the placing.

    Parameters
    ----------
    attempt : GroupAttempt
    segment : Segment
    """

    attempt: GroupAttempt
    segment: Segment

    def place_together(self, first: int, end: int) -> int:
        """Place pods by the core alone, without nominated pods in the cluster; see `Placing.place_together`.

        Parameters
        ----------
        first, end : int
            Indexes in the batch.

        Returns
        -------
        int
            Index of the next pod.
        """
        # Plugins that follow the pods in the ledger are to see each member.
        if self.segment.whole_cycle or self.context.nominator or self.engine.plan.follows:
            return first
        done = super().place_together(first, end)
        if self.result.placed(first, done):
            self.attempt.permit()
        return done

    def _place_nominated(self, first: int, end: int) -> int:
        """Place no pod: the attempt follows each cycle."""
        return first

    def _place_one(self, at: int) -> bool:
        """Run the cycle of one pod up to Permit; return whether it failed with an error."""
        attempt, context, pod = self.attempt, self.context, self.batch.pod(at)
        attempt.enter_until(at)
        attempt.entered = at + 1
        engine = context.rotation.take(self.engine)
        target = engine.cycle_target(pod, self.batch.target(at))
        decision, state = engine.schedule(pod, target, context.view_order)
        node = decision.node
        if node is None:
            attempt.failures[at] = failure = Failure.of(decision)
            attempt.error, node = decision.error, failure.nominated_node
            if not node:
                return bool(attempt.error)
            attempt.preempting[at] = node
        else:
            attempt.rows[at] = self.engine.row_in_view(node)
        assumed = assumed_on(engine, state, pod, node)
        context.cache.assume_pod(assumed)
        context.handle.nominator.delete_nominated_pod_if_exists(pod)
        if self.segment.whole_cycle:
            attempt.reserve(at, Started(engine, state, pod, assumed))
        else:
            attempt.permit()
        return bool(attempt.error)


# ---- the algorithm -----------------------------------------------------------------------------------------


def decide(members: Members, commit: bool = True, parent: Placement | None = None) -> GroupAttempt:
    """Place the pods of a group; in the best placement, if the group is bound to a topology.

    Parameters
    ----------
    members : Members
    commit : bool, optional
        Whether the placed pods stay if the group succeeds. Otherwise all is undone. The rotation advances in
        any case.
    parent : Placement, optional
        The nodes to choose from; by default all.

    Returns
    -------
    GroupAttempt

    Raises
    ------
    StatusError
        A plugin for placements fails.
    """
    group, profile = members.group, members.engine.profile
    if members.in_tree and len(members.pods) + len(members.scheduled) < members.minimum:
        attempt = GroupAttempt(members)
        numbers = members.minimum, len(members.scheduled), len(members.pods)
        attempt.reason = CANNOT_BE_SATISFIED.format(*numbers)
        return attempt
    if group is None or not (
        members.engine.handle.places_groups or (group.topology_keys and profile.at(PlacementGeneratePlugin))
    ):
        return try_members(members, parent, commit)
    if parent is None:
        parent = members.engine.handle.derived(PlacementMemory).all_nodes()
    placements = make_placements(profile, group, members.scheduled, parent)
    return decide_among(members, placements, commit, partial(try_members, members), GroupAttempt(members))


def try_members(members: Members, placement: Placement | None = None, commit: bool = True) -> GroupAttempt:
    """Place the pods of a group on the nodes of one placement, or on all nodes. The rotation advances in any
    case.

    Parameters
    ----------
    members : Members
    placement : Placement, optional
        None for all nodes.
    commit : bool, optional
        Whether the placed pods stay if the group succeeds. Otherwise all is undone.

    Returns
    -------
    GroupAttempt
    """
    is_part = placement is not None and len(placement.rows) < members.context.cache.state.view.size
    for engine in members.engines:
        engine.search.search_in(placement.rows if placement is not None and is_part else None)
        if is_part or members.in_tree:
            engine.search.states.open_scope()  # remembered failures concern other nodes
    attempt = GroupAttempt(members)
    with all_or_nothing(members.context) as transaction:
        try:
            attempt.place()
            if attempt.succeeded and commit:
                transaction.commit()
        finally:
            attempt.unreserve()
    if transaction.committed:
        attempt.enter()
    members.context.rotation.start = attempt.next_start
    return attempt


def all_or_nothing(context: SchedulingContext) -> AbstractContextManager[Transaction]:
    """Return a transaction of the cache that includes nominations.

    Parameters
    ----------
    context : SchedulingContext

    Returns
    -------
    context manager of Transaction
    """
    return context.cache.transaction(context.handle.nominator)


def failures_with_group(done: GroupResult) -> dict[int, Failure]:
    """Return the failures of the pods of a failed group, with the group's failure in each.

    Parameters
    ----------
    done : GroupResult

    Returns
    -------
    dict of int to Failure
        Index of the pod in the group to its failure.
    """
    message = done.message
    by_id: dict[int, Failure] = {}
    for failure in done.failures.values():  # equal failures share one object
        has_diagnosis = failure.diagnosis and not failure.group_failure
        by_id[id(failure)] = replace(failure, group_failure=message) if has_diagnosis else failure
    return {at: by_id[id(failure)] for at, failure in done.failures.items()}
