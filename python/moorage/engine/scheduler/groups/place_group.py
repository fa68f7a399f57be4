"""Pod group cycles: the pods of a group are scheduled together on one snapshot.

kube-scheduler v1.37, schedule_one_podgroup.go scheduleOnePodGroup, podGroupCycle and
submitPodGroupAlgorithmResult.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from moorage._core.decide.bulk_operations import check_new
from moorage.engine.framework import Code, NominatingInfo, Status
from moorage.errors import MoorageError
from moorage.kube import AnyGroup, Pod, PodGroup

from ..cycle.cycle import binding_cycle
from ..cycle.engine import Engine
from ..cycle.results import Failure
from ..scheduling_context import SchedulingContext
from .group_attempt import UNSCHEDULABLE, Attempt, GroupResult, decide_whole
from .group_post_filter import run_post_filter
from .ignored_groups import ignored_topologies
from .members import Members, in_cycle

OTHER_SCHEDULER = (
    "all pods in a single pod group should have the same .spec.schedulerName set, got: {} and {}"
)
OTHER_PRIORITY = (
    "all pods in a single pod group should have the same priority as the pod group's priority, got {} and {}"
)
OTHER_POLICY = "all pods in a single pod group should have the same preemption policy, got {} and {}"
DEFAULT, PREEMPTS = "default-scheduler", "PreemptLowerPriority"
CLEAR = NominatingInfo()


@dataclass(slots=True)
class Outcome:
    """What becomes of a pod group or a composite group.

    Attributes
    ----------
    members : Members
    indexes : sequence of int
        Its pods, among those of the whole tree.
    attempt : Attempt or None
        None where the group was not tried, or has failed with the group above it.
    status : Status or None
        Why it failed; None where it succeeded.
    """

    members: Members
    indexes: Sequence[int]
    attempt: Attempt | None
    status: Status | None


def outcomes_of(
    members: Members, attempt: Attempt | None, indexes: Sequence[int], above: Status | None = None
) -> Iterator[Outcome]:
    """Yield what becomes of a group and of those below it, each before those in it.

    Parameters
    ----------
    attempt : Attempt or None
        None where the group was not tried.
    indexes : sequence of int
        The pods of the group, among those of the whole tree.
    above : Status, optional
        Why the group above it failed, if it did.
    """
    if attempt is None or (above is not None and attempt.succeeded):
        attempt, status = None, above
    else:
        status = attempt.status
    yield Outcome(members, indexes, attempt, status)
    tried = [] if attempt is None else attempt.children
    for at, child in enumerate(members.children):
        own = [indexes[index] for index in members.indexes[at]]
        yield from outcomes_of(child, tried[at] if at < len(tried) else None, own, status)


def rejected(
    context: SchedulingContext, pods: Sequence[Pod], group: AnyGroup | None, error: str
) -> GroupResult:
    """Return the result for pods that cannot form a group. Their cycle ends after it has taken its snapshot.

    Parameters
    ----------
    group : PodGroup or CompositePodGroup or None
        None where it is gone.
    error : str
        The error of each pod and of the group.
    """
    with context.cache.lock:
        context.cache.state.view.refresh()
    result = GroupResult(context.cache.state, len(pods), context.batch_of(pods))
    result.failures.update(dict.fromkeys(range(len(pods)), Failure(error=error, nominating=CLEAR)))
    result.message, result.is_error = error, True
    tree = () if group is None else context.groups.tree_of(group)
    result.outcomes = [(members.group, error) for members in tree if isinstance(members.group, PodGroup)]
    return result


def place_group(
    context: SchedulingContext,
    engine: Engine,
    group: AnyGroup,
    pods: Sequence[Pod],
    scheduled: Sequence[Pod] = (),
    evicts: bool = False,
) -> GroupResult:
    """Place the pods of a group in order: all that fit, if they reach the group's minimum together with the
    scheduled pods; otherwise none. Pods of a composite group are placed group by group.

    Parameters
    ----------
    engine : Engine
        Of the profile of the pods.
    pods : sequence of Pod
        Pending members, not in the cache.
    scheduled : sequence of Pod, optional
        Members that have a node already, assumed ones included.
    evicts : bool, optional
        Whether pods are evicted for a group that fails.
    """
    if error := why_invalid(group, (*pods, *scheduled)):
        return rejected(context, pods, group, error)
    members = Members(context, engine, context.groups.tree_of(group), pods, scheduled)
    with context.cache.lock:
        context.cache.state.view.refresh()
        with in_cycle(members.engines), one_cycle(members):
            attempt = decide_whole(members)
            nominations, status = None, None
            if evicts and attempt.status is not None and attempt.status.code == Code.UNSCHEDULABLE:
                nominations, status = run_post_filter(members, attempt)
        if attempt.succeeded:
            context.cache.state.view.log_stale_counts(attempt.rows)
    return _result(members, attempt, nominations, status)


def try_group(
    context: SchedulingContext, engine: Engine, group: PodGroup, pods: Sequence[Pod], scheduled: Sequence[Pod]
) -> Attempt:
    """Place the pods of a pod group as `place_group` does, without evictions, and undo it.

    Parameters
    ----------
    engine : Engine
        Of the profile of the pods.
    pods, scheduled : sequence of Pod
        Pending members, not in the cache, and those that have a node.
    """
    members = Members(context, engine, context.groups.tree_of(group), pods, scheduled)
    with context.cache.lock, context.cache.transaction():
        context.cache.state.view.refresh()
        with in_cycle(members.engines), one_cycle(members):
            attempt = decide_whole(members, commit=False)
    return attempt


@contextmanager
def one_cycle(members: Members) -> Iterator[None]:
    """Have the number of nodes per image as it is at the start of the cycle, as upstream's snapshot does, and
    the pods share what DynamicResources allocates."""
    view, handle = members.context.cache.state.view, members.engine.handle
    view.freezes_counts, handle.group_cycle = True, object()
    try:
        yield
    finally:
        view.freezes_counts, handle.group_cycle = False, None


def why_invalid(group: AnyGroup, pods: Sequence[Pod]) -> str:
    """Return why pods cannot form a group (validatePodGroup).

    Parameters
    ----------
    pods : sequence of Pod
        The pending ones before those that have a node.

    Returns
    -------
    str
        "" if they can.
    """
    priority, first = group.spec.priority or 0, pods[0].spec if pods else None
    for pod in pods:
        assert first is not None
        spec = pod.spec
        if spec.scheduler_name != first.scheduler_name:
            names = [f'"{each.scheduler_name or DEFAULT}"' for each in (spec, first)]
            return OTHER_SCHEDULER.format(*names)
        if (spec.priority or 0) != priority:
            return OTHER_PRIORITY.format(spec.priority or 0, priority)
        if (spec.preemption_policy or PREEMPTS) != (first.preemption_policy or PREEMPTS):
            return OTHER_POLICY.format(
                spec.preemption_policy or PREEMPTS, first.preemption_policy or PREEMPTS
            )
    return ""


# ---- the result --------------------------------------------------------------------------------------------


def _result(
    members: Members,
    attempt: Attempt,
    nominations: Mapping[int, NominatingInfo] | None,
    post_filter: Status | None,
) -> GroupResult:
    """Return the result of a cycle.

    Parameters
    ----------
    nominations : mapping of int to NominatingInfo, or None
        Changes of nominations of pods of a group for which others are evicted; None for such a group.
    post_filter : Status or None
        Of PostFilter for the group; None where it was not run.
    """
    context = members.context
    result = GroupResult(context.cache.state, len(members.pods), context.batch_of(members.pods))
    result.succeeded, result.is_error = attempt.succeeded, attempt.is_error
    if attempt.succeeded:
        result.started = attempt.start()
        result.rows[:] = attempt.rows
    outcomes = list(outcomes_of(members, attempt, range(len(members.pods))))
    for outcome in outcomes:
        status = _after(outcome.status, post_filter, outcomes)
        if isinstance(outcome.members.group, PodGroup):
            _add(result, outcome, status, nominations)
            result.outcomes.append((outcome.members.group, "" if status is None else status.message()))
            result.is_error |= status is not None and status.code == Code.ERROR
    root = _after(attempt.status, post_filter, outcomes)
    result.message = "" if root is None else root.message()
    return result


def _after(status: Status | None, post_filter: Status | None, outcomes: Sequence[Outcome]) -> Status | None:
    """Return the status of a group after PostFilter. Groups that have one status in common add the reason to
    it once each, as upstream."""
    if status is None or post_filter is None:
        return status
    if post_filter.code == Code.ERROR:
        return post_filter
    times = sum(outcome.status is status for outcome in outcomes)
    for _ in range(times):
        status = status.append_reason(post_filter.message())
    return status


def _add(
    result: GroupResult,
    outcome: Outcome,
    status: Status | None,
    nominations: Mapping[int, NominatingInfo] | None,
) -> None:
    """Add the failures of the pods of a pod group to a result."""
    attempt, failures = outcome.attempt, result.failures
    for own, at in enumerate(outcome.indexes):
        failure = None if attempt is None else attempt.failures.get(own)
        if status is None:
            if failure is not None:
                failures[at] = failure
            continue
        if status.code == Code.ERROR:
            is_own = failure is not None and failure.is_error
            failures[at] = failure if is_own else Failure(error=status.message(), nominating=CLEAR)
            continue
        nominating = None if nominations is None else nominations.get(at)
        if failure is not None:
            failures[at] = (
                failure if nominating is None else Failure(failure.diagnosis, nominating=nominating)
            )
        elif attempt is None or own >= attempt.tried:
            text = outcome.status.message() if outcome.status is not None else ""
            failures[at] = Failure(group_failure=text, nominating=nominating)
        elif nominations is not None:
            failures[at] = Failure(group_failure=status.message(), nominating=nominating)
        else:
            text = f"{UNSCHEDULABLE}, {status.message()}" if status.message() else str(UNSCHEDULABLE)
            failures[at] = Failure(group_failure=text, nominating=CLEAR)


def schedule_workload(
    context: SchedulingContext,
    group: AnyGroup,
    pods: Sequence[Pod] | None = None,
    scheduled: Sequence[Pod] | None = None,
) -> GroupResult:
    """Place and bind the pods of a group; see `Scheduler.schedule_workload`.

    Parameters
    ----------
    pods : sequence of Pod, optional
        In the order to try; by default the pending members.
    scheduled : sequence of Pod, optional
        Members that have a node already; by default those that are known.

    Returns
    -------
    GroupResult
        In the order of the pods.

    Raises
    ------
    CacheError
        A pod is in the cache or appears twice.
    MoorageError
        The pods ask for different schedulers.
    """
    groups, unit = context.groups, group.unit
    pending = groups.pending(unit) if pods is None else pods
    with context.cache.lock:  # what another thread has tried out and not yet undone is not seen
        check_new(context.cache.state, pending)
    engines = context.engines_of(pending)
    if len(engines) > 1:
        raise MoorageError(why_invalid(group, pending))
    if not engines:
        return GroupResult(context.cache.state, 0, context.batch_of(pending))
    placed = groups.scheduled(unit)[0] if scheduled is None else scheduled
    with context.taken_back_on_error(pending):
        result = place_group(context, engines.pop(), group, pending, placed)
        bound = {at: binding_cycle(context.bindings, started) for at, started in result.started.items()}
        binding_failures = context.finish_binding([started.pod for started in result.started.values()])
        for at, outcome in bound.items():
            failure = outcome.failure or binding_failures.get(outcome.pod.key)
            if failure is not None:
                result.rows[at], result.failures[at] = -1, failure
        context.sync()
        result.note_names()
        tree = [node.group for node in groups.tree_of(group) if node.group is not None]
        texts = ignored_topologies(context.handle, tree).items()
        result.warnings = [f"{number} {text}." for text, number in texts]
        return result
