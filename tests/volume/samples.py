"""Values of metrics of prometheus_client."""

from __future__ import annotations

from prometheus_client.metrics import MetricWrapperBase


def value(metric: MetricWrapperBase, *labels: str, of: str = "_total") -> float:
    """What a metric shows under the values of its labels: the total, or ``_sum`` or ``_count``."""
    samples = [sample for family in metric.collect() for sample in family.samples]
    return sum(one.value for one in samples if one.name.endswith(of) and (*one.labels.values(),) == labels)
