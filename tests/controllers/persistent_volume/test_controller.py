"""A controller that lives: what it hears, when it works, and its threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Any

import pytest
from msgspec.structs import replace
from tests.controllers.persistent_volume.controller_kit import NS, PLUGIN, ScriptedProvisioner, World, pv, pvc
from tests.doors.engine import VOLUME_OPERATION_SECONDS
from tests.volume.samples import value

from moorage.engine.volume import VolumeError
from moorage.kube import PersistentVolume, PersistentVolumeClaim
from moorage.store import ApiError, ObjectStore

LIMIT = 60.0
BOUND = "v 1Gi Bound to=c/uid bbc; c 1Gi of=v Bound chosen"
FREE = "v 1Gi Available; c 1Gi"


@pytest.mark.parametrize(
    ("words", "then"),
    [("Retain", ["Released"]), ("Delete made-by=external", ["Released"]), ("Delete made-by=mock", [])],
    ids=["5-3 retain", "5-6 outside", "delete"],
)
def test_a_claim_goes(words: str, then: list[str]) -> None:
    world = World(BOUND.replace("bbc", f"bbc {words}"))
    world.settle()
    assert world.phases() == ["Bound", "Bound"]
    world.store.delete(PersistentVolumeClaim, "c", NS)
    world.settle()
    assert world.phases() == then


@pytest.mark.parametrize("both", [False, True], ids=["5-4", "5-5"])
def test_a_volume_goes_and_with_its_claim_at_once(both: bool) -> None:
    world = World(BOUND)
    world.settle()
    if both:
        world.store.delete(PersistentVolumeClaim, "c", NS)
    world.store.delete(PersistentVolume, "v")
    world.settle()
    events = [event.partition(" Bound")[0] for event in world.events()]
    assert (world.phases(), events) == (([], []) if both else (["Lost"], ["Warning ClaimLost"]))


def test_nothing_is_done_before_the_informers_have_synced() -> None:
    world = World(FREE)
    assert world.controller.run_once() == 0
    assert world.controller.node_lister_synced() is False
    world.informers.run_once()
    assert world.controller.node_lister_synced() is True
    assert world.controller.node_lister.list() == []
    assert world.controller.run_once() > 0
    assert world.phases() == ["Bound", "Bound"]


def test_a_waiting_claim_is_looked_at_again_after_the_sync_period() -> None:
    world = World("c 1Gi")
    assert world.controller.next_due() == 1000.0
    world.settle()
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
        world = World("c 1Gi; c2 1Gi uid=u2 class=gold")
        world.plugin.fail("provision")
        world.settle()
        world.clock.now = 1000.2
        for name in ("z", "a"):
            world.store.create(pvc(f"{name} 1Gi uid=u{name} class=gold"))
        assert world.informers.run_once() == 2
        world.store.patch(PersistentVolumeClaim, "c2", NS, {"metadata": {"labels": {"x": "y"}}})
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
            world.settle()
            found.append((seen(world), world.plugin.calls[2:]))
        return [*found, round(value(VOLUME_OPERATION_SECONDS, PLUGIN, "provision", of="_sum") - measured, 6)]

    one, twin = begun(), begun()
    saved, calls = one.save(), one.plugin.calls.copy()
    for _ in range(2):
        mark = one.store.save()
        go_on(one)
        one.store.undo(mark)
        one.undo(saved)
        one.clock.now, one.plugin.calls = 1000.2, calls.copy()
    assert go_on(one) == go_on(twin)
    assert [call for call, _ in one.plugin.calls].count("provision") == 4


def at_rest(**more: Any) -> World:
    world = World(BOUND, "w 1Gi Available", **more)
    world.settle()
    assert world.phases() == ["Bound", "Available", "Bound"]
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
    world.settle()  # looks at the volume alone
    assert [claim.status.access_modes for claim in world.claims()] == [("ReadWriteOnce",)]
    assert resync(world) == 3
    assert [claim.status.access_modes for claim in world.claims()] == [("ReadOnlyMany",)]
    world.settle()
    assert (resync(world), resync(world)) == (3, 0)
    claim_of = {"claimRef": {"kind": "PersistentVolumeClaim", "namespace": NS, "name": "c", "uid": "other"}}
    world.store.patch(PersistentVolume, "v", None, {"spec": claim_of})
    world.settle()  # looks at the volume alone
    assert world.phases()[-1] == "Bound"
    assert resync(world) == 3
    world.settle()
    assert world.phases()[-1] == "Lost"
    assert resync(world) == 3  # a claim that is lost is looked at each time


class Refuses:
    """A client whose updates are refused while `refuses`."""

    def __init__(self, store: ObjectStore) -> None:
        self._store, self.refuses = store, False

    def __getattr__(self, name: str) -> Any:
        if name == "update" and self.refuses:
            raise ApiError("not now")
        return getattr(self._store, name)


def test_a_write_that_is_refused_in_a_resync_is_tried_in_the_next() -> None:
    """Though all objects are bound or available."""
    world = at_rest(client=Refuses)
    world.store.patch(PersistentVolume, "v", None, {"spec": {"accessModes": ["ReadOnlyMany"]}})
    world.settle()
    for refuses, mode in ((True, "ReadWriteOnce"), (False, "ReadOnlyMany")):
        world.client.refuses = refuses
        assert resync(world) == 3
        assert [claim.status.access_modes for claim in world.claims()] == [(mode,)]


@pytest.mark.parametrize("waiting", ["c2 1Gi uid=u2 class=none", "x 1Gi Released to=gone/u9"])
def test_a_resync_looks_at_all_objects_while_one_waits(waiting: str) -> None:
    world = World(BOUND, waiting)
    world.settle()
    assert resync(world) >= 3


def test_objects_at_rest_are_so_after_what_was_undone() -> None:
    world = at_rest()
    saved, mark = world.save(), world.store.save()
    world.store.delete(PersistentVolume, "v")
    world.settle()
    assert world.phases() == ["Available", "Lost"]
    world.store.undo(mark)
    world.undo(saved)
    assert (world.phases(), resync(world)) == (["Bound", "Available", "Bound"], 0)


def test_a_sync_period_of_zero_means_no_resyncs() -> None:
    world = World("c 1Gi", sync_period=0.0)
    world.settle()
    assert world.controller.next_due() is None
    world.store.create(pv("v 1Gi Available"))
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


def test_run_provisions_and_binds() -> None:
    with Loops(World("c 1Gi class=gold")) as loops:
        loops.until(lambda: loops.world.phases() == ["Bound", "Bound"])
    assert loops.world.plugin.volumes == {"pvc-uid": 2**30}


def test_run_works_on_volumes_and_on_claims() -> None:
    """A claim is gone, and another one is bound."""
    with Loops(World("v 1Gi Bound to=c/uid bbc; w 1Gi Available; c2 1Gi uid=u2", sync_period=0.0)) as loops:
        loops.until(lambda: loops.world.phases() == ["Released", "Bound", "Bound"])


def test_run_looks_again_and_again() -> None:
    """A volume that comes after its claim was looked at is found when all claims are looked at again."""
    world = World("c 1Gi", sync_period=0.01)
    with Loops(world) as loops:
        loops.until(lambda: bool(world.events()))
        world.store.create(pv("v 1Gi Available"))
        loops.until(lambda: world.phases() == ["Bound", "Bound"])


def test_run_is_stopped_while_it_waits_for_the_informers() -> None:
    world, stop = World(FREE), Event()
    stop.set()
    world.controller.run(stop)
    assert world.phases() == ["Available", "Pending"]


def test_an_operation_in_a_thread_holds_up_nobody() -> None:
    """One claim's volume takes its time; another claim is bound meanwhile."""
    began, go_on = Event(), Event()

    class Slow(ScriptedProvisioner):
        def make(self, *args: Any) -> PersistentVolume:
            began.set()
            assert go_on.wait(LIMIT)
            return super().make(*args)

    slow = Slow()
    with Loops(World("c2 1Gi uid=u2 class=gold", plugins=[slow], sync_period=0.01)) as loops:
        loops.until(began.is_set)
        loops.world.store.create(pv("v 1Gi Available"))
        loops.world.store.create(pvc("c1 1Gi uid=u1"))
        loops.until(lambda: loops.world.phases() == ["Bound", "Bound", "Pending"])
        go_on.set()
        loops.until(lambda: set(loops.world.phases()) == {"Bound"})
    assert len(slow.calls) == 2


def test_the_index_of_access_modes_follows_a_volume_whose_modes_change() -> None:
    world = World("v 1Gi Available modes=ROX,RWO; w 9Gi Available")
    world.settle()
    held = world.store.get(PersistentVolume, "w")
    every = ("ReadOnlyMany", "ReadWriteOnce", "ReadWriteMany")
    world.store.update(replace(held, spec=replace(held.spec, access_modes=every)))
    world.store.create(pvc("c 1Gi"))
    world.settle()
    assert world.phases() == ["Bound", "Available", "Bound"]


# ---- what goes wrong ----


def test_a_refused_synchronization_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The others go on."""
    world = World("t 1Gi Released to=other/other; c1 1Gi of=t bbc uid=u; v 1Gi Available; c2 1Gi")
    world.settle()
    text = 'Invalid binding of claim "default/c1" to volume "t": volume already claimed by "default/other"'
    assert f'could not sync claim "default/c1": {text}' in caplog.messages
    assert [held.status.phase for held in world.claims()] == ["Pending", "Bound"]


def test_a_claim_that_went_while_nobody_watched() -> None:
    """Its informer lists again, and makes a tombstone."""
    world = World(BOUND, history=1)
    world.settle()
    world.store.delete(PersistentVolumeClaim, "c", NS)
    for number in range(9):
        world.store.create(pvc(f"c{number} 1Gi uid=u{number} class=none"))
    world.settle()
    assert world.phases()[0] == "Released"


def test_an_older_state_than_the_controller_s_own_is_not_looked_at() -> None:
    """Its own write is known to it before the informer tells."""
    world = World(FREE)
    world.informers.run_once()
    world.controller.run_once()
    writes = world.store.list(PersistentVolume)[1]
    for _ in range(3):  # the informers still show both as they were
        world.clock.now += 15.0
        assert world.controller.run_once() == 2
    assert world.store.list(PersistentVolume)[1] == writes
    assert (world.phases(), world.events()) == (["Bound", "Bound"], [])
