"""Nominations and conditions, written as a patch of the status."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.doors.engine import ClusterState
from tests.make import pod

from moorage.kube import Condition, Pod, PodStatus
from moorage.store import ObjectStore, patch_pod_status

READY = Condition(type="Ready", status="True", reason="R", message="m", last_transition_time="then")
FAILED = Condition(type="PodScheduled", status="False", reason="Unschedulable")


def a_store() -> tuple[ObjectStore, Pod]:
    store = ObjectStore()
    status = PodStatus(phase="Pending", nominated_node_name="n", conditions=(READY,))
    return store, store.create(pod("a", status=status))


@pytest.mark.parametrize(
    "changes",
    [
        {"nominated_node_name": ""},
        {"nominated_node_name": "m", "conditions": (READY, FAILED)},
        {"conditions": (Condition(type="Ready", status="False"),)},
        {"conditions": (replace(READY, reason=""), FAILED)},
    ],
)
def test_the_status_is_as_asked_for(changes: dict[str, Any]) -> None:
    store, held = a_store()
    wanted = replace(held.status, **changes)
    patch_pod_status(store, held, wanted)
    assert store.get(Pod, "a", "default").status == wanted
    assert store.list(Pod)[1] == "3"


def test_what_others_write_meanwhile_stays() -> None:
    store, held = a_store()
    other = replace(held.status, phase="Running", conditions=(READY, Condition(type="Initialized")))
    store.update(replace(held, status=other))
    patch_pod_status(store, held, replace(held.status, conditions=(READY, FAILED)))
    assert store.get(Pod, "a", "default").status == replace(other, conditions=(*other.conditions, FAILED))


def test_nothing_is_written_where_nothing_changes() -> None:
    store, held = a_store()
    patch_pod_status(store, held, replace(held.status))
    assert store.list(Pod)[1] == "2"


class OverTheWire:
    """A client that has the patch alone."""

    def __init__(self, store: ObjectStore) -> None:
        self.patch = store.patch


some_conditions = st.lists(
    st.builds(
        Condition,
        st.sampled_from(["Ready", "PodScheduled", "DisruptionTarget"]),
        st.sampled_from(["True", "False"]),
        message=st.sampled_from(["", "m", "é"]),
        last_transition_time=st.sampled_from([None, "t"]),
    ),
    max_size=3,
).map(tuple)
some_statuses = st.builds(
    PodStatus,
    phase=st.just("Running"),
    nominated_node_name=st.sampled_from(["", "n", "m"]),
    conditions=some_conditions,
)


def content(store: ObjectStore) -> tuple[Any, ...]:
    """The pod; conditions that others wrote meanwhile may stand elsewhere among its conditions."""
    held = store.get(Pod, "a", "default")
    return held.metadata, replace(held.status, conditions=()), sorted(map(repr, held.status.conditions))


@given(some_statuses, some_statuses, some_statuses)
def test_a_store_does_what_the_patch_would_do(read: PodStatus, held: PodStatus, wanted: PodStatus) -> None:
    direct, patched = ObjectStore(), ObjectStore()
    for store, client in ((direct, direct), (patched, OverTheWire(patched))):
        then = store.create(pod("a", status=read))
        store.update(replace(then, status=held, metadata=replace(then.metadata, resource_version="")))
        patch_pod_status(client, then, wanted)
    assert content(direct) == content(patched)
    assert direct.list(Pod)[1] == patched.list(Pod)[1]


@pytest.mark.parametrize(("conditions", "is_kept"), [((), True), ((FAILED,), False)])
def test_a_nomination_leaves_the_class_of_the_pod(conditions: tuple[Condition, ...], is_kept: bool) -> None:
    store, held = a_store()
    classes = ClusterState().classes
    number = classes.intern(held)
    stored = store.patch_pod_status(held, "m", conditions)
    assert (stored.interned is held.interned) is is_kept
    assert classes.intern(stored) == number
