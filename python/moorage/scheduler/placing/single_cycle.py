"""One pod in a cycle of its own, with all that is known of the decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage.framework.plugin.interface import NominatingInfo
from moorage.framework.runtime.runtime import Target
from moorage.objects.model.pod import Pod
from moorage.scheduler.cycle.engine import Engine
from moorage.scheduler.cycle.results import Decision, Failure, ScheduleResult, after_binding

from .binding_cycle import Started
from .place import APART, Placing

if TYPE_CHECKING:
    from moorage.scheduler.scheduling_context import SchedulingContext


def schedule_one(context: SchedulingContext, pod: Pod) -> Decision:
    """One cycle: search, choose, assume the pod on the chosen node. Where it fits nowhere others may be
    evicted: it is nominated to their node then, and goes there when it comes again.

    Where the profile has plugins for what comes after, or extenders are interested in the pod, it goes on to
    the end: Reserve, Permit, PreBind, Bind, PostBind. Then the pod must be in the store, and may wait.

    Parameters
    ----------
    context : SchedulingContext
    pod : Pod

    Returns
    -------
    Decision

    Raises
    ------
    CacheError
        The pod is in the cache.
    """
    batch = context.batch_of([pod])
    engine = context.deciding(batch.route(0))
    if batch.route(0) & APART:
        decision = whole_cycle(context, engine, pod, batch.target(0))
        if decision.binding:
            failures = context.finish_binding([pod])
            is_running = context.bindings.is_running(pod)
            decision = after_binding(decision, failures.get(pod.key), binding=is_running)
        context.sync()
        return decision
    is_new = not (pod.metadata.uid and context.cache.state.has_pod(pod))
    with context.taken_back_on_error([pod] if is_new else []):
        with context.cache.lock:
            decision = Placing(context, engine, batch, ScheduleResult(context.cache.state, 1)).cycle(0)
        if decision.evicts:
            context.sync()
    return decision


def whole_cycle(context: SchedulingContext, engine: Engine, pod: Pod, target: Target) -> Decision:
    """A cycle with all its plugins, for one pod.

    Parameters
    ----------
    context : SchedulingContext
    engine : Engine
        The engine that decides about the pod.
    pod : Pod
        In the store.
    target : (int, int, int)
        Class, symbol of the named node, symbol of the node it is pinned to; 0 for none.

    Returns
    -------
    Decision
        With what became of the pod up to where it waits or is being bound.
    """
    context.rotation.take(engine)
    context.enlist()
    with context.cache.lock:
        decision, state = engine.schedule(pod, target, context.view_order)
        if decision.node is None:
            nominating = decision.nominating or NominatingInfo(noop=True)
            context.bindings.report(engine, pod, Failure.of(decision), nominating)
            started = None
        else:
            started = context.bindings.reserve(engine, state, pod, decision.node)
    if started is None:
        if decision.evicts:
            context.sync()
        return decision
    outcome = context.bindings.bind(started) if isinstance(started, Started) else started
    return after_binding(decision, outcome.failure, outcome.waiting, outcome.binding)
