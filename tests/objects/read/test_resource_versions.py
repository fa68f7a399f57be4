"""Claims, templates and slices of earlier versions are read into v1, with its defaults."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.kube import ResourceClaim, ResourceClaimTemplate, ResourceSlice, build_cluster, decode_object

EXACT = {"deviceClassName": "gpu", "count": 2, "selectors": [{"cel": {"expression": "true"}}]}
ALTERNATIVES = {"name": "s", "firstAvailable": [{"name": "t", "deviceClassName": "gpu"}]}
PROPERTIES = {"attributes": {"model": {"string": "a"}}, "capacity": {"memory": {"value": "1Gi"}}}


def document(kind: str, version: str, spec: dict[str, Any]) -> dict[str, Any]:
    name = {"name": "x", "namespace": "" if kind == "ResourceSlice" else "default", "uid": "u"}
    return {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": name, "spec": spec}


def of_slice(devices: list[Any]) -> dict[str, Any]:
    return {
        "driver": "d",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "n",
        "devices": devices,
    }


CLAIM = {"devices": {"requests": [{"name": "r", "exactly": EXACT}, ALTERNATIVES]}}
CLAIM_BETA1 = {"devices": {"requests": [{"name": "r", **EXACT}, ALTERNATIVES]}}
CASES = [
    ("ResourceClaim", CLAIM, CLAIM_BETA1),
    ("ResourceClaimTemplate", {"spec": CLAIM}, {"spec": CLAIM_BETA1}),
    (
        "ResourceSlice",
        of_slice([{"name": "a", **PROPERTIES}]),
        of_slice([{"name": "a", "basic": PROPERTIES}]),
    ),
    ("DeviceClass", {"selectors": EXACT["selectors"]}, {"selectors": EXACT["selectors"]}),
]


@pytest.mark.parametrize(("kind", "spec", "beta1"), CASES)
def test_an_earlier_version_is_read_into_v1(kind: str, spec: Any, beta1: Any) -> None:
    expected = decode_object(document(kind, "v1", spec))
    for flat in ("v1alpha3", "v1beta1"):
        assert decode_object(document(kind, flat, beta1)) == expected
    assert decode_object(document(kind, "v1beta2", spec)) == expected


def test_a_rule_keeps_its_version() -> None:
    rule = document("DeviceTaintRule", "v1beta2", {"taint": {"key": "k", "effect": "NoSchedule"}})
    assert decode_object(rule).api_version == "resource.k8s.io/v1beta2"


def test_claims_get_defaults() -> None:
    spec = {
        "devices": {
            "requests": [
                {"name": "r", "exactly": {"deviceClassName": "gpu", "tolerations": [{"key": "k"}]}},
                {"name": "all", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}},
                ALTERNATIVES,
            ]
        }
    }
    claim, template = build_cluster(
        [
            decode_object(document("ResourceClaim", "v1", spec)),
            decode_object(
                document("ResourceClaimTemplate", "v1", {"spec": spec}) | {"metadata": {"name": "y"}}
            ),
        ]
    ).others
    assert isinstance(claim, ResourceClaim)
    assert isinstance(template, ResourceClaimTemplate)
    assert template.spec.spec == claim.spec
    exact, every, listed = claim.spec.devices.requests
    assert exact.exactly is not None
    assert (exact.exactly.allocation_mode, exact.exactly.count) == ("ExactCount", 1)
    assert exact.exactly.tolerations[0].operator == "Equal"
    assert every.exactly is not None
    assert (every.exactly.allocation_mode, every.exactly.count) == ("All", 0)
    assert listed.first_available[0].count == 1


def test_a_missing_list_of_binding_conditions_is_no_empty_one() -> None:
    slices = of_slice([{"name": "a", "bindingConditions": []}, {"name": "b"}])
    one = decode_object(document("ResourceSlice", "v1", slices))
    assert isinstance(one, ResourceSlice)
    assert [device.binding_conditions for device in one.spec.devices] == [(), None]
