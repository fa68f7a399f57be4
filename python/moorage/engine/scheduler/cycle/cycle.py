"""The rare way of a pod, from the queue to its node: by itself, step by step.

The functions have the names of kube-scheduler's steps, in its order (v1.36, schedule_one.go), but
`schedule_pod` runs PostFilter itself, which upstream's schedulingCycle does. `loop.py` pops the pods. Most
take the common way, `place.py`, through the same steps in the same order, many at once up to their
assumption; `Loop.bind` binds those together. A pod that needs more comes here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from moorage._core.decide.scored_nodes import ScoredNodes
from moorage._core.state.pod_spec import bound
from moorage.engine.framework.extension_points import PreFilterRun, StatusError, note_refused, permitted
from moorage.engine.framework.interface import NominatingInfo, PostFilterPlugin, PreBindPlugin
from moorage.engine.framework.run_plugins import Target
from moorage.engine.framework.status import Code, CycleState, NodeToStatus, Status, as_status
from moorage.engine.framework.waiting_pods import Ended, PodInPreBind, StatusSteps, take_step
from moorage.engine.plugins.dynamic_resources import DynamicResources
from moorage.errors import CacheError, ExtenderError
from moorage.kube.model.pod import Pod
from moorage.store import ApiError

from .. import cycle as room
from ..scheduler_state import SchedulerState
from .binding_cycle import BindingCycles, BindingOutcome, Running, Started, Step
from .diagnosis import Diagnosis
from .engine import Engine
from .results import NO_ROWS, Decision, Failure, after_binding
from .status_writes import not_scheduled, patch_pod

if TYPE_CHECKING:
    from moorage.engine.devices.device_state import DeviceCycleState


def schedule_one_pod(context: SchedulerState, engine: Engine, pod: Pod, target: Target) -> Decision:
    """Run the scheduling cycle and the binding cycle of a pod in the store, with all plugins and extenders.

    Returns
    -------
    Decision
        With the state of the pod where the binding cycle ended or has to wait.
    """
    context.enlist()
    with context.cache.lock:
        decision, assumed = scheduling_cycle(context, engine, pod, target)
    if assumed is None:
        if decision.evicts:
            context.sync()
        return decision
    outcome = binding_cycle(context.bindings, assumed) if isinstance(assumed, Started) else assumed
    return after_binding(decision, outcome.failure, outcome.waiting, outcome.binding)


# ---- the scheduling cycle, under the lock of the cache -----------------------------------------------------


def scheduling_cycle(
    context: SchedulerState, engine: Engine, pod: Pod, target: Target
) -> tuple[Decision, Started | BindingOutcome | None]:
    """Choose a node for a pod, assume it there, and run Reserve and Permit; or report why it fits nowhere."""
    context.rotation.take(engine)
    began, observer = perf_counter(), context.handle.observer
    decision, state = schedule_pod(engine, pod, engine.cycle_target(pod, target))
    if observer is not None:
        observer.algorithm(perf_counter() - began)
    if decision.node is None:
        report_failure(context, engine, pod, decision.failure)
        return decision, None
    return decision, prepare_for_binding_cycle(context.bindings, engine, state, pod, decision.node)


def schedule_pod(engine: Engine, pod: Pod, target: Target) -> tuple[Decision, CycleState]:
    """Choose a node for a pod, which is not assumed; without one, run PostFilter.

    Parameters
    ----------
    target : (int, int, int)
        Class of the pod, symbol of spec.nodeName, symbol of the node it is pinned to; 0 for none.
    """
    scored = engine.batching.take()
    state = engine.framework.state_of(target)
    engine.begin_cycle(target)
    nodes, profile = engine.nodes_in_view(), engine.framework.profile_of(target)
    if nodes == 0:
        return _no_search(engine, Diagnosis(0, profile, state.shape)), state
    ran = engine.framework.run_pre_filter_plugins(state, pod)
    if ran.error:
        return replace(_no_search(engine, None), error=ran.error), state
    if ran.rejection is not None:
        diagnosis = Diagnosis(nodes, profile, state.shape, pre_filter=ran.rejection, narrowing=ran.plugins)
        decision = _no_search(engine, diagnosis)
        statuses = NodeToStatus(nodes, engine.rejected_by_all(ran.rejection))
        return run_post_filter(engine, state, pod, decision, statuses), state
    engine.begin_search(state, pod, ran)
    if engine.decides_alone(pod):
        return find_node(engine, state, pod, ran, scored), state
    search = room.extended_search.ExtendedSearch(engine, state, pod, ran)
    decision = search.run()
    statuses = NodeToStatus(nodes, lambda: search.statuses())
    return run_post_filter(engine, state, pod, decision, statuses), state


def _no_search(engine: Engine, diagnosis: Diagnosis | None) -> Decision:
    """Return the decision of a cycle that ended before Filter."""
    start = engine.decider.start
    error = diagnosis.message() if diagnosis is not None and diagnosis.nodes == 0 else ""
    return Decision(None, start, start, 0, NO_ROWS, None, diagnosis, error)


def find_node(
    engine: Engine, state: CycleState, pod: Pod, ran: PreFilterRun, scored: ScoredNodes | None
) -> Decision:
    """Filter and score the nodes, and select one: findNodesThatFitPod, prioritizeNodes and selectHost in the
    core, with the nominated node, or the hint of batching, first. Run PostFilter where none is feasible.

    Parameters
    ----------
    ran : PreFilterRun
        The result of PreFilter.
    scored : ScoredNodes or None
        The list of the last cycle for batching.
    """
    start, cluster = engine.decider.start, engine.cache.state
    node, error, diagnosis = None, "", None
    try:
        engine.framework.searching(True)
        hint = engine.batching.find_hint(engine, scored, state.target, pod, engine.sign(pod))
        tried, fits = engine.evaluate_nominated_node(state, pod, hint.node)
        if fits:
            decision = engine.on_tried_node(tried)
            return engine.batching.leave_nodes(engine.decider, hint, decision, state.target)
        row, start, evaluated, positions, totals = engine.decider.decide(*state.target, tried)
    except StatusError as failed:
        note_refused(engine.handle.plugin_errors, f"pod {pod.key}", failed)
        text = failed.status.message()
        return Decision(None, start, engine.decider.start, 0, NO_ROWS, None, error=text)
    finally:
        engine.framework.searching(False)
    if row < 0:
        diagnosis, statuses = engine.diagnose(state.target, state.shape, ran, tried)
    elif len(positions) == 1 or not (error := engine.pre_score(positions)):
        node = cluster.table.row_name(row)
    symbols, end = cluster.view.symbols_at(positions), engine.decider.start
    names = cluster.symbols.names
    decision = Decision(node, start, end, evaluated, positions, totals, diagnosis, error, symbols, names)
    if node is not None:
        return engine.batching.leave_nodes(engine.decider, hint, decision, state.target)
    return decision if diagnosis is None else run_post_filter(engine, state, pod, decision, statuses)


def run_post_filter(
    engine: Engine, state: CycleState, pod: Pod, decision: Decision, statuses: Mapping[str, Status]
) -> Decision:
    """Return a decision with the result of PostFilter, which is not run where it is certainly futile."""
    if not (engine.runs_post_filter and engine.profile.at(PostFilterPlugin)) or decision.diagnosis is None:
        return decision
    frees = any(plugin.may_free_claims(state) for plugin in engine.core_post_filters or ())
    if not (frees or pod.status.nominated_node_name) and engine.preemption_is_futile(decision.diagnosis):
        plugins, shape = engine.core_post_filters or (), decision.diagnosis.shape
        # The state is missing that the PreFilter of a plugin would have written.
        failed = next(filter(None, (plugin.failure(state) for plugin in plugins)), None)
        if failed is not None:
            return replace(decision, diagnosis=replace(decision.diagnosis, post_filter=failed.message()))
        ends = any(plugin.futile_message(shape, decision.diagnosis.nodes, 0)[1] for plugin in plugins)
        diagnosis = replace(decision.diagnosis, futile_plugins=plugins)
        return replace(decision, diagnosis=diagnosis, nominating=NominatingInfo() if ends else None)
    result, status = engine.framework.run_post_filter_plugins(state, pod, statuses)
    diagnosis = replace(decision.diagnosis, post_filter="" if status is None else status.message())
    return replace(decision, diagnosis=diagnosis, nominating=result)


def assumed_on(engine: Engine, state: CycleState, pod: Pod, node: str) -> Pod:
    """Return a pod as it is assumed on a node, with what the devices of its claims take of the node."""
    if engine.handle.feature_gates["DRANodeAllocatableResources"]:
        devices: DeviceCycleState | None = state.find(DynamicResources.name)
        if devices is not None:
            pod = devices.assumed(pod, node)
    return bound(pod, node)


def prepare_for_binding_cycle(
    cycles: BindingCycles, engine: Engine, state: CycleState, pod: Pod, node: str
) -> Started | BindingOutcome:
    """Assume a pod on the chosen node and run Reserve and Permit.

    Returns
    -------
    Started or BindingOutcome
        The argument of `binding_cycle`; or the failure of the pod, which is then forgotten.
    """
    assumed = assumed_on(engine, state, pod, node)
    started = Started(engine, state, pod, assumed)
    try:
        engine.cache.assume_pod(assumed)
    except CacheError as error:
        return _failed(cycles, started, Status(Code.ERROR, err=error))
    with cycles.forgetting_on_error(started):
        engine.handle.nominator.delete_nominated_pod_if_exists(pod)
        framework = engine.framework
        status, timeouts = framework.run_reserve_plugins_reserve(state, assumed, node), None
        if status is None:
            status, timeouts = framework.run_permit_plugins(state, assumed, node)
        if status is None:
            return started
        if timeouts is None or not status.is_wait:
            started.unreserve_and_forget()
            return _failed(cycles, started, status)
        return replace(started, waiting=framework.add_waiting_pod(assumed, timeouts, cycles.clock()))


# ---- the binding cycle, without that lock ------------------------------------------------------------------


def binding_cycle(cycles: BindingCycles, started: Started) -> BindingOutcome:
    """Run the binding cycle of an assumed pod until the pod is bound, fails, or has to wait."""
    framework, node, uid = started.engine.framework, started.node, started.pod.metadata.uid
    with cycles.forgetting_on_error(started):
        if cycles.nominates:
            status = framework.run_pre_bind_pre_flights(started.state, started.assumed, node)
            if status is not None and not status.is_skip:
                framework.handle.waiting_pods.remove(uid)
                return handle_binding_cycle_error(cycles, started, status)
            if status is None or started.waiting is not None:
                patch_pod(cycles.client, started.pod, None, NominatingInfo(node), cycles.writes)
        if started.waiting is not None and started.waiting.signal is None:
            cycles.hold(started)
            return BindingOutcome(started.pod, node, waiting=True)
    return wait_on_permit(cycles, started)


def resume_binding_cycles(cycles: BindingCycles, now: float) -> list[BindingOutcome]:
    """Fire the Permit timers that are due, and resume the binding cycles that can go on.

    Parameters
    ----------
    now : float
        Seconds of the scheduler's clock.

    Returns
    -------
    list of BindingOutcome
        Without the pods that still wait.
    """
    outcomes = [wait_on_permit(cycles, started) for started in cycles.take_decided(now)]
    for running in cycles.ready():
        step, running.future = running.future, None
        outcome = _take_step(cycles, running) if step is None else _process(cycles, running, step.result)
        if not outcome.binding:
            outcomes.append(outcome)
    return outcomes


def wait_on_permit(cycles: BindingCycles, started: Started) -> BindingOutcome:
    """End the wait on Permit of a pod, and go on with PreBind, Bind and PostBind."""
    framework, uid = started.engine.framework, started.pod.metadata.uid
    with cycles.forgetting_on_error(started):
        if started.waiting is not None and started.waiting.signal is not None:
            framework.handle.waiting_pods.remove(uid)
            if (observer := framework.handle.observer) is not None:
                code = str(started.waiting.signal.code)
                observer.waited(code, cycles.clock() - started.waiting.began)
            status = permitted(started.waiting.signal)
            if status is not None:
                return handle_binding_cycle_error(cycles, started, status)
        skipped, in_pre_bind = started.state.skip_pre_bind_plugins, None
        profile = framework.profile_for(started.state, started.pod)
        if any(plugin.name not in skipped for plugin in profile.active(PreBindPlugin)):
            in_pre_bind = framework.handle.pods_in_pre_bind[uid] = PodInPreBind()
    steps = pre_bind_and_bind(cycles, started, in_pre_bind)
    return _take_step(cycles, Running(started, steps, in_pre_bind))


def _take_step(cycles: BindingCycles, running: Running) -> BindingOutcome:
    """Run the next step, or have a thread run it."""
    if cycles.beside is None:
        return _process(cycles, running, lambda: take_step(running.steps))
    running.future = cycles.beside(running.started.pod, partial(take_step, running.steps))
    return cycles.note_running(running)


def _process(cycles: BindingCycles, running: Running, get_step: Callable[[], Step]) -> BindingOutcome:
    """Process the result of a step. A pod whose step raises is unreserved and forgotten."""
    started = running.started
    with cycles.forgetting_on_error(started):
        step = get_step()
        while cycles.time.is_instant and not isinstance(step, Ended):
            cycles.time.wait(step)
            step = take_step(running.steps)
    if isinstance(step, Ended):
        cycles.running.pop(started.pod.metadata.uid, None)
        return post_bind(cycles, started, step.result)
    running.due = cycles.time.now() + step
    return cycles.note_running(running)


def pre_bind_and_bind(
    cycles: BindingCycles, started: Started, in_pre_bind: PodInPreBind | None
) -> StatusSteps:
    """Yield the waits, in seconds, of PreBind, during which the pod can be cancelled; then bind. Return the
    final status."""
    framework = started.engine.framework
    if in_pre_bind is not None:
        try:
            status = yield from framework.pre_bind_steps(
                started.state, started.assumed, started.node, in_pre_bind
            )
        finally:
            framework.handle.pods_in_pre_bind.pop(started.pod.metadata.uid, None)
        if status is None and not in_pre_bind.mark_prebound():
            status = Status(Code.ERROR, (in_pre_bind.cause,))
        if status is not None:
            return status
    return bind(cycles, started)


def bind(cycles: BindingCycles, started: Started) -> Status | None:
    """Bind by an extender, or else by the plugins. An extender cannot write to a store of this process, so
    the binding is then written here."""
    engine, assumed, node = started.engine, started.assumed, started.node
    try:
        if not room.extended_search.bind_by_extender(engine.interested(assumed), assumed, node):
            return engine.framework.run_bind_plugins(started.state, assumed, node)
        store = cycles.store
        if store is not None and not store.get(Pod, assumed.name, assumed.namespace).spec.node_name:
            store.bind(assumed, node)
    except (ExtenderError, ApiError) as error:
        return as_status(error)
    return None


def post_bind(cycles: BindingCycles, started: Started, status: Status | None) -> BindingOutcome:
    """Finish a binding cycle with the status of Bind, or with the failure of PreBind."""
    if status is not None and not status.is_success:
        return handle_binding_cycle_error(cycles, started, status)
    framework, assumed, node = started.engine.framework, started.assumed, started.node
    note = f"Successfully assigned {assumed.namespace}/{assumed.name} to {node}"
    framework.handle.recorder.event(assumed, "Normal", "Scheduled", "Binding", note)
    framework.run_post_bind_plugins(started.state, assumed, node)
    started.engine.cache.finish_binding(assumed)
    return BindingOutcome(started.pod, node)


# ---- failures ----------------------------------------------------------------------------------------------


def handle_binding_cycle_error(cycles: BindingCycles, started: Started, status: Status) -> BindingOutcome:
    """Unreserve and forget an assumed pod that failed in its binding cycle.

    Other pods may have been rejected because of this pod. After an error, or if the pod was deleted, its
    removal becomes an event for the queue (`freed`). After any other rejection it does not, as pods that
    reject one another on Permit would be retried without end.
    """
    is_announced = not status.is_rejected or not started.engine.handle.nominator.is_current(started.pod)
    if started.unreserve_and_forget() and is_announced:
        cycles.freed.append(started.assumed)
    return _failed(cycles, started, status)


def _failed(cycles: BindingCycles, started: Started, status: Status) -> BindingOutcome:
    """Report the failure of an assumed pod and return its outcome."""
    engine, nominating, failure = started.engine, NominatingInfo(), failure_of(started, status)
    if status.as_error() is None:  # as for an overall Skip, which nobody is told of
        engine.handle.nominator.add_nominated_pod(started.pod, nominating)
    else:
        handle_scheduling_failure(cycles, engine, started.pod, failure, nominating)
    return BindingOutcome(started.pod, failure=failure)


def failure_of(started: Started, status: Status) -> Failure:
    """Return why an assumed pod has failed, from Reserve on; its nomination ends."""
    if not status.is_rejected:
        return Failure(error=status.message() or str(status.code), nominating=NominatingInfo())
    profile = started.engine.framework.profile_of(started.state.target)
    chosen = Diagnosis(1, profile, started.state.shape, chosen=status)
    return Failure(chosen, nominating=NominatingInfo())


def report_failure(context: SchedulerState, engine: Engine, pod: Pod, failure: Failure) -> None:
    """Report why a pod of the store fits nowhere, with its new nomination if it has one."""
    context.enlist()
    nominating = failure.nominating or NominatingInfo(noop=True)
    handle_scheduling_failure(context.bindings, engine, pod, failure, nominating)


def handle_scheduling_failure(
    cycles: BindingCycles, engine: Engine, pod: Pod, failure: Failure, nominating: NominatingInfo
) -> None:
    """Nominate a failed pod, record the event FailedScheduling and write the pod's condition. The loop
    returns the pod to the queue."""
    handle = engine.handle
    handle.nominator.add_nominated_pod(pod, nominating)
    handle.recorder.event(pod, "Warning", "FailedScheduling", "Scheduling", failure.message)
    reason = "Unschedulable" if failure.diagnosis or failure.group_failure else "SchedulerError"
    condition = not_scheduled(reason, failure.message, cycles.condition_time(handle))
    patch_pod(cycles.client, pod, condition, nominating, cycles.writes)
