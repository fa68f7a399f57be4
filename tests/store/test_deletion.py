"""Deletions: evictions, and objects of dumps that are being deleted."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.doors.kube import with_condition
from tests.make import pod

from moorage.kube import Condition, Pod
from moorage.store import ObjectStore, patch_pod_status

NOW = "1970-01-01T00:01:40Z"


def a_store(*finalizers: str, **meta: Any) -> ObjectStore:
    store = ObjectStore(lambda: 100.0)
    store.create(pod("a", metadata={"finalizers": finalizers} | meta))
    return store


def held(store: ObjectStore) -> Pod:
    return store.get(Pod, "a", "default")


def delete(store: ObjectStore, **options: Any) -> Pod:
    return store.delete(Pod, "a", "default", **options)


def with_meta(obj: Pod, **changes: Any) -> Pod:
    return replace(obj, metadata=replace(obj.metadata, **changes))


def gone(store: ObjectStore) -> bool:
    return store.list(Pod)[0] == []


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


def test_an_object_that_came_without_finalizers_waits_for_its_deletion() -> None:
    """From a dump: it is being deleted, and only that says so."""
    store = a_store(deletion_timestamp="2026-01-01T00:00:00Z")
    store.update(with_meta(held(store), labels={"a": "b"}))
    assert not gone(store)
    delete(store)
    assert gone(store)


@pytest.mark.parametrize("written", ["1970-01-01T00:02:10Z", "1970-01-01T02:02:10.25+02:00"])
def test_one_that_came_with_the_object_becomes_shorter(written: str) -> None:
    store = a_store("x/y", deletion_timestamp=written, deletion_grace_period_seconds=30)
    left = delete(store)
    assert (left.metadata.deletion_timestamp, left.metadata.deletion_grace_period_seconds) == (NOW, 0)
