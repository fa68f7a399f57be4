"""The metrics of volume scheduling: counted without prometheus_client, shown with it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import prometheus_client
import pytest
from tests.volume.binding.binder_kit import (
    BOUND,
    NODE1,
    PV_BOUND,
    Kit,
    pod,
)
from tests.volume.prometheus_kit import fake_prometheus

from moorage.errors import MoorageError
from moorage.volume import (
    VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE,
    VOLUME_SCHEDULER_SUBSYSTEM,
    VOLUME_SCHEDULING_STAGE_FAILED,
    VOLUME_SCHEDULING_STAGE_LATENCY,
    VolumeError,
    register_volume_scheduling_metrics,
)
from moorage.volume.binding.metrics import OperationCounter, OperationHistogram


def test_the_names_of_the_metrics_are_upstreams() -> None:
    assert VOLUME_SCHEDULER_SUBSYSTEM == "scheduler_volume"
    names = [
        VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE.name,
        VOLUME_SCHEDULING_STAGE_LATENCY.name,
        VOLUME_SCHEDULING_STAGE_FAILED.name,
    ]
    assert names == [
        "scheduler_volume_binder_cache_requests_total",
        "scheduler_volume_scheduling_duration_seconds",
        "scheduler_volume_scheduling_stage_error_total",
    ]
    helps = [
        VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE.help,
        VOLUME_SCHEDULING_STAGE_LATENCY.help,
        VOLUME_SCHEDULING_STAGE_FAILED.help,
    ]
    assert helps == [
        "Total number for request volume binding cache",
        "Volume scheduling stage latency",
        "Volume scheduling stage error count",
    ]
    assert VOLUME_SCHEDULING_STAGE_LATENCY.buckets == tuple(1000.0 * 2.0**step for step in range(15))


def test_each_value_is_counted_in_its_bucket_and_in_the_sum() -> None:
    histogram = OperationHistogram("name", "help", (1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 3.0):
        histogram.observe(value, "bind")
    assert histogram.counts("bind") == (2, 1, 1)
    assert histogram.sum("bind") == 6.0
    assert (histogram.sum("assume"), histogram.counts("assume")) == (0.0, (0, 0, 0))


def test_every_exit_is_measured_and_errors_are_counted() -> None:
    kit, latency, failed = Kit(), VOLUME_SCHEDULING_STAGE_LATENCY, VOLUME_SCHEDULING_STAGE_FAILED
    stages = ("predicate", "assume", "bind")
    before = [sum(latency.counts(stage)) for stage in stages], [failed.value(stage) for stage in stages]
    kit.old.find_pod_volumes(pod(), NODE1)
    with pytest.raises(VolumeError):
        kit.old.find_pod_volumes(pod("gone"), NODE1)
    kit.fill(BOUND, PV_BOUND)
    kit.old.find_pod_volumes(pod(BOUND), NODE1)
    kit.old.assume_pod_volumes(pod(BOUND), "node1")
    with pytest.raises(VolumeError):
        kit.old.bind_pod_volumes(pod(BOUND))
    after = [sum(latency.counts(stage)) for stage in stages], [failed.value(stage) for stage in stages]
    counted = [[b - a for a, b in zip(*pair, strict=True)] for pair in zip(before, after, strict=True)]
    assert counted == [[3, 1, 1], [1, 0, 1]]


def test_seconds_are_measured() -> None:
    kit, before = Kit(), VOLUME_SCHEDULING_STAGE_LATENCY.sum("bind")
    kit.fill(pod())
    kit.decisions.update_bindings(pod(), "node1", [], [])
    kit.old.bind_pod_volumes(pod())
    assert VOLUME_SCHEDULING_STAGE_LATENCY.sum("bind") == before + 1.0


@pytest.fixture
def prometheus(monkeypatch: pytest.MonkeyPatch) -> Any:
    return fake_prometheus(monkeypatch)


def test_registering_twice_is_once(prometheus: Any) -> None:
    register_volume_scheduling_metrics()
    register_volume_scheduling_metrics()
    assert prometheus.REGISTRY.collectors == [
        VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE,
        VOLUME_SCHEDULING_STAGE_LATENCY,
        VOLUME_SCHEDULING_STAGE_FAILED,
    ]


def test_what_is_shown(prometheus: Any) -> None:
    counter = OperationCounter("things_total", "Things")
    counter.inc("add")
    (family,) = counter.collect()
    assert (family.name, family.help, family.labels) == (
        "scheduler_volume_things_total",
        "Things",
        ["operation"],
    )
    assert family.samples == [(["add"], 1)]
    histogram = OperationHistogram("times", "Times", (1.0, 2.0))
    for value in (0.5, 1.5, 3.0):
        histogram.observe(value, "bind")
    (family,) = histogram.collect()
    assert family.samples == [(["bind"], [["1.0", 1.0], ["2.0", 2.0], ["+Inf", 3.0]], 5.0)]


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.setitem(sys.modules, "prometheus_client.core", None)
    with pytest.raises(MoorageError, match=r"pip install 'moorage\[metrics\]'$"):
        register_volume_scheduling_metrics()


def test_the_library_itself() -> None:
    registry = prometheus_client.CollectorRegistry()
    registry.register(VOLUME_SCHEDULING_STAGE_LATENCY)
    registry.register(VOLUME_SCHEDULING_STAGE_FAILED)
    VOLUME_SCHEDULING_STAGE_FAILED.inc("bind")
    VOLUME_SCHEDULING_STAGE_LATENCY.observe(1.0, "bind")
    text = prometheus_client.generate_latest(registry).decode()
    assert 'scheduler_volume_scheduling_stage_error_total{operation="bind"}' in text
    assert 'scheduler_volume_scheduling_duration_seconds_bucket{le="1000.0",operation="bind"}' in text


def test_several_observations_at_once() -> None:
    values = [0.5, 1.0, 1.0, 1.5, 2.0, 7.0]
    each, together = (OperationHistogram("h", "help", (1.0, 2.0)) for _ in range(2))
    for value in values:
        each.observe(value, "a")
    together.observe_all(np.array(values), "a")
    assert together.counts("a") == each.counts("a") == (3, 2, 1)
    assert together.sum("a") == each.sum("a") == 13.0
    together.observe(1.5, "a", times=3)
    together.observe_all(np.array([]), "a")
    assert together.counts("a") == (3, 5, 1)
    assert together.sum("a") == 17.5
    counter = OperationCounter("c", "help")
    counter.inc("a", by=3)
    counter.inc("a")
    assert counter.value("a") == 4
