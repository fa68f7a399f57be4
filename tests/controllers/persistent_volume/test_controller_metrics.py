"""Metrics of the controller."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from tests.controllers.persistent_volume.controller_kit import (
    DP,
    DP_EXTERNAL,
    EXTERNAL,
    PLUGIN,
    World,
    free,
    pv,
    pvc,
)
from tests.doors.engine import VOLUME_OPERATION_ERRORS as ERRORS
from tests.doors.engine import VOLUME_OPERATION_SECONDS as SECONDS
from tests.doors.engine import metrics
from tests.volume.samples import value

from moorage.objects import PersistentVolume, PersistentVolumeClaim


class Counted:
    """What is counted from here on, of one plugin and operation: (ends, seconds, failures)."""

    def __init__(self, plugin: str, operation: str) -> None:
        self.labels = plugin, operation
        self.before = self.all()

    def all(self) -> tuple[float, ...]:
        seconds = [value(SECONDS, *self.labels, of=of) for of in ("_count", "_sum")]
        return *seconds, value(ERRORS, *self.labels)

    def __call__(self) -> tuple[float, ...]:
        return tuple(now - was for now, was in zip(self.all(), self.before, strict=True))


def test_how_many_there_are() -> None:
    claims = [pvc("c", "u1", "1Gi"), pvc("d", "u2", "9Gi")]
    world = World(*claims, free("v"), free("w", class_name="x"), pv("f", "1Gi", "u", "gone", "Failed"))
    world.controller.settle()
    assert world.controller.counts.counts() == {
        "bound_pv_count": {"": 1},
        "unbound_pv_count": {"x": 1},
        "failed_pv_count": {"": 1},
        "bound_pvc_count": {"default": 1},
        "unbound_pvc_count": {"default": 1},
    }


def test_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = CollectorRegistry()
    monkeypatch.setattr(metrics, "REGISTRY", registry)
    monkeypatch.setattr(metrics, "_registered", set())
    first, second = (World(free("v")).controller for _ in range(2))
    first.settle()
    first.counts.register()
    second.counts.register()
    SECONDS.labels("p", "delete").observe(1.0)
    ERRORS.labels("p", "delete").inc()
    text = generate_latest(registry).decode()
    shown = (
        "# HELP pv_collector_unbound_pv_count Gauge measuring number of persistent volume currently unbound\n"
    )
    assert shown in text
    assert 'pv_collector_unbound_pv_count{storage_class=""} 1.0' in text
    labels = {"plugin_name": "p", "operation_name": "delete"}
    assert registry.get_sample_value("volume_operation_total_seconds_count", labels) >= 1
    assert registry.get_sample_value("volume_operation_total_errors_total", labels) >= 1
    assert "_created" not in text


def test_provisioning_ends_when_the_claim_is_bound() -> None:
    counted = Counted(PLUGIN, "provision")
    world = World(pvc("c", "uid", "1Gi", class_name="gold"))
    world.plugin.fail("provision")
    world.controller.settle()
    assert counted() == (0, 0, 1)
    world.clock.now += 15.0
    world.controller.settle()
    assert counted() == (1, 15, 1)


def test_a_volume_made_outside_counts_for_who_makes_it() -> None:
    counted = Counted(EXTERNAL, "provision")
    world = World(pvc("c", "uid", "1Gi", class_name="external"))
    world.controller.settle()
    world.clock.now += 30.0
    world.store.create(free("v", class_name="external"))
    world.controller.settle()
    assert counted() == (1, 30, 0)


def test_a_claim_that_goes_before_its_volume_comes_is_not_counted() -> None:
    counted = Counted(EXTERNAL, "provision")
    world = World(pvc("c", "uid", "1Gi", class_name="external"))
    world.controller.settle()
    world.store.delete(PersistentVolumeClaim, "c", "default")
    world.controller.settle()
    world.clock.now += 15.0
    world.store.create(pvc("c", "other", "1Gi", class_name=""))
    world.store.create(free("v"))
    world.controller.settle()
    assert counted() == (0, 0, 0)


def test_a_deletion_ends_when_the_volume_is_gone() -> None:
    counted = Counted(PLUGIN, "delete")
    world = World(pv("v", "1Gi", "uid", "gone", "Bound", "Delete", "", DP))
    world.plugin.fail("delete")
    world.controller.settle()
    assert counted() == (0, 0, 1)
    world.clock.now += 15.0
    world.controller.settle()
    assert world.volumes() == []
    assert counted() == (1, 15, 1)


@pytest.mark.parametrize(("marks", "plugin"), [(DP_EXTERNAL, EXTERNAL), ({}, "N/A")])
def test_a_volume_that_somebody_else_deletes(marks: dict[str, Any], plugin: str) -> None:
    counted = Counted(plugin, "delete")
    world = World(pv("v", "1Gi", "uid", "gone", "Bound", "Delete", "", marks))
    world.controller.settle()
    failures = counted()[2]
    world.clock.now += 5.0
    world.store.delete(PersistentVolume, "v")
    world.controller.settle()
    assert counted() == (1, 5, failures)
