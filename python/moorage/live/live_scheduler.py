"""LiveScheduler: the loop of a scheduler of a real cluster, with leader election and a graceful end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from moorage.answers.scheduler import Scheduler
from moorage.engine.framework import Code, NominatingInfo
from moorage.engine.preemption.running_preemptions import RunningPreemptions
from moorage.engine.queue import QueuedPodInfo
from moorage.engine.scheduler.cycle.cycle import report_failure
from moorage.engine.scheduler.cycle.results import Failure, ScheduleResult
from moorage.engine.scheduler.loop import Loop, Policy
from moorage.store import ApiError

from .client import ApiClient, Connection
from .client.api_client import CLOSE_TIMEOUT
from .health import STEP_LIMIT, LiveMetrics, liveness_checks, readiness_checks
from .leader_lease import Election, LostLeaseError
from .writer import LAST_EVENTS, EventBroadcaster, Writer

if TYPE_CHECKING:
    from moorage.engine.scheduler.scheduler_metrics import SchedulerMetrics
    from moorage.kube import Pod


logger = logging.getLogger("moorage.serve")

BATCH = 256
"""Pods that are popped at once at most, so that the first of them is bound while others are tried."""


class LiveRun(Policy):
    """Tries pods as they become active, in real time.

    What a simulation has no need of happens here: the pod's condition and events are written, backoff is
    waited for, and bindings are sent by threads while other pods are tried. A pod whose binding fails is
    forgotten and returns to the queue.

    Parameters
    ----------
    scheduler : Scheduler
        Over an `ApiClient`, with a clock.

    Attributes
    ----------
    bound, failed : int
        The numbers of bindings so far, and of those that the server refused.
    metrics : SchedulerMetrics
        Of the scheduler (`Scheduler.measure`). An attempt ends with the answer to the binding.
    """

    time_passes = is_live = True

    def __init__(self, scheduler: Scheduler, writer: Writer) -> None:
        self.metrics: SchedulerMetrics = scheduler.measure()
        self.scheduler, self.queue, self.writer = scheduler, scheduler.queue, writer
        self.loop, self._preemptions = (
            Loop(scheduler.context, self),
            scheduler.handle.shared(RunningPreemptions),
        )
        self.bound = self.failed = 0

    def step(self) -> bool:
        """Receive events, try some pods, and send bindings; return whether there may be more to do at once.

        Raises
        ------
        ApiError
            The server has refused or is away; nothing is lost, and the next step goes on.
        """
        scheduler = self.scheduler
        scheduler.sync()
        now = scheduler.cache.clock()
        self.queue.run_periodic(now)
        with self.loop.recording_evictions():
            self.writer.collect()
            # those are tried that an event about a victim would have moved, or that try anew
            for preemption in self._preemptions.settle(self.scheduler.pods.indexer.get):
                for pod in preemption.preemptors:
                    info = self.queue.get(pod.metadata.uid)
                    if info is not None and (info.gating_plugin or preemption.has_failed):
                        self.queue.activate([pod])
            infos = self.loop.take(BATCH)
            if infos:
                self.loop.attempt(infos)
            self.loop.bind()
        self.loop.result = ScheduleResult(scheduler.cache.state, 0)
        return bool(infos)

    def bind(self, loop: Loop, infos: list[QueuedPodInfo], nodes: list[str]) -> None:
        """Send the bindings of placed pods to the threads."""
        for info, node in zip(infos, nodes, strict=True):
            loop.result.placements.pop(info.key, None)
            loop.sent[info.uid] = info, node
            profile = self.scheduler.context.engine_of(info.pod).profile.scheduler_name
            send = partial(self._send, info.pod, node, profile)
            self.writer.submit("pod_binding", info.pod, send, partial(self._has_ended, info.uid))

    def _send(self, pod: Pod, node: str, profile: str) -> None:
        """Bind a pod; in a thread."""
        began, status = time.perf_counter(), str(Code.ERROR)
        try:
            self.scheduler.client.bind(pod, node)
            status = str(Code.SUCCESS)
        finally:
            self.metrics.point("Bind", status, profile, time.perf_counter() - began)

    def next_time(self) -> float | None:
        """Return when the queue or a binding cycle goes on by itself, in seconds; None for never."""
        bindings = self.scheduler.bindings
        waits = [started.waiting.deadline() for started in bindings.waiting.values() if started.waiting]
        times = [*waits, self.queue.next_event(), bindings.next_step(), self._preemptions.next_time()]
        return min((time for time in times if time is not None), default=None)

    def finish(self, timeout: float) -> bool:
        """Wait for the writes that were submitted, and account for them.

        Parameters
        ----------
        timeout : float
            Seconds after which the rest is given up: the next scheduler learns of them from the server.
        """
        have_ended = self.writer.finish(timeout)
        self.writer.collect()
        return have_ended

    def _has_ended(self, uid: str, error: Exception | None) -> None:
        """Account for a binding that has ended."""
        info, node = self.loop.sent.pop(uid)
        if error is None:
            pod = info.pod
            self.bound += 1
            logger.debug("pod bound: pod=%s node=%s", pod.key, node)
            self.metrics.scheduled([info])
            self.queue.done([info])
            note = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
            self.scheduler.handle.recorder.event(pod, "Normal", "Scheduled", "Binding", note)
        else:
            self._refused(info, str(error))

    def _refused(self, info: QueuedPodInfo, error: str) -> None:
        """Account for a binding that was refused, or whose answer was lost: unless the informer has told
        where the pod is, it is tried again."""
        self.failed += 1
        scheduler = self.scheduler
        if not scheduler.cache.is_assumed_pod(info.pod):
            self.queue.done([info])
            self.metrics.forget(info.uid)
            return
        logger.warning("pod not bound: pod=%s error=%s", info.pod.key, error)
        self.loop.refuse(info, error)
        if scheduler.context.is_waiting(info.pod):
            engine = scheduler.context.engine_of(info.pod)
            failure = Failure(
                error=f'running Bind plugin "DefaultBinder": {error}', nominating=NominatingInfo()
            )
            report_failure(scheduler.context, engine, info.pod, failure)


IDLE = 1.0
"""Seconds at most between two looks at the clock."""
RETRY = 1.0
"""Seconds after which a step is repeated that the server has refused."""
FINISH, RELEASE = 10.0, 5.0
"""Seconds that writes about pods have at the end, and the Lease, after events (`LAST_EVENTS`)."""
END = FINISH + LAST_EVENTS + RELEASE + CLOSE_TIMEOUT
"""Seconds after which a scheduler that was stopped ends, although no request is answered any more."""


class LiveScheduler:
    """Schedules the pods of a cluster until it is stopped.

    Parameters
    ----------
    events : Connection
        For events, so that they do not use up the requests of bindings. With an election it and the client's
        own send no writes while the Lease is not held, so the Lease needs another.
    election : Election, optional
        Without one the scheduler does not wait to lead.
    clock : callable, optional
        Returns seconds: for backoff, waits on Permit and timers.
    **options
        Of `Scheduler`.

    Attributes
    ----------
    health, ready : mapping of str to callable
        The checks of liveness and of readiness; see `liveness_checks` and `readiness_checks`.
    is_synced : bool
        Whether it has seen the cluster.
    on_lost : callable
        Called by the thread that renews the Lease when it is lost, whatever the others wait for.
    """

    def __init__(
        self,
        client: ApiClient,
        events: Connection,
        *,
        election: Election | None = None,
        clock: Callable[[], float] = time.monotonic,
        **options: Any,
    ) -> None:
        self.client, self._election, self._clock = client, election, clock
        lease = [election.lease.connection] if election is not None else []
        self.scheduler = Scheduler(client, clock=clock, measured=True, synced=False, **options)
        name = self.scheduler.profile.scheduler_name
        self.metrics = LiveMetrics(client)
        wake, durations = client.arrivals.wake, self.metrics.durations
        throttled, measure = client.connection.throttled, lambda: client.connection.clock()
        writer = Writer(throttled=throttled, clock=measure, on_end=wake, durations=durations)
        self.recorder = EventBroadcaster(events, name, client.now, durations)
        self.metrics.writers = [writer, self.recorder.writer]
        for handle in (self.scheduler.handle, *(engine.handle for engine in self.scheduler.engines.values())):
            handle.recorder, handle.writes = self.recorder, writer
        bindings = self.scheduler.bindings
        bindings.writes, bindings.beside = writer, partial(writer.future, "pod_binding")
        if election is not None:
            client.connection.may_write = events.may_write = election.holds
        self.run = LiveRun(self.scheduler, writer)
        self.run.metrics.registry.register(self.metrics)
        self.is_synced = False
        alive = liveness_checks(client, [client.connection, events, *lease], election)
        self.health = {**alive, "steps": self._goes_on}
        is_ready = {"sched-handler-sync": lambda: self.is_synced, **readiness_checks(self.metrics, writer)}
        self.ready = {**self.health, **is_ready}
        self.on_lost: Callable[[], object] = client.arrivals.wake
        self._ended = Event()

    def work(self, stop: Event) -> None:
        """Schedule until an event is set; then finish the bindings in flight, write the events that wait and
        give the Lease up.

        Raises
        ------
        LostLeaseError
            Another scheduler may lead now. Nothing is waited for.
        """
        renewer = Thread(target=self._renew, name="lease", daemon=True)
        self.await_cluster(stop)
        if self._election is not None:
            renewer.start()
        is_lost = False
        try:
            while not stop.is_set():
                self.step(stop)
        except LostLeaseError:
            is_lost = True
            self.run.writer.give_up()
            raise
        finally:
            if not is_lost:
                self._finish()
            self._ended.set()
        if self._election is not None:
            renewer.join(RELEASE)

    def await_cluster(self, stop: Event) -> None:
        """Take in what there is, once all of it was listed, unless an event is set before."""
        if self.client.await_lists(stop):
            self.scheduler.sync()
            self.is_synced = True
            self.metrics.has_stepped()
            logger.info("cluster listed: leader_election=%s", str(self._election is not None).lower())

    def _renew(self) -> None:
        """Acquire and renew the Lease, whatever the other threads wait for; at the end, give it up."""
        election = self._election
        assert election is not None
        try:
            while not self._ended.is_set():
                was_leader = election.is_leader
                election.step()
                if election.is_leader and not was_leader:
                    logger.info("lease gained: holder=%s", election.lease.identity)
                    self.client.arrivals.wake()
                self._ended.wait(election.pause())
            if election.holds():
                election.lease.release()
                logger.info("lease given up: holder=%s", election.lease.identity)
            return
        except LostLeaseError:
            logger.error("lease lost: holder=%s", election.lease.identity)
        except Exception:
            logger.exception("the thread that renews the Lease has failed")
        election.end()
        self.on_lost()

    def step(self, stop: Event) -> None:
        """Do what there is to do, or wait for it.

        Parameters
        ----------
        stop : threading.Event
            Ends a wait after a refusal.

        Raises
        ------
        LostLeaseError
            Another scheduler may lead now.
        """
        seen = self.client.arrivals.count
        if self._election is not None:
            self._election.check()
        try:
            self.scheduler.context.drop_unused_classes()
            if self._election is not None and not self._election.is_leader:
                self.scheduler.sync()  # what a leader needs to know is known when it begins to lead
                seconds = IDLE
            else:
                seconds = 0.0 if self.run.step() else self._idle()
        except ApiError as error:
            self.metrics.failed_steps += 1
            logger.warning("step has failed, and is repeated: seconds=%s error=%s", RETRY, error)
            stop.wait(RETRY)
            return
        self.metrics.has_stepped()
        if seconds:
            self.client.arrivals.wait(seen, seconds)

    def _goes_on(self) -> bool:
        """Whether steps end well, once the cluster was listed."""
        return not self.is_synced or self.metrics.since_step() <= STEP_LIMIT

    def _idle(self) -> float:
        """Return the seconds to wait for an event."""
        when = self.run.next_time()
        return IDLE if when is None else min(IDLE, max(0.0, when - self._clock()))

    def _finish(self) -> None:
        if not self.run.finish(FINISH):
            logger.warning("some writes have not ended in time: seconds=%s", FINISH)
        self.recorder.close()
