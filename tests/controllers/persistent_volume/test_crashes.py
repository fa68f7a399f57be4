"""A controller that is killed at any write, and started anew, ends where one ends that never was."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.controllers.persistent_volume.controller_kit import (
    BBC,
    BC,
    CHOSEN,
    DP,
    NODE1,
    Case,
    World,
    free,
    make_world,
    plain,
    pv,
    pvc,
)

from moorage.objects import Node, ObjectMeta, PersistentVolume, PersistentVolumeClaim
from moorage.store import ConflictError, ObjectStore

WRITES = ("create", "update", "patch", "delete")


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
                world.controller.settle()
            except Killed:
                world.restart()
            else:
                break
        world.clock.now += 1000.0
    return world.volumes(), world.claims(), set(world.plugin.volumes)


CASES = [
    Case("bind", [free("v1", "5Gi"), free("v2", "2Gi")], [pvc("c", "uid", "1Gi")]),
    Case("bind the volume that names the claim", [pv("v", "5Gi", "", "c")], [pvc("c", "uid", "1Gi")]),
    Case("bind the volume that the claim names", [free("v", "5Gi")], [pvc("c", "uid", "1Gi", "v")]),
    Case("two claims", [free("v1", "5Gi"), free("v2")], [pvc("a", "u1", "1Gi"), pvc("b", "u2", "1Gi")]),
    Case(
        "unbind",
        [pv("v", "1Gi", "uid", "c", "Bound", "Retain", "", BBC)],
        [pvc("c", "uid", "1Gi", "w", "Bound")],
    ),
    Case("provision", [], [pvc("c", "uid", "1Gi", class_name="gold")]),
    Case(
        "provision for a node",
        [free("v", class_name="wait")],
        [pvc("c", "uid", "1Gi", "", "Pending", "wait", NODE1)],
        others=[Node(metadata=ObjectMeta(name="node1"))],
    ),
    Case("delete", [pv("v", "1Gi", "uid", "c", "Bound", "Delete", "", BBC | DP)]),
    Case("release", [pv("v", "1Gi", "uid", "c", "Bound")]),
    Case("lose", [], [pvc("c", "uid", "1Gi", "v", "Bound", None, BC)]),
]

DEATHS = st.lists(st.tuples(st.integers(1, 7), st.booleans()), max_size=6)


@pytest.mark.parametrize("case", CASES, ids=str)
@given(deaths=DEATHS)
@settings(deadline=None, max_examples=40)
def test_death_changes_nothing(case: Case, deaths: list[tuple[int, bool]]) -> None:
    expected = live(make_world(case))
    world = make_world(replace_client(case, deaths))
    assert live(world) == expected


def replace_client(case: Case, deaths: list[tuple[int, bool]]) -> Case:
    return Case(
        case.name,
        case.volumes,
        case.claims,
        others=case.others,
        world={"client": lambda store: Mortal(store, deaths)},
    )


@pytest.mark.parametrize("writes", [1, 2, 3, 4])
def test_the_four_writes_of_a_binding(writes: int) -> None:
    """What there is when the controller dies at each of them."""
    case = Case("", [free("v")], [pvc("c", "uid", "1Gi")])
    world = make_world(replace_client(case, [(writes, False)]))
    with pytest.raises(Killed):
        world.controller.settle()
    (volume,), (claim,) = world.volumes(), world.claims()
    done = (
        volume.spec.claim_ref is not None,
        volume.status.phase == "Bound",
        claim.spec.volume_name == "v",
        claim.status.phase == "Bound",
    )
    assert done == tuple(number < writes for number in (1, 2, 3, 4))
    world.restart()
    world.controller.settle()
    assert world.claims() == [pvc("c", "uid", "1Gi", "v", "Bound", None, CHOSEN)]


@given(st.integers(1, 4))
@settings(deadline=None)
def test_somebody_else_writes_in_between(write: int) -> None:
    """The write that comes too late is refused; the next synchronization does it."""

    class Meddles(Mortal):
        conflicts = 0

        def _write(self, method: Any, kind: Any, name: str, namespace: str, *args: Any, **more: Any) -> Any:
            self._writes += 1
            if self._writes == write:
                obj = self._store.get(kind, name, namespace)
                labels = {"touched": "yes"}
                self._store.update(replace(obj, metadata=replace(obj.metadata, labels=labels)))
            try:
                return method(kind, name, namespace, *args, **more)
            except ConflictError:
                self.conflicts += 1
                raise

    world = World(free("v"), pvc("c", "uid", "1Gi"), client=lambda store: Meddles(store, []))
    world.controller.settle()
    assert world.client.conflicts == 1
    world.clock.now += 15.0
    world.controller.settle()
    (volume,), (claim,) = world.volumes(), world.claims()
    assert claim.spec.volume_name == "v"
    assert (volume.status.phase, claim.status.phase) == ("Bound", "Bound")
    assert {plain(one).metadata.labels.get("touched") for one in (volume, claim)} == {"yes", None}
