"""The pods between their assumption and their binding: those that wait on Permit, and those in PreBind.

Upstream runs each binding cycle in a goroutine of its own. Here `cycle.binding_cycle` runs at once until it
has to wait, for Permit or in PreBind, and is resumed later; meanwhile the next pods are scheduled. Where
plugins or an API server take real time, threads run PreBind and Bind. Everything else runs in the thread of
the scheduler.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from contextlib import contextmanager
from operator import attrgetter

from msgspec import Struct

from moorage.engine.framework.handle import AT_ONCE, FrameworkHandle
from moorage.engine.framework.status import CycleState, Status
from moorage.engine.framework.waiting_pods import NEVER, Ended, PodInPreBind, StatusSteps, WaitingPod
from moorage.errors import CacheError
from moorage.kube.go_texts import timestamp
from moorage.kube.model.pod import Pod
from moorage.saved_fields import SavedFields
from moorage.store import ObjectClient, ObjectStore

from ..options import ClaimControllers
from .engine import Engine
from .results import Failure

logger = logging.getLogger("moorage.scheduler")

Step = float | Ended[Status | None]
"""Seconds until the next step of a binding cycle, or how it has ended."""
Beside = Callable[[Pod, Callable[[], Step]], futures.Future[Step]]
"""Has a step of the binding cycle of a pod run by a thread."""


class Started(Struct, frozen=True):
    """An assumed pod between its assumption and its binding.

    Attributes
    ----------
    engine : Engine
        The engine that scheduled the pod.
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

    def unreserve_and_forget(self) -> bool:
        """Unreserve and forget the pod; return whether the cache had it."""
        try:
            self.engine.framework.run_reserve_plugins_unreserve(self.state, self.assumed, self.node)
        finally:
            try:  # `preempt_pods` may have evicted it
                is_forgotten = self.engine.cache.is_assumed_pod(self.assumed)
                if is_forgotten:
                    self.engine.cache.forget_pod(self.assumed)
            except CacheError as error:
                logger.error("ForgetPod failed: %s", error)
                is_forgotten = False
        return is_forgotten


class BindingOutcome(Struct, frozen=True):
    """The outcome for a pod: bound to `node`, waiting on Permit, being bound, or failed.

    Attributes
    ----------
    node : str
        "" for a failed pod.
    waiting, binding : bool
        Whether the pod waits on Permit or is being bound.
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


class BindingCycles(SavedFields):
    """Holds the pods that wait on Permit or are being bound.

    Parameters
    ----------
    store : ObjectStore or None
        The client if it is a store of this process.
    clock : callable
        Returns seconds; for the timeouts of Permit.
    time : ClaimControllers
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
    decided : deque of str
        UIDs of pods whose wait on Permit has ended.
    freed : list of Pod
        Pods, with their nodes, that were forgotten in a binding cycle. The queue has not yet received their
        removal.
    """

    fields = ("waiting", "freed", "decided", "_expiry")

    def __init__(
        self,
        client: ObjectClient,
        store: ObjectStore | None,
        clock: Callable[[], float],
        time: ClaimControllers,
        threads: int = 0,
        nominates: bool = True,
    ) -> None:
        self.client = client
        self.store = store
        self.clock = clock
        self.time = time
        self.nominates = nominates
        self.waiting: dict[str, Started] = {}
        self.running: dict[str, Running] = {}
        self.freed: list[Pod] = []
        pool = futures.ThreadPoolExecutor(threads, "binding") if threads else None
        self.beside: Beside | None = None if pool is None else lambda pod, step: pool.submit(step)
        self.writes = AT_ONCE
        self.decided: deque[str] = deque()
        self._expiry = NEVER  # time in seconds before which no Permit timer is due

    def take_over(self, other: BindingCycles, engines: Mapping[Engine, Engine]) -> None:
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
            self.hold(started)
        self._expiry = other._expiry
        self.freed, self.decided = other.freed.copy(), other.decided.copy()

    def _steps(self) -> list[futures.Future[Step]]:
        """Return the steps that threads run."""
        return [running.future for running in self.running.values() if running.future is not None]

    def stop(self) -> None:
        """Drop the pods that are being bound, before an `undo`. Steps that threads run are awaited first."""
        steps = self._steps()
        futures.wait([step for step in steps if not step.cancel()])
        for uid, running in self.running.items():
            running.started.engine.handle.pods_in_pre_bind.pop(uid, None)
        self.running = {}

    def hold(self, started: Started) -> None:
        """Hold a pod until its wait on Permit has ended."""
        uid, waiting = started.pod.metadata.uid, started.waiting
        if waiting is not None:
            self.waiting[uid] = started
            self._expiry = min(self._expiry, waiting.deadline())
            waiting.when_decided(lambda: self.decided.append(uid))

    def take_decided(self, now: float) -> Iterator[Started]:
        """Fire the Permit timers that are due, and take the pods whose wait on Permit has ended."""
        if now >= self._expiry:
            pods = [started.waiting for started in self.waiting.values() if started.waiting is not None]
            for waiting in sorted(pods, key=WaitingPod.deadline):
                waiting.expire(now)
            self._expiry = min((waiting.deadline() for waiting in pods), default=NEVER)
        while self.decided:
            started = self.waiting.pop(self.decided.popleft(), None)
            if started is not None:
                yield started

    def ready(self) -> list[Running]:
        """Return the running binding cycles whose next step is due, in the order of time."""
        now = self.time.now() if self.running else 0.0
        ready = (running for running in self.running.values() if running.is_ready(now))
        return sorted(ready, key=attrgetter("due"))

    def note_running(self, running: Running) -> BindingOutcome:
        """Keep a running binding cycle and return its outcome so far."""
        started = running.started
        self.running[started.pod.metadata.uid] = running
        return BindingOutcome(started.pod, started.node, binding=True)

    @contextmanager
    def forgetting_on_error(self, started: Started) -> Iterator[None]:
        """Unreserve and forget a pod if an exception ends the block."""
        try:
            yield
        except BaseException:
            uid = started.pod.metadata.uid
            self.waiting.pop(uid, None)
            self.running.pop(uid, None)
            started.engine.handle.waiting_pods.remove(uid)
            if started.engine.cache.is_assumed_pod(started.assumed):
                started.unreserve_and_forget()
            raise

    def progress(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the nodes of the pods that wait on Permit, and of those that are being bound, by
        ``namespace/name`` of the pod."""
        begun = self.waiting.values(), [running.started for running in self.running.values()]
        waiting, binding = ({started.pod.key: started.node for started in some} for some in begun)
        return waiting, binding

    def has(self, pod: Pod) -> bool:
        """Whether a pod waits on Permit or is being bound."""
        return pod.metadata.uid in self.waiting or pod.metadata.uid in self.running

    def is_running(self, pod: Pod) -> bool:
        """Whether a pod is being bound."""
        return pod.metadata.uid in self.running

    def condition_time(self, handle: FrameworkHandle) -> str | None:
        """Return the time for conditions; None for those of a store, which have none."""
        return None if self.store is not None else timestamp(int(handle.now()))

    def let_time_pass(self) -> bool:
        """Let time pass until a binding cycle can go on.

        Returns
        -------
        bool
            False where no binding cycle waits for time alone, or where the scheduler cannot let time pass.
        """
        if not self.running:
            return False
        steps = self._steps()
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
