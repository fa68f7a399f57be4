"""Claims and volumes come and go at random; whenever all is settled, what must hold does."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.controllers.persistent_volume.controller_kit import World, pv, pvc
from tests.doors.engine import (
    claim_class,
    has_access_modes,
    have_equal_modes,
    is_fully_bound,
    requested_storage,
    storage_capacity,
    volume_class,
)

from moorage.kube import PersistentVolume, PersistentVolumeClaim

NAMES = st.sampled_from("ab")
SIZES = st.sampled_from(["1Gi", "5Gi"])
CLASS_NAMES = st.sampled_from(["", "", "gold", "external", "wait"])
POLICIES = st.sampled_from(["Retain", "Delete", "Recycle"])
MODES = st.sampled_from(["RWO", "RWO,ROX"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("claim"), NAMES, SIZES, CLASS_NAMES, MODES),
        st.tuples(st.just("volume"), NAMES, SIZES, CLASS_NAMES, MODES, POLICIES),
        st.tuples(st.just("bound volume"), NAMES, SIZES, CLASS_NAMES, MODES, NAMES),
        st.tuples(st.just("no claim"), NAMES),
        st.tuples(st.just("no claim"), NAMES),
        st.tuples(st.just("no volume"), NAMES),
        st.tuples(st.just("time"), st.sampled_from([1.0, 15.0, 100.0])),
        st.tuples(st.just("failure"), st.sampled_from(["provision", "delete", "recycle"])),
        st.tuples(st.just("restart")),
    ),
    min_size=20,
    max_size=40,
)


class Machine:
    """A world in which things happen."""

    def __init__(self) -> None:
        self.world = World()
        self.plugin = self.world.plugin
        self.count = 0
        self.gone: set[str] = set()

    def do(self, what: str, *how: Any) -> None:
        store = self.world.store
        held = {each.name for each in (*self.world.volumes(), *self.world.claims())}
        if what == "claim" and f"c{how[0]}" not in held:
            self.count += 1
            store.create(pvc("c{} {} class={} modes={} uid=u{}".format(*how, self.count)))
        elif what == "volume" and f"v{how[0]}" not in held:
            store.create(pv("v{} {} class={} modes={} {}".format(*how)))
        elif what == "bound volume" and f"v{how[0]}" not in held:
            store.create(pv("v{} {} class={} modes={} to=c{}".format(*how)))
        elif what == "no claim" and f"c{how[0]}" in held:
            store.delete(PersistentVolumeClaim, f"c{how[0]}", "default")
        elif what == "no volume" and f"v{how[0]}" in held:
            store.delete(PersistentVolume, f"v{how[0]}")
            self.gone.add(f"v{how[0]}")
        elif what == "time":
            self.world.clock.now += how[0]
        elif what == "failure":
            self.plugin.fail(how[0])
        elif what == "restart":
            self.world.restart()
        self.world.settle()

    def settle(self) -> None:
        """Let every pause pass, and everything be looked at."""
        for _ in range(40):
            self.world.clock.now += 200.0
            self.world.settle()


def check_bindings(world: World, gone: Container[str] = ()) -> None:
    """Who is bound to whom, seen from both sides. A claim whose volume went takes another of that name as it
    is, even a smaller one (3-3)."""
    claims = {claim.name: claim for claim in world.claims()}
    volumes = {volume.name: volume for volume in world.volumes()}
    for claim in claims.values():
        assert is_fully_bound(claim) == (claim.status.phase in ("Bound", "Lost"))
        if claim.status.phase == "Bound":
            volume = volumes[claim.spec.volume_name]
            assert volume.spec.claim_ref is not None
            assert (volume.spec.claim_ref.uid, volume.status.phase) == (claim.metadata.uid, "Bound")
            assert volume.name in gone or storage_capacity(volume) >= requested_storage(claim)
            assert claim.status.capacity == volume.spec.capacity
            assert claim.status.access_modes == volume.spec.access_modes
    for volume in volumes.values():
        reference, phase = volume.spec.claim_ref, volume.status.phase
        if phase == "Bound":
            assert reference is not None
            assert claims[reference.name].spec.volume_name == volume.name
        elif phase == "Available":
            assert reference is None or not reference.uid
        else:  # its claim is gone
            assert phase == "Released"
            assert volume.spec.persistent_volume_reclaim_policy == "Retain"
            assert reference is not None
            assert reference.name not in claims or claims[reference.name].metadata.uid != reference.uid


def check_nobody_waits_in_vain(world: World) -> None:
    for claim in world.claims():
        if claim.status.phase != "Pending":
            continue
        assert claim_class(claim) != "gold"  # the plugin makes a volume for each of these
        fits = [
            volume.name
            for volume in world.volumes()
            if volume.status.phase == "Available"
            and volume.spec.claim_ref is None
            and volume_class(volume) == claim_class(claim) != "wait"
            and storage_capacity(volume) >= requested_storage(claim)
            and has_access_modes(volume, claim)
            and have_equal_modes(volume, claim)
        ]
        assert fits == []


def check_real_volumes(machine: Machine) -> None:
    """The plugin holds what it made, as long as there is a volume of it."""
    for name in machine.plugin.volumes:
        assert machine.world.store.get(PersistentVolume, name)


@given(STEPS)
@settings(deadline=None, max_examples=300)
def test_claims_and_volumes_at_random(steps: list[tuple[Any, ...]]) -> None:
    machine = Machine()
    for what, *how in steps:
        machine.do(what, *how)
    machine.settle()
    check_bindings(machine.world, machine.gone)
    check_nobody_waits_in_vain(machine.world)
    check_real_volumes(machine)


def test_the_invariants_see_what_is_wrong() -> None:
    with pytest.raises(KeyError):
        check_bindings(World("v 1Gi Bound to=c/uid"))
