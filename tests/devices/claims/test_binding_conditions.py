"""Conditions that drivers report about allocated devices: when a claim is ready, failed, or overdue."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.modes import Mode
from tests.conformance.replay import replay
from tests.devices.make import DRIVER, claim, device, device_class, request, resource_slice
from tests.doors.engine import BindingError, is_overdue, is_ready

from moorage.kube import ResourceClaim, object_to_dict

BINDS = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}


def reported(name: str, **conditions: str) -> dict[str, Any]:
    """What the driver has told of a device."""
    told = [{"type": one, "status": status, "reason": "Why"} for one, status in conditions.items()]
    return {"driver": DRIVER, "pool": "pool", "device": name, "conditions": told}


def allocated(*devices: str, reports: list[dict[str, Any]] | None = None, **more: Any) -> ResourceClaim:
    results = [
        {"request": "r", "driver": DRIVER, "pool": "pool", "device": one, **BINDS, **more} for one in devices
    ]
    allocation = {"devices": {"results": results}, "allocationTimestamp": "2026-01-01T00:00:00Z"}
    return claim("c", [request()], allocation=allocation, devices=reports or [])


def test_a_claim_without_an_allocation_is_not_ready() -> None:
    assert not is_ready(claim("c", [request()]))


def test_all_conditions_of_all_devices_have_to_be_true() -> None:
    one, other = reported("d0", attached="True"), reported("d1", attached="True")
    assert is_ready(allocated("d0", "d1", reports=[one, other]))
    assert not is_ready(allocated("d0", "d1", reports=[one]))
    assert not is_ready(allocated("d0", "d1", reports=[one, reported("d1", attached="False")]))
    assert is_ready(allocated("d0", bindingConditions=[]))


def test_a_device_that_has_failed_is_told_with_its_reason() -> None:
    with pytest.raises(BindingError, match='claim=c, reason=Why, message=""'):
        is_ready(allocated("d0", reports=[reported("d0", attached="True", broken="True")]))
    assert not is_ready(allocated("d0", reports=[reported("d0", broken="False")]))


def test_the_first_device_that_is_not_ready_hides_failures_of_those_after_it() -> None:
    failed = reported("d1", attached="True", broken="True")
    assert not is_ready(allocated("d0", "d1", reports=[failed]))
    with pytest.raises(BindingError):
        is_ready(allocated("d1", "d0", reports=[failed]))


def test_of_several_shares_of_a_device_the_first_report_counts() -> None:
    reports = [
        {**reported("d0", attached=status), "shareID": share}
        for share, status in (("a", "True"), ("b", "False"))
    ]
    assert is_ready(allocated("d0", reports=reports, shareID="b"))


def test_a_claim_is_overdue_a_timeout_after_its_allocation() -> None:
    began = 1_767_225_600.0
    assert not is_overdue(allocated("d0"), 1.0, began + 0.5)
    assert is_overdue(allocated("d0"), 1.0, began + 1.0)
    assert not is_overdue(claim("c", [request()]), 1.0, began + 9.0)


def test_a_claim_is_deleted_as_it_was_when_its_device_failed() -> None:
    """The claim that was read while the pod waited is the one whose finalizer goes: no conflict."""
    gpus = resource_slice("n", [device("d0", **BINDS)])
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    node["status"] = {"allocatable": {"cpu": "4", "memory": "4Gi", "pods": "9"}}  # type: ignore[assignment]
    classes = device_class("gpu", extendedResourceName="example.com/gpu")
    asks = {"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}
    meta = {"name": "p", "namespace": "default", "uid": "p"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta}
    step = {"op": "schedule", "pod": pod | {"spec": {"containers": [asks]}}}
    failing = step | {"conditions": reported("d0", broken="True")["conditions"]}
    scenario = {"name": "s", "family": "dra", "seed": 1, "mode": "dra", "steps": [failing]}
    scenario["objects"] = [node, object_to_dict(classes), object_to_dict(gpus)]
    _, result = replay(scenario, Mode())
    assert "device binding failed" in result["preBind"]
    kinds = [write.partition(" ")[0] for write in result["writes"]]
    assert kinds == ["create", "update", "updateStatus", "patchPod", "update", "delete"]
