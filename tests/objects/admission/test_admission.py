"""Tolerations that admission merges, and pods that it refuses; what it fills in say cases and vectors."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import convert
from tests.doors.kube import merge_tolerations
from tests.make import Json, template

from moorage import expanded, load
from moorage.kube import Cluster, Toleration

NODE = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "64", "pods": "110"}}}


def deployment(replicas: int, **spec: Any) -> Json:
    inside = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": template("web", **spec),
    }
    metadata = {"name": "web", "namespace": "shop"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": inside}


def read(*objects: Json) -> Cluster:
    return expanded(load([NODE, *objects]))


def test_pods_that_admission_refuses_are_told() -> None:
    quota = {
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "shop"},
        "spec": {"hard": {"pods": 1}},
    }
    ephemeral = {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}
    cluster = read(quota, deployment(3, volumes=[{"name": "data", "ephemeral": ephemeral}]))
    text = f"2 new pods are refused by admission, such as: {cluster.refused[0].message}."
    assert cluster.warnings == [text]
    assert [one.name for one in cluster.others if one.kind == "PersistentVolumeClaim"] == [
        f"{cluster.pods[0].name}-data"
    ]


EVERYTHING, OF_KEY = {"operator": "Exists"}, {"key": "k", "operator": "Exists"}
OF_VALUE = {"key": "k", "operator": "Equal", "value": "v"}
BRIEF, LONG = ({**OF_KEY, "effect": "NoExecute", "tolerationSeconds": seconds} for seconds in (5, 9))


@pytest.mark.parametrize(
    ("tolerations", "kept"),
    [
        ([OF_KEY, EVERYTHING], [EVERYTHING]),
        ([EVERYTHING, OF_KEY], [EVERYTHING]),
        ([OF_KEY, {**OF_KEY, "key": "l"}], [OF_KEY, {**OF_KEY, "key": "l"}]),
        ([OF_KEY, {**OF_KEY, "key": "l"}, OF_KEY], [OF_KEY, {**OF_KEY, "key": "l"}]),
        ([OF_VALUE, OF_KEY], [OF_KEY]),
        ([OF_KEY, OF_VALUE], [OF_KEY]),
        ([OF_VALUE, {**OF_VALUE, "value": "w"}], [OF_VALUE, {**OF_VALUE, "value": "w"}]),
        ([{**OF_VALUE, "effect": "NoSchedule"}, OF_VALUE], [OF_VALUE]),
        ([{**OF_KEY, "effect": "NoSchedule"}, LONG], [{**OF_KEY, "effect": "NoSchedule"}, LONG]),
        ([BRIEF, LONG], [LONG]),
        ([LONG, BRIEF], [LONG]),
        ([{**OF_KEY, "effect": "NoExecute"}, LONG], [{**OF_KEY, "effect": "NoExecute"}]),
    ],
)
def test_tolerations_that_another_includes_are_left_out(tolerations: list[Json], kept: list[Json]) -> None:
    merged = merge_tolerations(convert(tolerations, tuple[Toleration, ...]))
    assert merged == convert(kept, tuple[Toleration, ...])
