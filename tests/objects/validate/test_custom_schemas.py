"""What an API server refuses of Karpenter's kinds, beside the cases `refused_pools` and `refused_changes`."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from tests.make import written

from moorage import load

NODE = written("v1/Node", "n")
POOL, OVERLAY = "karpenter.sh/v1/NodePool", "karpenter.sh/v1alpha1/NodeOverlay"
CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
TEMPLATE: dict[str, Any] = {"spec": {"nodeClassRef": CLASS, "requirements": []}}
LABELS = {"metadata": {"labels": {"karpenter.sh/nodepool": "x" * 64}}}
NOT_IN = {"requirements": [{"key": "a", "operator": "NotIn", "values": []}]}


@pytest.mark.parametrize(
    ("name", "spec", "text"),
    [
        (
            POOL,
            {"template": TEMPLATE | LABELS},
            f'template.metadata.labels: Invalid value: "{64 * "x"}": must be no more than 63 bytes',
        ),
        (
            POOL,
            {"disruption": {"budgets": [{"nodes": "1"}] * 51}},
            "disruption.budgets: Too many: 51: must have at most 50 items",
        ),
        (
            OVERLAY,
            NOT_IN,
            "requirements: Invalid value: ",
        ),
    ],
)
def test_the_texts_are_those_of_a_server(name: str, spec: Any, text: str) -> None:
    version, _, kind = name.rpartition("/")
    whole = {"template": TEMPLATE} | spec if name == POOL else spec
    obj = {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": whole}
    (refused,) = load([NODE], [obj], refused="ignore").refused_objects
    assert f'{kind}.karpenter.sh "a" is invalid: spec.{text}' in refused.message


def test_without_karpenter_nothing_of_it_is_loaded() -> None:
    code = (
        "import sys; from moorage import load;"
        "load([{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'a'}}]);"
        "print(sorted(name for name in sys.modules if 'custom_schemas' in name or 'kube.cel' in name))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "[]\n"
