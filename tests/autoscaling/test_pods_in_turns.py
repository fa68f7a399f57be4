"""Pods that are alike are placed in turns, as one by one."""

from __future__ import annotations

from typing import Any

import pytest

import moorage as mo
from moorage.autoscaling.cluster_autoscaler import ClusterAutoscaler, Flags, Memory, NodeGroup
from moorage.autoscaling.cluster_autoscaler.node_snapshot import NodeSnapshot


def node(name: str, cpu: str) -> dict[str, Any]:
    room = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    head: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    return head | {"status": {"capacity": room, "allocatable": room}}


def pod(name: str, cpu: str, owner: str = "") -> dict[str, Any]:
    reference: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": owner,
        "uid": owner,
        "controller": True,
    }
    meta = {"name": name, "namespace": "default", "ownerReferences": [reference] if owner else []}
    box = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [box]}}


def pods() -> list[dict[str, Any]]:
    alone = [pod(f"{size}-{at}", size) for size in ("900m", "700m", "300m") for at in range(9)]
    return alone + [pod(f"{owner}-{at}", "1100m", owner) for owner in ("x", "y") for at in range(7)]


def loop() -> tuple[Any, ...]:
    found = mo.load([*[node(f"n{at}", f"{1 + at % 3}") for at in range(5)], *pods()])
    scheduler, memory = mo.Scheduler(found), Memory()
    group = NodeGroup("g", mo.load([node("g", "4")]).nodes[0])
    up = ClusterAutoscaler([group], Flags(), memory).run_once(scheduler, {}, 1e9, found.pods).up
    names = [[one.key for one in pods] for pods in (up.to_help, up.triggered)]
    return up.result, up.estimates, names, memory.last_hit, memory.hints.old


def test_in_turns_is_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    together = loop()
    assert together[0] == "Successful"
    assert len(together[2][0]) > 10
    calls: list[int] = []
    turns = NodeSnapshot._place_in_turns
    monkeypatch.setattr(NodeSnapshot, "_place_in_turns", lambda *one: (calls.append(1), turns(*one))[1])
    assert loop() == together
    assert calls
    monkeypatch.setattr(NodeSnapshot, "_is_alone", lambda self, target: False)
    assert loop() == together


HARD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}


@pytest.mark.parametrize(
    ("spec", "is_alone"),
    [
        ({}, True),
        ({"topologySpreadConstraints": [HARD | {"whenUnsatisfiable": "ScheduleAnyway"}]}, True),
        ({"topologySpreadConstraints": [HARD]}, False),
        ({"affinity": APART}, False),
    ],
)
def test_scores_keep_no_pod_from_turns(spec: dict[str, Any], is_alone: bool) -> None:
    one = pod("a", "1", "x")
    one["spec"] |= spec
    found = mo.load([node("n", "2"), one])
    scheduler = mo.Scheduler(found)
    scheduler.sync()
    snapshot = NodeSnapshot(scheduler.fork(), found.nodes)
    plain = snapshot.plain(found.pods[0])
    assert plain is not None
    assert plain.is_alone is is_alone
