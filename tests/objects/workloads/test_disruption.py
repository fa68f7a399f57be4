"""PodDisruptionBudgets: what is refused, the status that a cluster gives them, and who is given one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import cluster, make
from tests.objects.make import owned, pod, workload

from moorage.kube import (
    Object,
    PodDisruptionBudget,
    PodDisruptionBudgetStatus,
    decode_object,
    dump,
    load,
    validate,
    write_cluster,
)
from moorage.store import Informer, ObjectStore

SELECTOR = {"matchLabels": {"app": "w"}}


def budget(spec: dict[str, Any] | None = None, **rest: Any) -> PodDisruptionBudget:
    obj = make("PodDisruptionBudget", "b", {"selector": SELECTOR} | (spec or {}), **rest)
    assert isinstance(obj, PodDisruptionBudget)
    return obj


def member(name: str, owner: dict[str, Any] | None = None, on: str = "n", **rest: Any) -> Object:
    """A pod that the budget is about, bound unless it says otherwise."""
    metadata = {"labels": {"app": "w"}, **(owner or {}), **rest.pop("metadata", {})}
    return pod(name, {"nodeName": on}, metadata=metadata, **rest)


def ready(status: str) -> dict[str, Any]:
    return {"conditions": [{"type": "Ready", "status": status}]}


def allowed(spec: dict[str, Any], *objects: Object) -> tuple[int, int, int, int]:
    """Allowed, healthy, desired and expected, as the loader fills them in."""
    (found,) = [one for one in cluster(budget(spec), *objects).others if one.kind == "PodDisruptionBudget"]
    status = found.status  # type: ignore[attr-defined]
    return (
        status.disruptions_allowed,
        status.current_healthy,
        status.desired_healthy,
        status.expected_pods,
    )


# ---- what is refused ----


@pytest.mark.parametrize("value", [0, 7, 2**31 - 1, "0%", "100%", "00100%", "0" * 5000 + "7%"])
@pytest.mark.parametrize("field", ["minAvailable", "maxUnavailable"])
def test_what_is_accepted(value: int | str, field: str) -> None:
    validate(budget({field: value}))
    desired = value if field == "minAvailable" and isinstance(value, int) else 0
    assert allowed({field: value}) == (0, 0, desired, 0)


# ---- the status ----


def test_a_minimum_counts_the_pods_themselves() -> None:
    pods = [member("a"), member("b"), member("c", owned("Job", "unknown"))]
    assert allowed({"minAvailable": 2}, *pods) == (1, 3, 2, 3)
    assert allowed({"minAvailable": 3}, *pods) == (0, 3, 3, 3)
    assert allowed({"minAvailable": 9}, *pods) == (0, 3, 9, 3)
    assert allowed({"minAvailable": 0}, *pods) == (3, 3, 0, 3)


def test_only_healthy_pods_count() -> None:
    others = [
        member("waits", on=""),
        member("finished", status={"phase": "Succeeded"}),
        member("unready", status=ready("False")),
        member("unknown", status=ready("Unknown")),
        member("going", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}, status=ready("True")),
    ]
    assert allowed({"minAvailable": 1}, *others) == (0, 0, 1, 5)
    said = member("said", on="", status=ready("True"))
    assert allowed({"minAvailable": 1}, *others, member("bound"), said) == (1, 2, 1, 7)


def test_only_matching_pods_of_its_namespace() -> None:
    strange = [pod("a", {"nodeName": "n"}), member("b", metadata={"namespace": "other"})]
    assert allowed({"minAvailable": 0}, *strange) == (0, 0, 0, 0)
    assert allowed({"minAvailable": 0, "selector": None}, member("a")) == (0, 0, 0, 0)
    assert allowed({"minAvailable": 0, "selector": {}}, *strange) == (1, 1, 0, 1)


def test_a_budget_that_says_nothing_allows_nothing() -> None:
    assert allowed({}, member("a")) == (0, 1, 0, 0)


@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController", "StatefulSet"])
def test_shares_are_of_the_replicas_of_the_workload(kind: str) -> None:
    one = workload(kind, "w", {"replicas": 5})
    pods = [member(f"p{i}", owned(kind, "w")) for i in range(4)]
    # The fifth pod is made by the loader, and waits.
    assert allowed({"maxUnavailable": 2}, one, *pods) == (1, 4, 3, 5)
    assert allowed({"maxUnavailable": 9}, one, *pods) == (4, 4, 0, 5)
    assert allowed({"maxUnavailable": "30%"}, one, *pods) == (1, 4, 3, 5)
    assert allowed({"minAvailable": "50%"}, one, *pods) == (1, 4, 3, 5)
    assert allowed({"minAvailable": "100%"}, one, *pods) == (0, 4, 5, 5)


def test_a_deployment_stands_for_its_replica_sets() -> None:
    pods = [member(f"p{i}", owned("ReplicaSet", f"w-{i % 2}")) for i in range(4)]
    sets = [
        workload("ReplicaSet", f"w-{i}", {"replicas": 2}, metadata=owned("Deployment", "w")) for i in (0, 1)
    ]
    deployment = workload("Deployment", "w", {"replicas": 3})
    assert allowed({"maxUnavailable": 1}, deployment, *sets, *pods) == (2, 4, 2, 3)
    assert allowed({"maxUnavailable": 1}, *sets, *pods) == (1, 4, 3, 4)


def test_several_workloads_add_up_and_pods_without_one_are_not_expected() -> None:
    sets = [workload("ReplicaSet", name, {"replicas": 2}) for name in ("v", "w")]
    pods = [member(f"{name}{i}", owned("ReplicaSet", name)) for name in "vw" for i in range(2)]
    assert allowed({"maxUnavailable": 1}, *sets, *pods, member("alone")) == (2, 5, 3, 4)
    assert allowed({"maxUnavailable": 1}, member("alone")) == (0, 1, 0, 0)


@pytest.mark.parametrize("spec", [{"maxUnavailable": 1}, {"minAvailable": "10%"}])
def test_a_pod_of_an_unknown_controller_leaves_everything_unknown(spec: dict[str, Any]) -> None:
    of_another = {"ownerReferences": [{"kind": "ReplicaSet", "name": "w", "uid": "x", "controller": True}]}
    there = workload("ReplicaSet", "w", metadata={"uid": "y"})
    for pods in (
        [member("a", owned("ReplicaSet", "gone"))],
        [member("a", of_another), there],
        [member("a", owned("Job", "w")), workload("Job", "w", {"parallelism": 0})],
    ):
        assert allowed(spec, *pods) == (0, 0, 0, 0)


@given(st.integers(0, 100), st.integers(0, 50))
def test_percentages_are_rounded_up(share: int, replicas: int) -> None:
    """As upstream, which divides floating-point numbers."""
    objects = workload("ReplicaSet", "w", {"replicas": replicas}), member("a", owned("ReplicaSet", "w"))
    _, _, desired, expected = allowed({"minAvailable": f"{share}%"}, *objects)
    assert (desired, expected) == (math.ceil(share * float(replicas) / 100), replicas)


# ---- who is given one ----


def test_only_a_status_that_is_left_out_is_filled_in(tmp_path: Path) -> None:
    statuses: list[dict[str, Any]] = [{}, {"status": None}, {"status": {}}, {"status": {"expectedPods": 7}}]
    budgets = [budget({"minAvailable": 0}, metadata={"name": f"b{i}"}, **s) for i, s in enumerate(statuses)]
    made = cluster(*budgets, member("a"))
    found = [one.status.disruptions_allowed for one in made.others]  # type: ignore[attr-defined]
    assert found == [1, 1, 0, 0]
    write_cluster(tmp_path / "c.yaml", made)
    assert load(tmp_path / "c.yaml").others == made.others


def test_decoding_is_literal() -> None:
    one = budget({"minAvailable": 0})
    assert one.status == PodDisruptionBudgetStatus() == budget(status={}).status
    assert "status" not in dump([one])
    assert '"status":{}' in dump([budget(status={})])
    assert "status" not in dump([decode_object(b'{"kind":"PodDisruptionBudget","status":null}')])


def test_in_a_store() -> None:
    store = ObjectStore()
    stored = store.create(cluster(budget(), member("a")).others[0])
    informer: Informer[PodDisruptionBudget] = Informer(store, "PodDisruptionBudget")
    informer.run_once()
    assert informer.lister.by_namespace("default").get("b") is stored
    assert store.list(PodDisruptionBudget, field_selector="metadata.name=b")[0] == [stored]
    with pytest.raises(Exception, match=r'^poddisruptionbudgets.policy "c" not found$'):
        store.get("PodDisruptionBudget", "c", "default")
