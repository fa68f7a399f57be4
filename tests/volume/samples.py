"""Values of metrics of prometheus_client."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase
from tests.doors.engine import metrics


def value(metric: MetricWrapperBase, *labels: str, of: str = "_total") -> float:
    """What a metric shows under the values of its labels: the total, or ``_sum`` or ``_count``."""
    samples = [sample for family in metric.collect() for sample in family.samples]
    return sum(one.value for one in samples if one.name.endswith(of) and (*one.labels.values(),) == labels)


def fresh_registry(monkeypatch: pytest.MonkeyPatch) -> CollectorRegistry:
    """The default registry, in which nobody has registered anything."""
    registry = CollectorRegistry()
    for name, value in ("REGISTRY", registry), ("_registered", set[str]()):
        monkeypatch.setattr(metrics, name, value)
    return registry
