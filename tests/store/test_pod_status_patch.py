"""Nominations and conditions, written as a patch of the status."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.store.test_store import pod

from moorage.objects.model.meta import Condition
from moorage.objects.model.pod import Pod, PodStatus
from moorage.store import ConflictError, NotFoundError, ObjectStore, patch_pod_status

READY = Condition(type="Ready", status="True", reason="R", message="m", last_transition_time="then")
FAILED = Condition(type="PodScheduled", status="False", reason="Unschedulable")


def a_store() -> tuple[ObjectStore, Pod]:
    store = ObjectStore()
    status = PodStatus(phase="Pending", nominated_node_name="n", conditions=(READY,))
    return store, store.create(replace(pod(), status=status))


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


def test_nothing_is_asked_where_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    store, held = a_store()
    monkeypatch.setattr(store, "patch", None)
    patch_pod_status(store, held, replace(held.status))


def test_a_pod_that_is_another_one_or_gone() -> None:
    store, held = a_store()
    wanted = replace(held.status, nominated_node_name="")
    store.delete(Pod, "a", "default")
    with pytest.raises(NotFoundError):
        patch_pod_status(store, held, wanted)
    other = store.create(pod())
    with pytest.raises(ConflictError):
        patch_pod_status(store, held, wanted)
    assert store.get(Pod, "a", "default") is other
