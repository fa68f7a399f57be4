"""Metrics of the controller: numbers of claims and volumes, durations of operations.

Source: controller/volume/persistentvolume/metrics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from moorage.engine.volume.assume_cache import AssumeCache
from moorage.kube import Object, PersistentVolume, PersistentVolumeClaim

T = TypeVar("T", bound=Object)

NO_PLUGIN = "N/A"


class OperationTimes:
    """Start times of operations that end asynchronously.

    Parameters
    ----------
    clock : callable
        Returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._begun: dict[str, tuple[float, tuple[str, str]]] = {}

    def begin(self, key: str, plugin: str, operation: str) -> None:
        """Record the first attempt of an operation for an object; later attempts are ignored.

        Parameters
        ----------
        key : str
            Key of the claim or name of the volume.
        plugin : str
            Name of the plugin or driver; "" if unknown.
        operation : str
            ``provision`` or ``delete``.
        """
        self._begun.setdefault(key, (self._clock(), (plugin or NO_PLUGIN, operation)))

    def end(self, key: str) -> None:
        """Observe the duration of an object's operation.

        Parameters
        ----------
        key : str
            Key of the claim or name of the volume; unknown keys are ignored.
        """
        start = self._begun.pop(key, None)
        if start is not None:
            since, labels = start
            from moorage.engine.volume.metrics import VOLUME_OPERATION_SECONDS

            VOLUME_OPERATION_SECONDS.labels(*labels).observe(self._clock() - since)

    def forget(self, key: str) -> None:
        """Drop the operation of an object.

        Parameters
        ----------
        key : str
            Key of the claim or name of the volume; unknown keys are ignored.
        """
        self._begun.pop(key, None)

    def save(self) -> object:
        """Return the operations in progress, for `undo`."""
        return self._begun.copy()

    def undo(self, saved: Any) -> None:
        """Restore the operations of `save`; counters and histograms are not reset."""
        self._begun = saved.copy()

    @contextmanager
    def counting_failures(self, key: str) -> Iterator[None]:
        """Count an exception inside the context as a failure of the object's operation, and re-raise it.

        Parameters
        ----------
        key : str
            Key of the claim or name of the volume.
        """
        try:
            yield
        except Exception:
            if key in self._begun:
                from moorage.engine.volume.metrics import VOLUME_OPERATION_ERRORS

                VOLUME_OPERATION_ERRORS.labels(*self._begun[key][1]).inc()
            raise


class VolumeCounts:
    """Numbers of claims by namespace and of volumes by class, bound or not; a prometheus_client collector."""

    def __init__(
        self, volumes: AssumeCache[PersistentVolume], claims: AssumeCache[PersistentVolumeClaim]
    ) -> None:
        self._volumes = volumes
        self._claims = claims

    def counts(self) -> dict[str, Counter[str]]:
        """Return the values of the gauges: by name without subsystem, the count by label value."""
        values: dict[str, Counter[str]] = {name: Counter() for name in _GAUGES}
        for volume in _all(self._volumes):
            values[f"{_state(volume)}_pv_count"][volume.spec.storage_class_name] += 1
        for claim in _all(self._claims):
            is_bound = claim.status.phase == "Bound"
            values["bound_pvc_count" if is_bound else "unbound_pvc_count"][claim.namespace] += 1
        return values

    def collect(self) -> Iterator[Any]:
        """Yield the metric families (prometheus_client's interface of collectors)."""
        from prometheus_client.metrics_core import GaugeMetricFamily

        for name, counts in self.counts().items():
            what, label = _GAUGES[name]
            help = f"Gauge measuring number of {what}"
            family = GaugeMetricFamily(f"pv_collector_{name}", help, labels=[label])
            for value, count in sorted(counts.items()):
                family.add_metric([value], count)
            yield family

    def register(self) -> None:
        """Register these counts and the metrics of operations in prometheus_client's default registry.

        The counts of a second controller are not registered.
        """
        from moorage.engine.volume import metrics

        shown = metrics.Shown(metrics.VOLUME_OPERATION_SECONDS, metrics.VOLUME_OPERATION_ERRORS)
        metrics.register("controller", self, shown)


_GAUGES = {
    "bound_pv_count": ("persistent volume currently bound", "storage_class"),
    "unbound_pv_count": ("persistent volume currently unbound", "storage_class"),
    "failed_pv_count": ("persistent volume currently failed", "storage_class"),
    "bound_pvc_count": ("persistent volume claim currently bound", "namespace"),
    "unbound_pvc_count": ("persistent volume claim currently unbound", "namespace"),
}


def _state(volume: PersistentVolume) -> str:
    return {"Bound": "bound", "Failed": "failed"}.get(volume.status.phase, "unbound")


def _all(cache: AssumeCache[T]) -> Iterator[T]:
    return (obj for value in cache.index_values() for obj in cache.list_value(value))
