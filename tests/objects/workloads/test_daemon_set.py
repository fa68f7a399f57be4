"""Daemon pods: on which nodes, and how they are pinned."""

from __future__ import annotations

from typing import Any

import pytest
from tests.objects.make import CONTAINERS, expand, node, workload

from moorage.kube import Pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def target(item: Pod) -> str:
    """The node that a new daemon pod is pinned to; it must be the only required term."""
    affinity = item.spec.affinity
    assert affinity is not None
    assert affinity.node_affinity is not None
    assert affinity.node_affinity.required is not None
    (term,) = affinity.node_affinity.required.node_selector_terms
    (field,) = term.match_fields
    assert term.match_expressions == ()
    assert (field.key, field.operator) == ("metadata.name", "In")
    (name,) = field.values
    return name


def daemon(**spec: Any) -> Any:
    template = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": CONTAINERS} | spec}
    return workload("DaemonSet", "d", {"template": template})


def test_one_pod_per_node() -> None:
    result = expand(node("a"), daemon(), node("b"))
    assert [target(item) for item in result.pods] == ["a", "b"]
    owner = result.pods[0].metadata.controller()
    assert owner is not None
    assert (owner.kind, owner.name) == ("DaemonSet", "d")
    assert result.pods[0].name.startswith("d-")
    assert set(result.pods[0].metadata.labels) == {"app", "controller-revision-hash"}
    assert result.pods[0].spec.node_name == ""


def in_zone(zone: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}


@pytest.mark.parametrize(
    ("spec", "nodes"),
    [
        ({}, ["a", "b"]),
        ({"nodeSelector": {"zone": "2"}}, ["b"]),
        ({"affinity": in_zone("1")}, ["a"]),
        ({"affinity": in_zone("1"), "nodeSelector": {"zone": "2"}}, []),
        ({"nodeName": "b"}, ["b"]),
        ({"nodeName": "elsewhere"}, []),
    ],
)
def test_nodes_that_match(spec: dict[str, Any], nodes: list[str]) -> None:
    result = expand(node("a", {"zone": "1"}), node("b", {"zone": "2"}), daemon(**spec))
    assert [target(item) for item in result.pods] == nodes


def test_tolerations_come_after_the_templates_without_repetition() -> None:
    unschedulable = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
    (item,) = expand(node("a"), daemon(tolerations=[{"key": "x", "operator": "Exists"}, unschedulable])).pods
    assert [(toleration.key, toleration.effect) for toleration in item.spec.tolerations] == [
        ("x", ""),
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    ]


def test_preferred_affinity_is_kept() -> None:
    preference = {"weight": 3, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
    affinity = in_zone("1")
    affinity["nodeAffinity"][PREFERRED] = [preference]
    (item,) = expand(node("a", {"zone": "1"}), daemon(affinity=affinity)).pods
    assert target(item) == "a"
    assert item.spec.affinity is not None
    assert item.spec.affinity.node_affinity is not None
    assert item.spec.affinity.node_affinity.preferred is not None
    assert item.spec.affinity.node_affinity.preferred[0].weight == 3
