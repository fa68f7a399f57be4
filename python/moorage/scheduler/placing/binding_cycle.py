"""From a chosen node to a bound pod: assume, Reserve, Permit, and the binding cycle.

kube-scheduler v1.36, schedule_one.go. Upstream runs each binding cycle in a goroutine of its own. Here a
binding cycle runs at once until it has to wait, for Permit or in PreBind, and is resumed later; meanwhile the
next pods are scheduled. Where plugins or an API server take real time, PreBind and Bind run in a pool of
threads. Everything else runs in the thread of the scheduler.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from contextlib import contextmanager
from functools import partial
from typing import Any

from msgspec import Struct

from moorage._core.state.pod_spec import bound
from moorage.devices.claims.claims_of_cycle import DeviceCycleState
from moorage.errors import CacheError, ExtenderError
from moorage.framework.plugin.cycle_state import CycleState
from moorage.framework.plugin.interface import NominatingInfo, PreBindPlugin
from moorage.framework.plugin.nominator import PodNominator
from moorage.framework.plugin.status import Code, Status, as_status
from moorage.framework.plugin.waiting_pods import NEVER, PodInPreBind, WaitingPod
from moorage.framework.plugin.writes import AT_ONCE
from moorage.framework.runtime.binding_points import permitted
from moorage.framework.runtime.steps import Ended, StatusSteps, take_step
from moorage.objects.model.cluster import Cluster
from moorage.objects.model.pod import Pod
from moorage.plugins.dynamic_resources import DynamicResources
from moorage.scheduler.cycle.diagnosis import Diagnosis
from moorage.scheduler.cycle.engine import Engine
from moorage.scheduler.cycle.extended_search import bind_by_extender
from moorage.scheduler.cycle.results import Failure
from moorage.scheduler.volume_controllers import ExternalController, SimulatedController
from moorage.store import ApiError, ObjectClient, ObjectStore
from moorage.store.clock import timestamp

from .scheduled_condition import not_scheduled, patch_pod

logger = logging.getLogger("moorage.scheduler")

Step = float | Ended[Status | None]
"""Seconds until the next step of a binding cycle, or how it has ended."""
Beside = Callable[[Pod, Callable[[], Step]], futures.Future[Step]]
"""Has a step of the binding cycle of a pod run by a thread."""

THREADS = 8
"""Number of threads that run steps of binding cycles over an API server."""


def threads_for(cluster: Cluster | ObjectClient, requested: int | None, time: object) -> int:
    """Return the number of threads for binding cycles; see `Scheduler`.

    Parameters
    ----------
    requested : int or None
        The number that the caller requests; None for the default.
    time : object
        The clock or wait that the caller gave; false for none.

    Raises
    ------
    ValueError
        The number is negative, or threads are requested where time does not pass by itself.
    """
    takes_real_time = not (isinstance(cluster, Cluster) or time)
    if requested is None:
        return THREADS if takes_real_time and not isinstance(cluster, ObjectStore) else 0
    if requested < 0 or (requested and not takes_real_time):
        raise ValueError(
            f"binding_threads must be at least 0, and 0 with a Cluster, a clock or wait, not {requested}"
        )
    return requested


def assumed_on(engine: Engine, state: CycleState, pod: Pod, node: str) -> Pod:
    """Return a pod as it is assumed on a node, with what the devices of its claims take of the node."""
    if engine.handle.feature_gates["DRANodeAllocatableResources"]:
        found: DeviceCycleState | None = state.find(DynamicResources.name)
        if found is not None:
            pod = found.assumed(pod, node)
    return bound(pod, node)


class Started(Struct, frozen=True):
    """An assumed pod between its assumption and its binding.

    Attributes
    ----------
    engine : Engine
        The engine that scheduled the pod.
    state : CycleState
        Of the pod's cycle.
    pod : Pod
        As it was queued.
    assumed : Pod
        The pod with spec.nodeName set.
    waiting : WaitingPod or None
        Set where a Permit plugin returned Wait.
    """

    engine: Engine
    state: CycleState
    pod: Pod
    assumed: Pod
    waiting: WaitingPod | None = None

    @property
    def node(self) -> str:
        """Name of the node on which the pod is assumed."""
        return self.assumed.spec.node_name


class BindingOutcome(Struct, frozen=True):
    """The outcome for a pod: bound to `node`, waiting on Permit, being bound, or failed.

    Attributes
    ----------
    pod : Pod
        As it was queued.
    node : str
        "" for a failed pod.
    waiting, binding : bool
        Whether the pod waits on Permit or is being bound.
    failure : Failure or None
    """

    pod: Pod
    node: str = ""
    waiting: bool = False
    binding: bool = False
    failure: Failure | None = None


class Running(Struct, eq=False):
    """A binding cycle after Permit.

    Attributes
    ----------
    started : Started
    steps : generator
        The steps of PreBind and Bind.
    in_pre_bind : PodInPreBind or None
        Set where a PreBind plugin has something to do.
    due : float
        Time of the next step in seconds, where no thread runs one.
    future : Future or None
        The step that a thread runs.
    """

    started: Started
    steps: StatusSteps
    in_pre_bind: PodInPreBind | None
    due: float = 0.0
    future: futures.Future[Step] | None = None

    def is_ready(self, now: float) -> bool:
        """Whether the next step may begin, or the step of a thread has ended: the time has come, or the pod
        is cancelled.

        Parameters
        ----------
        now : float
            Seconds of the clock of `BindingCycles.time`.
        """
        if self.future is not None:
            return self.future.done()
        return self.due <= now or bool(self.in_pre_bind is not None and self.in_pre_bind.cause)


class BindingCycles:
    """Takes pods from a chosen node to their binding, and holds those that wait on Permit or in PreBind.

    Parameters
    ----------
    client : ObjectClient
        Where pods are bound.
    clock : callable
        Returns seconds; for the timeouts of Permit.
    time : SimulatedController or ExternalController
        The time that passes while pods are being bound.
    threads : int, optional
        Number of threads that run steps of binding cycles beside the scheduling cycles; 0 for none.
    nominates : bool, optional
        Whether PreBindPreFlight runs, and pods whose binding takes time are nominated to their nodes
        meanwhile (gate NominatedNodeNameForExpectation).

    Attributes
    ----------
    waiting : dict of str to Started
        UID to each pod that waits on Permit.
    running : dict of str to Running
        UID to each pod that is being bound, in the order of their begin.
    freed : list of Pod
        Pods, with their nodes, that were forgotten in a binding cycle. The queue has not yet received their
        removal.
    """

    def __init__(
        self,
        client: ObjectClient,
        clock: Callable[[], float],
        time: SimulatedController | ExternalController,
        threads: int = 0,
        nominates: bool = True,
    ) -> None:
        self.client = client
        self.clock = clock
        self.time = time
        self.nominates = nominates
        self.waiting: dict[str, Started] = {}
        self.running: dict[str, Running] = {}
        self.freed: list[Pod] = []
        pool = futures.ThreadPoolExecutor(threads, "binding") if threads else None
        self.beside: Beside | None = None if pool is None else lambda pod, step: pool.submit(step)
        self.writes = AT_ONCE
        self._decided: deque[str] = deque()  # UIDs of pods whose wait on Permit has ended
        self._expiry = NEVER  # time in seconds before which no Permit timer is due

    def save(self) -> object:
        """Return the pods that wait on Permit, for `undo`. No pod may be in a running binding cycle."""
        return self.waiting.copy(), self.freed.copy(), self._decided.copy(), self._expiry

    def copy_from(self, other: BindingCycles, engines: Mapping[Engine, Engine]) -> None:
        """Take the pods of another scheduler that wait on Permit.

        Parameters
        ----------
        other : BindingCycles
            No pod is in a running binding cycle.
        engines : mapping of Engine to Engine
            The engine here for each one there. Its handle has the copies of the waiting pods.
        """
        for uid, there in other.waiting.items():
            engine = engines[there.engine]
            waiting = engine.handle.waiting_pods.get(uid)
            started = Started(engine, there.state.clone(), there.pod, there.assumed, waiting)
            self._await(started)
        self._expiry = other._expiry
        self.freed, self._decided = other.freed.copy(), other._decided.copy()

    def stop(self) -> None:
        """Drop the pods that are being bound, before an `undo`. Steps that threads run are awaited first."""
        steps = [running.future for running in self.running.values() if running.future is not None]
        futures.wait([step for step in steps if not step.cancel()])
        for uid, running in self.running.items():
            running.started.engine.handle.pods_in_pre_bind.pop(uid, None)
        self.running = {}

    def undo(self, saved: Any) -> None:
        """Restore the pods that waited on Permit, after `stop`.

        Parameters
        ----------
        saved : tuple
            The result of `save`.
        """
        waiting, freed, decided, self._expiry = saved
        self.waiting, self.freed, self._decided = waiting.copy(), freed.copy(), decided.copy()

    # ---- under the lock of the cache -----------------------------------------------------------------------

    def reserve(self, engine: Engine, state: CycleState, pod: Pod, node: str) -> Started | BindingOutcome:
        """Assume a pod on a node and run Reserve and Permit, under the lock of the cache.

        Parameters
        ----------
        node : str
            The chosen node.

        Returns
        -------
        Started or BindingOutcome
            The argument of `bind`; or the failure of the pod, which is then forgotten.
        """
        assumed = assumed_on(engine, state, pod, node)
        started = Started(engine, state, pod, assumed)
        try:
            engine.cache.assume_pod(assumed)
        except CacheError as error:
            return self._failed(started, Status(Code.ERROR, err=error))
        with self._forgotten_on_error(started):
            engine.handle.nominator.delete_nominated_pod_if_exists(pod)
            framework = engine.framework
            status = framework.run_reserve_plugins_reserve(state, assumed, node)
            if status is not None:
                return self._fail_scheduling(started, status)
            status, timeouts = framework.run_permit_plugins(state, assumed, node)
            if status is not None and not status.is_wait:
                return self._fail_scheduling(started, status)
            if status is None:
                return started
            waiting = framework.add_waiting_pod(assumed, timeouts, self.clock())
            return Started(engine, state, pod, assumed, waiting)

    @contextmanager
    def _forgotten_on_error(self, started: Started) -> Iterator[None]:
        """Unreserve and forget the pod if an exception ends the block."""
        try:
            yield
        except BaseException:
            uid = started.pod.metadata.uid
            self.waiting.pop(uid, None)
            self.running.pop(uid, None)
            started.engine.handle.waiting_pods.remove(uid)
            if started.engine.cache.is_assumed_pod(started.assumed):
                self._forget(started)
            raise

    # ---- without that lock ---------------------------------------------------------------------------------

    def bind(self, started: Started) -> BindingOutcome:
        """Run the binding cycle until the pod is bound, fails, or has to wait; without the lock of the
        cache."""
        framework, node, uid = started.engine.framework, started.node, started.pod.metadata.uid
        with self._forgotten_on_error(started):
            if self.nominates:
                status = framework.run_pre_bind_pre_flights(started.state, started.assumed, node)
                if status is not None and not status.is_skip:
                    framework.handle.waiting_pods.remove(uid)
                    return self._fail_binding(started, status)
                if status is None or started.waiting is not None:
                    patch_pod(self.client, started.pod, None, NominatingInfo(node), self.writes)
            if started.waiting is not None and started.waiting.signal is None:
                self._await(started)
                return BindingOutcome(started.pod, node, waiting=True)
        return self._after_permit(started)

    def _await(self, started: Started) -> None:
        """Hold a pod until its wait on Permit has ended."""
        uid, waiting = started.pod.metadata.uid, started.waiting
        if waiting is not None:
            self.waiting[uid] = started
            self._expiry = min(self._expiry, waiting.deadline())
            waiting.when_decided(lambda: self._decided.append(uid))

    def resume(self, now: float) -> list[BindingOutcome]:
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
        if now >= self._expiry:
            pods = [started.waiting for started in self.waiting.values() if started.waiting is not None]
            for waiting in sorted(pods, key=WaitingPod.deadline):
                waiting.expire(now)
            self._expiry = min((waiting.deadline() for waiting in pods), default=NEVER)
        if not (self._decided or self.running):
            return []
        outcomes = []
        while self._decided:
            started = self.waiting.pop(self._decided.popleft(), None)
            if started is not None:
                outcomes.append(self._after_permit(started))
        return outcomes + self._resume_running()

    def _resume_running(self) -> list[BindingOutcome]:
        """Resume the running binding cycles whose next step is due, in the order of time."""
        if not self.running:
            return []
        now = self.time.now()
        ready = [running for running in self.running.values() if running.is_ready(now)]
        outcomes = []
        for running in sorted(ready, key=lambda running: running.due):
            step, running.future = running.future, None
            outcome = self._take_step(running) if step is None else self._process(running, step.result)
            if not outcome.binding:
                outcomes.append(outcome)
        return outcomes

    def has(self, pod: Pod) -> bool:
        """Whether a pod waits on Permit or is being bound."""
        return pod.metadata.uid in self.waiting or pod.metadata.uid in self.running

    def is_running(self, pod: Pod) -> bool:
        """Whether a pod is being bound."""
        return pod.metadata.uid in self.running

    def let_time_pass(self) -> bool:
        """Let time pass until a binding cycle can go on.

        Returns
        -------
        bool
            False where no binding cycle waits for time alone, or where the scheduler cannot let time pass.
        """
        steps = [running.future for running in self.running.values() if running.future is not None]
        due = min(self._due(), default=NEVER)
        seconds = due - self.time.now()
        if steps:
            futures.wait(steps, None if due == NEVER else max(seconds, 0.0), futures.FIRST_COMPLETED)
            self.time.reach(self.time.now())
        elif due == NEVER or not self.time.can_wait:
            return False
        else:
            if seconds > 0:
                self.time.wait(seconds)
            self.time.reach(due)
        return True

    def next_step(self) -> float | None:
        """Return the time in seconds of the next step of a binding cycle that waits for time alone; None
        without one."""
        return min(self._due(), default=None)

    def _due(self) -> Iterator[float]:
        return (running.due for running in self.running.values() if running.future is None)

    def _after_permit(self, started: Started) -> BindingOutcome:
        """Run PreBind, Bind and PostBind of a pod whose wait on Permit has ended."""
        framework, uid = started.engine.framework, started.pod.metadata.uid
        with self._forgotten_on_error(started):
            if started.waiting is not None and started.waiting.signal is not None:
                framework.handle.waiting_pods.remove(uid)
                if (observer := framework.handle.observer) is not None:
                    code = str(started.waiting.signal.code)
                    observer.waited(code, self.clock() - started.waiting.began)
                status = permitted(started.waiting.signal)
                if status is not None:
                    return self._fail_binding(started, status)
            skipped, in_pre_bind = started.state.skip_pre_bind_plugins, None
            profile = framework.plugins_for(started.state, started.pod).profile
            if any(plugin.name not in skipped for plugin in profile.active(PreBindPlugin)):
                in_pre_bind = framework.handle.pods_in_pre_bind[uid] = PodInPreBind()
        return self._take_step(Running(started, self._steps(started, in_pre_bind), in_pre_bind))

    def _take_step(self, running: Running) -> BindingOutcome:
        """Run the next step, or have a thread run it."""
        if self.beside is None:
            return self._process(running, lambda: take_step(running.steps))
        running.future = self.beside(running.started.pod, partial(take_step, running.steps))
        return self._is_binding(running)

    def _process(self, running: Running, get_step: Callable[[], Step]) -> BindingOutcome:
        """Process the result of a step. A pod whose step raises is unreserved and forgotten."""
        started = running.started
        with self._forgotten_on_error(started):
            step = get_step()
            while self.time.is_instant and not isinstance(step, Ended):
                self.time.wait(step)
                step = take_step(running.steps)
        if isinstance(step, Ended):
            self.running.pop(started.pod.metadata.uid, None)
            return self._end(started, step.result)
        running.due = self.time.now() + step
        return self._is_binding(running)

    def _is_binding(self, running: Running) -> BindingOutcome:
        """Record a running binding cycle and return its outcome so far."""
        started = running.started
        self.running[started.pod.metadata.uid] = running
        return BindingOutcome(started.pod, started.node, binding=True)

    def _steps(self, started: Started, in_pre_bind: PodInPreBind | None) -> StatusSteps:
        """Yield the waits, in seconds, of PreBind, during which the pod can be cancelled; then bind. Return
        the final status."""
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
        return self._bind(started)

    def _end(self, started: Started, status: Status | None) -> BindingOutcome:
        """Finish a binding cycle with the status of Bind, or with the failure of PreBind."""
        if status is not None and not status.is_success:
            return self._fail_binding(started, status)
        framework, assumed, node = started.engine.framework, started.assumed, started.node
        note = f"Successfully assigned {assumed.namespace}/{assumed.name} to {node}"
        framework.handle.recorder.event(assumed, "Normal", "Scheduled", "Binding", note)
        framework.run_post_bind_plugins(started.state, assumed, node)
        started.engine.cache.finish_binding(assumed)
        return BindingOutcome(started.pod, node)

    def _bind(self, started: Started) -> Status | None:
        """Bind by an extender, or else by the plugins. An extender cannot write to a store of this process,
        so the binding is then written here."""
        engine, assumed, node = started.engine, started.assumed, started.node
        try:
            if not bind_by_extender(engine.interested(assumed), assumed, node):
                return engine.framework.run_bind_plugins(started.state, assumed, node)
            client = self.client
            if (
                isinstance(client, ObjectStore)
                and not client.get(Pod, assumed.name, assumed.namespace).spec.node_name
            ):
                client.bind(assumed, node)
        except (ExtenderError, ApiError) as error:
            return as_status(error)
        return None

    # ---- failures ------------------------------------------------------------------------------------------

    def _fail_scheduling(self, started: Started, status: Status) -> BindingOutcome:
        """Unreserve and forget an assumed pod that failed in its scheduling cycle."""
        self._forget(started)
        return self._failed(started, status)

    def _fail_binding(self, started: Started, status: Status) -> BindingOutcome:
        """Unreserve and forget an assumed pod that failed in its binding cycle.

        Other pods may have been rejected because of this pod. After an error, or if the pod was deleted, its
        removal becomes an event for the queue (`freed`). After any other rejection it does not, as pods that
        reject one another on Permit would be retried without end.
        """
        is_announced = not status.is_rejected or not started.engine.handle.nominator.is_current(started.pod)
        if self._forget(started) and is_announced:
            self.freed.append(started.assumed)
        return self._failed(started, status)

    def _forget(self, started: Started) -> bool:
        """Unreserve and forget an assumed pod; return whether the cache had it."""
        engine, assumed = started.engine, started.assumed
        try:
            engine.framework.run_reserve_plugins_unreserve(started.state, assumed, started.node)
        finally:
            try:
                is_forgotten = engine.cache.is_assumed_pod(assumed)  # not if `preempt_pods` has evicted it
                if is_forgotten:
                    engine.cache.forget_pod(assumed)
            except CacheError as error:
                logger.error("ForgetPod failed: %s", error)
                is_forgotten = False
        return is_forgotten

    def _failed(self, started: Started, status: Status) -> BindingOutcome:
        """Report the failure of a pod and return its outcome."""
        engine = started.engine
        if status.is_rejected:
            profile = engine.profile_of(started.state.target)
            chosen = Diagnosis(1, profile, started.state.shape, chosen=status)
            failure = Failure(chosen, nominating=NominatingInfo())
        else:
            failure = Failure(error=status.message() or str(status.code), nominating=NominatingInfo())
        silent = status.as_error() is None
        self.report(engine, started.pod, failure, NominatingInfo(), silent)
        return BindingOutcome(started.pod, failure=failure)

    def nominate(
        self, nominator: PodNominator, pod: Pod, info: NominatingInfo | None, *, writes: bool = True
    ) -> None:
        """Record a change of nomination by PostFilter, for a pod whose failure is not reported otherwise.

        Parameters
        ----------
        info : NominatingInfo or None
            None, or `noop`, leaves the nomination as it is.
        writes : bool, optional
            Whether the status of the pod is written, and not only the nominator.
        """
        if info is None or info.noop:
            return
        if nominator.is_changed_by(pod, info):
            nominator.add_nominated_pod(pod, info)
            if writes:
                patch_pod(self.client, pod, None, info, self.writes)

    def report(
        self,
        engine: Engine,
        pod: Pod,
        failure: Failure,
        nominating: NominatingInfo,
        silent: bool = False,
    ) -> None:
        """Nominate a failed pod, record the event FailedScheduling and write the pod's condition
        (kube-scheduler v1.36, schedule_one.go handleSchedulingFailure).

        Parameters
        ----------
        nominating : NominatingInfo
            The pod's new nomination.
        silent : bool, optional
            Whether event and condition are left out, as for an overall Skip.
        """
        handle = engine.handle
        handle.nominator.add_nominated_pod(pod, nominating)
        if silent:
            return
        handle.recorder.event(pod, "Warning", "FailedScheduling", "Scheduling", failure.message)
        reason = "Unschedulable" if failure.diagnosis or failure.group_failure else "SchedulerError"
        since = None if isinstance(self.client, ObjectStore) else timestamp(int(handle.now()))
        condition = not_scheduled(reason, failure.message, since)
        patch_pod(self.client, pod, condition, nominating, self.writes)
