"""Metrics of a live scheduler beside those of every scheduler: whether it reads, goes on, and writes."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from ..client import ApiClient
from .writer import NOTHING, Writer, write_durations

WRITES = (
    *("pod_binding", "pod_status_patch", "pod_eviction"),
    *("pod_group_status_patch", "resource_claim_patch", "event"),
)
"""What is written; upstream's names where it has one."""


class LiveMetrics:
    """What a live scheduler tells of itself, and an extender, whose steps follow the cluster.

    Parameters
    ----------
    client : ApiClient
        Whose kinds are looked at, and whose clock measures.

    Attributes
    ----------
    durations : Histogram
        Of the writers, which are appended to `writers`.
    failed_steps : int
    """

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self.durations, self.writers = write_durations(), list[Writer]()
        self.failed_steps = 0
        self.has_stepped()

    def has_stepped(self) -> None:
        """Note that a step has ended well."""
        self._stepped = self._client.connection.clock()

    def since_step(self) -> float:
        """Return the seconds since the last step that has ended well."""
        return self._client.connection.clock() - self._stepped

    def unreadable(self) -> dict[str, float]:
        """Return for how many seconds each kind could not be read."""
        now = self._client.connection.clock()
        since = {one.kind: one.unreadable_since for one in self._client.reflectors}
        return {kind: 0.0 if at is None else now - at for kind, at in since.items()}

    def text(self) -> bytes:
        """Render these metrics alone in the text format of Prometheus."""
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families (prometheus_client's interface of collectors)."""
        yield from self.durations.collect()
        pending = [writer.pending() for writer in self.writers]
        by_write = {what: [one.get(what, NOTHING) for one in pending] for what in WRITES}
        in_flight = {what: sum(one.running for one in of) for what, of in by_write.items()}
        waiting = {what: sum(one.waiting for one in of) for what, of in by_write.items()}
        ages = {what: max((one.age for one in of), default=0.0) for what, of in by_write.items()}
        yield _gauge("moorage_writes_in_flight", "Writes that are not answered.", "call_type", in_flight)
        text = "Number of API calls currently pending in the async queue."
        yield _gauge("scheduler_pending_async_api_calls", text, "call_type", waiting)
        yield _gauge("moorage_oldest_write_seconds", "Age of the oldest write.", "call_type", ages)
        text = "For how long a kind could not be read; 0 while it can."
        yield _gauge("moorage_unreadable_kind_seconds", text, "kind", self.unreadable())
        text = "Steps of the scheduler that an error has broken off."
        yield CounterMetricFamily("moorage_failed_steps_total", text, value=self.failed_steps)
        text = "Time since the last step that has ended well."
        yield GaugeMetricFamily("moorage_last_step_seconds", text, value=self.since_step())


def _gauge(name: str, text: str, label: str, values: dict[str, int] | dict[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for value, number in values.items():
        family.add_metric([value], number)
    return family
