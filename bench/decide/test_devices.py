"""Runs over pods with a claim or an extended resource of their own, on 500 nodes with ten devices each."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from moorage import Cluster, Scheduler
from moorage.engine.devices import DeviceDemands
from moorage.kube import Pod, decode_object

NODES, PODS, DRIVER = 500, 500, "gpu.example.com"
GROUP = {"apiVersion": "resource.k8s.io/v1"}


def world(extended: bool = False) -> Cluster:
    allocatable = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    devices = [{"name": f"d{at}"} for at in range(10)]
    expression = f'device.driver == "{DRIVER}"'
    objects: list[dict[str, Any]] = [
        GROUP
        | {"kind": "DeviceClass", "metadata": {"name": "gpu"}}
        | {"spec": {"selectors": [{"cel": {"expression": expression}}]}},
        GROUP
        | {"kind": "ResourceClaimTemplate", "metadata": {"name": "own", "namespace": "default"}}
        | {"spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}},
    ]
    if extended:
        objects += [
            objects[0]
            | {"metadata": {"name": f"gpu-{at}"}}
            | {"spec": objects[0]["spec"] | {"extendedResourceName": f"example.com/gpu-{at}"}}
            for at in range(PODS)
        ]
    for at in range(NODES):
        objects.append(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{at}"}}
            | {"status": {"allocatable": allocatable}}
        )
        pool = {"name": f"n{at}", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": f"n{at}", "pool": pool, "devices": devices}
        objects.append(GROUP | {"kind": "ResourceSlice", "metadata": {"name": f"s{at}"}, "spec": spec})
    uses = [{"name": "c", "resourceClaimTemplateName": "own"}]
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{at}", "namespace": "default"}}
        | {"spec": asks(at) if extended else {"containers": [{"name": "c"}], "resourceClaims": uses}}
        for at in range(PODS)
    ]
    made = [decode_object(one) for one in objects]
    nodes = [one for one in made if one.kind == "Node"]
    others = [one for one in made if one.kind != "Node"]
    decoded = [one for each in pods if isinstance(one := decode_object(each), Pod)]
    return Cluster(nodes=nodes, pods=decoded, others=others)  # type: ignore[arg-type]


def asks(at: int) -> dict[str, Any]:
    """The spec of a pod with an extended resource of its own."""
    amounts = {f"example.com/gpu-{at}": "1"}
    return {"containers": [{"name": "c", "resources": {"requests": amounts, "limits": amounts}}]}


@pytest.mark.parametrize("by", ["demand", "plugins"])
def test_run(benchmark: Any, report: Any, by: str) -> None:
    report("run over pods with a claim for a device each, per pod", PODS, by == "plugins")
    needs_of = DeviceDemands.needs_of

    def asked(demands: DeviceDemands, *rest: Any) -> Any:
        return needs_of(demands, *rest) if by == "demand" else None

    def run(scheduler: Scheduler) -> None:
        with patch.object(DeviceDemands, "needs_of", asked):
            assert len(scheduler.run().placements) == PODS

    def made() -> tuple[tuple[Scheduler], dict[str, Any]]:
        scheduler = Scheduler(world())
        scheduler.volumes.settle()  # makes the claims
        return (scheduler,), {}

    benchmark.pedantic(run, setup=made, rounds=3)


def test_run_over_extended_resources(benchmark: Any, report: Any) -> None:
    report("run over pods with an extended resource of a class each, per pod", PODS)

    def run(scheduler: Scheduler) -> None:
        assert len(scheduler.run().placements) == PODS

    benchmark.pedantic(run, setup=lambda: ((Scheduler(world(extended=True)),), {}), rounds=3)
