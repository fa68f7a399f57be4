"""Bad claims, classes and slices: the one line that they are refused with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.objects.refusal import refusal

EXACT = {"deviceClassName": "gpu"}
REQUEST = {"name": "r", "exactly": EXACT}
SLICE = {"driver": "d", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}


def claim(request: dict[str, Any] | None = None, **fields: Any) -> tuple[str, dict[str, Any]]:
    return "ResourceClaim", {"devices": {"requests": [REQUEST if request is None else request], **fields}}


def of_slice(**fields: Any) -> tuple[str, dict[str, Any]]:
    return "ResourceSlice", SLICE | {"nodeName": "n"} | fields


def device(**fields: Any) -> tuple[str, dict[str, Any]]:
    return of_slice(devices=[{"name": "a", **fields}])


def policy(**fields: Any) -> tuple[str, dict[str, Any]]:
    return device(capacity={"m": {"value": "8", "requestPolicy": fields}})


def exactly(**fields: Any) -> tuple[str, dict[str, Any]]:
    return claim({"name": "r", "exactly": EXACT | fields})


TERM = {"matchExpressions": [{"key": "k", "operator": "Exists"}]}
ONE_OF_NODES = "exactly one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection is required"
BAD = {
    "no request": (claim({"name": "r"}), "spec.devices.requests[0]: exactly one of exactly and firstAvail"),
    "both": (
        claim(REQUEST | {"firstAvailable": [EXACT | {"name": "s"}]}),
        "spec.devices.requests[0]: exactly one of exactly and firstAvailable is required",
    ),
    "no class": (claim({"name": "r", "exactly": {"count": 1}}), "requests[0].exactly.deviceClassName: req"),
    "alternatives": (
        claim({"name": "r", "firstAvailable": [EXACT | {"name": f"s{at}"} for at in range(9)]}),
        "spec.devices.requests[0].firstAvailable: must have at most 8 items, not 9",
    ),
    "mode": (
        exactly(allocationMode="Some"),
        'exactly.allocationMode: must be one of ExactCount, All, not "S',
    ),
    "count with All": (exactly(allocationMode="All", count=1), "exactly.count: must not be set with alloc"),
    "negative count": (exactly(count=-1), "exactly.count: Invalid value: -1: must be greater than zero"),
    "negative count of an alternative": (
        claim({"name": "r", "firstAvailable": [EXACT | {"name": "s", "count": -2}]}),
        "requests[0].firstAvailable[0].count: Invalid value: -2: must be greater than zero",
    ),
    "capacity": (exactly(capacity={"requests": {"memory": "1Gx"}}), 'capacity.requests[memory]: "1Gx" is n'),
    "selector": (exactly(selectors=[{}]), "spec.devices.requests[0].exactly.selectors[0].cel: required"),
    "expression": (exactly(selectors=[{"cel": {"expression": ""}}]), "selectors[0].cel.expression: required"),
    "long expression": (
        exactly(selectors=[{"cel": {"expression": "a" * 20000}}]),
        "selectors[0].cel.expression: must have at most 10240 characters, not 20000",
    ),
    "toleration": (
        exactly(tolerations=[{"operator": "Equal"}]),
        "tolerations[0].operator: must be Exists wh",
    ),
    "same name": (
        ("ResourceClaim", {"devices": {"requests": [REQUEST, REQUEST]}}),
        'spec.devices.requests[1].name: duplicate name "r"',
    ),
    "requests": (
        ("ResourceClaim", {"devices": {"requests": [REQUEST] * 33}}),
        "spec.devices.requests: must have at most 32 items, not 33",
    ),
    "constraint": (claim(constraints=[{}]), "constraints[0]: exactly one of matchAttribute and"),
    "two constraints in one": (
        claim(constraints=[{"matchAttribute": "a/b", "distinctAttribute": "a/b"}]),
        "spec.devices.constraints[0]: exactly one of matchAttribute and distinctAttribute is required",
    ),
    "unknown request": (
        claim(constraints=[{"matchAttribute": "a/b", "requests": ["q"]}]),
        'spec.devices.constraints[0].requests: no request "q"',
    ),
    "configuration of an unknown request": (
        claim(config=[{"requests": ["q"]}]),
        'spec.devices.config[0].requests: no request "q"',
    ),
    "no driver": (("ResourceSlice", {"pool": SLICE["pool"], "allNodes": True}), "spec.driver: required"),
    "no nodes": (("ResourceSlice", SLICE), f"spec: {ONE_OF_NODES}"),
    "two kinds of nodes": (of_slice(allNodes=True), f"spec: {ONE_OF_NODES}"),
    "no slices": (
        of_slice(pool={"name": "p"}),
        "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than or equal to 1",
    ),
    "two devices of a name": (
        of_slice(devices=[{"name": "a"}, {"name": "a"}]),
        'spec.devices[1].name: duplicate name "a"',
    ),
    "too many devices": (
        of_slice(devices=[{"name": f"d{at}"} for at in range(129)]),
        "spec.devices: must have at most 128 items, not 129",
    ),
    "too many devices with taints": (
        of_slice(
            devices=[{"name": f"d{at}", "taints": [{"key": "k", "effect": "NoSchedule"}]} for at in range(65)]
        ),
        "spec.devices: must have at most 64 items, not 65",
    ),
    "a thousand attributes": (
        device(attributes={f"a{at}": {"int": 1} for at in range(1000)}),
        "spec.devices[0]: must have at most 32 attributes and capacities, not 1000",
    ),
    "no value": (
        device(attributes={"a": {}}),
        "spec.devices[0].attributes[a]: exactly one value is required",
    ),
    "two values": (device(attributes={"a": {"int": 1, "bool": True}}), "attributes[a]: exactly one value is"),
    "version": (
        device(attributes={"a": {"version": "1.0"}}),
        'attributes[a].version: "1.0" is not a semanti',
    ),
    "text": (device(attributes={"a": {"string": "x" * 65}}), "a].string: must have at most 64 characters, n"),
    "value of a capacity": (
        device(capacity={"m": {"value": "x"}}),
        'capacity[m].value: "x" is not a quantity',
    ),
    "effect": (device(taints=[{"key": "k", "effect": "Never"}]), "taints[0].effect: must be one of None, No"),
    "counter": (
        of_slice(sharedCounters=[{"name": "c", "counters": {"m": {"value": "-1"}}}]),
        'spec.sharedCounters[0].counters[m].value: Invalid value: "-1": must be greater than or equal to 0',
    ),
    "a counter set twice": (
        device(consumesCounters=[{"counterSet": "c", "counters": {"m": {"value": "1"}}}] * 2),
        'spec.devices[0].consumesCounters[1].counterSet: duplicate name "c"',
    ),
    "no counters": (of_slice(sharedCounters=[{"name": "c"}]), "spec.sharedCounters[0].counters: required"),
    "a thousand counters": (
        device(consumesCounters=[{"counterSet": "c", "counters": {f"m{at}": {} for at in range(1000)}}]),
        "consumesCounters[0].counters: must have at most 32 items, not 1000",
    ),
    "a device with a node": (
        device(nodeName="n"),
        "spec.devices[0]: nodeName, nodeSelector and allNodes can",
    ),
    "a device without nodes": (
        ("ResourceSlice", SLICE | {"perDeviceNodeSelection": True, "devices": [{"name": "a"}]}),
        "spec.devices[0]: exactly one of nodeName, nodeSelector and allNodes is required with perDeviceNode",
    ),
    "two terms": (
        ("ResourceSlice", SLICE | {"nodeSelector": {"nodeSelectorTerms": [TERM, TERM]}}),
        "spec.nodeSelector.nodeSelectorTerms: must have exactly one node selector term",
    ),
    "two policies": (
        policy(default="1", validValues=["1"], validRange={"min": "1"}),
        "capacity[m].requestPolicy: exactly one of validValues and validRange is allowed",
    ),
    "no default": (policy(validRange={"min": "1"}), "requestPolicy.default: required with validValues or"),
    "no minimum": (policy(default="1", validRange={"max": "1"}), "requestPolicy.validRange.min: required"),
    "no step": (policy(default="1", validRange={"min": "1", "step": "0"}), "validRange.step: must not be 0"),
    "many values": (
        policy(default="1", validValues=[str(at) for at in range(11)]),
        "requestPolicy.validValues: must have at most 10 items, not 11",
    ),
    "a policy for one allocation": (
        policy(default="1", validRange={"min": "1"}),
        "spec.devices[0].capacity[m].requestPolicy: Forbidden: allowMultipleAllocations must be true",
    ),
    "device name": (of_slice(devices=[{"name": "Dev_0"}]), 'devices[0].name: "Dev_0" is not a DNS label'),
    "long device name": (of_slice(devices=[{"name": "a" * 64}]), 'a" is not a DNS label'),
    "conditions without failures": (
        device(bindingConditions=["x"]),
        "bindingFailureConditions: bindingFailureConditions are required to use bindingConditions",
    ),
    "failures without conditions": (
        device(bindingFailureConditions=["x"]),
        "bindingConditions: bindingConditions are required to use bindingFailureConditions",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_device_objects_are_refused_with_their_field(case: str, tmp_path: Path) -> None:
    (kind, spec), expected = BAD[case]
    path = tmp_path / "f.json"
    document = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    path.write_text(json.dumps(document))
    text = refusal(path)
    assert text.startswith(f"f.json: {kind} ")
    assert expected in text
