"""Metrics of a live scheduler, with the names, labels and buckets of kube-scheduler v1.36."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from moorage.queue import QueuedPodInfo
from moorage.volume.binding.metrics import (
    VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE,
    VOLUME_SCHEDULING_STAGE_FAILED,
    OperationCounter,
    OperationHistogram,
    prometheus,
)

if TYPE_CHECKING:
    from moorage.cache import SchedulerCache
    from moorage.queue import PendingPods, SchedulingQueue

MOST_ATTEMPTS = 15
"""More have the label ``15+``."""


class SchedulerMetrics:
    """Counts attempts, and renders all metrics.

    Parameters
    ----------
    queue : SchedulingQueue
        For the pods that wait, and the events that pods in flight may need.
    cache : SchedulerCache
        For its size.
    profile : callable
        Returns the name of the profile of a pod.

    Attributes
    ----------
    attempts : OperationCounter
        By result (scheduled, unschedulable, error) and profile.
    """

    def __init__(
        self, queue: SchedulingQueue, cache: SchedulerCache, profile: Callable[[QueuedPodInfo], str]
    ) -> None:
        self._queue, self._cache, self._profile = queue, cache, profile
        self.attempts = OperationCounter(
            "scheduler_schedule_attempts_total",
            "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be "
            "scheduled, while 'error' means an internal scheduler problem.",
            ("result", "profile"),
        )
        self._pod_attempts = OperationHistogram(
            "scheduler_pod_scheduling_attempts",
            "Number of attempts to successfully schedule a pod.",
            tuple(float(2**step) for step in range(5)),
            (),
        )
        self._durations = OperationHistogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and "
            "might involve multiple scheduling attempts.",
            tuple(0.01 * 2**step for step in range(20)),
            ("attempts",),
        )
        self._victims = OperationHistogram(
            "scheduler_preemption_victims",
            "Number of selected preemption victims",
            tuple(float(2**step) for step in range(7)),
            (),
        )

    def scheduled(self, info: QueuedPodInfo, profile: str, now: float) -> None:
        """Count a pod that was bound.

        Parameters
        ----------
        info : QueuedPodInfo
        profile : str
        now : float
            Seconds of the queue's clock.
        """
        self.attempts.inc("scheduled", profile)
        self._pod_attempts.observe(info.attempts)
        label = str(info.attempts) if info.attempts < MOST_ATTEMPTS else f"{MOST_ATTEMPTS}+"
        if info.initial_attempt_timestamp is not None:
            self._durations.observe(now - info.initial_attempt_timestamp, label)

    def preempted(self, victims: int) -> None:
        """Count the pods that were evicted for another.

        Parameters
        ----------
        victims : int
        """
        self._victims.observe(victims)

    def collect(self) -> Iterator[Any]:
        """Yield the metric families (prometheus_client's interface of collectors)."""
        own = (self.attempts, self._pod_attempts, self._durations, self._victims)
        for one in (*own, VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE, VOLUME_SCHEDULING_STAGE_FAILED):
            yield from one.collect()
        pending = self._queue.pending_pods()
        yield self._pending(pending)
        yield self._unschedulable(pending)
        yield self._inflight()
        yield self._size()

    def text(self) -> bytes:
        """Render all metrics in the text format of Prometheus.

        Returns
        -------
        bytes
        """
        prometheus()
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def _pending(self, pending: PendingPods) -> Any:
        family = prometheus().GaugeMetricFamily(
            "scheduler_pending_pods", "Number of pending pods, by the queue type.", labels=["queue"]
        )
        family.add_metric(["active"], len(pending.active))
        family.add_metric(["backoff"], len(pending.backoff) + len(pending.error_backoff))
        family.add_metric(["unschedulable"], len(pending.unschedulable))
        family.add_metric(["gated"], len(pending.gated))
        return family

    def _unschedulable(self, pending: PendingPods) -> Any:
        """Return how many waiting pods each plugin has rejected at their last attempt, or gates."""
        family = prometheus().GaugeMetricFamily(
            "scheduler_unschedulable_pods",
            "Waiting pods that a plugin has rejected. A pod counts for each plugin that rejected it.",
            labels=["plugin", "profile"],
        )
        counts = Counter(
            (plugin, self._profile(info)) for infos in pending for info in infos for plugin in info.rejectors
        )
        for labels, count in sorted(counts.items()):
            family.add_metric(labels, count)
        return family

    def _inflight(self) -> Any:
        family = prometheus().GaugeMetricFamily(
            "scheduler_inflight_events",
            "Events that are kept for the pods that are being tried or bound.",
            labels=["event"],
        )
        counts = Counter(event.label for event, *_ in self._queue.in_flight_events())
        for label, count in sorted(counts.items()):
            family.add_metric([label], count)
        return family

    def _size(self) -> Any:
        family = prometheus().GaugeMetricFamily(
            "scheduler_cache_size",
            "Nodes, pods and assumed pods in the cache. The pods include those that are assumed.",
            labels=["type"],
        )
        cache = self._cache
        with cache.lock:
            state = cache.state
            sizes = cache.node_tree().num_nodes, len(state.ledger), len(state.assumed_pods())
        for label, size in zip(("nodes", "pods", "assumed_pods"), sizes, strict=True):
            family.add_metric([label], size)
        return family
