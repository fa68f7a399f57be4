"""Bad objects beside the cases `kube/refused_*`: what is too long for a line, and two objects of a name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.make import Json
from tests.objects.refusal import refusal

POD: Json = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
REQUEST = {"name": "r", "exactly": {"deviceClassName": "gpu"}}


def labelled(key: str, value: str) -> Json:
    return POD | {"metadata": {"name": "p", "labels": {key: value}}}


def claim(**request: Any) -> Json:
    return devices("ResourceClaim", {"devices": {"requests": [{"name": "r"} | request]}})


def devices(kind: str, spec: Json) -> Json:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": "x"}, "spec": spec}


def of_slice(count: int, **device: Any) -> Json:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    listed = [{"name": f"d{at}"} | device for at in range(count)]
    return devices("ResourceSlice", {"driver": "d", "pool": pool, "nodeName": "a", "devices": listed})


def named(count: int, value: Any) -> Json:
    return {f"m{at}": value for at in range(count)}


TAINTS = [{"key": "k", "effect": "NoSchedule"}]
FIRST = [{"name": f"s{at}", "deviceClassName": "gpu"} for at in range(9)]
BAD = [
    (POD | {"metadata": {"name": "a" * 254}}, "must be no more than 253 characters"),
    (labelled("a", "x" * 100_000), 'xxx": must be no more than 63 bytes'),
    (labelled("k" * 100_000, "v"), 'kkk": name part must be no more than 63 bytes'),
    (claim(firstAvailable=FIRST), "requests[0].firstAvailable: Too many: 9: must have at most 8 items"),
    (
        claim(exactly=REQUEST["exactly"] | {"selectors": [{"cel": {"expression": "a" * 20000}}]}),
        "selectors[0].cel.expression: Too long: may not be more than 10240 bytes",
    ),
    (
        devices("ResourceClaim", {"devices": {"requests": [REQUEST] * 33}}),
        "Too many: 33: must have at most 32 items",
    ),
    (of_slice(129), "spec.devices: Too many: 129: must have at most 128 items"),
    (of_slice(65, taints=TAINTS), "spec.devices: Too many: 65: must have at most 64 items"),
    (
        of_slice(1, attributes=named(1000, {"int": 1})),
        "Invalid value: 1000: the total number of attributes and capacities must not exceed 32",
    ),
    (
        of_slice(1, consumesCounters=[{"counterSet": "c", "counters": named(1000, {})}]),
        "consumesCounters[0].counters: Too many: 1000: must have at most 32 items",
    ),
]


@pytest.mark.parametrize(("value", "text"), BAD, ids=[text[-40:] for _, text in BAD])
def test_an_object_beyond_a_bound_is_refused_in_a_short_line(value: Json, text: str, tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text(json.dumps(value))
    assert refusal(tmp_path / "f.json").endswith(text)
