"""Deletions: preconditions, finalizers, grace periods, and what an update may do meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.doors.kube import with_condition
from tests.store.informers.handlers import Recorder
from tests.store.test_store import pod, refused

from moorage.objects import Condition, ObjectMeta, Pod, ReplicaSet
from moorage.store import (
    AlreadyExistsError,
    ConflictError,
    Informer,
    InvalidObjectError,
    NotFoundError,
    ObjectStore,
    patch_pod_status,
)

NOW, LATER = "1970-01-01T00:01:40Z", "1970-01-01T00:02:10Z"


def a_store(*finalizers: str, **meta: Any) -> ObjectStore:
    store = ObjectStore(lambda: 100.0)
    store.create(pod(finalizers=finalizers, **meta))
    return store


def held(store: ObjectStore) -> Pod:
    return store.get(Pod, "a", "default")


def delete(store: ObjectStore, **options: Any) -> Pod:
    return store.delete(Pod, "a", "default", **options)


def with_meta(obj: Pod, **changes: Any) -> Pod:
    return replace(obj, metadata=replace(obj.metadata, **changes))


def events(store: ObjectStore, since: str = "2") -> list[tuple[str, str, tuple[str, ...]]]:
    """What happened: the event, the version, the finalizers that the object has in it."""
    found = store.watch(Pod, resource_version=since).poll()
    return [(one.type, one.resource_version, one.object.metadata.finalizers) for one in found]


def gone(store: ObjectStore) -> bool:
    return store.list(Pod)[0] == []


# ---- eviction ----


@pytest.mark.parametrize("finalizers", [(), ("f",)])
@pytest.mark.parametrize("status", ["", "True", "False"])
def test_an_eviction_is_a_change_of_the_status_and_a_deletion(
    finalizers: tuple[str, ...], status: str
) -> None:
    target = Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
    known = replace(target, status=status, last_transition_time=NOW)
    contents = []
    for evicts in (True, False):
        store = a_store(*finalizers)
        if status:
            store.patch_pod_status(held(store), None, [known])
        if evicts:
            assert store.evict([held(store)], target) == [True]
        else:
            conditions = with_condition(held(store).status.conditions, target)
            patch_pod_status(store, held(store), replace(held(store).status, conditions=conditions))
            delete(store)
        contents.append((store.watch(Pod, resource_version="1").poll(), store.list(Pod)))
    assert contents[0] == contents[1]
    assert gone(store) != bool(finalizers)


def test_only_the_pod_that_is_meant_is_evicted() -> None:
    store = a_store()
    others = [with_meta(held(store), uid="other"), with_meta(held(store), name="other")]
    assert store.evict(others, Condition()) == [False, False]
    assert not gone(store)


# ---- preconditions ----


@pytest.mark.parametrize("of", ["Pod", "ReplicaSet.apps"])
def test_a_deletion_whose_precondition_fails_is_a_conflict(of: str) -> None:
    struct = Pod if of == "Pod" else ReplicaSet
    store = ObjectStore()
    stored = store.create(struct(metadata=ObjectMeta(name="a", namespace="default", uid="u")))
    start = f'Operation cannot be fulfilled on {of} "a": the '
    with refused(
        ConflictError,
        f"{start}UID in the precondition (v) does not match the UID in record (u). "
        "The object might have been deleted and then recreated",
    ):
        store.delete(struct, "a", "default", uid="v", resource_version="2")
    with refused(
        ConflictError,
        f"{start}ResourceVersion in the precondition (1) does not match the ResourceVersion in record (2). "
        "The object might have been modified",
    ):
        store.delete(struct, "a", "default", uid="u", resource_version="1")
    assert store.list(struct) == ([stored], "2")
    store.delete(struct, "a", "default", uid="u", resource_version="2")
    with pytest.raises(NotFoundError):
        store.delete(struct, "a", "default", uid="u")


# ---- finalizers ----


def test_an_object_with_finalizers_stays_and_says_that_it_is_being_deleted() -> None:
    store = a_store("x/y")
    left = delete(store)
    assert left is held(store)
    assert left.metadata.deletion_timestamp == NOW
    assert left.metadata.deletion_grace_period_seconds == 0
    assert events(store) == [("MODIFIED", "3", ("x/y",))]


def test_deleting_it_again_changes_nothing() -> None:
    now = [100.0]
    store = ObjectStore(lambda: now[0])
    store.create(pod(finalizers=("x/y",)))
    left = delete(store)
    now[0] = 200.0
    assert delete(store) is left
    assert delete(store, grace_period_seconds=30) is left
    assert store.list(Pod)[1] == "3"


def test_it_goes_with_its_last_finalizer() -> None:
    store = a_store("x/a", "x/b")
    left = delete(store)
    one = store.update(with_meta(left, finalizers=("x/b",)))
    assert held(store) is one
    last = store.update(with_meta(one, finalizers=()))
    assert gone(store)
    # As in the API server: the answer is what was asked for, the event the state before.
    assert last == with_meta(one, finalizers=(), resource_version="5")
    assert events(store) == [
        ("MODIFIED", "3", ("x/a", "x/b")),
        ("MODIFIED", "4", ("x/b",)),
        ("DELETED", "5", ("x/b",)),
    ]
    assert store.create(pod()).metadata.uid != last.metadata.uid


def test_finalizers_may_go_before_it_is_deleted() -> None:
    store = a_store("x/y")
    store.update(with_meta(held(store), finalizers=()))
    delete(store)
    assert gone(store)


def test_an_object_that_came_without_finalizers_waits_for_its_deletion() -> None:
    """From a dump: it is being deleted, and only that says so."""
    store = a_store(deletion_timestamp="2026-01-01T00:00:00Z")
    store.update(with_meta(held(store), labels={"a": "b"}))
    assert not gone(store)
    delete(store)
    assert gone(store)


def test_no_finalizer_is_added_to_what_is_being_deleted() -> None:
    store = a_store("x/y")
    left = delete(store)
    with refused(
        InvalidObjectError,
        'Pod "a" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object '
        'is being deleted, found new finalizers []string{"a/new", "b/new"}',
    ):
        store.update(with_meta(left, finalizers=("b/new", "x/y", "a/new")))
    assert store.list(Pod) == ([left], "3")


def test_an_update_cannot_change_what_the_deletion_says() -> None:
    store = a_store("x/y")
    for field, value, text in [
        ("deletion_timestamp", NOW, f'metadata.deletionTimestamp: Invalid value: "{NOW}": '),
        ("deletion_grace_period_seconds", 5, "metadata.deletionGracePeriodSeconds: Invalid value: 5: "),
    ]:
        with refused(InvalidObjectError, f'Pod "a" is invalid: {text}field is immutable'):
            store.update(with_meta(held(store), **{field: value}))
    left = delete(store)
    other = with_meta(left, deletion_timestamp="2001-01-01T00:00:00Z", resource_version="")
    assert store.update(other) is left
    assert store.update(pod(finalizers=("x/y",))) is left
    with pytest.raises(InvalidObjectError, match=r"metadata.deletionGracePeriodSeconds: Invalid value: 7"):
        store.update(with_meta(left, deletion_grace_period_seconds=7))


def test_its_name_is_taken_until_it_is_gone() -> None:
    store = a_store("x/y")
    delete(store)
    with refused(AlreadyExistsError, 'object is being deleted: pods "a" already exists'):
        store.create(pod())


# ---- grace periods ----


def test_an_object_stays_for_its_grace_period_until_somebody_ends_it() -> None:
    store = a_store()
    left = delete(store, grace_period_seconds=30)
    assert left.metadata.deletion_timestamp == LATER
    assert left.metadata.deletion_grace_period_seconds == 30
    assert delete(store, grace_period_seconds=30) is left
    assert delete(store, grace_period_seconds=40) is left
    assert store.update(pod(labels={"a": "b"})).metadata.deletion_timestamp == LATER
    delete(store, grace_period_seconds=0)
    assert gone(store)
    assert [one[0] for one in events(store)] == ["MODIFIED", "MODIFIED", "DELETED"]


def test_a_grace_period_becomes_shorter() -> None:
    store = a_store()
    delete(store, grace_period_seconds=90)
    left = delete(store, grace_period_seconds=30)
    assert (left.metadata.deletion_timestamp, left.metadata.deletion_grace_period_seconds) == (LATER, 30)


@pytest.mark.parametrize("written", ["1970-01-01T00:02:10Z", "1970-01-01T02:02:10.25+02:00"])
def test_one_that_came_with_the_object_becomes_shorter(written: str) -> None:
    store = a_store("x/y", deletion_timestamp=written, deletion_grace_period_seconds=30)
    left = delete(store)
    assert (left.metadata.deletion_timestamp, left.metadata.deletion_grace_period_seconds) == (NOW, 0)


def test_a_negative_grace_period_is_one_second() -> None:
    left = delete(a_store(), grace_period_seconds=-7)
    assert left.metadata.deletion_timestamp == "1970-01-01T00:01:41Z"
    assert left.metadata.deletion_grace_period_seconds == 1


def test_finalizers_and_a_grace_period_both_have_to_go() -> None:
    store = a_store("x/y")
    left = delete(store, grace_period_seconds=30)
    store.update(with_meta(left, finalizers=()))
    assert not gone(store)
    delete(store, grace_period_seconds=0)
    assert gone(store)

    store = a_store("x/y")
    delete(store, grace_period_seconds=30)
    left = delete(store, grace_period_seconds=0)
    assert (left.metadata.deletion_timestamp, left.metadata.deletion_grace_period_seconds) == (NOW, 0)
    store.update(with_meta(left, finalizers=()))
    assert gone(store)


# ---- who hears of it ----


def test_informers_report_an_update_and_then_a_deletion() -> None:
    store = a_store("x/y")
    informer: Informer[Pod] = Informer(store, Pod)
    informer.add_event_handler(recorder := Recorder())
    informer.run_once()
    assert recorder.take() == [("add", "a", True)]
    left = delete(store)
    informer.run_once()
    assert recorder.take() == [("update", "2", "3")]
    store.update(with_meta(left, finalizers=()))
    informer.run_once()
    assert recorder.take() == [("delete", "a", "4")]


def test_a_watch_with_a_selector_sees_it_go() -> None:
    store = a_store("x/y", labels={"a": "b"})
    watch = store.watch(Pod, resource_version="2", label_selector="a")
    store.update(with_meta(delete(store), finalizers=(), labels={}))
    assert [event.type for event in watch.poll()] == ["MODIFIED", "DELETED"]


def test_undo_takes_back_a_deletion_by_update() -> None:
    store = a_store("x/y")
    left = delete(store)
    mark = store.save()
    store.update(with_meta(left, finalizers=()))
    assert gone(store)
    store.undo(mark)
    assert store.list(Pod) == ([left], "3")
