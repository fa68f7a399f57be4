"""What an API server refuses of Karpenter's kinds, beside the cases `refused_pools` and `refused_changes`."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from tests.doors.kube import KARPENTER, schemas, spec_problems

POOL, OVERLAY = "karpenter.sh/v1/NodePool", "karpenter.sh/v1alpha1/NodeOverlay"
CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
TEMPLATE: dict[str, Any] = {"spec": {"nodeClassRef": CLASS, "requirements": []}}
LABELS = {"metadata": {"labels": {"karpenter.sh/nodepool": "x" * 64}}}
NOT_IN = {"requirements": [{"key": "a", "operator": "NotIn", "values": []}]}


def test_the_kinds_of_the_file_are_those_that_are_checked() -> None:
    assert set(schemas()) == set(KARPENTER)


@pytest.mark.parametrize(
    ("name", "spec", "text"),
    [
        (
            POOL,
            {"weight": "5"},
            'weight: Invalid value: "string": spec.weight in body must be of type integer: "string"',
        ),
        (
            POOL,
            {"template": TEMPLATE | LABELS},
            "template.metadata.labels.karpenter.sh/nodepool: Too long: may not be more than 63 bytes",
        ),
        (
            POOL,
            {"disruption": {"budgets": [{"nodes": "1"}] * 51}},
            "disruption.budgets: Too many: 51: must have at most 50 items",
        ),
        (
            OVERLAY,
            NOT_IN,
            "requirements: Invalid value: requirements with operator 'NotIn' must have a value defined",
        ),
    ],
)
def test_the_texts_are_those_of_a_server(name: str, spec: Any, text: str) -> None:
    whole = {"template": TEMPLATE} | spec if name == POOL else spec
    assert [f"{each.path}: {each.text}" for each in spec_problems(name, whole)] == [f"spec.{text}"]


def test_without_karpenter_nothing_of_it_is_loaded() -> None:
    code = (
        "import sys; from moorage import load;"
        "load([{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'a'}}]);"
        "print(sorted(name for name in sys.modules if 'custom_schemas' in name or 'kube.cel' in name))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "[]\n"
