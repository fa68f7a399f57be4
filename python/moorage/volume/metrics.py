"""Metrics of volume scheduling (scheduler_volume_*): counted here, shown by prometheus_client."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import Lock
from typing import Any

from moorage.errors import MoorageError

from .constants import VOLUME_SCHEDULER_SUBSYSTEM


class OperationCounter:
    """A counter with the label ``operation``.

    Parameters
    ----------
    name, help : str
        Upstream's, without and with the subsystem in front.
    """

    def __init__(self, name: str, help: str) -> None:
        self.name = f"{VOLUME_SCHEDULER_SUBSYSTEM}_{name}"
        self.help = help
        self._lock = Lock()
        self._values: dict[str, int] = {}

    def inc(self, operation: str) -> None:
        """Count one."""
        with self._lock:
            self._values[operation] = self._values.get(operation, 0) + 1

    def value(self, operation: str) -> int:
        """How many there were."""
        return self._values.get(operation, 0)

    def collect(self) -> Iterator[Any]:
        """As prometheus_client asks of a collector."""
        family = _prometheus().CounterMetricFamily(self.name, self.help, labels=["operation"])
        with self._lock:
            for operation, value in self._values.items():
                family.add_metric([operation], value)
        yield family


class OperationHistogram:
    """A histogram with the label ``operation``; parameters as for `OperationCounter`.

    Parameters
    ----------
    buckets : tuple of float
        The upper bounds, ascending, without the infinite one.
    """

    def __init__(self, name: str, help: str, buckets: tuple[float, ...]) -> None:
        self.name = f"{VOLUME_SCHEDULER_SUBSYSTEM}_{name}"
        self.help = help
        self.buckets = buckets
        self._lock = Lock()
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}

    def observe(self, operation: str, value: float) -> None:
        """Count one value."""
        with self._lock:
            counts = self._counts.setdefault(operation, [0] * (len(self.buckets) + 1))
            counts[bisect_left(self.buckets, value)] += 1
            self._sums[operation] = self._sums.get(operation, 0.0) + value

    def count(self, operation: str) -> int:
        """How many values there were."""
        return sum(self._counts.get(operation, ()))

    def sum(self, operation: str) -> float:
        """Their sum."""
        return self._sums.get(operation, 0.0)

    def counts(self, operation: str) -> tuple[int, ...]:
        """How many values fell into each bucket, the last being the infinite one; not cumulative."""
        return tuple(self._counts.get(operation, [0] * (len(self.buckets) + 1)))

    def collect(self) -> Iterator[Any]:
        """As prometheus_client asks of a collector."""
        family = _prometheus().HistogramMetricFamily(self.name, self.help, labels=["operation"])
        bounds = [*(f"{bound:.1f}" for bound in self.buckets), "+Inf"]
        with self._lock:
            for operation, counts in self._counts.items():
                rising = [sum(counts[: place + 1]) for place in range(len(counts))]
                pairs = [[bound, float(count)] for bound, count in zip(bounds, rising, strict=True)]
                family.add_metric([operation], pairs, self._sums[operation])
        yield family


VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE = OperationCounter(
    "binder_cache_requests_total", "Total number for request volume binding cache"
)
"""Entries made (``add``) and pods dropped (``delete``) in a `PodBindingCache`."""
VOLUME_SCHEDULING_STAGE_LATENCY = OperationHistogram(
    "scheduling_duration_seconds",
    "Volume scheduling stage latency",
    tuple(1000.0 * 2**step for step in range(15)),
)
"""Seconds of each ``predicate``, ``assume`` and ``bind``. The bounds are upstream's, as for microseconds."""
VOLUME_SCHEDULING_STAGE_FAILED = OperationCounter(
    "scheduling_stage_error_total", "Volume scheduling stage error count"
)
"""Failures of ``predicate``, ``assume`` and ``bind``."""


@contextmanager
def counting_failures(operation: str) -> Iterator[None]:
    """Count it if the stage fails."""
    try:
        yield
    except Exception:
        VOLUME_SCHEDULING_STAGE_FAILED.inc(operation)
        raise


@contextmanager
def measuring(operation: str, clock: Callable[[], float]) -> Iterator[None]:
    """Note how long the stage takes, in seconds on `clock`, however it ends."""
    start = clock()
    try:
        yield
    finally:
        VOLUME_SCHEDULING_STAGE_LATENCY.observe(operation, clock() - start)


_registering = Lock()
_registered: list[object] = []


def register_volume_scheduling_metrics() -> None:
    """Show the metrics in prometheus_client's default registry; again is once.

    Raises
    ------
    MoorageError
        prometheus_client is not installed.
    """
    registry = _prometheus().REGISTRY
    with _registering:
        if registry not in _registered:
            registry.register(VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE)
            registry.register(VOLUME_SCHEDULING_STAGE_LATENCY)
            registry.register(VOLUME_SCHEDULING_STAGE_FAILED)
            _registered.append(registry)


def _prometheus() -> Any:
    try:
        return import_module("prometheus_client.core")
    except ImportError as error:
        raise MoorageError(
            "the metrics need prometheus_client: install the extra moorage[metrics]"
        ) from error
