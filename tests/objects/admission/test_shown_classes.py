"""Priority classes that are not in the input are taken from the pods of the server that have them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from moorage import Scheduler, expanded
from moorage.kube import Cluster, Pod, PriorityClass, load

HINT = "kubectl get priorityclass -o json lists them"
HEAD = "PriorityClasses that are not in the input are taken from pods that have them"


def spec(priority_class: str, **more: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c"}], "priorityClassName": priority_class, **more}


def bound(name: str, priority_class: str, value: int, created: str = "", **more: Any) -> dict[str, Any]:
    """A pod as an API server returns it."""
    meta = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "creationTimestamp": created or "2026-01-01T00:00:00Z",
    }
    described = spec(priority_class, priority=value, nodeName="n1", **more)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": described}


def deployment(priority_class: str) -> dict[str, Any]:
    labels = {"app": "web"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec(priority_class)},
        },
    }


def read(folder: Path, *items: dict[str, Any]) -> Cluster:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    (folder / "dump.json").write_text(json.dumps({"kind": "List", "items": [node, *items]}))
    return expanded(load(folder / "dump.json"))


def classes(cluster: Cluster) -> list[tuple[str, int, str | None]]:
    found = [one for one in cluster.others if isinstance(one, PriorityClass)]
    return [(one.name, one.value, one.preemption_policy) for one in found]


def test_a_drained_pod_whose_class_its_own_pod_shows_is_made_again(tmp_path: Path) -> None:
    owners = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}]
    old = bound("web-1", "high", 700)
    old["metadata"] |= {"ownerReferences": owners, "labels": {"app": "web"}}
    replica_set = deployment("high") | {"kind": "ReplicaSet", "metadata": {"name": "web", "uid": "rs"}}
    scheduler = Scheduler(read(tmp_path, old, replica_set))
    scheduler.change.drain("n1")
    assert scheduler.ask.refused_pods() == []
    made = scheduler.client.list(Pod)[0]
    assert [(one.spec.node_name, one.spec.priority) for one in made] == [("", 700)]


def test_pods_that_show_different_values_are_told_and_the_newest_counts(tmp_path: Path) -> None:
    cluster = read(
        tmp_path,
        bound("a", "high", 1, "2026-01-01T00:00:00Z"),
        bound("b", "high", 3, "2026-03-01T00:00:00Z"),
        bound("c", "high", 2, "2026-02-01T00:00:00Z"),
        bound("d", "high", 3, "2026-02-01T00:00:00Z"),
    )
    assert classes(cluster) == [("high", 3, "PreemptLowerPriority")]
    told = "1 by default/a, 3 by default/b, 2 by default/c; that of the newest pod counts, 3"
    assert cluster.warnings == [
        f"Pods show different values of the PriorityClass high: {told}.",
        f"{HEAD}: high (3); {HINT}.",
    ]


def test_a_listed_class_counts_whatever_pods_show(tmp_path: Path) -> None:
    listed = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
    cluster = read(tmp_path, bound("a", "high", 1), listed | {"value": 5}, deployment("high"))
    assert classes(cluster) == [("high", 5, "PreemptLowerPriority")]
    assert cluster.pods[-1].spec.priority == 5
    assert cluster.warnings == []


def test_a_manifest_shows_no_class(tmp_path: Path) -> None:
    manifest = bound("a", "high", 1)
    manifest["metadata"], manifest["spec"]["nodeName"] = {"name": "a"}, ""
    cluster = read(tmp_path, manifest, deployment("high"))
    (refused,) = cluster.refused
    assert refused.message.endswith(" is forbidden: no PriorityClass with name high was found")
    assert classes(cluster) == []
