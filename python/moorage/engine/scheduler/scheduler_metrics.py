"""Metrics of a scheduler, with the names, labels and buckets of kube-scheduler v1.36.

prometheus_client takes long to import, so `measure` imports this module.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from moorage._core.queue.in_flight import attempts_of
from moorage.grouped import grouped
from moorage.kube import group_of

from ..framework.extension_points import PreFilterRun
from ..framework.group_index import PodGroups
from ..framework.handle import FrameworkHandle
from ..framework.interface import PostFilterPlugin
from ..framework.status import Code, Status
from ..plugins.queue_and_groups import GangScheduling
from ..queue import PendingPods, QueuedPodInfo, SchedulingQueue
from ..volume.metrics import (
    VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE,
    VOLUME_SCHEDULING_STAGE_FAILED,
    Shown,
)
from .cycle.engine import Engine
from .cycle.results import Failure

if TYPE_CHECKING:
    from ..framework.interface import Plugin
    from ..framework.run_plugins import Framework


# ---- observer ----------------------------------------------------------------------------------------------

SAMPLED = 10
"""Plugins are timed in one of so many cycles (kube-scheduler v1.36, pluginMetricsSamplePercent)."""
_RUNS = {
    "run_pre_filter_plugins": "PreFilter",
    "run_post_filter_plugins": "PostFilter",
    "run_pre_score_plugins": "PreScore",
    "run_score_plugins": "Score",
    "run_reserve_plugins_reserve": "Reserve",
    "run_reserve_plugins_unreserve": "Unreserve",
    "run_permit_plugins": "Permit",
    "run_pre_bind_pre_flights": "PreBindPreFlight",
    "pre_bind_steps": "PreBind",
    "run_bind_plugins": "Bind",
    "run_post_bind_plugins": "PostBind",
}
"""Method of a framework to the extension point that it runs."""
_CALLS = {
    "pre_filter": "PreFilter",
    "add_pod": "PreFilterExtensionAddPod",
    "remove_pod": "PreFilterExtensionRemovePod",
    "filter": "Filter",
    "filter_all": "Filter",
    "post_filter": "PostFilter",
    "pre_score": "PreScore",
    "score": "Score",
    "score_all": "Score",
    "normalize_score": "ScoreExtensionNormalize",
    "reserve": "Reserve",
    "unreserve": "Unreserve",
    "permit": "Permit",
    "pre_bind_pre_flight": "PreBindPreFlight",
    "pre_bind": "PreBind",
    "bind": "Bind",
    "post_bind": "PostBind",
}
"""Method of a plugin to its extension point."""
EVALUATED = frozenset({"PreFilter", "Filter", "PreScore", "Score"})
"""The extension points whose calls are counted."""


def _code(answer: object) -> str:
    """Return the name of the code of a run or a call."""
    if isinstance(answer, PreFilterRun):
        answer = answer.rejection
    parts = answer if isinstance(answer, tuple) else (answer,)
    status = next((part for part in parts if isinstance(part, Status)), None)
    return str(Code.SUCCESS if status is None else status.code)


# ---- scheduler metrics -------------------------------------------------------------------------------------

MOST_ATTEMPTS = 15
"""More have the label ``15+``."""
PREEMPTION = "DefaultPreemption"


def exponential_buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return the upper bounds of a histogram, as Prometheus' Go client makes them.

    Parameters
    ----------
    start, factor : float
        The first bound, and the ratio of each to the one before.
    """
    bounds = [start]
    for _ in range(count - 1):
        bounds.append(bounds[-1] * factor)
    return tuple(map(float, bounds))


def _counter(name: str, text: str, labels: Sequence[str] = ()) -> Counter:
    return Counter(name, text, labels, registry=None)


def _histogram(name: str, text: str, buckets: Sequence[float], labels: Sequence[str] = ()) -> Histogram:
    return Histogram(name, text, labels, registry=None, buckets=buckets)


def _gauge(name: str, text: str, labels: Sequence[str], values: Mapping[Any, int]) -> Metric:
    """Return a gauge, with its values by their labels, or by their label where there is one."""
    family = GaugeMetricFamily(name, text, labels=labels)
    for of_value, number in values.items():
        family.add_metric([of_value] if isinstance(of_value, str) else of_value, number)
    return family


class SchedulerMetrics:
    """Counts and times the attempts of a scheduler's runs, and renders all metrics.

    Pods that are placed together share the time of their run equally. What is undone by a transaction stays
    counted.

    Parameters
    ----------
    handle : FrameworkHandle
        Of the scheduler, which reports here from now on.
    engines : sequence of Engine
        They and their plugins report here, too.

    Attributes
    ----------
    registry : CollectorRegistry
        Of prometheus_client; its ``get_sample_value`` returns a value of a metric.
    """

    def __init__(self, handle: FrameworkHandle, queue: SchedulingQueue, engines: Sequence[Engine]) -> None:
        self._cycles = 0
        self._handle, self._queue, self._cache = handle, queue, handle.cache
        self._incoming = self._queue.count_incoming()
        self._began: dict[str, float] = {}  # by UID, of attempts that are not yet counted
        self._share = 0.0  # seconds of each pod of the run before
        self._profiles = [engine.profile.scheduler_name for engine in engines]
        self._only = self._profiles[0] if len(engines) == 1 else ""
        self._preempting = {
            engine.profile.scheduler_name
            for engine in engines
            if any(plugin.name == PREEMPTION for plugin in engine.profile.at(PostFilterPlugin))
        }
        self._make_attempt_metrics()
        self._make_framework_metrics()
        self.registry = CollectorRegistry()
        self.registry.register(self)
        handle.observer = self
        for engine in engines:
            engine.handle.observer = self
            self.follow(engine.framework)

    def _make_attempt_metrics(self) -> None:
        milliseconds = exponential_buckets(0.001, 2, 15)
        self._attempts = _counter(
            "scheduler_schedule_attempts_total",
            "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be "
            "scheduled, while 'error' means an internal scheduler problem.",
            ("result", "profile"),
        )
        self._attempt_durations = _histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Duration of an attempt, from the search for a node to the binding or the failure.",
            milliseconds,
            ("result", "profile"),
        )
        self._algorithm = _histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Duration of the search for a node, with PostFilter where there is none.",
            milliseconds,
        )
        self._pod_attempts = _histogram(
            "scheduler_pod_scheduling_attempts",
            "Number of attempts to successfully schedule a pod.",
            exponential_buckets(1, 2, 5),
        )
        self._durations = _histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and "
            "might involve multiple scheduling attempts.",
            exponential_buckets(0.01, 2, 20),
            ("attempts",),
        )
        self._flushed = _counter(
            "scheduler_pod_scheduled_after_flush_total",
            "Number of pods that were scheduled after a timer had moved them from the unschedulable pods.",
        )

    def _make_framework_metrics(self) -> None:
        self._points = _histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Duration of a run of all plugins of an extension point.",
            exponential_buckets(0.0001, 2, 12),
            ("extension_point", "status", "profile"),
        )
        self._executions = _histogram(
            "scheduler_plugin_execution_duration_seconds",
            "Duration of a call of a plugin, in every tenth cycle.",
            exponential_buckets(0.00001, 1.5, 20),
            ("plugin", "extension_point", "status"),
        )
        self._evaluations = _counter(
            "scheduler_plugin_evaluation_total",
            "Number of calls of plugins at PreFilter, Filter, PreScore and Score; a node is a call.",
            ("plugin", "extension_point", "profile"),
        )
        self._permits = _histogram(
            "scheduler_permit_wait_duration_seconds",
            "Duration of a pod's wait on Permit.",
            exponential_buckets(0.001, 2, 15),
            ("result",),
        )
        self._preemptions = _counter(
            "scheduler_preemption_attempts_total",
            "Number of pods that fitted nowhere and for which preemption was tried.",
        )
        self._victims = _histogram(
            "scheduler_preemption_victims",
            "Number of selected preemption victims",
            exponential_buckets(1, 2, 7),
        )

    @property
    def _own(self) -> tuple[MetricWrapperBase, ...]:
        """The metrics that are counted here."""
        attempts = self._attempts, self._attempt_durations, self._algorithm, self._pod_attempts
        plugins = self._points, self._executions, self._evaluations, self._permits
        flushed = (self._flushed,) if self._handle.release.counts_flushed else ()
        return (*attempts, self._durations, *flushed, *plugins, self._preemptions, self._victims)

    # ---- what runs report ----------------------------------------------------------------------------------

    def tried(self, count: int, seconds: float) -> None:
        """Note that nodes were searched for pods together."""
        self._share = seconds / count if count else 0.0
        _observe(self._algorithm, repeat(self._share, count))

    def begin(self, infos: Sequence[QueuedPodInfo], *, are_placed: bool = False) -> None:
        """Note the begin of attempts that end later, each with `scheduled`, `failed` or `forget`.

        Parameters
        ----------
        are_placed : bool, optional
            Whether they are pods of `tried`: their attempts have begun before their share of its time.
        """
        now = perf_counter() - (self._share if are_placed else 0.0)
        self._began.update((info.uid, now) for info in infos)

    def forget(self, uid: str) -> None:
        """Drop the begin of an attempt that does not count: others have bound or deleted the pod."""
        self._began.pop(uid, None)

    def scheduled(self, infos: Sequence[QueuedPodInfo]) -> None:
        """Count pods that were bound, or are certain to be."""
        for profile, count in self._by_profile(infos).items():
            self._attempts.labels("scheduled", profile).inc(count)
        self._observe_attempts(infos, "scheduled")
        attempts, since, flushed = attempts_of(list(infos))
        self._flushed.inc(flushed)
        _observe(self._pod_attempts, attempts.tolist())
        waited = self._queue.now() - since
        for number in np.unique(attempts).tolist() if len(infos) > 1 else attempts.tolist():
            label = str(number) if number < MOST_ATTEMPTS else f"{MOST_ATTEMPTS}+"
            of_label = waited[attempts == number]
            _observe(self._durations.labels(label), of_label[~np.isnan(of_label)].tolist())

    def failed(self, infos: Sequence[QueuedPodInfo], failures: Sequence[Failure]) -> None:
        """Count pods that could not be scheduled or bound.

        Parameters
        ----------
        failures : sequence of Failure
            One for each. Pods that fail alike share one object.
        """
        alike = grouped((id(failure), info) for info, failure in zip(infos, failures, strict=True))
        by_id = {id(failure): failure for failure in failures}
        for number, pods in alike.items():
            failure = by_id[number]
            result, tries = "error" if failure.is_error else "unschedulable", failure.diagnosis is not None
            for profile, count in self._by_profile(pods).items():
                self._attempts.labels(result, profile).inc(count)
                if tries and not failure.error and profile in self._preempting and pods[0].unit is None:
                    self._preemptions.inc(count)
            self._observe_attempts(pods, result)

    def preempted(self, *victims: int) -> None:
        """Count the pods that were evicted for others.

        Parameters
        ----------
        *victims : int
            The number of each other pod.
        """
        _observe(self._victims, victims)

    def _observe_attempts(self, infos: Sequence[QueuedPodInfo], result: str) -> None:
        """Observe the durations of attempts that end now."""
        if not self._began:
            for profile, count in self._by_profile(infos).items():
                _observe(self._attempt_durations.labels(result, profile), repeat(self._share, count))
            return
        now = perf_counter()
        for info in infos:
            began = self._began.pop(info.uid, now - self._share)
            self._attempt_durations.labels(result, self._profile(info)).observe(now - began)

    def _by_profile(self, infos: Sequence[QueuedPodInfo]) -> Mapping[str, int]:
        return {self._only: len(infos)} if self._only else Counts(map(self._profile, infos))

    def _profile(self, info: QueuedPodInfo) -> str:
        name = info.pod.spec.scheduler_name
        return name if name in self._profiles else self._profiles[0]

    # ---- what the framework reports to its observer; what the core decides is no call ---------------------

    def follow(self, framework: Framework) -> None:
        """Note the runs of the extension points of a framework from now on."""
        for method, point in _RUNS.items():
            timed = self._stepwise if method == "pre_bind_steps" else self._timed
            setattr(framework, method, timed(framework, point, getattr(framework, method)))

    def _timed(self, framework: Framework, point: str, run: Callable[..., Any]) -> Callable[..., Any]:
        profile, begins = framework.profile.scheduler_name, point == "PreFilter"

        def timed(*arguments: Any, **options: Any) -> Any:
            if begins:
                self._cycles += 1
            began = perf_counter()
            answer = run(*arguments, **options)
            self.point(point, _code(answer), profile, perf_counter() - began)
            return answer

        return timed

    def _stepwise(self, framework: Framework, point: str, run: Callable[..., Any]) -> Callable[..., Any]:
        profile = framework.profile.scheduler_name

        def timed(*arguments: Any, **options: Any) -> Generator[Any, None, Any]:
            began = perf_counter()
            answer = yield from run(*arguments, **options)
            self.point(point, _code(answer), profile, perf_counter() - began)
            return answer

        return timed

    def call(self, plugin: Plugin, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Call a method of a plugin.

        Returns
        -------
        object
            The result of the method.
        """
        name = function.__name__
        point = _CALLS.get(name)
        if point is None:
            return function(*arguments)
        if point in EVALUATED:
            count = len(arguments[-1]) if name.endswith("_all") else 1
            framework = plugin.handle.framework if plugin.handle is not None else None
            profile = "" if framework is None else framework.profile.scheduler_name
            self._evaluations.labels(plugin.name, point, profile).inc(count)
        if self._cycles % SAMPLED != 1:
            return function(*arguments)
        began, status = perf_counter(), str(Code.ERROR)
        try:
            answer = function(*arguments)
            status = _code(answer)
            return answer
        finally:
            self._executions.labels(plugin.name, point, status).observe(perf_counter() - began)

    def point(self, point: str, status: str, profile: str, seconds: float) -> None:
        """Note a run of an extension point, with the name of the code of its result."""
        self._points.labels(point, status, profile).observe(seconds)

    def algorithm(self, seconds: float) -> None:
        """Note the search for a node for one pod, with PostFilter."""
        self._algorithm.observe(seconds)

    def waited(self, status: str, seconds: float) -> None:
        """Note the end of a pod's wait on Permit, with the name of a code."""
        self._permits.labels(status).observe(seconds)

    # ---- rendering -----------------------------------------------------------------------------------------

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families (prometheus_client's interface of collectors)."""
        requests, failed = VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE, VOLUME_SCHEDULING_STAGE_FAILED
        yield from Shown(*self._own, requests, failed).collect()
        pending = self._queue.pending_pods()
        root = self._handle.shared(PodGroups).root
        # Those whose group, or one above it, does not exist. PreEnqueue rejects them; upstream does not ask.
        incomplete = [
            entity
            for entity in pending.gated
            if entity.unit and root(group_of(entity.pod) or entity.unit) is None
        ]
        if incomplete:
            pending = pending._replace(
                gated=[entity for entity in pending.gated if entity not in set(incomplete)]
            )
        yield self._pending(pending, len(incomplete))
        if self._handle.release.counts_entities:
            yield _entities(pending)
        yield self._entered()
        yield self._unschedulable(pending)
        counts = Counts(event.label for event, *_ in self._queue.in_flight_events())
        text = "Events that are kept for the pods that are being tried or bound."
        yield _gauge("scheduler_inflight_events", text, ["event"], dict(sorted(counts.items())))
        yield self._size()

    def text(self) -> bytes:
        """Render all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)

    def _pending(self, pending: PendingPods, incomplete: int) -> Metric:
        values = {queue: len(infos) for queue, infos in _queues(pending).items()}
        if self._handle.release.counts_entities:
            # Pending are pods that come during the attempt of their group.
            values |= {"incomplete": incomplete, "pending": 0}
        return _gauge(
            "scheduler_pending_pods", "Number of pending pods, by the queue type.", ["queue"], values
        )

    def _entered(self) -> Metric:
        family = CounterMetricFamily(
            "scheduler_queue_incoming_pods_total",
            "Number of pods that entered a queue, by queue and event.",
            labels=["queue", "event"],
        )
        for labels, count in sorted(self._incoming.copy().items()):
            family.add_metric(labels, count)
        return family

    def _unschedulable(self, pending: PendingPods) -> Metric:
        """Return how many waiting pods each plugin has rejected at their last attempt, or gates. That a pod
        has failed with its group is the work of no plugin."""
        counts = Counts(
            (plugin, self._profile(info))
            for infos in pending
            for info in infos
            for plugin in info.rejectors
            if not (info.unit and plugin == GangScheduling.name and infos is not pending.gated)
        )
        text = "Waiting pods that a plugin has rejected. A pod counts for each plugin that rejected it."
        return _gauge(
            "scheduler_unschedulable_pods", text, ["plugin", "profile"], dict(sorted(counts.items()))
        )

    def _size(self) -> Metric:
        cache = self._cache
        with cache.lock:
            state = cache.state
            sizes = {"nodes": state.tree.num_nodes, "pods": len(state.ledger)}
            sizes["assumed_pods"] = len(state.assumed_pods())
        text = "Nodes, pods and assumed pods in the cache. The pods include those that are assumed."
        return _gauge("scheduler_cache_size", text, ["type"], sizes)


def _queues(pending: PendingPods) -> dict[str, list[QueuedPodInfo]]:
    return {
        "active": pending.active,
        "backoff": pending.backoff + pending.error_backoff,
        "unschedulable": pending.unschedulable,
        "gated": pending.gated,
    }


def _entities(pending: PendingPods) -> Metric:
    """Return how many pods without a group, and how many groups, wait in each queue."""
    values = dict[tuple[str, str], int]()
    for queue, infos in _queues(pending).items():
        values[queue, "pod"] = sum(info.unit is None for info in infos)
        values[queue, "podgroup"] = len({info.unit for info in infos if info.unit is not None})
    text = "Number of queued pods that are in no pod group, and of queued pod groups, by the queue type."
    return _gauge("scheduler_queued_entities", text, ["queue", "type"], values)


def _observe(histogram: Histogram, values: Iterable[float]) -> None:
    for value in values:
        histogram.observe(value)
