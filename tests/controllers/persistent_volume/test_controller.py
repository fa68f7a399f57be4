"""A controller that lives: what it hears, when it works, and its threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Any

import pytest
from msgspec.structs import replace
from tests.controllers.persistent_volume.controller_kit import (
    BBC,
    CHOSEN,
    DP,
    DP_EXTERNAL,
    NS,
    PLUGIN,
    ScriptedProvisioner,
    World,
    free,
    made_by,
    pv,
    pvc,
)
from tests.doors.engine import VOLUME_OPERATION_SECONDS
from tests.volume.samples import value

from moorage.objects import PersistentVolume, PersistentVolumeClaim
from moorage.store import ApiError
from moorage.volume import VolumeError

LIMIT = 60.0


def bound(policy: str = "Retain", *marks: dict[str, str]) -> tuple[PersistentVolume, PersistentVolumeClaim]:
    return pv("v", "1Gi", "uid", "c", "Bound", policy, "", BBC, *marks), pvc(
        "c", "uid", "1Gi", "v", "Bound", None, CHOSEN
    )


def phases(world: World) -> list[str]:
    volumes = [volume.status.phase for volume in world.volumes()]
    return volumes + [claim.status.phase for claim in world.claims()]


def test_a_claim_comes() -> None:
    """5-2"""
    world = World(free("v"))
    world.controller.settle()
    world.store.create(pvc("c", "uid", "1Gi"))
    world.controller.settle()
    assert (world.volumes(), world.claims()) == (
        [pv("v", "1Gi", "uid", "c", "Bound", "Retain", "", BBC)],
        [pvc("c", "uid", "1Gi", "v", "Bound", None, CHOSEN)],
    )


@pytest.mark.parametrize(
    ("policy", "marks", "then"),
    [("Retain", {}, ["Released"]), ("Delete", DP_EXTERNAL, ["Released"]), ("Delete", DP, [])],
    ids=["5-3 retain", "5-6 outside", "delete"],
)
def test_a_claim_goes(policy: str, marks: dict[str, str], then: list[str]) -> None:
    world = World(*bound(policy, marks))
    world.controller.settle()
    assert phases(world) == ["Bound", "Bound"]
    world.store.delete(PersistentVolumeClaim, "c", "default")
    world.controller.settle()
    assert phases(world) == then


def test_a_volume_goes() -> None:
    """5-4"""
    world = World(*bound())
    world.controller.settle()
    world.store.delete(PersistentVolume, "v")
    world.controller.settle()
    assert phases(world) == ["Lost"]
    assert [event.partition(" Bound")[0] for event in world.events()] == ["Warning ClaimLost"]


def test_a_claim_and_its_volume_can_go_at_once() -> None:
    """5-5"""
    world = World(*bound())
    world.controller.settle()
    world.store.delete(PersistentVolumeClaim, "c", "default")
    world.store.delete(PersistentVolume, "v")
    world.controller.settle()
    assert (phases(world), world.events()) == ([], [])


def test_nothing_is_done_before_the_informers_have_synced() -> None:
    world = World(free("v"), pvc("c", "uid", "1Gi"))
    assert world.controller.run_once() == 0
    assert world.controller.node_lister_synced() is False
    world.informers.run_once()
    assert world.controller.node_lister_synced() is True
    assert world.controller.node_lister.list() == []
    assert world.controller.run_once() > 0
    assert phases(world) == ["Bound", "Bound"]


def test_a_waiting_claim_is_looked_at_again_after_the_sync_period() -> None:
    world = World(pvc("c", "uid", "1Gi"))
    assert world.controller.next_due() == 1000.0
    world.controller.settle()
    events = len(world.events())
    assert world.controller.next_due() == 1015.0
    world.clock.now = 1014.9
    assert world.controller.run_once() == 0
    world.clock.now = 1015.0
    assert world.controller.run_once() == 1
    assert (len(world.events()), world.controller.next_due()) == (events + 1, 1030.0)


def test_a_controller_as_it_was_saved() -> None:
    """Beside one that was left alone: a claim without a volume, claims that it has heard of but not looked
    at, and news of one whose volume could not be made, which pauses. When it looks again, what it makes and
    which times it measures is as without what was undone."""

    def begun() -> World:
        world = World(pvc("c", "u1", "1Gi"), pvc("d", "u2", "1Gi", class_name="gold"))
        world.plugin.fail("provision")
        world.controller.settle()
        world.clock.now = 1000.2
        world.store.create(pvc("z", "u3", "1Gi", class_name="gold"))
        world.store.create(pvc("a", "u4", "1Gi", class_name="gold"))
        assert world.informers.run_once() == 2
        world.store.patch(PersistentVolumeClaim, "d", NS, {"metadata": {"labels": {"x": "y"}}})
        return world

    def seen(world: World) -> Any:
        due = world.controller.next_due()
        return (
            due,
            world.store.list(PersistentVolume),
            world.store.list(PersistentVolumeClaim),
            world.events(),
        )

    def go_on(world: World) -> list[Any]:
        found, measured = [seen(world)], value(VOLUME_OPERATION_SECONDS, PLUGIN, "provision", of="_sum")
        for now in (1000.2, 1014.9, 1015.0, 1030.0):
            world.clock.now = now
            world.controller.settle()
            found.append((seen(world), world.plugin.calls[2:]))
        return [*found, round(value(VOLUME_OPERATION_SECONDS, PLUGIN, "provision", of="_sum") - measured, 6)]

    one, twin = begun(), begun()
    saved, calls = one.controller.save(), one.plugin.calls.copy()
    for _ in range(2):
        mark = one.store.save()
        go_on(one)
        one.store.undo(mark)
        one.controller.undo(saved)
        one.clock.now, one.plugin.calls = 1000.2, calls.copy()
    assert go_on(one) == go_on(twin)
    assert [call for call, _ in one.plugin.calls].count("provision") == 4


def at_rest() -> World:
    world = World(*bound(), free("w"))
    world.controller.settle()
    assert phases(world) == ["Bound", "Available", "Bound"]
    return world


def resync(world: World) -> int:
    """How many objects the next resync looks at."""
    due = world.controller.next_due()
    assert due is not None
    world.clock.now = due
    return world.controller.run_once()


def test_a_resync_passes_over_objects_at_rest_until_one_has_changed() -> None:
    world = at_rest()
    assert (resync(world), resync(world)) == (0, 0)
    world.store.patch(PersistentVolume, "v", None, {"spec": {"accessModes": ["ReadOnlyMany"]}})
    world.controller.settle()  # looks at the volume alone
    assert [claim.status.access_modes for claim in world.claims()] == [("ReadWriteOnce",)]
    assert resync(world) == 3
    assert [claim.status.access_modes for claim in world.claims()] == [("ReadOnlyMany",)]
    world.controller.settle()
    assert (resync(world), resync(world)) == (3, 0)
    claim_of = {"claimRef": {"kind": "PersistentVolumeClaim", "namespace": NS, "name": "c", "uid": "other"}}
    world.store.patch(PersistentVolume, "v", None, {"spec": claim_of})
    world.controller.settle()  # looks at the volume alone
    assert phases(world)[-1] == "Bound"
    assert resync(world) == 3
    world.controller.settle()
    assert phases(world)[-1] == "Lost"
    assert resync(world) == 3  # a claim that is lost is looked at each time


def test_a_write_that_is_refused_in_a_resync_is_tried_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though all objects are bound or available."""
    world = at_rest()
    world.store.patch(PersistentVolume, "v", None, {"spec": {"accessModes": ["ReadOnlyMany"]}})
    world.controller.settle()

    def refuse(*_: Any, **__: Any) -> Any:
        raise ApiError("not now")

    with monkeypatch.context() as patched:
        patched.setattr(world.store, "patch", refuse)
        assert resync(world) == 3
    assert [claim.status.access_modes for claim in world.claims()] == [("ReadWriteOnce",)]
    assert resync(world) == 3
    assert [claim.status.access_modes for claim in world.claims()] == [("ReadOnlyMany",)]


@pytest.mark.parametrize(
    "waiting", [pvc("d", "u2", "1Gi", class_name="none"), pv("x", "1Gi", "u9", "gone", "Released")]
)
def test_a_resync_looks_at_all_objects_while_one_waits(waiting: Any) -> None:
    world = World(*bound(), waiting)
    world.controller.settle()
    assert resync(world) >= 3


def test_objects_at_rest_are_so_after_what_was_undone() -> None:
    world = at_rest()
    saved, mark = world.controller.save(), world.store.save()
    world.store.delete(PersistentVolume, "v")
    world.controller.settle()
    assert phases(world) == ["Available", "Lost"]
    world.store.undo(mark)
    world.controller.undo(saved)
    assert (phases(world), resync(world)) == (["Bound", "Available", "Bound"], 0)


def test_a_sync_period_of_zero_means_no_resyncs() -> None:
    world = World(pvc("c", "uid", "1Gi"), sync_period=0.0)
    world.controller.settle()
    assert world.controller.next_due() is None
    world.store.create(free("v"))
    world.informers.run_once()
    assert world.controller.next_due() == 1000.0


def test_plugins_that_cannot_be_used() -> None:
    class Broken(ScriptedProvisioner):
        def init(self, host: Any) -> None:
            raise OSError("no disk")

    start = "Could not initialize volume plugins for PersistentVolume Controller: "
    with pytest.raises(VolumeError) as raised:
        World(plugins=[Broken("a")])
    assert str(raised.value) == f"{start}no disk"
    with pytest.raises(VolumeError) as raised:
        World(plugins=[ScriptedProvisioner("a"), ScriptedProvisioner("a"), Broken("b")])
    assert str(raised.value) == f'{start}[volume plugin "a" was registered more than once, no disk]'


# ---- threads ----


class Watches:
    """Sets an event when a claim is in a phase."""

    def __init__(self, phase: str) -> None:
        self.phase = phase
        self.seen = Event()

    def on_add(self, obj: PersistentVolumeClaim, is_in_initial_list: bool) -> None:
        if obj.status.phase == self.phase:
            self.seen.set()

    def on_update(self, old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> None:
        self.on_add(new, False)

    def on_delete(self, obj: Any) -> None:
        pass


def test_run_binds_until_it_is_stopped() -> None:
    world = World(pvc("c", "uid", "1Gi", class_name="gold"))
    watches, stop = Watches("Bound"), Event()
    world.informers.informer(PersistentVolumeClaim).add_event_handler(watches)
    controller = Thread(target=world.controller.run, args=(stop,), daemon=True)
    controller.start()
    informers = world.informers.run(stop)
    assert watches.seen.wait(LIMIT)
    assert controller.is_alive()
    stop.set()
    for thread in (controller, *informers):
        thread.join(LIMIT)
        assert not thread.is_alive()
    assert world.claims() == [pvc("c", "uid", "1Gi", "pvc-uid", "Bound", "gold", made_by() | CHOSEN)]
    assert world.plugin.volumes == {"pvc-uid": 2**30}


class Loops:
    """A controller that runs in a thread, with informers that do; time passes on its clock."""

    def __init__(self, world: World) -> None:
        self.world, self.stop = world, Event()
        self.threads = [Thread(target=world.controller.run, args=(self.stop,), daemon=True)]

    def __enter__(self) -> Loops:
        self.threads[0].start()
        self.threads += self.world.informers.run(self.stop)
        return self

    def until(self, done: Callable[[], bool]) -> None:
        end = time.monotonic() + LIMIT
        while not done():
            assert self.threads[0].is_alive()
            assert time.monotonic() < end
            self.world.clock.now += 0.01

    def __exit__(self, *raised: object) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join(LIMIT)
            assert not thread.is_alive()


def test_run_works_on_volumes_and_on_claims() -> None:
    """A claim is gone, and another one is bound."""
    lost, _ = bound()
    with Loops(World(lost, free("w"), pvc("d", "uid-d", "1Gi"), sync_period=0.0)) as loops:
        loops.until(lambda: phases(loops.world) == ["Released", "Bound", "Bound"])


def test_run_looks_again_and_again() -> None:
    """A volume that comes after its claim was looked at is found when all claims are looked at again."""
    world = World(pvc("c", "uid", "1Gi"), sync_period=0.01)
    with Loops(world) as loops:
        loops.until(lambda: bool(world.events()))
        world.store.create(free("v"))
        loops.until(lambda: phases(world) == ["Bound", "Bound"])


def test_run_is_stopped_while_it_waits_for_the_informers() -> None:
    world = World(free("v"), pvc("c", "uid", "1Gi"))
    stop = Event()
    stop.set()
    world.controller.run(stop)
    assert phases(world) == ["Available", "Pending"]


def test_an_operation_in_a_thread_holds_up_nobody() -> None:
    """One claim's volume takes its time; another claim is bound meanwhile."""
    began, go_on = Event(), Event()

    class Slow(ScriptedProvisioner):
        def make(self, *args: Any) -> PersistentVolume:
            began.set()
            assert go_on.wait(LIMIT)
            return super().make(*args)

    world = World(pvc("slow", "u1", "1Gi", class_name="gold"), plugins=[Slow(PLUGIN)], sync_period=0.01)
    watches, stop = Watches("Bound"), Event()
    world.informers.informer(PersistentVolumeClaim).add_event_handler(watches)
    threads = [Thread(target=world.controller.run, args=(stop,), daemon=True)]
    threads[0].start()
    threads += world.informers.run(stop)
    assert began.wait(LIMIT)
    world.store.create(free("v"))
    world.store.create(pvc("quick", "u2", "1Gi"))
    while not watches.seen.is_set():  # a claim that was read before the volume waits for the next resync
        assert threads[0].is_alive()
        world.clock.now += 0.01
    assert [claim.status.phase for claim in world.claims()] == ["Bound", "Pending"]
    go_on.set()
    while any(claim.status.phase != "Bound" for claim in world.claims()):
        assert threads[0].is_alive()
        world.clock.now += 0.01
    stop.set()
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive()
    assert len(world.plugins[0].calls) == 2


def test_fewer_access_modes_go_before_smaller_volumes() -> None:
    """And the index follows a volume whose modes change."""
    both, once = ("ReadOnlyMany", "ReadWriteOnce"), ("ReadWriteOnce",)
    small, large = free("a", "1Gi", access_modes=both), free("b", "9Gi", access_modes=once)
    world = World(small, large, pvc("c", "uid", "1Gi"))
    world.controller.settle()
    assert phases(world) == ["Available", "Bound", "Bound"]
    world = World(small, large)
    world.controller.settle()
    volume = world.store.get(PersistentVolume, "b")
    world.store.update(replace(volume, spec=replace(volume.spec, access_modes=(*both, "ReadWriteMany"))))
    world.store.create(pvc("c", "uid", "1Gi"))
    world.controller.settle()
    assert phases(world) == ["Bound", "Available", "Bound"]


# ---- what goes wrong ----


def test_a_refused_synchronization_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The others go on."""
    wrong = pvc("a", "ua", "1Gi", "taken", "Pending", None, BBC)
    world = World(pv("taken", "1Gi", "other", "other", "Released"), wrong, free("v"), pvc("c", "uid", "1Gi"))
    world.controller.settle()
    text = 'Invalid binding of claim "default/a" to volume "taken": volume already claimed by "default/other"'
    assert f'could not sync claim "default/a": {text}' in caplog.messages
    assert [claim.status.phase for claim in world.claims()] == ["Pending", "Bound"]


def test_a_claim_that_went_while_nobody_watched() -> None:
    world = World(*bound())
    world.controller.settle()
    store = world.store
    lossy = world.informers.informer(PersistentVolumeClaim)
    store.delete(PersistentVolumeClaim, "c", "default")
    assert lossy._watch is not None
    lossy._watch.close()
    lossy._watch = None  # list again: a tombstone
    world.controller.settle()
    assert phases(world) == ["Released"]


def test_an_older_state_than_the_controller_s_own_is_not_looked_at() -> None:
    """Its own write is known to it before the informer tells."""
    world = World(free("v"), pvc("c", "uid", "1Gi"))
    world.informers.run_once()
    world.controller.run_once()
    writes = world.store.list(PersistentVolume)[1]
    for _ in range(3):  # the informers still show both as they were
        world.clock.now += 15.0
        assert world.controller.run_once() == 2
    assert world.store.list(PersistentVolume)[1] == writes
    assert (phases(world), world.events()) == (["Bound", "Bound"], [])
