"""The little of prometheus_client that is used, as the library itself is optional."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from moorage.volume.binding import metrics


class Family:
    def __init__(self, name: str, help: str, labels: list[str]) -> None:
        self.name, self.help, self.labels = name, help, labels
        self.samples: list[Any] = []

    def add_metric(self, labels: list[str], *values: Any) -> None:
        self.samples.append((labels, *values))


class Registry:
    def __init__(self) -> None:
        self.collectors: list[Any] = []

    def register(self, collector: Any) -> None:
        assert collector not in self.collectors
        self.collectors.append(collector)


def fake_prometheus(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put it in place of the library, with a registry that nobody has registered anything in."""
    core: Any = ModuleType("prometheus_client.core")
    core.REGISTRY = Registry()
    core.CounterMetricFamily = core.HistogramMetricFamily = core.GaugeMetricFamily = Family
    monkeypatch.setitem(sys.modules, "prometheus_client", ModuleType("prometheus_client"))
    monkeypatch.setitem(sys.modules, "prometheus_client.core", core)
    monkeypatch.setattr(metrics, "_registered", [])
    return core
