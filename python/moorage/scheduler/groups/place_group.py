"""Pod group cycles: the pods of a group are scheduled together on one snapshot.

kube-scheduler v1.36, schedule_one_podgroup.go podGroupCycle and submitPodGroupAlgorithmResult.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

from msgspec.structs import replace

from moorage._core.decide.bulk_operations import check_new
from moorage.errors import MoorageError
from moorage.framework import NominatingInfo, StatusError
from moorage.objects import AnyGroup, Pod
from moorage.preemption.default_preemption import preemption_plugins
from moorage.preemption.eligibility import reason_against
from moorage.scheduler.cycle.engine import Engine
from moorage.scheduler.cycle.results import Failure, ScheduleResult
from moorage.scheduler.scheduling_context import SchedulingContext

from .choose_placement import AnyMembers
from .composite_attempt import (
    CompositeAttempt,
    CompositeMembers,
    decide_tree,
    groups_of,
    members_of,
    result_of,
)
from .group_attempt import GroupAttempt, GroupResult, Members
from .group_preemption import preempt_for_group

SEVERAL_SCHEDULERS = (
    "all pods in a single pod group should have the same .spec.schedulerName set, got: {} and {}"
)
DEFAULT = "default-scheduler"
OTHER_PRIORITY = 'all {} should have the same priority as the root pod group\'s priority, got {} ("{}")'

Actions = list[Callable[[], object]]


def rejected(context: SchedulingContext, pods: Sequence[Pod], error: str) -> GroupResult:
    """Return the result for pods that cannot form a group.

    Parameters
    ----------
    context : SchedulingContext
    pods : sequence of Pod
    error : str
        The error of each pod and of the group.

    Returns
    -------
    GroupResult
    """
    result = GroupResult(context.cache.state, len(pods), context.batch_of(pods))
    failure = Failure(error=error, nominating=NominatingInfo())
    result.fail(dict.fromkeys(range(len(pods)), failure), error, is_error=True)
    return result


def place_group(
    context: SchedulingContext,
    engine: Engine,
    group: AnyGroup | None,
    pods: Sequence[Pod],
    scheduled: Sequence[Pod] = (),
    evicts: bool = False,
) -> GroupResult:
    """Place the pods of a group in order: all that fit, if they reach the group's minimum together with the
    scheduled pods; otherwise none. Pods of a composite group are placed group by group.

    Parameters
    ----------
    context : SchedulingContext
    engine : Engine
        Of the profile of the pods.
    group : PodGroup or CompositePodGroup or None
        None is a group without a minimum.
    pods : sequence of Pod
        Pending members, not in the cache.
    scheduled : sequence of Pod, optional
        Members that have a node already, assumed ones included.
    evicts : bool, optional
        Whether PostFilter is run, and pods are evicted for the group.

    Returns
    -------
    GroupResult
    """
    postponed: Actions = []
    with context.cache.lock:
        members = members_of(context, engine, group, pods, scheduled)
        if isinstance(members, CompositeMembers) and (wrong := why_invalid(members)):
            return rejected(context, pods, wrong)
        # Without upstream's bugs, a failed cycle is undone as a whole.
        undone = nullcontext() if context.group_cycle_bugs else context.cache.transaction()
        with undone as transaction:
            context.cache.state.view.refresh()
            with _in_cycle(members, evicts, postponed):
                try:
                    result = _decide(members, evicts)
                except StatusError as failed:
                    error = failed.status.message()
                    result = rejected(context, pods, error)
                    result.outcomes = [(one, error) for one in groups_of(members)]
            if transaction is not None and result.succeeded:
                transaction.commit()
        if result.succeeded:
            context.cache.state.view.log_stale_counts(result.rows)
    for act in postponed:
        act()
    return result


def _decide(members: Members | CompositeMembers, evicts: bool) -> GroupResult:
    """GroupAttempt to place the group, and preempt for it if that fails."""
    attempt, handle = decide_tree(members), members.engine.handle
    result = result_of(members, attempt)
    if attempt.error:
        return _failed_with_error(attempt)
    if attempt.succeeded:
        result.started, result.succeeded = attempt.start(), True
        result.outcomes = _outcomes(attempt)
        if isinstance(attempt, CompositeAttempt):
            result.failures.update(attempt.failed())
        return result
    if evicts and handle.preempts_for_groups and members.group is not None:
        preempt_for_group(members, members.group, attempt)
    result.fail(attempt.failed(), attempt.message)
    result.outcomes = _outcomes(attempt)
    return result


def _outcomes(attempt: GroupAttempt | CompositeAttempt) -> list[tuple[AnyGroup, str]]:
    """Return the groups, and why each failed; "" where it succeeded."""
    if isinstance(attempt, CompositeAttempt):
        return attempt.outcomes("" if attempt.succeeded else attempt.message)
    group = attempt.members.group
    return [] if group is None else [(group, "" if attempt.succeeded else attempt.message)]


def _failed_with_error(attempt: GroupAttempt | CompositeAttempt) -> GroupResult:
    """Return the result after an error in the cycle of one pod; the other pods get an error that refers to
    it."""
    error = attempt.error_of_group
    result = rejected(attempt.context, attempt.members.pods, error)
    failures = attempt.failed() if isinstance(attempt, CompositeAttempt) else attempt.failures
    clear = NominatingInfo()
    own = {at: replace(one, nominating=clear) for at, one in failures.items() if one.error}
    result.failures.update(own)
    result.outcomes = [(group, error) for group, _ in _outcomes(attempt)]
    return result


def why_invalid(members: CompositeMembers) -> str:
    """Return why a tree of groups cannot be scheduled, or "" (kube-scheduler v1.37, validatePodGroup).

    Parameters
    ----------
    members : CompositeMembers

    Returns
    -------
    str
    """
    root = members.group
    assert root is not None
    priority = root.spec.priority or 0
    for group in groups_of(members):
        if (group.spec.priority or 0) != priority:
            text = OTHER_PRIORITY.format("pod groups in a hierarchy", group.spec.priority or 0, group.key)
            return f'{text} and {priority} ("{root.key}")'
    for pod in (*members.pods, *members.scheduled):
        if (pod.spec.priority or 0) != priority:
            text = OTHER_PRIORITY.format("pods in a pod group hierarchy", pod.spec.priority or 0, pod.name)
            return f'{text} and {priority} ("{root.key}")'
    return ""


# ---- the situation of a cycle ------------------------------------------------------------------------------


@contextmanager
def _in_cycle(members: AnyMembers, evicts: bool, postponed: Actions) -> Iterator[None]:
    """Configure the engines for a cycle: PostFilter, remembered failures and the searched nodes. Preemption
    appends its actions to `postponed` instead of executing them.

    What upstream copies into its snapshot at the start of a cycle is frozen: the number of nodes per image,
    and, by a bug, the list of nodes with affinity terms.
    """
    handle, state = members.engine.handle, members.context.cache.state
    plugins = preemption_plugins(members.engine.profile)
    for plugin in plugins:
        plugin.reason_against = reason_against(handle, members.group)
    handle.postponed, handle.tried = postponed, members.pods
    lists = members.context.group_cycle_bugs and members.carry_terms
    try:
        with members.engines_in_cycle(evicts):
            state.view.freezes_counts = True
            if lists:
                state.domains.list_carriers()
                members.read_terms()
            yield
    finally:
        state.view.freezes_counts = False
        if lists:
            state.domains.unlist_carriers()
        handle.postponed, handle.tried = None, ()
        for plugin in plugins:
            plugin.reason_against = ""
        for engine in members.engines:
            engine.search.search_in(None)


def schedule_workload(
    context: SchedulingContext, group: AnyGroup, pods: Sequence[Pod] | None = None
) -> ScheduleResult:
    """Place and bind the pods of a group; see `Scheduler.schedule_workload`.

    Parameters
    ----------
    context : SchedulingContext
    group : PodGroup or CompositePodGroup
    pods : sequence of Pod, optional
        In the order to try; by default the pending members.

    Returns
    -------
    ScheduleResult
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
    check_new(context.cache.state, pending)
    engines = context.engines_of(pending)
    if len(engines) > 1:
        raise MoorageError(several_schedulers(pending))
    if not engines:
        return ScheduleResult(context.cache.state, 0)
    result = place_group(context, engines.pop(), group, pending, groups.scheduled(unit)[0])
    bound = {at: context.bindings.bind(started) for at, started in result.started.items()}
    binding_failures = context.finish_binding([started.pod for started in result.started.values()])
    for at, outcome in bound.items():
        failure = outcome.failure or binding_failures.get(outcome.pod.key)
        if failure is not None:
            result.rows[at], result.failures[at] = -1, failure
    context.sync()
    result.note_names()
    return result


def several_schedulers(pods: Sequence[Pod]) -> str:
    """Return the error for pods of one group with different scheduler names.

    Parameters
    ----------
    pods : sequence of Pod
        At least two of them differ.

    Returns
    -------
    str
    """
    names = [pod.spec.scheduler_name or DEFAULT for pod in pods]
    other = next(name for name in names if name != names[0])
    return SEVERAL_SCHEDULERS.format(*(f'"{name}"' for name in (names[0], other)))
