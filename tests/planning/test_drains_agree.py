"""A drain, its plan, the loss of the node and its removal agree about which pods have no place then."""

from __future__ import annotations

from typing import Any

import pytest

import moorage as mo
from tests.make import Json, cluster, make, node, pod, workload

TRACKED = {"finalizers": ["batch.kubernetes.io/job-tracking"]}
READY, UNREADY = (
    {"phase": "Running", "conditions": [{"type": "Ready", "status": each}]} for each in ("True", "False")
)
DISRUPTED = {"onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
HIGH = make("PriorityClass", "high", value=1000)


def indexed(at: int) -> Json:
    return TRACKED | {"annotations": {"batch.kubernetes.io/job-completion-index": str(at)}}


def with_pods(
    owner: Any, *on: str, cpu: Any = 1, metadata: Any = None, status: Any = (), **spec: Any
) -> list[Any]:
    """A workload and a pod of it on each of some nodes; a status may be given for each."""
    name, reference = owner.name, {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name}
    meta = {"ownerReferences": [reference | {"uid": name, "controller": True}]}
    states = dict(enumerate(status))
    return [
        owner,
        *[
            pod(
                f"{name}-{at}",
                where,
                {"cpu": cpu},
                labels={"app": name},
                metadata=meta | (metadata(at) if callable(metadata) else metadata or {}),
                status=states.get(at, READY),
                **spec,
            )
            for at, where in enumerate(on)
        ],
    ]


def job(*on: str, metadata: Any = TRACKED, **spec: Any) -> list[Any]:
    return with_pods(
        workload("Job", "job", len(on), {"cpu": 1}, completions=len(on), **spec), *on, metadata=metadata
    )


def ordered(*on: str, status: Any = (), **spec: Any) -> list[Any]:
    return with_pods(workload("StatefulSet", "db", len(on), {"cpu": 1}, **spec), *on, status=status)


def first(cpu: Any = 4) -> list[Any]:
    """A pod that takes the place of others."""
    spec = {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
        "priorityClassName": "high",
    }
    owner = workload(
        "ReplicaSet", "first", 1, template={"metadata": {"labels": {"app": "first"}}, "spec": spec}
    )
    return [HIGH, *with_pods(owner, "n1", cpu=cpu, priority=1000, priority_class_name="high")]


KEPT: dict[str, list[Any]] = {
    "a Job that may fail": job("n1", backoffLimit=6),
    "a Job that ignores it": job(
        "n1", backoffLimit=0, podFailurePolicy={"rules": [{"action": "Ignore"} | DISRUPTED]}
    ),
    "an index that may fail": job(
        "n1", "n2", metadata=indexed, completionMode="Indexed", backoffLimitPerIndex=1
    ),
    "pods before it on the node": ordered("n1", "n1", status=[UNREADY]),
    "pods in parallel": ordered("n2", "n1", status=[UNREADY], podManagementPolicy="Parallel"),
    "a ReplicaSet that is not in the input": with_pods(workload("ReplicaSet", "web", 1), "n1")[1:],
    "one that moves for another": [*first(), *with_pods(workload("ReplicaSet", "web", 1), "n2", cpu=1)],
    "one that waits anyway": [workload("ReplicaSet", "large", 1, {"cpu": 9}), *ordered("n1")],
}
LOST: dict[str, list[Any]] = {
    "a Job": job("n1", backoffLimit=0),
    "a Job by its policy": job("n1", podFailurePolicy={"rules": [{"action": "FailJob"} | DISRUPTED]}),
    "an index": job("n1", "n2", metadata=indexed, completionMode="Indexed", backoffLimitPerIndex=0),
    "an index by the policy": job(
        "n1",
        "n2",
        metadata=indexed,
        completionMode="Indexed",
        backoffLimitPerIndex=3,
        podFailurePolicy={"rules": [{"action": "FailIndex"} | DISRUPTED]},
    ),
    "pods before it elsewhere": ordered("n2", "n1", status=[UNREADY]),
    "a Job that another takes the place of": [*first(), *job("n2", "n3", backoffLimit=0)],
    "one that would find a node": [
        workload("ReplicaSet", "large", 1, {"cpu": 3}),
        *with_pods(workload("ReplicaSet", "web", 1), "n1", cpu=1),
        *with_pods(workload("ReplicaSet", "rest", 2), "n2", "n3", cpu=2),
    ],
}
LOST["pods without a controller"] = [pod("bare", "n1", {"cpu": 1})]


@pytest.mark.parametrize(
    ("objects", "is_lost"),
    [*((each, False) for each in KEPT.values()), *((each, True) for each in LOST.values())],
    ids=[*KEPT, *LOST],
)
def test_what_a_drain_loses(objects: list[Any], is_lost: bool) -> None:
    listed = cluster(node("n1"), node("n2"), node("n3", cpu="2"), objects)

    def fresh() -> mo.Scheduler:
        return mo.Scheduler(listed)

    passes, new_only = not is_lost, not mo.check(listed)
    plan = fresh().ask.drain_plan(["n1"])
    assert bool(plan) is passes
    assert ("n1" in fresh().ask.drain_plan().nodes) is passes
    assert bool(mo.check(listed, drain="n1", new_only=new_only)) is passes
    removed = mo.check(listed, remove_nodes="n1", new_only=new_only)
    assert bool(removed) is passes
    losses = {loss.domains: len(loss.lost) for loss in fresh().ask.survive().losses}
    assert losses.get(("n1",), 0) == removed.verdict.failed

    drained = fresh()
    drained.change.drain("n1")
    if passes:
        assert sorted(drained.run().placements.values()) == sorted(move.target for move in plan.moves)
