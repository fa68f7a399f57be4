"""From a chosen node to a bound pod: assume, Reserve, Permit, and the binding cycle.

kube-scheduler v1.36, schedule_one.go. Upstream binds in a thread of its own; here the binding cycle runs at
once, or, for a pod that waits on Permit, when the scheduler next comes by.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from moorage._core.pod_spec import bound
from moorage.errors import CacheError, ExtenderError
from moorage.framework.binding import permitted
from moorage.framework.cycle_state import CycleState
from moorage.framework.interface import NominatingInfo
from moorage.framework.nominator import PodNominator
from moorage.framework.status import Code, Status, as_status
from moorage.framework.waiting_pods import NEVER, WaitingPod
from moorage.objects.pod import Pod
from moorage.store import ApiError, ObjectClient, ObjectStore

from .diagnosis import Diagnosis
from .engine import Engine
from .extended_search import bind_by_extender
from .pod_status import not_scheduled, patch_pod
from .results import Decision, Failure

logger = logging.getLogger("moorage.scheduler")


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
    """What became of a pod: bound on `node`, waiting for it, or failed."""

    pod: Pod
    node: str = ""
    waiting: bool = False
    failure: Failure | None = None


class BindingCycles:
    """Carries pods from a chosen node to their binding, and keeps those that wait on Permit.

    Attributes
    ----------
    waiting : dict of str to Started
    freed : list of Pod
        Pods, with their nodes, that were forgotten in a binding cycle and that nobody has heard of yet.
    """

    def __init__(self, client: ObjectClient, clock: Callable[[], float]) -> None:
        self.client = client
        self.clock = clock
        self.waiting: dict[str, Started] = {}
        self.freed: list[Pod] = []
        self._decided: deque[str] = deque()  # UIDs of pods that wait no longer
        self._expiry = NEVER  # no timer fires before

    # ---- under the lock of the cache -----------------------------------------------------------------------

    def reserve(self, engine: Engine, state: CycleState, pod: Pod, node: str) -> Started | Outcome:
        """Assume the pod on the node, then Reserve and Permit: it can be bound, or it has failed."""
        assumed = bound(pod, node)
        started = Started(engine, state, pod, assumed)
        try:
            engine.cache.assume_pod(assumed)
        except CacheError as error:
            return self._failed(started, Status(Code.ERROR, err=error))
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

    # ---- without it ----------------------------------------------------------------------------------------

    def bind(self, started: Started) -> Outcome:
        """The binding cycle, up to the end or to where the pod waits on Permit."""
        framework, node, uid = started.engine.framework, started.node, started.pod.metadata.uid
        status = framework.run_pre_bind_pre_flights(started.state, started.assumed, node)
        if status is not None and not status.is_skip:
            framework.handle.waiting_pods.remove(uid)
            return self._give_up(started, status)
        if status is None or started.waiting is not None:
            patch_pod(self.client, started.pod, None, NominatingInfo(node))
        waiting = started.waiting
        if waiting is None or waiting.signal is not None:
            return self._go_on(started)
        self.waiting[uid] = started
        self._expiry = min(self._expiry, waiting.deadline())
        waiting.when_decided(lambda: self._decided.append(uid))
        return Outcome(started.pod, node, waiting=True)

    def resume(self, now: float) -> list[Outcome]:
        """Let the timers fire that are due, and go on with every pod whose waiting has ended."""
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
        return outcomes

    def _go_on(self, started: Started) -> Outcome:
        """WaitOnPermit has an answer: PreBind, Bind, PostBind."""
        framework, state = started.engine.framework, started.state
        assumed, node = started.assumed, started.node
        status: Status | None = None
        if started.waiting is not None and started.waiting.signal is not None:
            framework.handle.waiting_pods.remove(assumed.metadata.uid)
            status = permitted(started.waiting.signal)
        if status is None:
            status = self._pre_bind(started)
        if status is None:
            status = self._bind(started)
        if status is not None and not status.is_success:
            return self._give_up(started, status)
        note = f"Successfully assigned {assumed.namespace}/{assumed.name} to {node}"
        framework.handle.recorder.event(assumed, "Normal", "Scheduled", "Binding", note)
        framework.run_post_bind_plugins(state, assumed, node)
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

    def _pre_bind(self, started: Started) -> Status | None:
        """PreBind, during which the pod can be cancelled."""
        framework, state, uid = started.engine.framework, started.state, started.pod.metadata.uid
        plugins = framework.profile.pre_binds
        if all(plugin.name in state.skip_pre_bind_plugins for plugin in plugins):
            return None
        in_pre_bind = framework.handle.pods_in_pre_bind.add(uid)
        status = framework.run_pre_bind_plugins(state, started.assumed, started.node)
        framework.handle.pods_in_pre_bind.remove(uid)
        if status is None and not in_pre_bind.mark_prebound():
            return Status(Code.ERROR, (in_pre_bind.cause,))
        return status

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
        engine.framework.run_reserve_plugins_unreserve(started.state, assumed, started.node)
        try:
            engine.cache.forget_pod(assumed)
        except CacheError as error:
            logger.error("ForgetPod failed: %s", error)
            return False
        return True

    def _failed(self, started: Started, status: Status) -> Outcome:
        engine = started.engine
        if status.is_rejected:
            chosen = Diagnosis(1, engine.profile, started.state.shape, chosen=status)
            failure = Failure(chosen)
        else:
            failure = Failure(error=status.message() or str(status.code))
        silent = status.as_error() is None
        self.report(engine, started.pod, failure, NominatingInfo(), silent)
        return Outcome(started.pod, failure=failure)

    def nominate(self, nominator: PodNominator, pod: Pod, decision: Decision) -> None:
        """Note what PostFilter made of the nomination of a pod about whose failure no more is told."""
        info = decision.nominating
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
        (schedule_one.go handleSchedulingFailure)."""
        handle = engine.handle
        handle.nominator.add_nominated_pod(pod, nominating)
        if silent:
            return
        handle.recorder.event(pod, "Warning", "FailedScheduling", "Scheduling", failure.message)
        reason = "Unschedulable" if failure.diagnosis or failure.held_back else "SchedulerError"
        patch_pod(self.client, pod, not_scheduled(reason, failure.message), nominating)
