"""Deletions: evictions, objects of dumps that are being deleted, and who hears of it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.doors.kube import with_condition
from tests.store.informers.handlers import Recorder
from tests.store.test_store import pod

from moorage.objects import Condition, Pod
from moorage.store import (
    Informer,
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


# ---- finalizers ----


def test_an_object_that_came_without_finalizers_waits_for_its_deletion() -> None:
    """From a dump: it is being deleted, and only that says so."""
    store = a_store(deletion_timestamp="2026-01-01T00:00:00Z")
    store.update(with_meta(held(store), labels={"a": "b"}))
    assert not gone(store)
    delete(store)
    assert gone(store)


# ---- grace periods ----


@pytest.mark.parametrize("written", ["1970-01-01T00:02:10Z", "1970-01-01T02:02:10.25+02:00"])
def test_one_that_came_with_the_object_becomes_shorter(written: str) -> None:
    store = a_store("x/y", deletion_timestamp=written, deletion_grace_period_seconds=30)
    left = delete(store)
    assert (left.metadata.deletion_timestamp, left.metadata.deletion_grace_period_seconds) == (NOW, 0)


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
