"""What the scheduler writes to a pod's status."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.doors.engine import StatusPatch, not_scheduled, patch_pod
from tests.make import pod

from moorage.engine.framework import NominatingInfo
from moorage.kube import Pod, PodStatus
from moorage.store import ForbiddenError, ObjectStore

FAILED = not_scheduled("Unschedulable", "no room")


def store(kind: type[ObjectStore] = ObjectStore, **status: Any) -> ObjectStore:
    out = kind()
    out.create(replace(pod("p"), status=PodStatus(**status)))
    return out


def status(of: ObjectStore) -> PodStatus:
    return of.get(Pod, "p", "default").status


def test_another_pod_of_that_name_is_left_alone() -> None:
    one = store()
    patch_pod(one, replace(pod("p"), metadata=replace(pod("p").metadata, uid="before")), FAILED, None)
    assert status(one).conditions == ()


def test_a_pod_that_is_gone_is_nothing_to_speak_of(caplog: pytest.LogCaptureFixture) -> None:
    patch_pod(ObjectStore(), pod("p"), FAILED, None)
    assert caplog.records == []


class Refusing(ObjectStore):
    def patch_pod_status(self, *arguments: Any, **options: Any) -> Any:
        raise ForbiddenError("too late")


def test_a_store_that_refuses_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    patch_pod(store(Refusing), pod("p"), FAILED, None)
    text = "write has failed: what=pod_status_patch object=default/p error=too late"
    assert [record.getMessage() for record in caplog.records] == [text]


def test_a_patch_that_waits_is_joined_with_the_next() -> None:
    one, later = store(), not_scheduled("SchedulerError", "boom")
    first = StatusPatch(one, pod("p"), FAILED, NominatingInfo("a"))
    StatusPatch(one, pod("p"), later, None).after(first)()
    assert status(one) == PodStatus(conditions=(later,), nominated_node_name="a")
    StatusPatch(one, pod("p"), None, NominatingInfo()).after(first)()
    assert status(one) == PodStatus(conditions=(FAILED,))
