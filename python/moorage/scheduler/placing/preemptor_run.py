"""A run of preemptors: equal pods of a batch, for each of which others are evicted.

They are decided about one after the other: the victims of one leave the cache, and it is nominated, before
the next one is searched for. All writes follow at once, in the same order. Their events are received in one
step, in which each pod returns to the queue right before the events of its own victims: everything happens
in the order of single attempts.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from moorage._core.base.watch_events import WatchEvent, keys_of
from moorage._core.decide.bulk_operations import end_at_once, has_dependencies
from moorage._core.decide.pod_batch import PodBatch, Route
from moorage._core.preempt.bound_pods import held_of
from moorage.controllers.workloads.cluster_controllers import PodEvents
from moorage.framework import NominatingInfo
from moorage.framework.runtime.preempt_handle import PreemptHandle
from moorage.objects import Pod
from moorage.preemption.actuation import disruption_target, evict_victims, record_evictions
from moorage.preemption.default_preemption import DefaultPreemption
from moorage.preemption.eviction_units import groups_of, priority_of
from moorage.queue import QueuedPodInfo
from moorage.scheduler.cycle.engine import Engine
from moorage.scheduler.cycle.results import Failure, ScheduleResult
from moorage.scheduler.event_handlers import PodHandler, Preemption
from moorage.store import ObjectStore

from .scheduled_condition import patch_pod

if TYPE_CHECKING:
    from moorage.scheduler.runs import Run

MOST = 256
"""Number of pods whose events are received together, at most: these are kept until then."""

POD_HANDLERS = PodHandler, PodEvents
"""What learns of pods. Handlers of others might write to the store."""

PLAIN = int(Route.PROFILE) - 1
"""Route bits of pods that are decided about apart, or with more than their class."""


def preempt_together(
    run: Run, engine: Engine, result: ScheduleResult, infos: Sequence[QueuedPodInfo], pods: range
) -> tuple[int, bool]:
    """Try leading pods of a batch that are equal to the pod before them, for which others were evicted and
    the events of that received, as long as others are evicted for each.

    Parameters
    ----------
    run : Run
    engine : Engine
        Of the pods' profile.
    result : ScheduleResult
        Of the whole batch; takes the failures.
    infos : sequence of QueuedPodInfo
        The queue entries of the whole batch.
    pods : range
        The indexes of the pods to try.

    Returns
    -------
    tried : int
        The number of pods that were tried; the events of the evictions have been received.
    has_to_stop : bool
        Whether the other pods of the batch have to return to the queue, or none is left.
    """
    before = result.failures.get(pods.start - 1)
    if before is None or not before.nominated_node or not _can_be_together(run, engine, result, pods.start):
        return 0, False
    room = min(len(pods), run.room(), MOST)
    found: list[Preemption] = []
    began = time.perf_counter()
    try:
        with run.scheduler.cache.lock:
            _decide(run, engine, result, infos, range(pods.start, pods.start + room), before, found)
        seconds = time.perf_counter() - began
        run.result.seconds += seconds
        if not found:
            return 0, False
        if run.metrics is not None:
            run.metrics.tried(len(found), seconds)
        may_go_on = _carry_out(run, engine, infos, pods.start, found)
        return len(found), not may_go_on or pods.start + len(found) == len(infos)
    except BaseException:
        for one in found:
            if not one.is_evicted:
                _undo(run, one)
        raise


# ---- whether it is exact -------------------------------------------------------------------------------


def _can_be_together(run: Run, engine: Engine, result: ScheduleResult, at: int) -> bool:
    """Whether nothing but the pods themselves decides what happens between a pod and the one after it."""
    batch, scheduler = cast(PodBatch, result.batch), run.scheduler
    handle, queue = scheduler.handle, scheduler.queue
    if at == 0 or batch.target(at) != batch.target(at - 1) or batch.route(at) & PLAIN:
        return False
    return (
        engine.preemption is not None
        and isinstance(handle.client, ObjectStore)
        and handle.make_preempt_handle is PreemptHandle
        and handle.postponed is None
        and handle.observer is None
        and not (handle.extenders or handle.waiting_pods or handle.pods_in_pre_bind)
        and not scheduler.cache.transactions
        and all(getattr(callback, "__self__", None) is run for callback in handle.on_eviction)
        and not run.reports_failures
        and not scheduler.bindings.freed
        and (scheduler.controllers is None or not scheduler.controllers.awaits_pods)
        and all(type(one) in POD_HANDLERS for one in scheduler.informers.handlers_of(Pod))
        and queue.shortest_backoff > 0
        and not queue.has_unschedulable
    )


def _may_go(run: Run, victims: Sequence[Pod]) -> bool:
    """Whether the eviction of pods deletes them all, and no controller reacts."""
    scheduler, held = run.scheduler, held_of(victims)
    known = scheduler.pods.indexer.identities_of(keys_of(held))
    return end_at_once(scheduler.cache.state, held, known, scheduler.controllers is not None)


def _is_plain(run: Run, pod: Pod) -> bool:
    """Whether the status of a pod nominates it to no node, and no controller reacts when that changes."""
    is_controlled = run.scheduler.controllers is not None
    return not (pod.status.nominated_node_name or (is_controlled and has_dependencies(pod)))


# ---- decisions -----------------------------------------------------------------------------------------


def _decide(  # noqa: PLR0913
    run: Run,
    engine: Engine,
    result: ScheduleResult,
    infos: Sequence[QueuedPodInfo],
    pods: range,
    before: Failure,
    found: list[Preemption],
) -> None:
    """Choose nodes for pods until one fits without evictions, or needs more than the eviction of plain pods;
    remove the victims from the cache, and nominate the pods. The rotation stays, as a search in vain ends
    where it began."""
    scheduler, batch = run.scheduler, cast(PodBatch, result.batch)
    handle, cache, nominator = scheduler.handle, scheduler.cache, scheduler.handle.nominator
    route, target = batch.route(pods.start), batch.target(pods.start)
    diagnosis = before.diagnosis
    if diagnosis is None or diagnosis.absent is not None or diagnosis.narrowing or before.error:
        return
    preemptor, priority = engine.framework.preemptor, diagnosis.shape.priority
    budgets, groups = handle.preempt_handle().pod_disruption_budgets(), groups_of(handle)
    limits, row_name = cast(DefaultPreemption, engine.preemption).limits, cache.state.table.row_name
    room = cast(ObjectStore, handle.client).history  # for events that are not yet received
    scheduler.context.enlist_if_possible()
    for at in pods:
        if batch.route(at) != route or batch.target(at) != target:
            break
        pod = infos[at].pod
        if pod.metadata.uid in nominator.nodes or not _is_plain(run, pod):
            break
        engine.search.follow_nominator(nominator, pod)
        potential = preemptor.begin(target[0], budgets, target[1], target[2], groups)
        if not potential or not preemptor.fits_nowhere:
            break
        choice = preemptor.choose(handle.preemption_offset(pod, potential), *limits)
        if choice is None:
            break
        row, _, victims = choice
        node = row_name(row)
        nominated = nominator.nominated_pods_for_node(node)
        if any(priority_of(other) < priority for other in nominated) or not _may_go(run, victims):
            break
        room -= 2 * len(victims) + 1
        if room < 0:
            break
        verdicts = engine.decider.rejections(*target)
        nominating = NominatingInfo(node)
        failure = Failure(replace(diagnosis, verdicts=verdicts), nominating=nominating)
        alike = verdicts.keys() == diagnosis.verdicts.keys()  # by the same plugins
        rejectors = before.rejectors if alike else failure.rejectors
        found.append(Preemption(infos[at], node, victims, failure, rejectors))
        cache.remove_added(victims.held)
        nominator.add_nominated_pod(pod, nominating)
        result.failures[at] = failure


def _undo(run: Run, one: Preemption) -> None:
    """Undo a decision of which nothing has been written."""
    cache = run.scheduler.cache
    run.scheduler.handle.nominator.delete_nominated_pod_if_exists(one.info.pod)
    with cache.lock:
        cache.add_pods([victim for victim in one.victims if not cache.state.has_pod(victim)])


# ---- effects -------------------------------------------------------------------------------------------


def _carry_out(
    run: Run, engine: Engine, infos: Sequence[QueuedPodInfo], first: int, found: Sequence[Preemption]
) -> bool:
    """Write what was decided, and receive the events; return whether the held pods would be popped next."""
    scheduler, queue, pods = run.scheduler, run.queue, run.scheduler.pods
    returns: dict[str, Preemption] = {}
    for at, one in enumerate(found, first):
        one.now = run.pass_until(at)
    try:
        written = _write(run, engine, found)
        run.note_failed([one.info for one in found], [one.failure for one in found])
        for one in found:
            returns[one.victims.uid(0)] = one
        is_held = queue.hold.begin(infos, first)
        pods.before_deletion, pods.written = returns, written if is_held else ()
        scheduler.sync(with_controllers=False)
    finally:
        pods.before_deletion, pods.written = {}, ()
        queue.set_time(None)
    for left in returns.values():  # of pods whose victims others have deleted
        pods.give_back(left)
    queue.set_time(None)  # once more: the pods above have set it
    run.pass_until(first + len(found))
    return queue.hold.end(infos) and is_held


def _write(run: Run, engine: Engine, found: Sequence[Preemption]) -> Sequence[WatchEvent[Pod]]:
    """Evict the victims and nominate the preemptors, in one write; return what was written, or nothing where
    other clients have changed the pods, so that they are written one by one."""
    handle = engine.handle
    plugin, client = cast(DefaultPreemption, engine.preemption).name, cast(ObjectStore, handle.client)
    preemptions = [(one.info.pod, one.node, one.victims) for one in found]
    changes = [(pod, node, victims.held) for pod, node, victims in preemptions]
    done, written = client.preempt(changes, disruption_target(handle, found[0].info.pod))
    for one in found[:done]:
        one.is_evicted = True
        record_evictions(handle, one.node, one.info.pod, one.victims)
    run.note_evicted(preemptions[:done])
    for one in found[done:]:
        evict_victims(handle, one.node, one.info.pod, one.victims, plugin)
        one.is_evicted = True
        patch_pod(client, one.info.pod, None, one.failure.nominating)
    return written if done == len(found) else ()
