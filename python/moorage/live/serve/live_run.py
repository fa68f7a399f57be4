"""A run without end: pods are tried as they come, and bound by threads meanwhile."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from moorage.engine.framework import Code, NominatingInfo
from moorage.engine.preemption.actuation import RunningPreemptions
from moorage.engine.queue import QueuedPodInfo
from moorage.engine.scheduler.cycle.cycle import report_failure
from moorage.engine.scheduler.cycle.results import Failure, ScheduleResult
from moorage.engine.scheduler.loop import Loop, Policy

from .writer import Writer

if TYPE_CHECKING:
    from moorage.answers.scheduler import Scheduler
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
    writer : Writer
        Sends the bindings.

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
        self.loop, self._preemptions = Loop(scheduler, self), scheduler.handle.shared(RunningPreemptions)
        self.bound = self.failed = 0

    def step(self) -> bool:
        """Receive events, try some pods, and send bindings.

        Returns
        -------
        bool
            Whether there may be more to do at once.

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
            self._release_preemptors()
            infos = self.loop.take(BATCH)
            if infos:
                self.loop.attempt(infos)
            self.loop.bind()
        self.loop.result = ScheduleResult(scheduler.cache.state, 0)
        return bool(infos)

    def _release_preemptors(self) -> None:
        """Let preemptors go whose victims leave. Those are tried that an event about a victim would have
        moved meanwhile, or that have to try anew."""
        for preemption in self._preemptions.settle(self.scheduler.pods.indexer.get):
            for pod in preemption.preemptors:
                info = self.queue.get(pod.metadata.uid)
                if info is not None and (info.gating_plugin or preemption.has_failed):
                    self.queue.activate([pod])

    def bind(self, loop: Loop, infos: list[QueuedPodInfo], nodes: list[str]) -> None:
        """Send the bindings of placed pods to the threads."""
        for info, node in zip(infos, nodes, strict=True):
            loop.result.placements.pop(info.key, None)
            loop.sent[info.uid] = info, node
            send = partial(self._send, info.pod, node, self._profile(info))
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

        Returns
        -------
        bool
            Whether all have ended.
        """
        have_ended = self.writer.finish(timeout)
        self.writer.collect()
        return have_ended

    def _profile(self, info: QueuedPodInfo) -> str:
        return self.scheduler.context.engine_of(info.pod).profile.scheduler_name

    def _has_ended(self, uid: str, error: Exception | None) -> None:
        """Account for a binding that has ended."""
        info, node = self.loop.sent.pop(uid)
        if error is None:
            self._has_been_bound(info, node)
        else:
            self._refused(info, str(error))

    def _has_been_bound(self, info: QueuedPodInfo, node: str) -> None:
        pod = info.pod
        self.bound += 1
        logger.debug("pod bound: pod=%s node=%s", pod.key, node)
        self.metrics.scheduled([info])
        self.queue.done([info])
        note = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        self.scheduler.handle.recorder.event(pod, "Normal", "Scheduled", "Binding", note)

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
        if scheduler.is_waiting(info.pod):
            engine = scheduler.context.engine_of(info.pod)
            failure = Failure(
                error=f'running Bind plugin "DefaultBinder": {error}', nominating=NominatingInfo()
            )
            report_failure(scheduler.context, engine, info.pod, failure)
