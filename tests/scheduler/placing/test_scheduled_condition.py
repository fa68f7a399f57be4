"""What the scheduler writes to a pod's status."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.doors.engine import StatusPatch, not_scheduled, patch_pod
from tests.make import pod

from moorage.engine.framework import NominatingInfo
from moorage.kube import Condition, Pod, PodStatus
from moorage.store import ForbiddenError, ObjectStore

FAILED = not_scheduled("Unschedulable", "no room")
OTHER = Condition(type="Ready", status="True")


def store(kind: type[ObjectStore] = ObjectStore, **status: Any) -> ObjectStore:
    out = kind()
    out.create(replace(pod("p"), status=PodStatus(**status)))
    return out


def status(of: ObjectStore) -> PodStatus:
    return of.get(Pod, "p", "default").status


def test_the_condition_is_added_or_replaced_in_its_place() -> None:
    one = store(conditions=(OTHER,))
    patch_pod(one, pod("p"), FAILED, None)
    assert status(one).conditions == (OTHER, FAILED)
    error = not_scheduled("SchedulerError", "boom")
    patch_pod(one, pod("p"), error, None)
    assert status(one).conditions == (OTHER, error)


@pytest.mark.parametrize(("before", "kept"), [("False", "then"), ("True", None)])
def test_the_time_of_the_transition_stays_where_there_is_none(before: str, kept: str | None) -> None:
    held = Condition(type="PodScheduled", status=before, last_transition_time="then")
    one = store(conditions=(held,))
    patch_pod(one, pod("p"), FAILED, None)
    assert status(one).conditions == (replace(FAILED, last_transition_time=kept),)


def test_a_nomination_stays_until_another_is_written() -> None:
    one = store(nominated_node_name="a")
    patch_pod(one, pod("p"), None, NominatingInfo(noop=True))
    patch_pod(one, pod("p"), None, None)
    assert status(one).nominated_node_name == "a"
    patch_pod(one, pod("p"), None, NominatingInfo("b"))
    assert status(one).nominated_node_name == "b"
    patch_pod(one, pod("p"), None, NominatingInfo())
    assert status(one).nominated_node_name == ""


def test_what_changes_nothing_is_not_written() -> None:
    one = store(conditions=(FAILED,), nominated_node_name="a")
    version = one.get(Pod, "p", "default").metadata.resource_version
    patch_pod(one, pod("p"), FAILED, NominatingInfo("a"))
    assert one.get(Pod, "p", "default").metadata.resource_version == version


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
