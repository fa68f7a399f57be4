"""What an API server refuses of Karpenter's kinds, beside the case `refused_pools`."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from tests.doors.kube import KARPENTER, schemas, spec_problems

from moorage import load

POOL, CLAIM, OVERLAY = (
    "karpenter.sh/v1/NodePool",
    "karpenter.sh/v1/NodeClaim",
    "karpenter.sh/v1alpha1/NodeOverlay",
)
CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
TEMPLATE: dict[str, Any] = {"spec": {"nodeClassRef": CLASS, "requirements": []}}


def pool(uid: str = "", **spec: Any) -> dict[str, Any]:
    metadata = {"name": "default"} | ({"uid": uid} if uid else {})
    spec = {"template": TEMPLATE} | spec
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": metadata, "spec": spec}


def test_the_kinds_of_the_file_are_those_that_are_checked() -> None:
    assert set(schemas()) == set(KARPENTER)


@pytest.mark.parametrize(
    ("name", "spec", "texts"),
    [
        (POOL, {"template": TEMPLATE}, []),
        (POOL, {}, ["spec.template: Required value"]),
        (
            POOL,
            {"template": TEMPLATE, "weight": "5"},
            ['spec.weight: Invalid value: "string": spec.weight in body must be of type integer: "string"'],
        ),
        (
            POOL,
            {"template": TEMPLATE | {"metadata": {"labels": {"karpenter.sh/nodepool": "x" * 64}}}},
            ["spec.template.metadata.labels.karpenter.sh/nodepool: Too long: may not be more than 63 bytes"],
        ),
        (
            POOL,
            {"template": TEMPLATE | {"metadata": {"labels": {"kubernetes.io/hostname": "x"}}}},
            ['spec.template.metadata.labels: Invalid value: label "kubernetes.io/hostname" is restricted'],
        ),
        (
            POOL,
            {"template": TEMPLATE, "disruption": {"budgets": [{"nodes": "1"}] * 51}},
            ["spec.disruption.budgets: Too many: 51: must have at most 50 items"],
        ),
        (
            CLAIM,
            {"nodeClassRef": CLASS | {"name": ""}, "requirements": []},
            ['spec.nodeClassRef.name: Invalid value: "": name may not be empty'],
        ),
        (
            OVERLAY,
            {"requirements": [], "price": "1.0", "priceAdjustment": "+5%"},
            ["spec: Invalid value: cannot set both 'price' and 'priceAdjustment'"],
        ),
        (
            OVERLAY,
            {"requirements": [{"key": "a", "operator": "NotIn", "values": []}], "capacity": {"cpu": 4}},
            [
                "spec.capacity: Invalid value: invalid resource restricted",
                "spec.requirements: Invalid value: requirements with operator 'NotIn' must have a value "
                "defined",
            ],
        ),
    ],
)
def test_the_texts_are_those_of_a_server(name: str, spec: Any, texts: list[str]) -> None:
    assert [f"{one.path}: {one.text}" for one in spec_problems(name, spec)] == texts


def test_what_a_server_has_passes_its_rules_again_only_if_it_changes() -> None:
    budgets = {"budgets": [{"nodes": "1", "schedule": "@daily"}]}
    live = pool("u", disruption=budgets)
    assert load([live]).others
    (refused,) = load([live], [pool(disruption=budgets, weight=5)]).refused_objects
    assert "'schedule' must be set with 'duration'" in refused.message
    (refused,) = load([pool("u")], [pool(replicas=2)]).refused_objects
    assert "Cannot transition NodePool between static" in refused.message


def test_without_karpenter_nothing_of_it_is_loaded() -> None:
    code = (
        "import sys; from moorage import load;"
        "load([{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'a'}}]);"
        "print(sorted(name for name in sys.modules if 'custom_schemas' in name or 'moorage.cel' in name))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "[]\n"
