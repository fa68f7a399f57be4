"""What the API server answers, request by request."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace
from tests.make import node, pod
from tests.store.test_contract import refused

from moorage.kube import Condition, Object, Pod
from moorage.store import AlreadyExistsError, ConflictError, InvalidObjectError, NotFoundError, ObjectStore

LIMITED = {"name": "c", "resources": {"limits": {"cpu": "x"}}}


def test_create_fills_in_what_the_server_gives() -> None:
    store = ObjectStore(lambda: 1_700_000_000.9)
    stored = store.create(pod("a"))
    assert stored.metadata.resource_version == "2"
    assert stored.metadata.creation_timestamp == "2023-11-14T22:13:20Z"
    assert store.create(node("n")).metadata.resource_version == "3"


def test_the_default_clock_stands_still() -> None:
    assert ObjectStore().create(pod("a")).metadata.creation_timestamp == "1970-01-01T00:00:00Z"


def test_a_uid_and_a_creation_time_are_kept_and_a_resource_version_is_not() -> None:
    meta = {"uid": "u", "creationTimestamp": "2001-01-01T00:00:00Z"}
    stored = ObjectStore().create(pod("a", metadata=meta | {"resourceVersion": "77"}))
    assert stored == pod("a", metadata=meta | {"resourceVersion": "2"})


def test_uids_follow_from_the_seed() -> None:
    def uids(seed: int) -> list[str]:
        store = ObjectStore(seed=seed)
        return [store.create(pod(name, metadata={"uid": ""})).metadata.uid for name in "abc"]

    assert uids(0) == uids(0)
    assert len({*uids(0), *uids(1)}) == 6


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        (pod("a", requests={"cpu": "x"}), "spec.containers[0].resources.requests[cpu]"),
        (pod("a", containers=[LIMITED]), "spec.containers[0].resources.limits[cpu]"),
        (pod("a", overhead={"cpu": "x"}), "spec.overhead[cpu]"),
        (node("a", cpu="x"), "status.allocatable[cpu]"),
    ],
)
def test_a_quantity_that_cannot_be_read(obj: Object, field: str) -> None:
    one = ObjectStore()
    text = re.escape(f'{obj.kind} "a" is invalid: {field}: "x" is not a quantity')
    with pytest.raises(InvalidObjectError, match=text):
        one.create(obj)
    assert one.list(type(obj))[0] == []
    one.create(type(obj)(metadata=obj.metadata))
    with pytest.raises(InvalidObjectError, match=text):
        one.update(obj)
    assert one.list(type(obj))[0] == [one.get(type(obj), "a", obj.metadata.namespace)]


def test_a_list_is_in_the_order_of_keys() -> None:
    store = ObjectStore()
    store.create_many([pod("y/b"), pod("x/c"), pod("y/a"), pod("x/a-b"), pod("x-1/z")])
    assert [obj.key for obj in store.list(Pod)[0]] == ["x-1/z", "x/a-b", "x/c", "y/a", "y/b"]


def test_create_many_is_all_or_nothing() -> None:
    store = ObjectStore()
    watch = store.watch(Pod, resource_version="1")
    with refused(AlreadyExistsError, 'pods "a" already exists'):
        store.create_many([pod("a"), pod("b"), pod("a")])
    assert (store.list(Pod), watch.poll()) == (([], "1"), [])
    store.create_many(pod(name) for name in "ab")
    assert [event.object.name for event in watch.poll()] == ["a", "b"]


def test_update_many_is_all_or_nothing() -> None:
    store = ObjectStore()
    store.create_many(pod(name) for name in "ab")
    before, watch = store.list(Pod), store.watch(Pod, resource_version=store.list(Pod)[1])
    changed = [replace(obj, metadata=replace(obj.metadata, labels={"a": "b"})) for obj in before[0]]
    with refused(NotFoundError, 'pods "c" not found'):
        store.update_many([*changed, pod("c")])
    assert (store.list(Pod), watch.poll()) == (before, [])
    store.update_many(changed)
    assert [(event.type, event.old, event.object.metadata.labels) for event in watch.poll()] == [
        ("MODIFIED", obj, {"a": "b"}) for obj in before[0]
    ]
    store.update_many(store.list(Pod)[0])
    assert watch.poll() == []


def test_history_must_hold_something() -> None:
    with pytest.raises(ValueError, match=r"^history must be at least 1$"):
        ObjectStore(history=0)


# ---- binding ----

NOW = "1970-01-01T00:00:05Z"
SCHEDULED = Condition(type="PodScheduled", status="True", last_transition_time=NOW)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Condition(type="PodScheduled", status="False", reason="Unschedulable", message="no"), SCHEDULED),
        (
            Condition(type="PodScheduled", status="True", reason="R", last_transition_time="then"),
            Condition(type="PodScheduled", status="True", last_transition_time="then"),
        ),
    ],
)
def test_bind_replaces_the_condition_in_its_place(before: Condition, after: Condition) -> None:
    other, last = Condition(type="Other"), Condition(type="Last")
    store = ObjectStore(lambda: 5.0)
    store.bind(store.create(pod("a", status={"conditions": [other, before, last]})), "n")
    assert store.get(Pod, "a", "default").status.conditions == (other, after, last)


def test_bind_many_is_all_or_nothing() -> None:
    store = ObjectStore()
    pods = [pod(name) for name in "abc"]
    store.create_many(pods)
    before = store.list(Pod)
    with refused(
        ConflictError,
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n"',
    ):
        store.bind_many([*pods, pods[0]], ["n", "m", "n", "m"])
    with pytest.raises(ValueError, match="shorter"):
        store.bind_many(pods, ["n"])
    assert store.list(Pod) == before
    store.bind_many(pods, ["n", "m", "n"])
    assert [obj.spec.node_name for obj in store.list(Pod)[0]] == ["n", "m", "n"]
    assert store.list(Pod)[1] == "7"


def test_a_condition_of_several_objects_is_one_write() -> None:
    """Versions and events are those of one write each; what does not change is not written."""
    store, ready = ObjectStore(), Condition(type="Ready", status="True")
    store.create_many([pod("a"), pod("b"), pod("c")])
    store.set_condition([store.get(Pod, "b", "default")], ready)
    before = store.list(Pod)[1]
    watch = store.watch(Pod, resource_version=before)
    assert store.set_condition([pod("a"), pod("gone"), pod("b"), pod("c")], ready) == [
        True,
        False,
        True,
        True,
    ]
    assert store.set_condition([], ready) == []
    other = Condition(type="Ready", status="False")
    assert store.set_condition(store.list(Pod)[0], other, stays="True") == [True, True, True]
    assert store.list(Pod)[1] == str(int(before) + 2)
    seen = [(event.type, event.object.name, int(event.resource_version)) for event in watch.poll()]
    first = int(before)
    assert seen == [("MODIFIED", "a", first + 1), ("MODIFIED", "c", first + 2)]
    assert store.list(Pod)[1] == str(first + 2)
    assert all(one.status.conditions == (ready,) for one in store.list(Pod)[0])
