"""Metrics of volume scheduling (scheduler_volume_*) and of the controller (volume_operation_*).

They are exported through prometheus_client.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import accumulate
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from moorage.errors import MoorageError
from moorage.volume.constants import VOLUME_SCHEDULER_SUBSYSTEM

OF_SCHEDULING = ("operation",)
OF_CONTROLLER = ("plugin_name", "operation_name")


class _Metric:
    """Name, help text and labels of a metric, which are upstream's.

    The subsystem is prepended to the name if the labels are `OF_SCHEDULING`.

    Parameters
    ----------
    name, help : str
        Upstream's. The subsystem is put in front of the name if the labels are `OF_SCHEDULING`.
    labels : tuple of str
        Names of the labels.
    """

    def __init__(self, name: str, help: str, labels: tuple[str, ...] = OF_SCHEDULING) -> None:
        self.name = f"{VOLUME_SCHEDULER_SUBSYSTEM}_{name}" if labels == OF_SCHEDULING else name
        self.help = help
        self.labels = labels
        self._lock = Lock()


class OperationCounter(_Metric):
    """A counter by label values; see `_Metric` for its parameters."""

    def __init__(self, name: str, help: str, labels: tuple[str, ...] = OF_SCHEDULING) -> None:
        super().__init__(name, help, labels)
        self._values: dict[tuple[str, ...], int] = {}

    def inc(self, *labels: str, by: int = 1) -> None:
        """Increment the counter of label values.

        Parameters
        ----------
        *labels : str
            Label values, in the order of the labels.
        """
        with self._lock:
            self._values[labels] = self._values.get(labels, 0) + by

    def value(self, *labels: str) -> int:
        """Return the counter of label values.

        Parameters
        ----------
        *labels : str
            Label values, in the order of the labels.
        """
        return self._values.get(labels, 0)

    def collect(self) -> Iterator[Any]:
        """Yield the metric family (prometheus_client's interface of collectors)."""
        family = prometheus().CounterMetricFamily(self.name, self.help, labels=list(self.labels))
        with self._lock:
            for labels, value in self._values.items():
                family.add_metric(list(labels), value)
        yield family


class OperationHistogram(_Metric):
    """A histogram by label values; see `_Metric` for the other parameters.

    Parameters
    ----------
    buckets : tuple of float
        Ascending upper bounds in seconds, without infinity.
    """

    def __init__(
        self, name: str, help: str, buckets: tuple[float, ...], labels: tuple[str, ...] = OF_SCHEDULING
    ) -> None:
        super().__init__(name, help, labels)
        self.buckets = buckets
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}

    def observe(self, value: float, *labels: str, times: int = 1) -> None:
        """Add a value to the histogram of label values.

        Parameters
        ----------
        value : float
            Duration in seconds.
        *labels : str
            Label values, in the order of the labels.
        times : int, optional
            How often the value was observed.
        """
        with self._lock:
            counts = self._counts.setdefault(labels, [0] * (len(self.buckets) + 1))
            counts[bisect_left(self.buckets, value)] += times
            self._sums[labels] = self._sums.get(labels, 0.0) + value * times

    def observe_all(self, values: npt.NDArray[Any], *labels: str) -> None:
        """Add values to the histogram of label values.

        Parameters
        ----------
        values : (n,) float64 or int64 array
        *labels : str
            Label values, in the order of the labels.
        """
        found = np.bincount(np.searchsorted(self.buckets, values), minlength=len(self.buckets) + 1)
        with self._lock:
            counts = self._counts.get(labels, [0] * len(found))
            self._counts[labels] = [one + more for one, more in zip(counts, found.tolist(), strict=True)]
            self._sums[labels] = self._sums.get(labels, 0.0) + float(values.sum())

    def sum(self, *labels: str) -> float:
        """Return the sum of the observed values in seconds.

        Parameters
        ----------
        *labels : str
            Label values, in the order of the labels.
        """
        return self._sums.get(labels, 0.0)

    def counts(self, *labels: str) -> tuple[int, ...]:
        """Return the number of values in each bucket, not cumulative; the last bucket is unbounded.

        Parameters
        ----------
        *labels : str
            Label values, in the order of the labels.
        """
        return tuple(self._counts.get(labels, [0] * (len(self.buckets) + 1)))

    def collect(self) -> Iterator[Any]:
        """Yield the metric family (prometheus_client's interface of collectors)."""
        family = prometheus().HistogramMetricFamily(self.name, self.help, labels=list(self.labels))
        bounds = [*map(str, self.buckets), "+Inf"]
        with self._lock:
            for labels, counts in self._counts.items():
                cumulative = zip(bounds, accumulate(counts), strict=True)
                pairs = [[bound, float(count)] for bound, count in cumulative]
                family.add_metric(list(labels), pairs, self._sums[labels])
        yield family


VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE = OperationCounter(
    "binder_cache_requests_total", "Total number for request volume binding cache"
)
"""Entries added (``add``) and pods removed (``delete``) in a `PodBindingCache`."""
VOLUME_SCHEDULING_STAGE_LATENCY = OperationHistogram(
    "scheduling_duration_seconds",
    "Volume scheduling stage latency",
    tuple(1000.0 * 2**step for step in range(15)),
)
"""Seconds of each ``predicate``, ``assume`` and ``bind``; upstream's bounds, meant for microseconds."""
VOLUME_SCHEDULING_STAGE_FAILED = OperationCounter(
    "scheduling_stage_error_total", "Volume scheduling stage error count"
)
"""Failures of ``predicate``, ``assume`` and ``bind``."""
VOLUME_OPERATION_SECONDS = OperationHistogram(
    "volume_operation_total_seconds",
    "Storage operation end to end duration in seconds",
    (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0),
    OF_CONTROLLER,
)
"""Seconds from the first attempt to ``provision`` until the claim is bound, and from the first attempt to
``delete`` until the volume is deleted."""
VOLUME_OPERATION_ERRORS = OperationCounter(
    "volume_operation_total_errors", "Total volume operation errors", OF_CONTROLLER
)
"""Failures of ``provision`` and ``delete``."""


@contextmanager
def counting_failures(operation: str) -> Iterator[None]:
    """Count an exception inside the context as a failure of a stage, and re-raise it.

    Parameters
    ----------
    operation : str
        ``predicate``, ``assume`` or ``bind``.
    """
    try:
        yield
    except Exception:
        VOLUME_SCHEDULING_STAGE_FAILED.inc(operation)
        raise


@contextmanager
def measuring(operation: str, clock: Callable[[], float]) -> Iterator[None]:
    """Observe the duration of a stage in seconds, also after an exception.

    Parameters
    ----------
    operation : str
        ``predicate``, ``assume`` or ``bind``.
    clock : callable
        Returns the time in seconds.
    """
    start = clock()
    try:
        yield
    finally:
        VOLUME_SCHEDULING_STAGE_LATENCY.observe(clock() - start, operation)


_registering = Lock()
_registered: list[tuple[object, str]] = []


def register_volume_scheduling_metrics() -> None:
    """Register the scheduling metrics in prometheus_client's default registry, once.

    Raises
    ------
    MoorageError
        prometheus_client is not installed.
    """
    register(
        "scheduling",
        VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE,
        VOLUME_SCHEDULING_STAGE_LATENCY,
        VOLUME_SCHEDULING_STAGE_FAILED,
    )


def register(what: str, *collectors: object) -> None:
    """Register collectors in prometheus_client's default registry, once for each group.

    Parameters
    ----------
    what : str
        Name of the group of collectors.
    *collectors : object
        Collectors of prometheus_client.

    Raises
    ------
    MoorageError
        prometheus_client is not installed.
    """
    registry = prometheus().REGISTRY
    with _registering:
        if (registry, what) not in _registered:
            for collector in collectors:
                registry.register(collector)
            _registered.append((registry, what))


def prometheus() -> Any:
    """Return the module prometheus_client.

    Raises
    ------
    MoorageError
        prometheus_client is not installed.
    """
    try:
        return import_module("prometheus_client.core")
    except ImportError as error:
        raise MoorageError("the metrics need prometheus_client: pip install 'moorage[metrics]'") from error
