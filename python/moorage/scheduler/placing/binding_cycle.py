"""From a chosen node to a bound pod: assume, Reserve, Permit, and the binding cycle.

kube-scheduler v1.36, schedule_one.go. Upstream runs each binding cycle in a thread of its own. Here it runs
at once up to where it has to wait, for Permit or in PreBind, and stays with the scheduler until that has
ended: the next pod is decided about meanwhile. Where plugins or an API server take real time, PreBind and
Bind are given to a pool of threads; all else happens in the thread of the scheduler.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from moorage._core.state.pod_spec import bound
from moorage.errors import CacheError, ExtenderError
from moorage.framework.plugin.cycle_state import CycleState
from moorage.framework.plugin.interface import NominatingInfo, PreBindPlugin
from moorage.framework.plugin.nominator import PodNominator
from moorage.framework.plugin.status import Code, Status, as_status
from moorage.framework.plugin.waiting_pods import NEVER, PodInPreBind, WaitingPod
from moorage.framework.runtime.binding_points import permitted
from moorage.framework.runtime.steps import Ended, StatusSteps, take_step
from moorage.objects.model.cluster import Cluster
from moorage.objects.model.pod import Pod
from moorage.scheduler.cycle.diagnosis import Diagnosis
from moorage.scheduler.cycle.engine import Engine
from moorage.scheduler.cycle.results import Failure
from moorage.scheduler.extenders.extended_search import bind_by_extender
from moorage.scheduler.volume_controllers import ExternalController, SimulatedController
from moorage.store import ApiError, ObjectClient, ObjectStore

from .scheduled_condition import not_scheduled, patch_pod

logger = logging.getLogger("moorage.scheduler")


THREADS = 8
"""Binding cycles at work at a time over an API server."""


def threads_for(cluster: Cluster | ObjectClient, asked: int | None, time: object) -> int:
    """How many threads binding cycles have, see `Scheduler`; `time` is what it was given to tell the time or
    let it pass, if anything.

    Raises
    ------
    ValueError
        Threads are asked for where time does not pass by itself, or fewer than none.
    """
    takes_real_time = not (isinstance(cluster, Cluster) or time)
    if asked is None:
        return THREADS if takes_real_time and not isinstance(cluster, ObjectStore) else 0
    if asked < 0 or (asked and not takes_real_time):
        raise ValueError(f"binding_threads {asked}: 0 or more; 0 with a Cluster, a clock or wait")
    return asked


@dataclass(frozen=True, slots=True)
class Started:
    """A pod between its assumption and its binding.

    Attributes
    ----------
    pod : Pod
        As it was queued.
    assumed : Pod
        The same with its node.
    waiting : WaitingPod or None
        Where a plugin asked to wait.
    """

    engine: Engine
    state: CycleState
    pod: Pod
    assumed: Pod
    waiting: WaitingPod | None = None

    @property
    def node(self) -> str:
        return self.assumed.spec.node_name


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a pod: bound on `node`, waiting on Permit for it, being bound to it, or failed."""

    pod: Pod
    node: str = ""
    waiting: bool = False
    binding: bool = False
    failure: Failure | None = None


@dataclass(slots=True)
class Running:
    """A binding cycle after Permit.

    Attributes
    ----------
    steps : generator
        PreBind and Bind.
    in_pre_bind : PodInPreBind or None
        Where PreBind has something to do.
    due : float
        When it goes on, where no thread is at work on it.
    at_work : Future or None
        The step that a thread is at work on.
    """

    started: Started
    steps: StatusSteps
    in_pre_bind: PodInPreBind | None
    due: float = 0.0
    at_work: futures.Future[float | Ended[Status | None]] | None = None

    def can_go_on(self, now: float) -> bool:
        """Whether its next step may be taken or has been: its time has come, or it is cancelled."""
        if self.at_work is not None:
            return self.at_work.done()
        return self.due <= now or bool(self.in_pre_bind is not None and self.in_pre_bind.cause)


class BindingCycles:
    """Carries pods from a chosen node to their binding, and keeps those that wait on Permit or in PreBind.

    Parameters
    ----------
    client : ObjectClient
        Where pods are bound.
    clock : callable
        Seconds, for pods that wait on Permit.
    time : SimulatedController or ExternalController
        The time that passes while pods are being bound.
    threads : int
        How many steps of binding cycles are taken at a time beside the scheduling cycles; 0 for none.

    Attributes
    ----------
    waiting : dict of str to Started
        Pods that wait on Permit by UID.
    running : dict of str to Running
        Pods that are being bound by UID, in the order in which they began.
    freed : list of Pod
        Pods, with their nodes, that were forgotten in a binding cycle and that nobody has heard of yet.
    """

    def __init__(
        self,
        client: ObjectClient,
        clock: Callable[[], float],
        time: SimulatedController | ExternalController,
        threads: int = 0,
    ) -> None:
        self.client = client
        self.clock = clock
        self.time = time
        self.waiting: dict[str, Started] = {}
        self.running: dict[str, Running] = {}
        self.freed: list[Pod] = []
        self._pool = futures.ThreadPoolExecutor(threads, "binding") if threads else None
        self._decided: deque[str] = deque()  # UIDs of pods that wait no longer
        self._expiry = NEVER  # no timer fires before

    def save(self) -> object:
        """The pods that wait on Permit, for `undo`. None is being bound."""
        return self.waiting.copy(), self.freed.copy(), self._decided.copy(), self._expiry

    def stop(self) -> None:
        """Drop the pods that are being bound, before an `undo`. What threads are at work on ends first."""
        at_work = [running.at_work for running in self.running.values() if running.at_work is not None]
        futures.wait([one for one in at_work if not one.cancel()])
        for uid, running in self.running.items():
            running.started.engine.handle.pods_in_pre_bind.pop(uid, None)
        self.running = {}

    def undo(self, saved: Any) -> None:
        """Be as at `save`, after `stop`."""
        waiting, freed, decided, self._expiry = saved
        self.waiting, self.freed, self._decided = waiting.copy(), freed.copy(), decided.copy()

    # ---- under the lock of the cache -----------------------------------------------------------------------

    def reserve(self, engine: Engine, state: CycleState, pod: Pod, node: str) -> Started | Outcome:
        """Assume the pod on the node, then Reserve and Permit: it can be bound, or it has failed.

        Parameters
        ----------
        engine : Engine
        state : CycleState
        pod : Pod
        node : str
            The chosen node.

        Returns
        -------
        Started or Outcome
            What `bind` goes on with; or the failure of the pod, which is forgotten then.
        """
        assumed = bound(pod, node)
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
                return self._take_back(started, status)
            status, timeouts = framework.run_permit_plugins(state, assumed, node)
            if status is not None and not status.is_wait:
                return self._take_back(started, status)
            if status is None:
                return started
            waiting = framework.add_waiting_pod(assumed, timeouts, self.clock())
            return Started(engine, state, pod, assumed, waiting)

    @contextmanager
    def _forgotten_on_error(self, started: Started) -> Iterator[None]:
        """Where an exception ends what is done inside, the pod is unreserved and forgotten."""
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

    # ---- without it ----------------------------------------------------------------------------------------

    def bind(self, started: Started) -> Outcome:
        """The binding cycle, up to the end or to where the pod waits on Permit.

        Parameters
        ----------
        started : Started

        Returns
        -------
        Outcome
        """
        framework, node, uid = started.engine.framework, started.node, started.pod.metadata.uid
        with self._forgotten_on_error(started):
            status = framework.run_pre_bind_pre_flights(started.state, started.assumed, node)
            if status is not None and not status.is_skip:
                framework.handle.waiting_pods.remove(uid)
                return self._give_up(started, status)
            if status is None or started.waiting is not None:
                patch_pod(self.client, started.pod, None, NominatingInfo(node))
            waiting = started.waiting
            if waiting is not None and waiting.signal is None:
                self.waiting[uid] = started
                self._expiry = min(self._expiry, waiting.deadline())
                waiting.when_decided(lambda: self._decided.append(uid))
                return Outcome(started.pod, node, waiting=True)
        return self._go_on(started)

    def resume(self, now: float) -> list[Outcome]:
        """Let the timers of Permit fire that are due, and go on with every pod that need not wait any longer;
        those that still do are not listed.

        Parameters
        ----------
        now : float
            Seconds on the scheduler's clock.

        Returns
        -------
        list of Outcome
        """
        if now >= self._expiry:
            there = [started.waiting for started in self.waiting.values() if started.waiting is not None]
            for waiting in sorted(there, key=WaitingPod.deadline):
                waiting.expire(now)
            self._expiry = min((waiting.deadline() for waiting in there), default=NEVER)
        outcomes = []
        while self._decided:
            started = self.waiting.pop(self._decided.popleft(), None)
            if started is not None:
                outcomes.append(self._go_on(started))
        return outcomes + self._resume_running()

    def _resume_running(self) -> list[Outcome]:
        """Go on with those whose time has come, in its order."""
        if not self.running:
            return []
        now = self.time.now()
        ready = [running for running in self.running.values() if running.can_go_on(now)]
        outcomes = []
        for running in sorted(ready, key=lambda running: running.due):
            at_work, running.at_work = running.at_work, None
            outcome = self._take_step(running) if at_work is None else self._went(running, at_work.result)
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
        """Let time pass until a binding cycle can go on. False where none waits for time alone, or where it
        is not for the scheduler to let it pass."""
        at_work = [running.at_work for running in self.running.values() if running.at_work is not None]
        due = min((one.due for one in self.running.values() if one.at_work is None), default=NEVER)
        seconds = due - self.time.now()
        if at_work:
            futures.wait(at_work, None if due == NEVER else max(seconds, 0.0), futures.FIRST_COMPLETED)
            self.time.reach(self.time.now())
        elif due == NEVER or not self.time.can_wait:
            return False
        else:
            if seconds > 0:
                self.time.wait(seconds)
            self.time.reach(due)
        return True

    def _go_on(self, started: Started) -> Outcome:
        """WaitOnPermit has an answer: PreBind, Bind, PostBind."""
        framework, uid = started.engine.framework, started.pod.metadata.uid
        with self._forgotten_on_error(started):
            if started.waiting is not None and started.waiting.signal is not None:
                framework.handle.waiting_pods.remove(uid)
                status = permitted(started.waiting.signal)
                if status is not None:
                    return self._give_up(started, status)
            skipped, in_pre_bind = started.state.skip_pre_bind_plugins, None
            if any(plugin.name not in skipped for plugin in framework.profile.active(PreBindPlugin)):
                in_pre_bind = framework.handle.pods_in_pre_bind[uid] = PodInPreBind()
        return self._take_step(Running(started, self._steps(started, in_pre_bind), in_pre_bind))

    def _take_step(self, running: Running) -> Outcome:
        """Take the next step, or have a thread take it."""
        if self._pool is None:
            running.started.engine.take_turn()
            return self._went(running, lambda: take_step(running.steps))
        running.at_work = self._pool.submit(take_step, running.steps)
        return self._is_binding(running)

    def _went(self, running: Running, get_step: Callable[[], float | Ended[Status | None]]) -> Outcome:
        """A step is taken, or was by a thread; where it raises, the pod is taken back."""
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

    def _is_binding(self, running: Running) -> Outcome:
        started = running.started
        self.running[started.pod.metadata.uid] = running
        return Outcome(started.pod, started.node, binding=True)

    def _steps(self, started: Started, in_pre_bind: PodInPreBind | None) -> StatusSteps:
        """PreBind, during which the pod can be cancelled, and Bind."""
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

    def _end(self, started: Started, status: Status | None) -> Outcome:
        """Bind has an answer, or PreBind has failed."""
        if status is not None and not status.is_success:
            return self._give_up(started, status)
        framework, assumed, node = started.engine.framework, started.assumed, started.node
        note = f"Successfully assigned {assumed.namespace}/{assumed.name} to {node}"
        framework.handle.recorder.event(assumed, "Normal", "Scheduled", "Binding", note)
        framework.run_post_bind_plugins(started.state, assumed, node)
        started.engine.cache.finish_binding(assumed)
        return Outcome(started.pod, node)

    def _bind(self, started: Started) -> Status | None:
        """By an extender, which writes the binding itself, else by the plugins. A store of this process is
        out of its reach: there the binding is written in its stead."""
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

    def _take_back(self, started: Started, status: Status) -> Outcome:
        """Unreserve and forget an assumed pod."""
        self._forget(started)
        return self._failed(started, status)

    def _give_up(self, started: Started, status: Status) -> Outcome:
        """The same in a binding cycle: others may have been rejected for this pod's sake. They hear of it
        where it failed by an error; pods that reject one another on Permit would be tried without end."""
        if self._forget(started) and not status.is_rejected:
            self.freed.append(started.assumed)
        return self._failed(started, status)

    def _forget(self, started: Started) -> bool:
        engine, assumed = started.engine, started.assumed
        try:
            engine.framework.run_reserve_plugins_unreserve(started.state, assumed, started.node)
        finally:
            try:
                engine.cache.forget_pod(assumed)
                is_forgotten = True
            except CacheError as error:
                logger.error("ForgetPod failed: %s", error)
                is_forgotten = False
        return is_forgotten

    def _failed(self, started: Started, status: Status) -> Outcome:
        engine = started.engine
        if status.is_rejected:
            chosen = Diagnosis(1, engine.profile, started.state.shape, chosen=status)
            failure = Failure(chosen, nominating=NominatingInfo())
        else:
            failure = Failure(error=status.message() or str(status.code), nominating=NominatingInfo())
        silent = status.as_error() is None
        self.report(engine, started.pod, failure, NominatingInfo(), silent)
        return Outcome(started.pod, failure=failure)

    def nominate(self, nominator: PodNominator, pod: Pod, info: NominatingInfo | None) -> None:
        """Note what PostFilter made of the nomination of a pod about whose failure no more is told.

        Parameters
        ----------
        nominator : PodNominator
        pod : Pod
        info : NominatingInfo or None
            None, or `noop`, leaves the nomination as it is.
        """
        if info is None or info.noop:
            return
        if info.nominated_node_name or pod.status.nominated_node_name or nominator.nominated_node(pod):
            nominator.add_nominated_pod(pod, info)
            patch_pod(self.client, pod, None, info)

    def report(
        self,
        engine: Engine,
        pod: Pod,
        failure: Failure,
        nominating: NominatingInfo,
        silent: bool = False,
    ) -> None:
        """Nominate the pod, record FailedScheduling and write its condition; an overall Skip is silent
        (schedule_one.go handleSchedulingFailure).

        Parameters
        ----------
        engine : Engine
        pod : Pod
        failure : Failure
        nominating : NominatingInfo
            The nomination that the pod has from now on.
        silent : bool
            Whether neither an event nor a condition is written.
        """
        handle = engine.handle
        handle.nominator.add_nominated_pod(pod, nominating)
        if silent:
            return
        handle.recorder.event(pod, "Warning", "FailedScheduling", "Scheduling", failure.message)
        reason = "Unschedulable" if failure.diagnosis or failure.group_failure else "SchedulerError"
        patch_pod(self.client, pod, not_scheduled(reason, failure.message), nominating)
