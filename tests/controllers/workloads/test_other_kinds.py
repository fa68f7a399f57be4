"""Workloads of other projects are expanded by their pod template, and scaled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.controllers.workloads.make import machine, pods, scheduler, template
from tests.make import make

import moorage as mo
from moorage import Scheduler
from moorage.errors import InputError
from moorage.kube import Object, Pod, build_cluster, write

NODES = [machine(name) for name in "ab"]


def rollout(replicas: int, cpu: str = "1") -> Object:
    return make("Rollout", "web", {"replicas": replicas, "template": template("web", cpu)})


def config(replicas: int, cpu: str = "1") -> Object:
    spec = {"replicas": replicas, "selector": {"app": "web"}, "template": template("web", cpu)}
    return make("DeploymentConfig", "web", spec, status={"latestVersion": 3})


def clone_set(replicas: int, cpu: str = "1") -> Object:
    return make("CloneSet", "web", {"replicas": replicas, "template": template("web", cpu)})


def groups(replicas: int, cpu: str = "1", size: int = 2, **rest: Any) -> Object:
    parts = {"size": size, "workerTemplate": template("web", cpu), "leaderTemplate": template("web", "500m")}
    return make("LeaderWorkerSet", "web", {"replicas": replicas, "leaderWorkerTemplate": parts}, **rest)


KINDS = [rollout, config, clone_set]
parents = pytest.mark.parametrize("workload", KINDS, ids=lambda one: one(1).kind)


@parents
def test_pods_are_made_come_back_and_are_scaled(workload: Any) -> None:
    one = mo.Scheduler(build_cluster([*NODES, workload(2)]))
    assert len(pods(one)) == 2
    assert len(one.run().placements) == 2
    lost = next(iter(pods(one)))
    one.client.delete(Pod, lost, "default")
    one.run()
    assert len(pods(one)) == 2
    assert lost not in pods(one)
    for count in (4, 1):
        one.change.scale(f"{workload(1).kind}/web", count)
        one.run()
        assert len(pods(one)) == count
    one.change.delete(f"{workload(1).kind}/web")
    assert pods(one) == {}


@parents
def test_what_a_dump_has_is_not_made_again(workload: Any, tmp_path: Path) -> None:
    one = scheduler(*NODES, workload(2))
    kinds = mo.kube.model.workload
    listed: list[Object] = []
    for kind in (Pod, kinds.ReplicaSet, kinds.ReplicationController, type(workload(1))):
        listed += one.client.list(kind)[0]
    write(tmp_path / "dump.json", [*NODES, *listed])
    cluster = mo.load(tmp_path / "dump.json")
    assert sorted(each.name for each in cluster.pods) == sorted(pods(one))
    write(tmp_path / "change.json", [workload(5)])
    again = mo.Scheduler(mo.load(tmp_path / "dump.json", tmp_path / "change.json"))
    assert len(again.run().placements) == 3


@pytest.mark.parametrize("workload", [config, clone_set], ids=lambda one: one(1).kind)
def test_a_changed_template_is_told(workload: Any) -> None:
    one = scheduler(*NODES, workload(2))
    one.change.apply(workload(2, "1200m"))
    name = f"{workload(1).kind} default/web"
    assert list(one.ask.refusals()) == [name]
    assert "the changed template" in one.ask.refusals()[name]
    one.change.apply(workload(2))
    assert one.ask.refusals() == {}


def test_names_and_labels() -> None:
    found = mo.expanded(build_cluster([rollout(1)]))
    (sets,) = [each for each in found.others if each.kind == "ReplicaSet"]
    assert found.pods[0].metadata.labels["rollouts-pod-template-hash"] == sets.name.removeprefix("web-")
    (pod,) = mo.expanded(build_cluster([config(1)])).pods
    assert pod.metadata.labels == {"app": "web", "deploymentconfig": "web", "deployment": "web-3"}


def test_groups_have_a_leader_and_workers() -> None:
    one = scheduler(*NODES, groups(2, size=3))
    assert sorted(pods(one)) == ["web-0", "web-0-1", "web-0-2", "web-1", "web-1-1", "web-1-2"]
    leader: Pod = one.client.get(Pod, "web-0", "default")
    assert leader.spec.containers[0].resources.requests == {"cpu": "500m"}
    one.change.scale("lws/web", 1)
    one.run()
    assert sorted(pods(one)) == ["web-0", "web-0-1", "web-0-2"]
    one.change.apply(groups(1, "1200m", size=3))
    assert list(one.ask.refusals()) == ["LeaderWorkerSet default/web"]


def test_what_does_not_follow_from_the_template_is_told(tmp_path: Path) -> None:
    exclusive = {"annotations": {"leaderworkerset.sigs.k8s.io/exclusive-topology": "zone"}}
    elsewhere = make("Rollout", "web", {"replicas": 3, "workloadRef": {"kind": "Deployment", "name": "x"}})
    write(tmp_path / "f.json", [groups(2, metadata=exclusive), elsewhere])
    cluster = mo.load(tmp_path / "f.json")
    told = [
        ("leaderworkerset.x-k8s.io", "LeaderWorkerSet", "default", "web", 4),
        ("argoproj.io", "Rollout", "default", "web", 3),
    ]
    assert (cluster.pods, [one[:5] for one in cluster.left_out]) == ([], told)
    assert [one.why for one in cluster.left_out] == [
        "whose groups each have a topology of their own",
        "whose template is that of another workload",
    ]
    with pytest.raises(InputError, match="LeaderWorkerSet default/web: is not simulated"):
        Scheduler(build_cluster([])).change.apply(tmp_path / "f.json")
