"""The scheduling of one pod in a cycle of its own, with a full `Decision`."""

from __future__ import annotations

from time import perf_counter
from typing import cast

from moorage.framework.plugin.interface import NominatingInfo
from moorage.framework.runtime.runtime import Target
from moorage.objects.model.pod import Pod
from moorage.scheduler.cycle.engine import Engine
from moorage.scheduler.cycle.results import Decision, Failure, ScheduleResult, after_binding
from moorage.scheduler.scheduling_context import SchedulingContext
from moorage.store import NotFoundError, ObjectStore

from .binding_cycle import Started
from .place import Placing
from .routes import APART


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
    decision = whole_cycle(context, context.engine_of_route(batch.route(0)), pod, batch.target(0))
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
    store = context.handle.client
    if not isinstance(store, ObjectStore) or context.cache.state.has_pod(pod):
        return False
    try:
        store.get(Pod, pod.name, pod.namespace)
    except NotFoundError:
        return True
    return False


def whole_cycle(context: SchedulingContext, engine: Engine, pod: Pod, target: Target) -> Decision:
    """Run the scheduling cycle and the binding cycle of one pod with all plugins and extenders.

    Parameters
    ----------
    engine : Engine
        The engine that schedules the pod (`SchedulingContext.engine_of_route`).
    pod : Pod
        In the store.
    target : (int, int, int)
        Class, symbol of spec.nodeName, symbol of the node it is pinned to; 0 for none.

    Returns
    -------
    Decision
        With the state of the pod where the binding cycle ended or has to wait.
    """
    context.enlist()
    with context.cache.lock:
        context.rotation.take(engine)
        began, observer = perf_counter(), context.handle.observer
        decision, state = engine.schedule(pod, engine.cycle_target(pod, target), context.view_order)
        if observer is not None:
            observer.algorithm(perf_counter() - began)
        if decision.node is None:
            report_failure(context, engine, pod, decision.failure)
            started = None
        else:
            started = context.bindings.reserve(engine, state, pod, decision.node)
    if started is None:
        if decision.evicts:
            context.sync()
        return decision
    outcome = context.bindings.bind(started) if isinstance(started, Started) else started
    return after_binding(decision, outcome.failure, outcome.waiting, outcome.binding)


def report_failure(context: SchedulingContext, engine: Engine, pod: Pod, failure: Failure) -> None:
    """Report why a pod fits nowhere; see `BindingCycles.report`.

    Parameters
    ----------
    context : SchedulingContext
        Store and queue take part in its transactions.
    engine : Engine
        The engine that schedules the pod.
    pod : Pod
        In the store.
    """
    context.enlist()
    context.bindings.report(engine, pod, failure, failure.nominating or NominatingInfo(noop=True))
