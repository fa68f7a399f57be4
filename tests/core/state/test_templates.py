"""Pods of a template that nobody has made: found by UID, made when asked for, gone one by one."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace
from tests.core.inside import dump, inside, numbers, pod_records
from tests.core.make import replica
from tests.doors.engine import ClusterState
from tests.doors.engine import bulk_operations as batches
from tests.make import node, pod

from moorage.engine.cache import SchedulerCache, Snapshot
from moorage.errors import CacheError
from moorage.kube import DiskVolumeSource, ObjectMeta, Pod, Volume

TEMPLATE = pod("web", requests={"cpu": 1}, labels={"app": "web"})


def enter(one: ClusterState, first: int, rows: list[int], template: Pod = TEMPLATE) -> None:
    one.assume_template(one.classes.intern(template), template, first, np.array(rows, dtype=np.int32))


def state(rows: list[int] | None = None, first: int = 0) -> ClusterState:
    one = ClusterState()
    for name in "abc":
        one.set_node(node(name))
    enter(one, first, [0, 1, 0] if rows is None else rows)
    return one


def made(ordinal: int, on: str) -> Pod:
    one = replica(TEMPLATE, ordinal)
    return replace(one, spec=replace(one.spec, node_name=on))


def names(one: ClusterState, row: int) -> list[str]:
    return [held.name for held in one.ledger.pods_of(row)]


def test_pods_are_made_when_asked_for() -> None:
    one = state(first=7)
    assert one.get_pod(made(8, "")) == made(8, "b")
    assert one.pods_of(0) == [made(7, "a"), made(9, "a")]
    assert one.pods() == [made(7, "a"), made(9, "a"), made(8, "b")]
    assert (made(8, "b").name, made(8, "b").metadata.uid) == ("web-8", "default/web-#8")
    assert set(inside(one.ledger)["objects"]) == {None}
    assert (len(one.ledger), one.assumed_pods()) == (3, [f"default/web-#{at}" for at in (7, 8, 9)])
    assert one.binding_pods() == [replica(TEMPLATE, at) for at in (7, 8, 9)]


@pytest.mark.parametrize(
    "uid",
    [
        *(
            f"default/web-#{digits}"
            for digits in ("", "3", "-1", "07", "\N{ARABIC-INDIC DIGIT ONE}", "9" * 11)
        ),
        "default/web-1",
        "web-#1",
        "#1",
    ],
)
def test_only_exact_uids_are_found(uid: str) -> None:
    assert not state([0] * 3).has_pod(pod(uid))


@pytest.mark.parametrize(("first", "pods"), [(0, 1), (2, 5), (0, 10), (3, 1), (4, 10), (5, 1)])
def test_ordinals_are_taken_once(first: int, pods: int) -> None:
    one = state([0, 0, 0], first=3)
    if first + pods <= 3:
        one.check_template(TEMPLATE, first, pods)
        return
    held = numbers(one)
    error = rf"pods default/web-3 to 5 are in the cache, so {first} to {first + pods - 1} can't be assumed"
    for attempt in (lambda: one.check_template(TEMPLATE, first, pods), lambda: enter(one, first, [1] * pods)):
        with pytest.raises(CacheError, match=error):
            attempt()
    assert (numbers(one), names(one, 1)) == (held, [])


def test_a_uid_that_another_pod_has_is_taken() -> None:
    one = state([])
    one.add_pod(made(4, "a"))
    one.check_template(TEMPLATE, 0, 4)
    with pytest.raises(CacheError, match="pod default/web-4 is in the cache, so can't be assumed"):
        enter(one, 0, [0] * 5)
    assert len(one.ledger) == 1
    one.remove_pod(made(4, "a"))
    enter(one, 0, [0] * 5)
    with pytest.raises(CacheError, match="pod default/web-4 is in the cache, so can't be assumed"):
        one.assume_pod(made(4, "a"))


@pytest.mark.parametrize(
    ("first", "pods", "template", "text"),
    [
        (-1, 1, TEMPLATE, "1 pods from web--1 on: ordinals go from 0 to 2147483646"),
        (2**31 - 2, 2, TEMPLATE, "2 pods from web-2147483646 on: ordinals go from 0 to"),
        (0, 1, Pod(metadata=ObjectMeta(namespace="n")), "needs metadata.generateName or metadata.name"),
    ],
)
def test_what_no_pod_can_be_made_of(first: int, pods: int, template: Pod, text: str) -> None:
    one = state([])
    with pytest.raises(CacheError, match=text):
        one.check_template(template, first, pods)
    one.check_template(TEMPLATE, 2**31 - 2, 1)


def test_free_numbers_and_memory_are_used_again() -> None:
    one = state([0] * 100)
    for _ in range(5):
        for at in range(100):
            one.forget_pod(made(at, "a"))
        enter(one, 0, [1] * 100)
        for at in range(100):
            one.forget_pod(made(at, "b"))
        enter(one, 0, [0] * 100)
    assert len(pod_records(one)) == 100
    members = inside(inside(inside(one.ledger)["templates"])["members"])
    assert members["state"].array("i4", 32)[31] == 128  # the end of the arena


def test_a_snapshot_shows_them_as_they_were() -> None:
    cache, snapshot = SchedulerCache(), Snapshot()
    cache.state = one = state()
    cache.update_snapshot(snapshot)
    before = snapshot.get("a").pods
    one.forget_pod(made(0, "a"))
    enter(one, 3, [0, 1])
    assert snapshot.get("a").pods == before == [made(0, "a"), made(2, "a")]
    assert snapshot.get("b").pods == [made(1, "b")]
    assert cache.snapshot().nodes["b"].pods == [made(1, "b"), made(4, "b")]


# ---- by ordinals


@pytest.mark.parametrize(("operation", "done"), [("forget", "forgotten"), ("confirm", "confirmed")])
@pytest.mark.parametrize(("first", "pods", "missing"), [(0, 3, 2), (1, 5, 2), (3, 2, 4), (5, 1, 5)])
def test_a_range_is_changed_whole_or_not_at_all(
    operation: str, done: str, first: int, pods: int, missing: int
) -> None:
    one = state([0, 0, 0, 0])
    one.forget_pod(made(2, "a"))
    held = dump(one)
    with pytest.raises(CacheError, match=f"pod default/web-{missing} wasn't assumed so cannot be {done}"):
        getattr(batches, f"{operation}_template")(one, TEMPLATE, first, pods)
    assert dump(one) == held
    with pytest.raises(CacheError, match="ordinals go from 0"):
        getattr(batches, f"{operation}_template")(one, TEMPLATE, -1, pods)


def test_only_pods_that_use_volumes_are_made_for_those_who_ask_for_them() -> None:
    disk = Volume(csi=DiskVolumeSource(driver="d"))
    one = state()
    enter(one, 0, [0], replace(pod("config"), spec=replace(TEMPLATE.spec, volumes=(Volume(name="v"),))))
    with_disk = replace(pod("disk"), spec=replace(TEMPLATE.spec, volumes=(Volume(name="v"), disk)))
    enter(one, 3, [1, 0], with_disk)
    assert one.ledger.follow_volumes(0, {})[1] == [replica(with_disk, 4)]
    assert one.ledger.follow_volumes(1, {})[1] == [replica(with_disk, 3)]
    assert one.ledger.follow_volumes(2, {})[1] == []
