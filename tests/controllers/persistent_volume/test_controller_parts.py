"""The controller's queue, its operations, and the plugin in memory."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

import pytest
from tests.controllers.persistent_volume.controller_kit import Clock, ScriptedProvisioner, free, pvc
from tests.doors.controllers import (
    DeletableVolumePlugin,
    Operations,
    ProvisionableVolumePlugin,
    RecyclableVolumePlugin,
    VolumeOptions,
    WorkQueue,
)
from tests.doors.engine import reaches_node

from moorage.objects import (
    Node,
    ObjectMeta,
    PersistentVolume,
    TopologySelectorLabelRequirement,
    TopologySelectorTerm,
)
from moorage.volume import VolumeError

LIMIT = 60.0
ZONE = "topology.kubernetes.io/zone"


# ---- queue ----


def test_a_key_waits_once() -> None:
    queue = WorkQueue()
    for key in "aba":
        queue.add(key)
    assert len(queue) == 2
    assert [queue.take(), queue.take(), queue.take()] == ["a", "b", None]


def test_a_queue_as_it_was_saved() -> None:
    queue = WorkQueue()
    for key in "ba":
        queue.add(key)
    saved = queue.save()
    for _ in range(2):
        assert queue.take() == "b"
        for key in "cb":
            queue.add(key)
        queue.undo(saved)
    assert [queue.take(), queue.take(), queue.take()] == ["b", "a", None]


# ---- operations ----


def test_the_pause_doubles() -> None:
    clock = Clock()
    operations, attempts = Operations(clock), []

    def work() -> Iterator[float]:
        attempts.append(clock.now)
        raise VolumeError("no")

    pauses = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 122.0, 122.0]
    for pause in pauses:
        assert operations.run("a", work)
        clock.now += pause
        assert not operations.run("a", work)
        clock.now += 0.001
    assert len(attempts) == len(pauses)
    assert operations.run("b", lambda: ())
    assert operations.run("b", lambda: ())
    assert operations.run("a", lambda: ())
    assert operations.run("a", work)
    clock.now += 0.501
    assert operations.run("a", work)


def test_an_operation_that_waits_is_running() -> None:
    clock = Clock()
    operations, seen = Operations(clock), []

    def work() -> Iterator[float]:
        seen.append("begins")
        yield 10.0
        seen.append("goes on")

    assert operations.next_due() is None
    assert operations.run("a", work)
    assert (operations.run("a", work), operations.is_running("a")) == (False, True)
    assert (operations.next_due(), operations.run_due()) == (1010.0, 0)
    clock.now = 1010.0
    assert (operations.run_due(), operations.next_due(), operations.is_running("a")) == (1, None, False)
    assert seen == ["begins", "goes on"]


def test_operations_as_they_were_saved() -> None:
    """One has failed and pauses, one waits, and one goes on after `save`; each goes on as it would have."""
    clock = Clock()
    operations, seen = Operations(clock), []

    def fails() -> Iterator[float]:
        raise VolumeError("no")

    def waits(name: str, seconds: float) -> Iterator[float]:
        yield seconds
        seen.append(name)

    assert operations.run("fails", fails)
    assert operations.run("late", lambda: waits("late", 10.0))
    assert operations.run("soon", lambda: waits("soon", 1.0))
    saved = operations.save()
    for _ in range(2):
        clock.now = 1001.0
        operations.run_due()
        assert operations.run("fails", fails)
        assert operations.run("new", lambda: waits("new", 0.5))
        clock.now = 1000.1
        operations.undo(saved)
        running = [operations.is_running(name) for name in ("fails", "late", "soon", "new")]
        assert running == [False, True, False, False]
        assert not operations.run("fails", lambda: ())
        assert operations.next_due() == 1010.0
    clock.now = 1010.0
    assert operations.run_due() == 1
    assert seen == ["soon", "late"]


def test_operations_in_threads() -> None:
    operations, stop, began, go_on, done = Operations(Clock()), Event(), Event(), Event(), Event()
    operations.use_threads(stop)

    def work() -> Iterator[float]:
        began.set()
        assert go_on.wait(LIMIT)
        yield 0.0
        done.set()

    assert operations.run("a", work)
    assert began.wait(LIMIT)
    assert not operations.run("a", work)
    go_on.set()
    assert done.wait(LIMIT)


# ---- plugin ----


def make(plugin: ScriptedProvisioner, node: Node | None = None, *zones: str) -> PersistentVolume:
    terms: tuple[TopologySelectorTerm, ...] = ()
    if zones:
        label = TopologySelectorLabelRequirement(key=ZONE, values=zones)
        terms = (TopologySelectorTerm(match_label_expressions=(label,)),)
    options = VolumeOptions("v", pvc("c", "uid", "1Gi"), "Delete")
    return plugin.new_provisioner(options).provision(node, terms)


def test_what_the_plugin_is() -> None:
    plugin = ScriptedProvisioner("p")
    for kind in (ProvisionableVolumePlugin, DeletableVolumePlugin, RecyclableVolumePlugin):
        assert isinstance(plugin, kind)
    assert plugin.can_support(make(plugin))
    assert not plugin.can_support(free("v"))


@pytest.mark.parametrize(
    ("node", "keys", "zones", "reaches"),
    [
        (None, (), (), {"a", "b"}),
        (None, (ZONE,), ("a",), {"a"}),
        ("a", (), ("a",), {"a", "b"}),
        ("a", (ZONE,), ("a", "b"), {"a"}),
        ("a", ("other",), (), {"a", "b"}),
    ],
)
def test_where_a_volume_can_be_used(
    node: str | None, keys: tuple[str, ...], zones: tuple[str, ...], reaches: set[str]
) -> None:
    on = Node(metadata=ObjectMeta(name="n", labels={ZONE: node})) if node else None
    volume = make(ScriptedProvisioner("p", topology_keys=keys), on, *zones)
    assert {zone for zone in ("a", "b") if reaches_node(volume, {ZONE: zone})} == reaches


def test_what_the_plugin_refuses() -> None:
    plugin = ScriptedProvisioner("p", capacity=2**30)
    node = Node(metadata=ObjectMeta(name="n", labels={ZONE: "c"}))
    with pytest.raises(VolumeError, match=r'^node "n" is not in the allowed topologies$'):
        make(plugin, node, "a", "b")
    make(plugin)
    with pytest.raises(VolumeError, match=r"^not enough capacity$"):
        make(plugin)
    plugin.new_deleter(free("v")).delete()
    plugin.fail("provision", "broken", 2)
    for _ in range(2):
        with pytest.raises(VolumeError, match=r"^broken$"):
            make(plugin)
    assert make(plugin).name == "v"
