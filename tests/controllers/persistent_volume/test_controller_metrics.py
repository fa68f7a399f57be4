"""Metrics of the controller."""

from __future__ import annotations

import pytest
from prometheus_client import generate_latest
from tests.controllers.persistent_volume.controller_kit import EXTERNAL, PLUGIN, World, pv, pvc
from tests.doors.engine import VOLUME_OPERATION_ERRORS as ERRORS
from tests.doors.engine import VOLUME_OPERATION_SECONDS as SECONDS
from tests.volume.samples import fresh_registry, value

from moorage.kube import PersistentVolume, PersistentVolumeClaim


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
    world = World("c 1Gi; c2 9Gi; v 1Gi Available; w 1Gi Available class=x; f 1Gi Failed to=gone/u")
    world.settle()
    assert world.controller.counts.counts() == {
        "bound_pv_count": {"": 1},
        "unbound_pv_count": {"x": 1},
        "failed_pv_count": {"": 1},
        "bound_pvc_count": {"default": 1},
        "unbound_pvc_count": {"default": 1},
    }


def test_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = fresh_registry(monkeypatch)
    first, second = (World("v 1Gi Available") for _ in range(2))
    first.settle()
    first.controller.counts.register()
    second.controller.counts.register()
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
    counted, world = Counted(PLUGIN, "provision"), World("c 1Gi class=gold")
    world.plugin.fail("provision")
    world.settle()
    assert counted() == (0, 0, 1)
    world.settle(15.0)
    assert counted() == (1, 15, 1)


def test_a_volume_made_outside_counts_for_who_makes_it() -> None:
    counted, world = Counted(EXTERNAL, "provision"), World("c 1Gi class=external")
    world.settle()
    world.store.create(pv("v 1Gi Available class=external"))
    world.settle(30.0)
    assert counted() == (1, 30, 0)


def test_a_claim_that_goes_before_its_volume_comes_is_not_counted() -> None:
    counted, world = Counted(EXTERNAL, "provision"), World("c 1Gi class=external")
    world.settle()
    world.store.delete(PersistentVolumeClaim, "c", "default")
    world.settle()
    world.store.create(pvc("c 1Gi uid=other class="))
    world.store.create(pv("v 1Gi Available"))
    world.settle(15.0)
    assert counted() == (0, 0, 0)


def test_a_deletion_ends_when_the_volume_is_gone() -> None:
    counted, world = Counted(PLUGIN, "delete"), World("v 1Gi Bound to=gone/uid Delete made-by=mock")
    world.plugin.fail("delete")
    world.settle()
    assert counted() == (0, 0, 1)
    world.settle(15.0)
    assert (world.volumes(), counted()) == ([], (1, 15, 1))


@pytest.mark.parametrize(("mark", "plugin"), [("made-by=external", EXTERNAL), ("", "N/A")])
def test_a_volume_that_somebody_else_deletes(mark: str, plugin: str) -> None:
    counted, world = Counted(plugin, "delete"), World(f"v 1Gi Bound to=gone/uid Delete {mark}", plugins=[])
    world.settle()
    failures = counted()[2]
    world.clock.now += 5.0
    world.store.delete(PersistentVolume, "v")
    world.settle()
    assert counted() == (1, 5, failures)
