"""Pod group cycles: the pods of a group are scheduled together on one snapshot.

kube-scheduler v1.36, schedule_one_podgroup.go podGroupCycle and submitPodGroupAlgorithmResult.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from moorage._core.decide.bulk_operations import check_new
from moorage.errors import MoorageError
from moorage.framework.plugin.interface import NominatingInfo, PostFilterPlugin
from moorage.framework.runtime.call import StatusError
from moorage.objects.model.pod import Pod
from moorage.objects.model.pod_group import PodGroup
from moorage.preemption.default_preemption import DefaultPreemption
from moorage.preemption.eligibility import reason_against
from moorage.scheduler.cycle.engine import Engine
from moorage.scheduler.cycle.results import Failure, ScheduleResult
from moorage.scheduler.placing.binding_cycle import Started

from .group_attempt import Attempt, Members, decide
from .group_preemption import preempt_for_group

if TYPE_CHECKING:
    from moorage.scheduler.scheduling_context import SchedulingContext

SEVERAL_SCHEDULERS = (
    "all pods in a single pod group should have the same .spec.schedulerName set, got: {} and {}"
)
DEFAULT = "default-scheduler"
OTHER_FAILED = "failed to schedule other pod from a pod group: {}"

Actions = list[Callable[[], object]]


@dataclass(frozen=True, slots=True)
class GroupResult:
    """The result of a pod group cycle.

    Attributes
    ----------
    rows : (n,) int32 array
        Row of the node table that each pod was put on, -1 where it has none: everywhere, if the group failed.
    failures : dict of int to Failure
        Position of each pod without a row to the reason.
    succeeded : bool
        Whether the pods with a row are assumed. Otherwise nothing has changed.
    message : str
        Why the group failed.
    is_error : bool
        It failed with an error.
    started : dict of int to Started
        Position to the argument of `BindingCycles.bind`, for placed pods that plugins outside the core have
        reserved and permitted; all others are bound like those of a batch.
    """

    rows: npt.NDArray[np.int32]
    failures: dict[int, Failure]
    succeeded: bool
    message: str = ""
    is_error: bool = False
    started: dict[int, Started] = field(default_factory=dict)


def rejected(pods: Sequence[Pod], error: str) -> GroupResult:
    """The result for pods that cannot form a group.

    Parameters
    ----------
    pods : sequence of Pod
    error : str
        Error of each pod and of the group.
    """
    rows = np.full(len(pods), -1, dtype=np.int32)
    failure = Failure(error=error, nominating=NominatingInfo())
    return GroupResult(rows, dict.fromkeys(range(len(pods)), failure), False, error, True)


def place_group(
    context: SchedulingContext,
    engine: Engine,
    group: PodGroup | None,
    pods: Sequence[Pod],
    scheduled: Sequence[Pod] = (),
    evicts: bool = False,
) -> GroupResult:
    """Place the pods of a group in order: all that fit, if together with the scheduled ones they reach the
    group's minimum; else none.

    Parameters
    ----------
    context : SchedulingContext
    engine : Engine
        Of the profile of the pods.
    group : PodGroup, optional
        None is a group without a minimum.
    pods : sequence of Pod
        Pending members, not in the cache.
    scheduled : sequence of Pod
        Members that have a node already, assumed ones included.
    evicts : bool
        Whether PostFilter is run, and pods are evicted for the group.

    Returns
    -------
    GroupResult
    """
    postponed: Actions = []
    with context.cache.lock:
        members = Members(context, engine, group, pods, scheduled)
        # Unless the scheduler follows upstream's bugs, a cycle that fails leaves no trace.
        undone = nullcontext() if context.group_cycle_bugs else context.cache.transaction()
        with undone as transaction:
            context.cache.state.view.refresh()
            with _engines_in_cycle(members, evicts, postponed), _one_snapshot(members):
                try:
                    result = _decide(members, evicts)
                except StatusError as failed:
                    result = rejected(pods, failed.status.message())
            if transaction is not None and result.succeeded:
                transaction.commit()
        if result.succeeded:
            context.cache.state.view.log_stale_counts(result.rows)
    for act in postponed:
        act()
    return result


def _decide(members: Members, evicts: bool) -> GroupResult:
    attempt, handle = decide(members), members.engine.handle
    if attempt.error:
        return _failed_with_error(attempt)
    if attempt.succeeded:
        started = attempt.start()
        return GroupResult(attempt.rows, attempt.failures, True, started=started)
    if evicts and handle.preempts_for_groups and members.group is not None:
        preempt_for_group(members, members.group, attempt)
    rows = np.full(len(members.pods), -1, dtype=np.int32)
    return GroupResult(rows, attempt.failed(), False, attempt.message)


def _failed_with_error(attempt: Attempt) -> GroupResult:
    """The result after an error in the cycle of one pod; the other pods get an error that refers to it."""
    result = rejected(attempt.members.pods, OTHER_FAILED.format(attempt.error))
    clear = NominatingInfo()
    own = {at: replace(one, nominating=clear) for at, one in attempt.failures.items() if one.error}
    return replace(result, failures=result.failures | own)


# ---- the situation of a cycle ------------------------------------------------------------------------------


@contextmanager
def _one_snapshot(members: Members) -> Iterator[None]:
    """Freeze the parts of the snapshot that upstream copies at the start of a cycle: the number of nodes per
    image, and, by a bug, the list of nodes with affinity terms."""
    state = members.context.cache.state
    lists = members.context.group_cycle_bugs and members.carry_terms
    state.view.keeps_counts = True
    if lists:
        state.domains.list_carriers()
        members.read_terms()
    try:
        yield
    finally:
        state.view.keeps_counts = False
        if lists:
            state.domains.unlist_carriers()


@contextmanager
def _engines_in_cycle(
    members: Members, evicts: bool, postponed: list[Callable[[], object]]
) -> Iterator[None]:
    """Configure the engines for a cycle: PostFilter, known failures and the searched nodes. Preemption only
    records its actions in `postponed`."""
    handle = members.engine.handle
    plugins = [
        one for one in members.engine.profile.at(PostFilterPlugin) if isinstance(one, DefaultPreemption)
    ]
    for plugin in plugins:
        plugin.reason_against = reason_against(handle, members.group)
    handle.postponed = postponed
    try:
        with members.engines_in_cycle(evicts):
            yield
    finally:
        handle.postponed = None
        for plugin in plugins:
            plugin.reason_against = ""
        for engine in members.engines:
            engine.search.search_in(None)


def schedule_workload(
    context: SchedulingContext, group: PodGroup, pods: Sequence[Pod] | None = None
) -> ScheduleResult:
    """See `Scheduler.schedule_workload`."""
    groups, unit = context.groups, (group.namespace, group.name)
    pending = groups.pending(unit) if pods is None else pods
    check_new(context.cache.state, pending)
    engines = {context.engine_of(pod) for pod in pending}
    if len(engines) > 1:
        raise MoorageError(several_schedulers(pending))
    if not engines:
        return ScheduleResult(context.cache.state, 0)
    placed = place_group(context, engines.pop(), group, pending, groups.scheduled(unit))
    result = ScheduleResult(context.cache.state, len(pending))
    result.rows[:] = placed.rows
    result.failures.update(placed.failures)
    for at, started in placed.started.items():
        outcome = context.bindings.bind(started)
        if outcome.failure is not None:
            result.rows[at], result.failures[at] = -1, outcome.failure
    later = context.finish_binding([started.pod for started in placed.started.values()])
    for at, started in placed.started.items():
        if started.pod.key in later:
            result.rows[at], result.failures[at] = -1, later[started.pod.key]
    context.sync()
    result.note_names()
    return result


def several_schedulers(pods: Sequence[Pod]) -> str:
    """The error for pods of one group with different schedulers."""
    names = [pod.spec.scheduler_name or DEFAULT for pod in pods]
    other = next(name for name in names if name != names[0])
    return SEVERAL_SCHEDULERS.format(*(f'"{name}"' for name in (names[0], other)))
