"""Metrics of volume scheduling (scheduler_volume_*) and of the controller (volume_operation_*).

prometheus_client takes long to import, so those that count seldom import this module where they count.
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock

from prometheus_client import REGISTRY, Counter, Histogram
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from .claims import VOLUME_SCHEDULER_SUBSYSTEM

__all__ = [
    "VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE",
    "VOLUME_OPERATION_ERRORS",
    "VOLUME_OPERATION_SECONDS",
    "VOLUME_SCHEDULING_STAGE_FAILED",
    "VOLUME_SCHEDULING_STAGE_LATENCY",
    "register_volume_scheduling_metrics",
]

VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE = Counter(
    "binder_cache_requests_total",
    "Total number for request volume binding cache",
    ["operation"],
    subsystem=VOLUME_SCHEDULER_SUBSYSTEM,
    registry=None,
)
"""Entries added (``add``) and pods removed (``delete``) in a `PodBindingCache`."""
VOLUME_SCHEDULING_STAGE_LATENCY = Histogram(
    "scheduling_duration_seconds",
    "Volume scheduling stage latency",
    ["operation"],
    subsystem=VOLUME_SCHEDULER_SUBSYSTEM,
    registry=None,
    buckets=[1000.0 * 2**step for step in range(15)],
)
"""Seconds of each ``predicate``, ``assume`` and ``bind``; upstream's bounds, meant for microseconds."""
VOLUME_SCHEDULING_STAGE_FAILED = Counter(
    "scheduling_stage_error_total",
    "Volume scheduling stage error count",
    ["operation"],
    subsystem=VOLUME_SCHEDULER_SUBSYSTEM,
    registry=None,
)
"""Failures of ``predicate``, ``assume`` and ``bind``."""
VOLUME_OPERATION_SECONDS = Histogram(
    "volume_operation_total_seconds",
    "Storage operation end to end duration in seconds",
    ["plugin_name", "operation_name"],
    registry=None,
    buckets=(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0),
)
"""Seconds from the first attempt to ``provision`` until the claim is bound, and from the first attempt to
``delete`` until the volume is deleted."""
VOLUME_OPERATION_ERRORS = Counter(
    "volume_operation_total_errors",
    "Total volume operation errors",
    ["plugin_name", "operation_name"],
    registry=None,
)
"""Failures of ``provision`` and ``delete``."""


class Shown(Collector):
    """Shows metrics without the times at which they were made, as Prometheus' Go client does."""

    def __init__(self, *metrics: MetricWrapperBase) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families."""
        for metric in self._metrics:
            for family in metric.collect():
                family.samples = [value for value in family.samples if not value.name.endswith("_created")]
                yield family


_registering = Lock()
_registered: set[str] = set()


def register_volume_scheduling_metrics() -> None:
    """Register the scheduling metrics in prometheus_client's default registry, once."""
    latency, failed = VOLUME_SCHEDULING_STAGE_LATENCY, VOLUME_SCHEDULING_STAGE_FAILED
    register("scheduling", Shown(VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE, latency, failed))


def register(what: str, *collectors: Collector) -> None:
    """Register collectors in prometheus_client's default registry, once for each name of a group."""
    with _registering:
        if what not in _registered:
            for collector in collectors:
                REGISTRY.register(collector)
            _registered.add(what)
