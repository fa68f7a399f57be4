"""Placement of pods that a caller gives: in order, or as replicas of a template."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import cast

from msgspec.structs import replace

from moorage._core.decide.pod_batch import PodBatch
from moorage.errors import CacheError
from moorage.kube.model.pod import Pod
from moorage.store import ObjectStore, find_object

from ..check_arguments import check_pod, check_pods, check_readable
from ..cycle import cycle
from ..cycle.engine import Engine
from ..cycle.results import Decision, Failure, ScheduleResult, after_binding
from ..scheduling_context import SchedulingContext
from .place import Placing
from .routes import APART, SEGMENTS, WHOLE_CYCLE

MOST = 2**31 - 1


def schedule_one(context: SchedulingContext, pod: Pod) -> Decision:
    """Schedule one pod: search, choose a node, assume the pod there.

    If no node is feasible, PostFilter may evict pods and nominate the pod to their node; the pod is to be
    scheduled again then. If the pod has claims, or an out-of-tree plugin or an extender takes part, the cycle
    goes on with Reserve, Permit, PreBind, Bind and PostBind, and the pod may end up waiting. The store must
    have the pod then; an `ObjectStore` gets a pod with claims, and loses it again if it finds no node.

    Raises
    ------
    CacheError
        The pod is in the cache.
    """
    batch = context.batch_of([pod])
    if batch.route(0) & APART:
        return schedule_apart(context, pod, is_new=must_be_stored(context, pod))
    is_new = not (pod.metadata.uid and context.cache.state.has_pod(pod))
    try:
        with context.cache.lock:
            engine = context.engine_of_route(batch.route(0))
            decision = Placing(context, engine, batch, ScheduleResult(context.cache.state, 1)).cycle(0)
        if decision.evicts:
            context.sync()
        return decision
    except BaseException:
        context.take_back([pod] if is_new else [])
        raise


def schedule_apart(context: SchedulingContext, pod: Pod, *, is_new: bool) -> Decision:
    """Schedule and bind a pod in a cycle of its own, with all plugins and extenders.

    Parameters
    ----------
    is_new : bool
        Whether the store gets the pod first. It loses it again if the pod finds no node and evicts none.
    """
    if is_new:
        context.enlist()
        pod = cast(ObjectStore, context.handle.client).create(pod)
        context.sync()
        pod = context.current(pod) or pod  # with the claims that controllers made
    batch = context.batch_of([pod])
    decision = cycle.schedule_one_pod(context, context.engine_of_route(batch.route(0)), pod, batch.target(0))
    if decision.binding:
        failures = context.finish_binding([pod])
        is_running = context.bindings.is_running(pod)
        decision = after_binding(decision, failures.get(pod.key), binding=is_running)
    if is_new and decision.node is None and not decision.evicts:
        context.handle.client.delete(Pod, pod.name, pod.namespace)
    context.sync()
    return decision


def must_be_stored(context: SchedulingContext, pod: Pod) -> bool:
    """Whether a pod that has volumes or devices is missing in an `ObjectStore`, and comes there before its
    cycle."""
    return context.engine_of(pod).framework.asks_volume_plugins(pod) and is_missing(context, pod)


def is_missing(context: SchedulingContext, pod: Pod) -> bool:
    """Whether the scheduler works on an `ObjectStore` that does not have a pod, nor has the cache."""
    store = context.store
    if store is None or context.cache.state.has_pod(pod):
        return False
    return find_object(store, Pod, pod.name, pod.namespace) is None


def schedule_pods(
    context: SchedulingContext, pods: Sequence[Pod], stop_on_failure: bool = False
) -> ScheduleResult:
    """Place pods in order; see `Scheduler.schedule_pods`.

    Parameters
    ----------
    stop_on_failure : bool
        Whether to end with the first pod that fits nowhere.

    Returns
    -------
    ScheduleResult
        In the order of the pods.

    Raises
    ------
    CacheError
        A pod is in the cache or appears twice.
    InputError
        A pod has something else where a quantity belongs.
    """
    state = context.cache.state
    with context.cache.lock:  # what another thread has tried out and not yet undone is not seen
        check_pods(state, pods)
        if context.cache.transactions:
            context.enlist_if_possible()
        try:
            batch = PodBatch(state, pods, context.routes)
        except ValueError:
            check_readable(pods)
            raise
    result = ScheduleResult(state, len(batch), batch)
    try:
        for first, end, route in batch.cut(SEGMENTS):
            engine = context.engine_of_route(route)
            step = 1 if stop_on_failure else end - first
            for at in range(first, end, step):
                if stop_on_failure and result.failures:
                    break
                if route & APART:
                    _place_each(context, engine, batch, result, range(at, at + step))
                else:
                    Placing(context, engine, batch, result).place(at, at + step)
        if context.bindings.running:
            _finish_binding(context, pods, result)
        context.sync()
        errors = context.handle.plugin_errors
        if errors.counts:
            errors.summarize()
        if stop_on_failure:
            result.end_at_failure()
        else:
            result.note_names()
        return result
    except BaseException:
        context.take_back(pods)
        raise


def _place_each(
    context: SchedulingContext, engine: Engine, batch: PodBatch, result: ScheduleResult, pods: range
) -> None:
    """Schedule some pods of a batch in cycles of their own, with all plugins and extenders."""
    for at in pods:
        pod = batch.pod(at)
        if must_be_stored(context, pod):
            decision = schedule_apart(context, pod, is_new=True)
        else:
            decision = cycle.schedule_one_pod(context, engine, pod, batch.target(at))
        if decision.node is None:
            result.failures[at] = Failure.of(decision)
        else:
            result.rows[at] = engine.row_in_view(decision.node)


def _finish_binding(context: SchedulingContext, pods: Sequence[Pod], result: ScheduleResult) -> None:
    """Let time pass until the binding cycles of the pods have ended, as far as the scheduler can."""
    failures = context.finish_binding(pods)
    for at, pod in enumerate(pods):
        if pod.key in failures and result.rows[at] >= 0:
            result.rows[at], result.failures[at] = -1, failures[pod.key]


def replica(template: Pod, index: int) -> Pod:
    """Return one replica of a template, with the name and UID that the cache gives it
    (`ClusterState.assume_template`).

    Parameters
    ----------
    index : int
        Ordinal of the replica.
    """
    meta = template.metadata
    base = meta.generate_name or f"{meta.name}-"
    uid = f"{meta.namespace}/{base}#{index}"
    return replace(template, metadata=replace(meta, name=f"{base}{index}", uid=uid))


def schedule_by_template(context: SchedulingContext, template: Pod, n: int, first: int) -> ScheduleResult:
    """Place replicas of a template up to the first that fits nowhere; see `Scheduler.schedule_by_template`.

    They have no objects, for speed alone (`tests/house/special_paths.toml`).

    Parameters
    ----------
    n : int
        Number of replicas.
    first : int
        Ordinal of the first replica.

    Returns
    -------
    ScheduleResult
        Ends with the first replica that fits nowhere.

    Raises
    ------
    ValueError
        `n` or `first` is negative or larger than 2^31 - 1.
    CacheError
        A replica is in the cache, or its name is in use.
    """
    check_pod(template)
    check_readable((template,))
    if not 0 <= n <= MOST:
        raise ValueError(f"n must be from 0 to {MOST}, not {n}")
    if not 0 <= first <= MOST:
        raise ValueError(f"first must be from 0 to {MOST}, not {first}")
    state, engine = context.cache.state, context.engine_for(template)
    tries = engine.placer.tries(n)
    _check_names(context, template, tries, first)
    batch = PodBatch.of_template(state, template, tries, first, context.routes)
    result = ScheduleResult(state, tries, batch)
    if tries and batch.route(0) & WHOLE_CYCLE:  # WAITS is left out: replicas do not wait for one another
        _bind_each(context, batch, result)
        result.end_at_failure()
        return result
    with ExitStack() as stack:
        with context.cache.lock:
            state.check_template(template, first, n)
            # From here on, every cached pod with one of these names was placed by this call.
            stack.enter_context(context.taken_back_on_error(map(batch.pod, range(tries))))
            done = Placing(context, engine, batch, result).place_until_failure(tries)
            if done == tries and result.failures:
                engine.placer.skip(n - tries)
            result.end_at_failure()
        if result.failure is not None and result.failure.nominated_node:
            context.sync()
        return result


def _check_names(context: SchedulingContext, template: Pod, n: int, first: int) -> None:
    """CacheError if informers know another pod of the name of a replica."""
    meta = template.metadata
    base, ordinals = f"{meta.namespace}/{meta.generate_name or f'{meta.name}-'}", range(first, first + n)
    indexer = context.handle.informers.informer(Pod).indexer
    if len(indexer) < n:
        named = [pod for pod in indexer.identities() if pod.key.startswith(base)]
    else:
        named = [pod for pod in indexer.identities_of(f"{base}{ordinal}" for ordinal in ordinals) if pod]
    for pod in named:
        end = pod.key[len(base) :]
        is_ordinal = end.isdecimal() and end == str(int(end)) and int(end) in ordinals
        if is_ordinal and pod.metadata.uid != f"{base}#{end}":
            raise CacheError(f"a replica would have the name of pod {pod.key}, which exists")


def _bind_each(context: SchedulingContext, batch: PodBatch, result: ScheduleResult) -> None:
    """Schedule and bind replicas of a template in cycles of their own, up to the first that fits nowhere."""
    for at in range(len(batch)):
        pod = batch.pod(at)
        decision = schedule_apart(context, context.current(pod) or pod, is_new=is_missing(context, pod))
        if decision.node is None:
            result.failures[at] = Failure.of(decision)
            break
        result.rows[at] = cast(int, context.cache.state.table.find_row(decision.node))
