"""Metrics of a scheduler, with the names, labels and buckets of kube-scheduler v1.36.

prometheus_client takes long to import, so `measure` imports this module.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter as Counts
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from moorage._core.queue.in_flight import attempts_of
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


class Observer(ABC):
    """Is told of the runs of extension points and the calls of plugins of a scheduler.

    It is that of a handle (`FrameworkHandle.observer`). What the core decides by itself is no call.
    """

    def __init__(self) -> None:
        self._cycles = 0

    @abstractmethod
    def point(self, point: str, status: str, profile: str, seconds: float) -> None:
        """Note a run of an extension point.

        Parameters
        ----------
        point, status, profile : str
            Names of the extension point, of the code of its result, and of the profile.
        """

    @abstractmethod
    def evaluated(self, plugin: str, point: str, profile: str, count: int) -> None:
        """Note calls of a plugin at one of `EVALUATED`.

        Parameters
        ----------
        count : int
            The number of nodes at Filter and Score, else 1.
        """

    @abstractmethod
    def executed(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Note the duration of a call of a plugin, in a cycle whose plugins are timed."""

    @abstractmethod
    def algorithm(self, seconds: float) -> None:
        """Note the search for a node for one pod, with PostFilter."""

    @abstractmethod
    def waited(self, status: str, seconds: float) -> None:
        """Note the end of a pod's wait on Permit.

        Parameters
        ----------
        status : str
            Name of the code with which it ended.
        """

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
            self.evaluated(plugin.name, point, profile, count)
        if self._cycles % SAMPLED != 1:
            return function(*arguments)
        began, status = perf_counter(), str(Code.ERROR)
        try:
            answer = function(*arguments)
            status = _code(answer)
            return answer
        finally:
            self.executed(plugin.name, point, status, perf_counter() - began)


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


class SchedulerMetrics(Observer):
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
        super().__init__()
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
        self._attempts = Counter(
            "scheduler_schedule_attempts_total",
            "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be "
            "scheduled, while 'error' means an internal scheduler problem.",
            ("result", "profile"),
            registry=None,
        )
        self._attempt_durations = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Duration of an attempt, from the search for a node to the binding or the failure.",
            ("result", "profile"),
            registry=None,
            buckets=milliseconds,
        )
        self._algorithm = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Duration of the search for a node, with PostFilter where there is none.",
            (),
            registry=None,
            buckets=milliseconds,
        )
        self._pod_attempts = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Number of attempts to successfully schedule a pod.",
            (),
            registry=None,
            buckets=exponential_buckets(1, 2, 5),
        )
        self._durations = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and "
            "might involve multiple scheduling attempts.",
            ("attempts",),
            registry=None,
            buckets=exponential_buckets(0.01, 2, 20),
        )
        self._flushed = Counter(
            "scheduler_pod_scheduled_after_flush_total",
            "Number of pods that were scheduled after a timer had moved them from the unschedulable pods.",
            (),
            registry=None,
        )

    def _make_framework_metrics(self) -> None:
        self._points = Histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Duration of a run of all plugins of an extension point.",
            ("extension_point", "status", "profile"),
            registry=None,
            buckets=exponential_buckets(0.0001, 2, 12),
        )
        self._executions = Histogram(
            "scheduler_plugin_execution_duration_seconds",
            "Duration of a call of a plugin, in every tenth cycle.",
            ("plugin", "extension_point", "status"),
            registry=None,
            buckets=exponential_buckets(0.00001, 1.5, 20),
        )
        self._evaluations = Counter(
            "scheduler_plugin_evaluation_total",
            "Number of calls of plugins at PreFilter, Filter, PreScore and Score; a node is a call.",
            ("plugin", "extension_point", "profile"),
            registry=None,
        )
        self._permits = Histogram(
            "scheduler_permit_wait_duration_seconds",
            "Duration of a pod's wait on Permit.",
            ("result",),
            registry=None,
            buckets=exponential_buckets(0.001, 2, 15),
        )
        self._preemptions = Counter(
            "scheduler_preemption_attempts_total",
            "Number of pods that fitted nowhere and for which preemption was tried.",
            (),
            registry=None,
        )
        self._victims = Histogram(
            "scheduler_preemption_victims",
            "Number of selected preemption victims",
            (),
            registry=None,
            buckets=exponential_buckets(1, 2, 7),
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
        _observe(self._algorithm, self._share, count)

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
        _observe_all(self._pod_attempts, attempts)
        waited = self._queue.now() - since
        for number in np.unique(attempts).tolist() if len(infos) > 1 else attempts.tolist():
            label = str(number) if number < MOST_ATTEMPTS else f"{MOST_ATTEMPTS}+"
            of_label = waited[attempts == number]
            _observe_all(self._durations.labels(label), of_label[~np.isnan(of_label)])

    def failed(self, infos: Sequence[QueuedPodInfo], failures: Sequence[Failure]) -> None:
        """Count pods that could not be scheduled or bound.

        Parameters
        ----------
        failures : sequence of Failure
            One for each. Pods that fail alike share one object.
        """
        alike: dict[int, list[QueuedPodInfo]] = {}
        for info, failure in zip(infos, failures, strict=True):
            alike.setdefault(id(failure), []).append(info)
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
        for number in victims:
            self._victims.observe(number)

    def _observe_attempts(self, infos: Sequence[QueuedPodInfo], result: str) -> None:
        """Observe the durations of attempts that end now."""
        if not self._began:
            for profile, count in self._by_profile(infos).items():
                _observe(self._attempt_durations.labels(result, profile), self._share, count)
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

    # ---- what the framework reports; see `Observer` --------------------------------------------------------

    def algorithm(self, seconds: float) -> None:
        self._algorithm.observe(seconds)

    def point(self, point: str, status: str, profile: str, seconds: float) -> None:
        self._points.labels(point, status, profile).observe(seconds)

    def evaluated(self, plugin: str, point: str, profile: str, count: int) -> None:
        self._evaluations.labels(plugin, point, profile).inc(count)

    def executed(self, plugin: str, point: str, status: str, seconds: float) -> None:
        self._executions.labels(plugin, point, status).observe(seconds)

    def waited(self, status: str, seconds: float) -> None:
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
        yield self._inflight()
        yield self._size()

    def text(self) -> bytes:
        """Render all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)

    def _pending(self, pending: PendingPods, incomplete: int) -> Metric:
        family = GaugeMetricFamily(
            "scheduler_pending_pods", "Number of pending pods, by the queue type.", labels=["queue"]
        )
        family.add_metric(["active"], len(pending.active))
        family.add_metric(["backoff"], len(pending.backoff) + len(pending.error_backoff))
        family.add_metric(["unschedulable"], len(pending.unschedulable))
        family.add_metric(["gated"], len(pending.gated))
        if self._handle.release.counts_entities:
            family.add_metric(["incomplete"], incomplete)
            family.add_metric(["pending"], 0)  # pods that come during the attempt of their group
        return family

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
        family = GaugeMetricFamily(
            "scheduler_unschedulable_pods",
            "Waiting pods that a plugin has rejected. A pod counts for each plugin that rejected it.",
            labels=["plugin", "profile"],
        )
        counts = Counts(
            (plugin, self._profile(info))
            for infos in pending
            for info in infos
            for plugin in info.rejectors
            if not (info.unit and plugin == GangScheduling.name and infos is not pending.gated)
        )
        for labels, count in sorted(counts.items()):
            family.add_metric(labels, count)
        return family

    def _inflight(self) -> Metric:
        family = GaugeMetricFamily(
            "scheduler_inflight_events",
            "Events that are kept for the pods that are being tried or bound.",
            labels=["event"],
        )
        counts = Counts(event.label for event, *_ in self._queue.in_flight_events())
        for label, count in sorted(counts.items()):
            family.add_metric([label], count)
        return family

    def _size(self) -> Metric:
        family = GaugeMetricFamily(
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


def _entities(pending: PendingPods) -> Metric:
    """Return how many pods without a group, and how many groups, wait in each queue."""
    family = GaugeMetricFamily(
        "scheduler_queued_entities",
        "Number of queued pods that are in no pod group, and of queued pod groups, by the queue type.",
        labels=["queue", "type"],
    )
    queues = {
        "active": pending.active,
        "backoff": pending.backoff + pending.error_backoff,
        "unschedulable": pending.unschedulable,
        "gated": pending.gated,
    }
    for queue, infos in queues.items():
        groups = {info.unit for info in infos if info.unit is not None}
        family.add_metric([queue, "pod"], sum(info.unit is None for info in infos))
        family.add_metric([queue, "podgroup"], len(groups))
    return family


def _observe(histogram: Histogram, value: float, times: int) -> None:
    for _ in range(times):
        histogram.observe(value)


def _observe_all(histogram: Histogram, values: npt.NDArray[Any]) -> None:
    for value in values.tolist():
        histogram.observe(value)
