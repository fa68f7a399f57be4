"""Placing a pod group: its pods one after the other in one transaction, which is kept if enough of them fit.

kube-scheduler v1.36, schedule_one_podgroup.go: nobody else's changes are seen meanwhile, a member that fits
nowhere is passed over, and the group succeeds if Permit lets any of its pods go on. A group bound to a
topology is tried in one placement after the other, and goes to the one with the best score.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from moorage.cache import Transaction
from moorage.errors import MoorageError
from moorage.framework.call import StatusError
from moorage.framework.interface import PLACEMENT_GENERATE, Assignments, Placement
from moorage.framework.placements import make_placements, placements_to_find, score_placements
from moorage.framework.runtime import Target
from moorage.objects.pod import Pod
from moorage.objects.pod_group import PodGroup

from .batch import ScheduleResult
from .binding_cycle import Started
from .engine import NO_ROWS, Engine
from .group_attempt import Attempt, Members
from .results import Failure

if TYPE_CHECKING:
    from .scheduler import Scheduler

SEVERAL_SCHEDULERS = "pods of one group ask for different schedulers"
OTHER_FAILED = "failed to schedule other pod from a pod group: {}"
NO_PLACEMENT = "0/{} placements are available, first placement status: {}"


@dataclass(frozen=True, slots=True)
class GroupResult:
    """What became of the pods of a group.

    Attributes
    ----------
    rows : (n,) int32 array
        Row of the node table that each pod was put on, -1 where it has none: everywhere, if the group failed.
    failures : dict of int to Failure
        Position of each pod without a row to the reason.
    succeeded : bool
        Whether the pods that have a row are assumed. Otherwise nothing has changed.
    message : str
        Why the group failed.
    started : dict of int to Started
        Position to what `BindingCycles.bind` goes on with, for placed pods that plugins outside the core have
        a say in; all others are to be bound like those of a batch.
    """

    rows: npt.NDArray[np.int32]
    failures: dict[int, Failure]
    succeeded: bool
    message: str = ""
    started: dict[int, Started] = field(default_factory=dict)


def rejected(pods: Sequence[Pod], error: str) -> GroupResult:
    """What becomes of pods that cannot be a group."""
    failure = Failure(error=error)
    rows = np.full(len(pods), -1, dtype=np.int32)
    return GroupResult(rows, dict.fromkeys(range(len(pods)), failure), False, error)


def place_group(
    scheduler: Scheduler,
    engine: Engine,
    group: PodGroup | None,
    pods: Sequence[Pod],
    scheduled: Sequence[Pod] = (),
) -> GroupResult:
    """Place the pods of a group, in this order: all that fit, if with those that have a node they make up the
    group's minimum; else none. Nobody is evicted here.

    Parameters
    ----------
    engine : Engine
        Of the profile of the pods.
    group : PodGroup, optional
        None is a group without a minimum.
    pods : sequence of Pod
        Pending members, not in the cache.
    scheduled : sequence of Pod
        Members that have a node already, assumed ones included.
    """
    with scheduler.cache.lock:
        members = Members(scheduler, engine, group, pods, scheduled)
        with unseen(members.engines):
            try:
                attempt = _place(members)
            except StatusError as failed:
                return rejected(pods, failed.status.message())
            if not attempt.succeeded:
                return _failed(attempt)
            started = attempt.start()
            return GroupResult(attempt.rows, attempt.failures, True, started=started)


def _failed(attempt: Attempt) -> GroupResult:
    """The group has failed, and what was placed has been taken back."""
    error, pods = attempt.error, attempt.members.pods
    message = OTHER_FAILED.format(error) if error else attempt.message
    failure = Failure(error=message) if error else Failure(held_back=message)
    failures = {at: attempt.failures.get(at, failure) for at in range(len(pods))}
    if error:
        failures = {at: one if one.error else failure for at, one in failures.items()}
    return GroupResult(np.full(len(pods), -1, dtype=np.int32), failures, False, message)


@contextmanager
def unseen(engines: Iterable[Engine]) -> Iterator[None]:
    """Inside, engines evict nobody, and search where they are told to; what they remember of failures then is
    without PostFilter, and not for later pods."""
    kept = [(one, one.runs_post_filter, one.failures, dict[Target, tuple[int, Failure]]()) for one in engines]
    for one, _, failures, inside in kept:
        one.runs_post_filter, one.failures = False, ChainMap(inside, failures)
    try:
        yield
    finally:
        for one, runs_post_filter, failures, inside in kept:
            one.runs_post_filter, one.failures = runs_post_filter, failures
            one.cycle.search_in(None)
            if inside:
                one.cycle.forget_failures()


@contextmanager
def _all_or_nothing(scheduler: Scheduler) -> Iterator[Transaction]:
    """A transaction of the cache that has nominations in it as well."""
    nominator = scheduler.handle.nominator
    saved = nominator.save()
    with scheduler.cache.transaction() as transaction:
        try:
            yield transaction
        finally:
            if not transaction.committed:
                nominator.undo(saved)


def try_members(members: Members, placement: Placement | None = None, keep: bool = True) -> Attempt:
    """Place the pods, on nodes of a placement or all, and take them back unless they are enough, and to be
    kept."""
    if placement is not None:
        for engine in members.engines:
            engine.cycle.search_in(placement.rows)
            engine.failures = {}  # those known are about other nodes
    attempt = Attempt(members)
    with _all_or_nothing(members.scheduler) as transaction:
        try:
            attempt.place()
            if attempt.succeeded and keep:
                transaction.commit()
        finally:
            attempt.unreserve()
    if transaction.committed:
        attempt.enter()
    return attempt


def schedule_workload(
    scheduler: Scheduler, group: PodGroup, pods: Sequence[Pod] | None = None
) -> ScheduleResult:
    """See `Scheduler.schedule_workload`."""
    groups, unit = scheduler.groups, (group.namespace, group.name)
    pending = groups.pending(unit) if pods is None else pods
    scheduler.check_new(pending)
    engines = {scheduler.engine_of(pod) for pod in pending}
    if len(engines) > 1:
        raise MoorageError(SEVERAL_SCHEDULERS)
    if not engines:
        return ScheduleResult(NO_ROWS, {})
    placed = place_group(scheduler, engines.pop(), group, pending, groups.scheduled(unit))
    failures = placed.failures
    for at, started in placed.started.items():
        outcome = scheduler.bindings.bind(started)
        if outcome.failure is not None:
            placed.rows[at] = -1
            failures[at] = outcome.failure
    later = scheduler.finish_binding([started.pod for started in placed.started.values()])
    for at, started in placed.started.items():
        if started.pod.key in later:
            placed.rows[at] = -1
            failures[at] = later[started.pod.key]
    scheduler.sync()
    return ScheduleResult(placed.rows, failures)


# ---- topology ----------------------------------------------------------------------------------------------


def _place(members: Members) -> Attempt:
    """Try all nodes, or those placements that the group is bound to."""
    group, profile = members.group, members.engine.profile
    if group is None or not group.topology_keys or not profile.at(PLACEMENT_GENERATE):
        return try_members(members)
    parent = Placement("", members.scheduler.view_rows())
    placements = make_placements(profile, group, members.scheduled, parent)
    if len(placements) == 1:
        return try_members(members, placements[0])
    rotation = members.scheduler.rotation
    before = rotation.start
    attempt = _place_in_best(members, group, placements)
    if not attempt.succeeded:
        rotation.start = before
    return attempt


def _place_in_best(members: Members, group: PodGroup, placements: Sequence[Placement]) -> Attempt:
    """Try placements until enough suit the group, and go to the one of these with the best score."""
    rotation = members.scheduler.rotation
    nodes = sum(len(placement.rows) for placement in placements)
    wanted = placements_to_find(members.scheduler.percentage_of_placements, len(placements), nodes)
    first: Attempt | None = None
    found: list[tuple[Placement, Attempt, int]] = []
    for placement in placements:
        start = rotation.start
        attempt = try_members(members, placement, keep=False)
        if attempt.error:
            return attempt
        rotation.start = attempt.next_start  # each placement is searched from where the last search ended
        first = first or attempt
        if attempt.succeeded:
            found.append((placement, attempt, start))
            if len(found) == wanted:
                break
    if not found:
        attempt = first or Attempt(members)
        attempt.message = NO_PLACEMENT.format(len(placements), attempt.message)
        return attempt
    after = rotation.start
    placement, _, rotation.start = found[_best(members, group, found)]
    attempt = try_members(members, placement)
    rotation.start = after
    return attempt


def _best(members: Members, group: PodGroup, found: Sequence[tuple[Placement, Attempt, int]]) -> int:
    """The place of the placement with the highest score; ties as among nodes."""
    if len(found) == 1:
        return 0
    each = [
        Assignments(placement, members.pods, attempt.rows, len(members.scheduled))
        for placement, attempt, _ in found
    ]
    totals = score_placements(members.engine.profile, group, each)
    with members.scheduler.cache.transaction():  # draws no lots from the pods that are placed again
        return members.engine.cycle.pick(totals)
