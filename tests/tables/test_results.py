"""Results convert to tables and JSON values, and are shown on one screen."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import msgspec
import nanoarrow
import pytest

import moorage as mo
from moorage import Scheduler
from moorage.kube import Cluster, Pod, Toleration, decode_object
from moorage.table import Tabular
from tests.make import node, pod


def make() -> Scheduler:
    pods = [pod("a", requests={"cpu": 3}), pod("b", requests={"cpu": 3}), pod("c", on="n1")]
    return Scheduler(Cluster(nodes=[node("n1", cpu="4"), node("n2", cpu="1")], pods=pods))


def crowded() -> Scheduler:
    one = Scheduler(mo.synthetic(nodes=30, pods=150))
    one.run()
    return one


@cache
def results() -> dict[str, Tabular]:
    one = make()
    before = one.fork()
    cluster = mo.synthetic(nodes=50, pods=200)
    ran = Scheduler(mo.synthetic(nodes=50, pods=3000)).run()
    templates = [pod("w", requests={"cpu": 1}), pod("x", requests={"cpu": 1})]
    explained = Scheduler(mo.synthetic(nodes=50)).ask.explain(pod("w", requests={"cpu": 100}))
    return {
        "cluster": cluster,
        "run": ran,
        "explanation": explained,
        "difference": (one.run(), before.ask.diff(one))[1],
        "capacity": one.ask.capacity(templates),
        "plan": crowded().ask.defragment(nodes=2, force=True),
        "nodes": one.ask.nodes_needed((templates[0], 9), like="n1"),
        "bound": Scheduler(mo.synthetic(nodes=5, pods=900)).ask.bound(),
    } | of_changes()


def of_changes() -> dict[str, Tabular]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}
    spec = {"replicas": 90, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    deployment = {"kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    one = Scheduler(Cluster(nodes=[node(f"n{at}", pods="1") for at in range(60)]))
    one.change.apply(decode_object(deployment))
    one.run()
    return {
        "change": one.change.drain([f"n{at}" for at in range(50)]),
        "rollout": one.ask.rollouts()[0],
        "feasibility": one.can_schedule_pod(pod("w", tolerations=(Toleration(operator="Exists"),))),
        "examination": one.examine(pod("w", requests={"cpu": 100})),
    }


NAMES = [
    *("cluster", "run", "explanation", "difference", "capacity", "plan", "nodes", "bound"),
    *("change", "rollout", "feasibility", "examination"),
]


def test_each_result_is_named() -> None:
    assert [*results()] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_result_is_shown_on_one_screen(name: str) -> None:
    lines = repr(results()[name]).splitlines()
    assert 1 < len(lines) <= 13
    assert len(results()[name]._repr_html_()) < 20_000
    assert max(map(len, lines[1:])) <= 110


@pytest.mark.parametrize("name", NAMES)
def test_a_result_converts(name: str) -> None:
    result = results()[name]
    table = result.table()
    assert nanoarrow.ArrayStream(result).read_all().to_pylist() == [
        dict(zip(table.columns, row, strict=True)) for row in zip(*table.to_dict().values(), strict=True)
    ]
    assert list(result.to_pandas().columns) == list(table.columns)
    assert json.loads(msgspec.json.encode(result.to_dict()))
    few = result.table(2).to_dict()
    assert few == {key: column[:2] for key, column in table.to_dict().items()}


def test_a_run_has_a_headline_and_a_table() -> None:
    one = make()
    result = one.run()
    assert result.headline() == (
        "1 of 2 pods placed; first failure: 0/2 nodes are available: 2 Insufficient cpu."
    )
    assert result.table().to_dict() == {
        "pod": ["default/a", "default/b"],
        "node": ["n1", None],
        "message": [None, result.unschedulable["default/b"].message],
    }
    assert result.to_dict()["placements"] == {"default/a": "n1"}
    assert list(result.to_dict()["unschedulable"]) == ["default/b"]


def test_a_run_with_evictions() -> None:
    pods = [pod("low", on="n", requests={"cpu": 4}, priority=0), pod("high", requests={"cpu": 4}, priority=9)]
    result = Scheduler(Cluster(nodes=[node("n")], pods=pods)).run()
    assert result.to_dict()["evicted"] == {"default/low": {"node": "n", "by": "default/high"}}
    assert "1 evicted" in result.headline()


def test_pods_of_a_call_have_their_names() -> None:
    result = make().schedule_by_template(pod("t", requests={"cpu": 1}), 9)
    assert result.table(2).to_dict()["pod"] == ["default/t-0", "default/t-1"]


def test_a_cluster_has_a_headline_and_a_table() -> None:
    cluster = Cluster(nodes=[node("n")], pods=[pod("a", on="n"), pod("b")], skipped={"Secret": 2})
    assert cluster.headline() == "Cluster: 1 nodes, 2 pods (1 without a node), 2 Secret (skipped)"
    assert cluster.table().to_dict() == {
        "kind": ["Node", "Pod", "Pod"],
        "namespace": [None, "default", "default"],
        "name": ["n", "a", "b"],
        "node": [None, "n", None],
    }


def test_a_cluster_is_read_back(tmp_path: Any) -> None:
    file = tmp_path / "cluster.json"
    cluster = mo.synthetic(nodes=3, pods=5)
    file.write_bytes(msgspec.json.encode(cluster.to_dict()))
    assert [one.name for one in mo.load(file).pods] == [one.name for one in cluster.pods]


def test_an_explanation_has_a_headline_and_a_table() -> None:
    found = make().ask.explain(pod("x", requests={"cpu": 2}))
    assert found.headline() == "default/x: fits 1 of 2 nodes"
    assert found.table().to_dict()["reasons"] == [None, "Insufficient cpu"]
    assert found.to_dict()["apiVersion"] == "explain.moorage.dev/v1"


def test_a_difference_has_a_headline() -> None:
    one = make()
    other = one.fork()
    assert repr(one.ask.diff(other)) == "no difference"
    other.client.delete(Pod, "c", "default")
    other.run()
    found = one.ask.diff(other)
    assert found.headline() == "pods_removed: 1, placements: 2, requested: 1"
    assert found.table().to_dict()["before"][:2] == [None, None]
    assert found.to_dict()["pods_removed"] == ["default/c"]


def test_a_change_and_a_rollout() -> None:
    change, rollout = results()["change"], results()["rollout"]
    assert repr(change).splitlines()[:2] == ["changed: 50, deleted: 50", "FIELD    NAME     REASON"]
    assert change.to_dict().keys() == {"changed", "deleted"}
    assert repr(mo.Change()) == "no change"
    kept = mo.Change(kept={"Pod default/p": "no controller would replace it"})
    assert kept.table().to_dict()["reason"] == ["no controller would replace it"]
    waiting = rollout.to_dict()["without_node"]
    assert repr(rollout).splitlines()[0] == (
        f"Deployment default/d: 90 of 90 pods updated, {len(waiting)} of these without a node; "
        "10 available, old and new"
    )


def test_where_a_pod_fits() -> None:
    assert repr(results()["feasibility"]).splitlines()[0] == "fits 50 nodes"
    assert repr(make().can_schedule_pod(pod("w", requests={"cpu": 9}))).startswith(
        "0/2 nodes are available: "
    )
    (failure,) = make().schedule_pods([pod("w", requests={"cpu": 9})]).unschedulable.values()
    assert repr(failure) == "Failure('0/2 nodes are available: 2 Insufficient cpu.')"
    found = results()["examination"]
    assert repr(found).startswith("fits 0 of 60 nodes; 0/60 nodes are available: ")
    assert make().examine(pod("w")).table().to_dict()["reasons"] == [None, None]
