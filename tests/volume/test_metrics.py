"""The metrics of volume scheduling, as prometheus_client shows them."""

from __future__ import annotations

import math
import re
from threading import Thread

import pytest
from prometheus_client import generate_latest
from tests.doors.engine import metrics
from tests.volume.binding.binder_kit import BOUND, NODE1, PV_BOUND, Kit, pod
from tests.volume.samples import fresh_registry, value

from moorage.engine.volume import VOLUME_SCHEDULER_SUBSYSTEM, VolumeError


def test_names_and_texts_are_upstreams(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = fresh_registry(monkeypatch)
    assert VOLUME_SCHEDULER_SUBSYSTEM == "scheduler_volume"
    metrics.register_volume_scheduling_metrics()
    metrics.VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE.labels("add").inc()
    metrics.VOLUME_SCHEDULING_STAGE_FAILED.labels("bind").inc()
    metrics.VOLUME_SCHEDULING_STAGE_LATENCY.labels("bind").observe(1.0)
    text = generate_latest(registry).decode()
    for line in (
        "# HELP scheduler_volume_binder_cache_requests_total Total number for request volume binding cache",
        "# HELP scheduler_volume_scheduling_duration_seconds Volume scheduling stage latency",
        "# HELP scheduler_volume_scheduling_stage_error_total Volume scheduling stage error count",
        'scheduler_volume_binder_cache_requests_total{operation="add"} ',
        'scheduler_volume_scheduling_stage_error_total{operation="bind"} ',
    ):
        assert f"\n{line}" in f"\n{text}"
    bounds = [float(bound) for bound in re.findall(r'_seconds_bucket\{le="([^"]+)",operation="bind"', text)]
    assert bounds == [*(1000.0 * 2.0**step for step in range(15)), math.inf]
    assert "_created" not in text


def test_metrics_are_registered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = fresh_registry(monkeypatch)
    threads = [Thread(target=metrics.register_volume_scheduling_metrics) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert generate_latest(registry).count(b"# TYPE scheduler_volume_scheduling_duration_seconds ") == 1


def test_every_exit_is_measured_and_errors_are_counted() -> None:
    kit, stages = Kit(), ("predicate", "assume", "bind")

    def counts() -> tuple[list[float], list[float]]:
        measured = [value(metrics.VOLUME_SCHEDULING_STAGE_LATENCY, stage, of="_count") for stage in stages]
        return measured, [value(metrics.VOLUME_SCHEDULING_STAGE_FAILED, stage) for stage in stages]

    before = counts()
    kit.old.find_pod_volumes(pod(), NODE1)
    with pytest.raises(VolumeError):
        kit.old.find_pod_volumes(pod("gone"), NODE1)
    kit.fill(BOUND, PV_BOUND)
    kit.old.find_pod_volumes(pod(BOUND), NODE1)
    kit.old.assume_pod_volumes(pod(BOUND), "node1")
    with pytest.raises(VolumeError):
        kit.old.bind_pod_volumes(pod(BOUND))
    counted = [[b - a for a, b in zip(*pair, strict=True)] for pair in zip(before, counts(), strict=True)]
    assert counted == [[3, 1, 1], [1, 0, 1]]


def test_seconds_are_measured() -> None:
    kit, before = Kit(), value(metrics.VOLUME_SCHEDULING_STAGE_LATENCY, "bind", of="_sum")
    kit.fill(pod())
    kit.decisions.update_bindings(pod(), "node1", [], [])
    kit.old.bind_pod_volumes(pod())
    assert value(metrics.VOLUME_SCHEDULING_STAGE_LATENCY, "bind", of="_sum") == before + 1.0
