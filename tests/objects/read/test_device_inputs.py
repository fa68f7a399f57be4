"""Dumps with devices, beside the case `kube/devices_in_dumps`: what counts, and what is told of many."""

from __future__ import annotations

from typing import Any

import pytest
from tests.make import Json, make, manifest, node, pod

import moorage as mo

GROUP = "resource.k8s.io"


def item(kind: str, spec: Json, name: str = "x", version: str = "v1") -> Json:
    namespace = {"namespace": "default"} if kind.startswith("ResourceClaim") else {}
    metadata = {"name": name} | namespace
    return {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": metadata, "spec": spec}


def slice_spec(*devices: Json, pool: str = "pool") -> Json:
    of = {"name": pool, "generation": 1, "resourceSliceCount": 1}
    return {"driver": "d", "nodeName": "n", "pool": of, "devices": list(devices)}


@pytest.mark.parametrize("use", [{}, {"resourceClaims": [{"name": "g", "resourceClaimName": "gone"}]}])
def test_a_running_pod_counts_with_its_requests(use: dict[str, Any]) -> None:
    """Also if its claims are not listed, or the dump has kinds that are not known."""
    later = make("ResourceSlice", "later", apiVersion=f"{GROUP}/v1", metadata={"uid": "b"})
    running = pod("p", "n", {"cpu": "1"}, status={"phase": "Running"}, **use)
    unknown = manifest(later) | {"kind": "Later", "apiVersion": f"{GROUP}/v2"}
    one = mo.Scheduler(mo.load([manifest(node("n")), manifest(running), unknown]))
    assert one.run().placements == {}
    assert one.table.requested["cpu"].max() == 1000


def test_a_million_devices_of_invalid_pools_are_told_in_few_words() -> None:
    taken = [{"counterSet": "none", "counters": {"m": {"value": "1"}}}]
    devices = [{"name": f"a{at}", "consumesCounters": taken} for at in range(64)]
    specs = [slice_spec(*devices, pool=f"pool{at}") for at in range(200)]
    slices = [item("ResourceSlice", spec, f"x{at}") for at, spec in enumerate(specs)]
    warnings = mo.load([manifest(node("n")), *slices]).warnings
    assert len(warnings) == 20
    assert all(len(text) < 300 for text in warnings)
