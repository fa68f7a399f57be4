"""Pods that are alike are placed in turns, as one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import moorage as mo
from moorage.kube import Pod
from tests.doors.autoscalers import (
    ClusterAutoscaler,
    Flags,
    Memory,
    NodeSnapshot,
    PlacementHints,
    ScaledGroup,
    place_pods,
)


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


def singles() -> list[dict[str, Any]]:
    """Three stay on old nodes, six fill two new ones, and the last is alone on a third one."""
    return [pod(f"single-{at}", "1200m") for at in range(10)]


def loop(waiting: list[dict[str, Any]]) -> tuple[Any, ...]:
    found = mo.load([*[node(f"n{at}", "1") for at in range(2)], node("n2", "3"), node("n3", "2"), *waiting])
    scheduler, memory = mo.Scheduler(found), Memory()
    group = ScaledGroup("g", mo.load([node("g", "4")]).nodes[0])
    up = ClusterAutoscaler([group], Flags(), memory).run_once(scheduler, {}, 1e9, found.pods).up
    names = [[one.key for one in pods] for pods in (up.to_help, up.triggered)]
    return up.result, up.estimates, names, memory.last_hit, memory.hints.old


@pytest.mark.parametrize("waiting", [pods(), singles()], ids=["pods", "singles"])
def test_in_turns_is_one_by_one(waiting: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    together = loop(waiting)
    assert together[0] == "Successful"
    assert len(together[2][0]) > 3
    alone: list[Pod] = []
    plain = NodeSnapshot.plain

    def not_alone(snapshot: NodeSnapshot, pod: Pod) -> Any:
        found = plain(snapshot, pod)
        if found is not None and found.is_alone:
            alone.append(pod)
            return replace(found, is_alone=False)
        return found

    monkeypatch.setattr(NodeSnapshot, "plain", not_alone)
    assert loop(waiting) == together
    assert alone


def test_pods_go_where_they_were_last_and_the_others_in_turns() -> None:
    found = mo.load([*[node(f"n{at}", "2") for at in range(4)], *[pod(f"p{at}", "1") for at in range(6)]])
    snapshot = NodeSnapshot(mo.Scheduler(found).fork(), found.nodes)
    hints = PlacementHints(old={one.metadata.uid: "n3" for one in found.pods[1:4]})
    placed = place_pods(snapshot, found.pods, hints, np.ones(4, bool))
    assert placed == ["n1", "n3", "n3", "n2", "n0", "n1"]
    assert hints.current == dict(zip([one.metadata.uid for one in found.pods], placed, strict=True))


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
