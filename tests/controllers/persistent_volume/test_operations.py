"""Operations on volumes: when they begin, pause, go on and are undone; what happens around provisioning and
reclaiming beside the rows of `tables.txt`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import pytest
from msgspec.structs import replace
from tests.controllers.persistent_volume.controller_kit import (
    PLUGIN,
    Clock,
    ScriptedProvisioner,
    World,
    objects,
    pv,
    pvc,
)
from tests.doors.controllers import InMemoryProvisioner, Operations, VolumeOptions, WorkQueue
from tests.doors.engine import reaches_node
from tests.make import ZONE
from tests.make import node as make_node

from moorage.engine.volume import VolumeError
from moorage.kube import (
    PersistentVolume,
    PersistentVolumeClaim,
    TopologySelectorLabelRequirement,
    TopologySelectorTerm,
)
from moorage.store import AlreadyExistsError, ApiError, ObjectStore

LIMIT = 60.0
GOLD = "c 1Gi class=gold"
ASKED = f"{GOLD} asks=mock"
MADE = "pvc-uid 1Gi Bound to=c/uid Delete class=gold bbc made-by=mock csi"
RELEASED = "v 1Gi Released to=c/uid bbc"

# ---- queue and operations ----


def test_a_key_waits_once_also_in_a_queue_as_it_was_saved() -> None:
    queue = WorkQueue()
    for key in "bab":
        queue.add(key)
    assert len(queue) == 2
    saved = queue.save()
    for _ in range(2):
        assert queue.take() == "b"
        for key in "cb":
            queue.add(key)
        queue.undo(saved)
    assert [queue.take(), queue.take(), queue.take()] == ["b", "a", None]


def fails() -> Iterator[float]:
    raise VolumeError("no")


def test_the_pause_doubles() -> None:
    clock = Clock()
    operations = Operations(clock)
    for pause in (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 122.0, 122.0):
        assert operations.run("a", fails)
        clock.now += pause
        assert not operations.run("a", fails)
        clock.now += 0.001
    assert operations.run("b", lambda: ())
    assert operations.run("b", lambda: ())
    assert operations.run("a", lambda: ())
    assert operations.run("a", fails)
    clock.now += 0.501
    assert operations.run("a", fails)


def test_operations_as_they_were_saved() -> None:
    """One has failed and pauses, one waits, and one goes on after `save`; each goes on as it would have."""
    clock = Clock()
    operations, seen = Operations(clock), []

    def waits(name: str, seconds: float) -> Iterator[float]:
        yield seconds
        seen.append(name)

    assert operations.run("fails", fails)
    assert operations.next_due() is None
    for name, seconds in (("late", 10.0), ("soon", 1.0)):
        assert operations.run(name, lambda name=name, seconds=seconds: waits(name, seconds))
    assert (operations.run("soon", fails), operations.next_due(), operations.run_due()) == (False, 1001.0, 0)
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
    assert (operations.run_due(), operations.is_running("late")) == (1, False)
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


# ---- provisioning ----


class Client:
    """A client whose first creations fail with these errors; `before_get` is done before a volume is read."""

    def __init__(self, store: ObjectStore, *errors: Exception) -> None:
        self._store = store
        self._errors = list(errors)
        self.before_get: Callable[[], object] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(self, *key: Any) -> Any:
        act, self.before_get = self.before_get, None
        if act is not None:
            act()
        return self._store.get(*key)

    def create(self, obj: PersistentVolume) -> PersistentVolume:
        if self._errors:
            raise self._errors.pop(0)
        return self._store.create(obj)


REFUSED = [ApiError("Mock creation error")] * 5
SUCCEEDED = f"Normal ProvisioningSucceeded Successfully provisioned volume pvc-uid using {PLUGIN}"
GAVE_UP = (
    "Warning ProvisioningFailed Error creating provisioned PV object for claim default/c: "
    "Mock creation error. Deleting the volume."
)
LEFT = "Warning ProvisioningCleanupFailed Error cleaning provisioned volume for claim default/c: {}. "
LEFT += "Please delete manually."


class CannotDelete:
    """A plugin that makes volumes alone."""

    def __init__(self) -> None:
        whole = ScriptedProvisioner()
        self.name, self.init, self.can_support = whole.name, whole.init, whole.can_support
        self.supports_mount_option, self.new_provisioner = whole.supports_mount_option, whole.new_provisioner


@pytest.mark.parametrize(
    ("errors", "deletions", "volumes", "events"),
    [
        (REFUSED[:1], 0, MADE, [SUCCEEDED]),
        (REFUSED, 0, "", [GAVE_UP]),
        (REFUSED, None, "", [GAVE_UP, LEFT.format("no deletable volume plugin matched")]),
        (REFUSED, 5, "", [GAVE_UP, LEFT.format("Mock deletion error")]),
        (REFUSED, 1, "", [GAVE_UP]),
        ([REFUSED[0], AlreadyExistsError("there")], 0, "", [SUCCEEDED]),
    ],
    ids=[
        "11-8 one creation",
        "11-9 all",
        "11-10 no deleter",
        "11-11 all deletions",
        "11-12 one",
        "11-19 lost",
    ],
)
def test_a_volume_that_cannot_be_written_is_deleted_and_tried_again(
    errors: list[Exception], deletions: int | None, volumes: str, events: list[str]
) -> None:
    """`deletions` fail; None is a plugin that cannot delete."""
    plugins = [CannotDelete()] if deletions is None else None
    world = World(GOLD, plugins=plugins, client=lambda store: Client(store, *errors), sync_period=0.0)
    world.plugin.fail("delete", "Mock deletion error", deletions or 0)
    world.settle()
    assert world.events() == []
    while (due := world.controller.next_due()) is not None:
        world.clock.now = due
        world.controller.run_once()
    world.check(f"{volumes}; {ASKED}")
    assert world.events() == events
    assert ("pvc-uid" in world.plugin.volumes) == (SUCCEEDED in events or deletions == 5)


def test_a_volume_that_was_made_meanwhile() -> None:
    """11-7"""
    world = World(GOLD, client=Client)
    controller = world.begin()
    world.client.before_get = lambda: world.store.create_many(objects(MADE))
    controller.sync_claim(world.store.get(PersistentVolumeClaim, "c", "default"))
    world.check(f"{MADE}; {ASKED}")
    assert (world.events(), world.plugin.calls) == ([], [])


def test_what_the_plugin_is_told() -> None:
    """Upstream's names of the tags, which mark the real volume in a cloud."""
    seen: list[VolumeOptions] = []

    class Listens(ScriptedProvisioner):
        def new_provisioner(self, options: VolumeOptions) -> Any:
            seen.append(options)
            return super().new_provisioner(options)

    World(GOLD, plugins=[Listens()]).settle()
    (options,) = seen
    assert (options.pv_name, options.pvc.key, options.cluster_name) == ("pvc-uid", "default/c", "cluster")
    assert options.persistent_volume_reclaim_policy == "Delete"
    assert options.cloud_tags == {
        "kubernetes.io/created-for/pvc/namespace": "default",
        "kubernetes.io/created-for/pvc/name": "c",
        "kubernetes.io/created-for/pv/name": "pvc-uid",
    }


@pytest.mark.parametrize(("to", "marks"), [("", "bbc"), ("to=c", "")], ids=["12-2 free", "12-4 bound"])
def test_a_volume_made_outside_is_bound(to: str, marks: str) -> None:
    """And until it comes (12-3), the claim waits."""
    waiting = "c 1Gi class=external asks=external"
    world = World("c 1Gi class=external")
    for _ in range(3):
        world.settle(15.0)
    world.check(waiting)
    world.store.create(pv(f"v 1Gi Available Delete class=external {to}"))
    world.settle(15.0)
    world.check(f"v 1Gi Bound Delete class=external to=c/uid {marks}; {waiting} of=v Bound chosen")


def test_a_failed_operation_is_left_alone_for_a_while() -> None:
    """The pause doubles; nothing but the next synchronization tries again."""
    world = World(GOLD, sync_period=0.4)
    world.plugin.fail("provision", times=3)
    world.settle()
    attempts = []
    for _ in range(12):
        due = world.controller.next_due()
        assert due is not None
        world.clock.now = due
        world.settle()
        attempts.append(sum(call == "provision" for call, _ in world.plugin.calls))
    assert (attempts[0], attempts[-1]) == (1, 4)
    assert world.phases() == ["Bound", "Bound"]


def make(plugin: InMemoryProvisioner, node: str = "", *zones: str) -> PersistentVolume:
    """A volume for a node in a zone, of a class that allows zones."""
    label = TopologySelectorLabelRequirement(key=ZONE, values=zones)
    terms = (TopologySelectorTerm(match_label_expressions=(label,)),) if zones else ()
    on = make_node("n", zone=node) if node else None
    return plugin.new_provisioner(VolumeOptions("v", pvc("c 1Gi"), "Delete")).provision(on, terms)


@pytest.mark.parametrize(
    ("node", "keys", "zones", "reaches"),
    [
        ("", (), (), "ab"),
        ("", (ZONE,), "a", "a"),
        ("a", (), "a", "ab"),
        ("a", (ZONE,), "ab", "a"),
        ("a", ("other",), (), "ab"),
    ],
)
def test_where_a_volume_in_memory_can_be_used(
    node: str, keys: tuple[str, ...], zones: str, reaches: str
) -> None:
    provisioned = make(InMemoryProvisioner("p", topology_keys=keys), node, *zones)
    assert "".join(zone for zone in "ab" if reaches_node(provisioned, {ZONE: zone})) == reaches


def test_what_a_plugin_in_memory_refuses() -> None:
    plugin = InMemoryProvisioner("p")
    with pytest.raises(VolumeError, match=r'^node "n" is not in the allowed topologies$'):
        make(plugin, "c", "a", "b")
    provisioned = make(plugin)
    assert (plugin.can_support(provisioned), plugin.can_support(pv("v 1Gi"))) == (True, False)
    plugin.new_deleter(provisioned).delete()
    assert plugin.volumes == {}


# ---- reclaiming ----


def available(world: World) -> None:
    held = world.store.get(PersistentVolume, "v")
    new = replace(held.status, phase="Available")
    world.store.update(replace(held, spec=replace(held.spec, claim_ref=None), status=new))


@pytest.mark.parametrize("policy", ["Recycle", "Delete"])
@pytest.mark.parametrize("is_gone", [True, False], ids=["6-6, 8-6 gone", "6-7, 6-8 available"])
def test_what_happens_before_an_operation(policy: str, is_gone: bool) -> None:
    world = World(f"{RELEASED} {policy}", client=Client)

    def change() -> None:
        if is_gone:
            world.store.delete(PersistentVolume, "v")
        else:
            available(world)

    world.client.before_get = change
    world.settle()
    assert world.phases() == ["Available"] * (not is_gone)
    assert (world.plugin.calls, world.events()) == ([], [])


def test_a_claim_that_appears_before_the_deletion() -> None:
    """8-7"""
    world = World(f"{RELEASED} Delete", client=Client)
    bound = pvc("c 10Gi of=v Bound chosen")
    world.client.before_get = lambda: world.controller._writer.claims.add(bound)
    world.informers.run_once()
    world.controller.run_once()
    world.check(f"{RELEASED} Delete")
    assert world.plugin.calls == []


@pytest.mark.parametrize("deleting", ["", "deleting"])
def test_the_real_volume_goes_unless_the_volume_is_being_deleted(deleting: str) -> None:
    """8-13"""
    world = World(f"{RELEASED} Delete made-by=mock {deleting}")
    world.plugin.volumes["v"] = 2**30
    world.settle()
    assert (len(world.plugin.volumes), len(world.volumes())) == ((1, 1) if deleting else (0, 0))
