"""Dumps with devices: earlier versions, fields and kinds that are not known, claims that are not listed,
pools that cannot be used. What is known counts, and there is one warning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.doors.kube import plain

import moorage as mo
from moorage.errors import InputError
from moorage.objects import (
    DeviceClass,
    DeviceTaintRule,
    Object,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)

GROUP = "resource.k8s.io"
Json = dict[str, Any]


def item(kind: str, spec: Json, version: str = "v1", name: str = "x", **meta: str) -> Json:
    metadata = {"name": name, **meta}
    if kind in ("ResourceClaim", "ResourceClaimTemplate"):
        metadata["namespace"] = "default"
    return {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": metadata, "spec": spec}


def running(claims: list[Json], **status: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "uid": "p"},
        "spec": {
            "nodeName": "n",
            "resourceClaims": claims,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        },
        "status": {"phase": "Running", **status},
    }


NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n", "uid": "n"},
    "status": {"allocatable": {"cpu": "4", "pods": "10"}},
}


def load(tmp_path: Path, *items: Json) -> mo.Cluster:
    path = tmp_path / "f.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)}))
    cluster = mo.load(path)
    cluster.warnings = [one.replace(f"{tmp_path}/", "") for one in cluster.warnings]
    return cluster


def slice_spec(device: Json, **more: Any) -> Json:
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
    return {"driver": "d", "nodeName": "n", "pool": pool, "devices": [device]} | more


def without_meta(obj: Object) -> Json:
    out = plain(obj)
    out.pop("metadata")
    return out


EXACT = {"deviceClassName": "gpu", "count": 2, "selectors": [{"cel": {"expression": "true"}}]}
FIRST = [{"name": "s", "deviceClassName": "gpu"}]
PROPERTIES = {"attributes": {"a": {"int": 1}}, "capacity": {"m": {"value": "1Gi"}}}
VERSIONS: dict[str, tuple[str, Json, Json]] = {
    "ResourceClaim": (
        "ResourceClaim",
        {"devices": {"requests": [{"name": "r", **EXACT}, {"name": "q", "firstAvailable": FIRST}]}},
        {"devices": {"requests": [{"name": "r", "exactly": EXACT}, {"name": "q", "firstAvailable": FIRST}]}},
    ),
    "ResourceClaimTemplate": (
        "ResourceClaimTemplate",
        {"spec": {"devices": {"requests": [{"name": "r", **EXACT}]}}},
        {"spec": {"devices": {"requests": [{"name": "r", "exactly": EXACT}]}}},
    ),
    "ResourceSlice": (
        "ResourceSlice",
        slice_spec({"name": "a", "basic": PROPERTIES}),
        slice_spec({"name": "a", **PROPERTIES}),
    ),
    "DeviceClass": (
        "DeviceClass",
        {"selectors": [{"cel": {"expression": "true"}}]},
        {"selectors": [{"cel": {"expression": "true"}}]},
    ),
}


@pytest.mark.parametrize("kind", VERSIONS)
def test_earlier_versions_are_read_into_v1(kind: str, tmp_path: Path) -> None:
    _, beta1, v1 = VERSIONS[kind]
    found = []
    for version, spec in (("v1beta1", beta1), ("v1beta2", v1), ("v1", v1)):
        cluster = load(tmp_path, item(kind, spec, version))
        assert cluster.warnings == []
        (one,) = cluster.others
        assert (one.kind, one.api_version) == (kind, f"{GROUP}/v1")
        found.append(without_meta(one))
    assert found[0] == found[1] == found[2]


def test_defaults_of_claims(tmp_path: Path) -> None:
    requests = [
        {"name": "r", "exactly": {"deviceClassName": "gpu"}},
        {"name": "a", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}},
        {
            "name": "f",
            "firstAvailable": [{"name": "s", "deviceClassName": "gpu", "tolerations": [{"key": "k"}]}],
        },
    ]
    (one,) = load(tmp_path, item("ResourceClaim", {"devices": {"requests": requests}})).others
    assert isinstance(one, ResourceClaim)
    first, every, alternatives = one.spec.devices.requests
    assert first.exactly is not None
    assert (first.exactly.allocation_mode, first.exactly.count) == ("ExactCount", 1)
    assert every.exactly is not None
    assert (every.exactly.allocation_mode, every.exactly.count) == ("All", 0)
    (alternative,) = alternatives.first_available
    assert (alternative.allocation_mode, alternative.count) == ("ExactCount", 1)
    assert alternative.tolerations[0].operator == "Equal"


@pytest.mark.parametrize("version", ["v1alpha3", "v1beta2", "v1"])
def test_taint_rules_are_read(version: str, tmp_path: Path) -> None:
    spec = {"deviceSelector": {"driver": "d"}, "taint": {"key": "k", "effect": "NoExecute"}}
    (rule,) = load(tmp_path, item("DeviceTaintRule", spec, version)).others
    assert isinstance(rule, DeviceTaintRule)
    assert rule.spec.taint.key == "k"
    with pytest.raises(InputError, match=r"spec\.taint\.effect: must be one of None, NoSchedule, NoExecute"):
        load(tmp_path, item("DeviceTaintRule", {"taint": {"key": "k", "effect": "Bad"}}, version))
    for name, value in (("driver", ""), ("pool", ""), ("device", "D 0")):
        with pytest.raises(InputError, match=rf"spec\.deviceSelector\.{name}"):
            load(tmp_path, item("DeviceTaintRule", spec | {"deviceSelector": {name: value}}, version))


def test_written_objects_are_read_again(tmp_path: Path) -> None:
    items = [item(kind, v1, name=f"x{at}") for at, (kind, _, v1) in enumerate(VERSIONS.values())]
    items.append(item("DeviceTaintRule", {"taint": {"key": "k", "effect": "NoExecute"}}, "v1beta2"))
    cluster = load(tmp_path, *items)
    assert {type(one) for one in cluster.others} == {
        ResourceClaim,
        ResourceClaimTemplate,
        ResourceSlice,
        DeviceClass,
        DeviceTaintRule,
    }
    again = load(tmp_path, *cluster.to_dict()["items"])
    assert again.others == cluster.others


def test_fields_of_a_newer_server_are_told_once(tmp_path: Path) -> None:
    items = [
        item("ResourceClaim", {"devices": {"newThing": 1}}, name=name, uid=name) for name in ("one", "two")
    ]
    device = {"name": "a", "basic": {**PROPERTIES, "newThing": 1}}
    items.append(item("ResourceSlice", slice_spec(device), "v1beta1", uid="s"))
    cluster = load(tmp_path, NODE, *items)
    assert cluster.warnings == [
        'f.json: ResourceClaim default/one: unknown field "spec.devices.newThing".',
        'f.json: ResourceSlice x: unknown field "spec.devices[0].basic.newThing".',
    ]
    assert len(cluster.others) == 3


def test_kinds_that_are_not_known(tmp_path: Path) -> None:
    """The pod on its node counts with its requests."""
    items = [
        item("ResourcePoolStatusRequest", {"driver": "d"}, "v1alpha3", uid="a"),
        item("Later", {}, "v2", uid="b"),
    ]
    cluster = load(tmp_path, NODE, *items, running([]))
    assert cluster.warnings == [
        "Left out, because scheduling does not read these kinds: Later.resource.k8s.io (1), "
        "ResourcePoolStatusRequest.resource.k8s.io (1)."
    ]
    assert mo.Scheduler(cluster).table.requested["cpu"].max() == 1000


UNLISTED = (
    "1 pod on a node has resource claims that are not in the input, "
    "so their devices count as free: default/p."
)


def test_a_running_pod_whose_claims_are_not_listed(tmp_path: Path) -> None:
    for use, status in (
        ({"name": "g", "resourceClaimName": "gone"}, {}),
        ({"name": "g", "resourceClaimTemplateName": "t"}, {}),
        (
            {"name": "g", "resourceClaimTemplateName": "t"},
            {"resourceClaimStatuses": [{"name": "g", "resourceClaimName": "gone"}]},
        ),
    ):
        cluster = load(tmp_path, NODE, running([use], **status))
        assert cluster.warnings == [UNLISTED]
        one = mo.Scheduler(cluster)
        assert one.run().placements == {}
        assert one.table.requested["cpu"].max() == 1000


def test_a_running_pod_whose_claims_are_listed(tmp_path: Path) -> None:
    claim = item("ResourceClaim", {"devices": {"requests": []}}, name="c")
    pod = running(
        [{"name": "g", "resourceClaimTemplateName": "t"}, {"name": "h", "resourceClaimTemplateName": "t"}],
        resourceClaimStatuses=[{"name": "g", "resourceClaimName": "c"}, {"name": "h"}],
    )
    assert load(tmp_path, NODE, claim, pod).warnings == []


def test_a_claim_of_pods_that_are_not_listed(tmp_path: Path) -> None:
    def claim(name: str, *users: str) -> Json:
        one = item("ResourceClaim", {"devices": {"requests": []}}, name=name)
        listed = [{"resource": "pods", "name": each, "uid": each} for each in users]
        return one | {"status": {"reservedFor": listed}}

    ended = running([]) | {"status": {"phase": "Succeeded"}}
    assert load(tmp_path, NODE, ended, claim("a", "p"), claim("b", "p", "gone")).warnings == []
    assert load(tmp_path, NODE, claim("a", "gone"), claim("b")).warnings == [
        "1 resource claim is reserved only for pods that are not in the input, so their devices count as "
        "free: default/a."
    ]


def consuming(counter_set: str, *counters: str) -> Json:
    taken = [{"counterSet": counter_set, "counters": {name: {"value": "1"} for name in counters}}]
    return {"name": "a", "consumesCounters": taken}


SETS = {"sharedCounters": [{"name": "c", "counters": {"m": {"value": "4"}}}]}
PROBLEMS = {
    "unknown set": (
        slice_spec(consuming("none", "m"), **SETS),
        'spec.devices[0].consumesCounters[0].counterSet: no counter set "none" in the pool',
    ),
    "unknown counter": (
        slice_spec(consuming("c", "m", "n"), **SETS),
        'spec.devices[0].consumesCounters[0].counters[n]: no counter "n" in counter set "c"',
    ),
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_pools_that_are_invalid(case: str, tmp_path: Path) -> None:
    spec, problem = PROBLEMS[case]
    cluster = load(tmp_path, NODE, item("ResourceSlice", spec))
    assert cluster.warnings == [f"f.json: ResourceSlice x: {problem}: no device of pool d/pool is allocated."]


def test_slices_of_one_pool(tmp_path: Path) -> None:
    """Two slices name a device, or a counter set; on two nodes a name may occur twice."""
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 2}

    def warnings(first: Json, second: Json) -> list[str]:
        items = [item("ResourceSlice", one, name=f"x{at}") for at, one in enumerate((first, second))]
        return load(tmp_path, NODE, *items).warnings

    device = slice_spec({"name": "a"}, pool=pool)
    assert warnings(device, device) == [
        'f.json: ResourceSlice x1: spec.devices[0].name: duplicate device "a" in the pool: '
        "no device of pool d/pool is allocated."
    ]
    assert warnings(device, device | {"nodeName": "m"}) == []
    counters = slice_spec({"name": "b"}, pool=pool, **SETS)
    assert "duplicate counter set" in warnings(counters, counters)[0]
    assert warnings(slice_spec(consuming("c", "m"), pool=pool), counters) == []
    other = counters | {"pool": pool | {"generation": 2}}
    assert warnings(slice_spec(consuming("none", "m"), pool=pool), other) == []  # incomplete


def test_a_million_devices_of_invalid_pools_are_told_in_few_words(tmp_path: Path) -> None:
    items = []
    for at in range(200):
        spec = slice_spec(consuming("none", "m"))
        spec["devices"] = [consuming("none", "m") | {"name": f"a{one}"} for one in range(64)]
        spec["pool"] = spec["pool"] | {"name": f"pool{at}"}
        items.append(item("ResourceSlice", spec, name=f"x{at}"))
    cluster = load(tmp_path, NODE, *items)
    assert len(cluster.warnings) == 20
    assert all(len(one) < 300 for one in cluster.warnings)
