"""A controller that is killed at any write, and started anew, ends where one ends that never was."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.controllers.persistent_volume.controller_kit import World
from tests.make import node

from moorage.kube import PersistentVolume, PersistentVolumeClaim
from moorage.store import ConflictError, ObjectStore

WRITES = ("create", "update", "delete")


class Killed(BaseException):
    """The controller is no more."""


class Mortal:
    """A client of which the n-th writes end the controller, before or after they are done.

    Parameters
    ----------
    deaths : list of (int, bool)
        After how many writes of each life, and whether the last one of them is done.
    """

    def __init__(self, store: ObjectStore, deaths: list[tuple[int, bool]]) -> None:
        self._store = store
        self._deaths = list(deaths)
        self._writes = 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        return (lambda *args, **more: self._write(method, *args, **more)) if name in WRITES else method

    def _write(self, method: Any, *args: Any, **more: Any) -> Any:
        if not self._deaths:
            return method(*args, **more)
        after, done = self._deaths[0]
        self._writes += 1
        if self._writes < after:
            return method(*args, **more)
        self._deaths.pop(0)
        self._writes = 0
        if done:
            method(*args, **more)
        raise Killed


def live(world: World) -> tuple[list[PersistentVolume], list[PersistentVolumeClaim], set[str]]:
    """Go on, with a new controller after each death, until nothing happens; returns what there is."""
    for _ in range(3):
        while True:
            try:
                world.settle()
            except Killed:
                world.restart()
            else:
                break
        world.clock.now += 1000.0
    return world.volumes(), world.claims(), set(world.plugin.volumes)


CASES = {
    "bind": "v1 5Gi Available; v2 2Gi Available; c 1Gi",
    "bind the volume that names the claim": "v 5Gi to=c; c 1Gi",
    "bind the volume that the claim names": "v 5Gi Available; c 1Gi of=v",
    "two claims": "v1 5Gi Available; v2 1Gi Available; c1 1Gi uid=u1; c2 1Gi uid=u2",
    "unbind": "v 1Gi Bound to=c/uid bbc; c 1Gi of=w Bound",
    "provision": "c 1Gi class=gold",
    "provision for a node": "v 1Gi Available class=wait; c 1Gi class=wait on=node1",
    "delete": "v 1Gi Bound to=c/uid Delete bbc made-by=mock",
    "release": "v 1Gi Bound to=c/uid",
    "lose": "c 1Gi of=v Bound bc",
}


@pytest.mark.parametrize("case", CASES)
@given(deaths=st.lists(st.tuples(st.integers(1, 7), st.booleans()), max_size=6))
@settings(deadline=None, max_examples=40)
def test_death_changes_nothing(case: str, deaths: list[tuple[int, bool]]) -> None:
    worlds = [
        World(CASES[case], node("node1"), client=lambda store, deaths=deaths: Mortal(store, deaths))
        for deaths in ([], deaths)
    ]
    assert live(worlds[1]) == live(worlds[0])


@pytest.mark.parametrize("writes", [1, 2, 3, 4])
def test_the_four_writes_of_a_binding(writes: int) -> None:
    """What there is when the controller dies at each of them."""
    world = World("v 1Gi Available; c 1Gi", client=lambda store: Mortal(store, [(writes, False)]))
    with pytest.raises(Killed):
        world.settle()
    (volume,), (claim,) = world.volumes(), world.claims()
    done = (
        volume.spec.claim_ref is not None,
        volume.status.phase == "Bound",
        claim.spec.volume_name == "v",
        claim.status.phase == "Bound",
    )
    assert done == tuple(number < writes for number in (1, 2, 3, 4))
    world.restart()
    world.settle()
    world.check("v 1Gi Bound to=c/uid bbc; c 1Gi of=v Bound chosen")


@given(st.integers(1, 4))
@settings(deadline=None)
def test_somebody_else_writes_in_between(write: int) -> None:
    """The write that comes too late is refused; the next synchronization does it."""

    class Meddles(Mortal):
        conflicts = 0

        def _write(self, method: Any, *args: Any, **more: Any) -> Any:
            self._writes += 1
            if self._writes == write:
                obj = self._store.get(type(args[0]), args[0].name, args[0].namespace)
                labels = {"touched": "yes"}
                self._store.update(replace(obj, metadata=replace(obj.metadata, labels=labels)))
            try:
                return method(*args, **more)
            except ConflictError:
                self.conflicts += 1
                raise

    world = World("v 1Gi Available; c 1Gi", client=lambda store: Meddles(store, []))
    world.settle()
    assert world.client.conflicts == 1
    world.settle(15.0)
    (volume,), (claim,) = world.volumes(), world.claims()
    assert (claim.spec.volume_name, *world.phases()) == ("v", "Bound", "Bound")
    assert {each.metadata.labels.get("touched") for each in (volume, claim)} == {"yes", None}
