"""Names without meaning: nothing of the old ones is left, and decisions are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.doors.kube import anonymize
from tests.house.source import ROOT

from moorage import Scheduler
from moorage.kube import Cluster, CSINode, Object, Pod, PodDisruptionBudget, decode_object, dump, load, write

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def value(kind: str, name: str, version: str = "v1", namespace: str = "shop", **parts: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": namespace, "uid": name.encode().hex(), **parts.pop("meta", {})}
    return {"apiVersion": version, "kind": kind, "metadata": meta, **parts}


def spec(cpu: str = "500m", **more: Any) -> dict[str, Any]:
    container = {
        "name": "secretapp",
        "image": "acme.example/secretapp",
        "resources": {"requests": {"cpu": cpu}},
    }
    return {"containers": [container], **more}


def decisions(cluster: Cluster) -> Any:
    """Placements, messages and evictions, with numbers in place of names."""
    nodes = {node.name: at for at, node in enumerate(cluster.nodes)}
    pods = {pod.key: at for at, pod in enumerate(cluster.pods)}
    result = Scheduler(cluster).run()
    placed = {pods.get(key, -1): nodes[node] for key, node in result.placements.items()}
    messages = [failure.message for failure in result.failures.values()]
    evicted = [(pods[key], nodes[one.node]) for key, one in result.evicted.items()]
    return placed, messages, evicted


def both(tmp_path: Path, objects: list[Object]) -> tuple[Cluster, Cluster]:
    files = tmp_path / "before.json", tmp_path / "after.json"
    write(files[0], objects)
    write(files[1], anonymize(objects))
    before, after = (load(str(one)) for one in files)
    return before, after


def rich() -> list[Object]:
    """A cluster in which objects name one another in every way."""
    text = (Path(__file__).parent / "data/named.yaml").read_text()
    return [decode_object(document) for document in yaml.safe_load_all(text)]


def test_decisions_are_the_same(tmp_path: Path) -> None:
    before, after = map(decisions, both(tmp_path, rich()))
    placed, messages, evicted = before
    assert before == after
    assert len(placed) >= 9
    assert messages
    assert evicted


@pytest.mark.parametrize("examples", [["demo.yaml"], ["gpu/cluster.yaml", "gpu/pods.yaml"]])
def test_decisions_of_examples_are_the_same(tmp_path: Path, examples: list[str]) -> None:
    values: list[Any] = []
    for name in examples:
        for document in yaml.safe_load_all((ROOT / "examples" / name).read_text()):
            values += document.get("items", [document]) if document else []
    before, after = map(decisions, both(tmp_path, [decode_object(one) for one in values]))
    assert before == after
    assert before[0]


def test_nothing_is_left_of_the_names(tmp_path: Path) -> None:
    text = dump(anonymize(rich()))
    for word in [
        "shop",
        "web",
        "rack",
        "mars",
        "secretapp",
        "team",
        "sales",
        "vault",
        "ledger",
        "vip",
        "tape",
    ]:
        assert word in dump(rich())
        assert word not in text
    for kept in (ZONE, HOST, "kubernetes.io/no-provisioner", "acme.example/widget", "default", ":latest"):
        assert kept in text


def test_the_order_of_names_stays() -> None:
    names = ["ab", "ab-c", "ab.c", "ab1", "abc", "abc-0", "abc-10", "b-5d8f", "b-7", "web"]
    found = anonymize([decode_object(value("Pod", name, spec=spec())) for name in names])
    assert [one.name for one in found] == sorted(one.name for one in found)
    assert [one.name[-2:] for one in found][5:7] == ["-0", "10"]


def test_contents_are_left_out() -> None:
    annotations = {
        "kubectl.kubernetes.io/last-applied-configuration": "password",
        "acme.example/owner": "password",
        "controller.kubernetes.io/pod-deletion-cost": "5",
    }
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "password"}
    pod = value(
        "Pod", "a", meta={"annotations": annotations}, spec=spec(), status={"conditions": [condition]}
    )
    storage = value(
        "StorageClass", "s", "storage.k8s.io/v1", "", provisioner="p", parameters={"x": "password"}
    )
    env = {"name": "c", "image": "i", "env": [{"name": "A", "value": "password"}]}
    template = {"metadata": {"labels": {"app": "word"}}, "spec": {"containers": [env]}}
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
    data = {"spec": {"template": template}}
    revision = value("ControllerRevision", "d-1", "apps/v1", meta={"ownerReferences": [owner]}, data=data)
    found = anonymize([decode_object(one) for one in (pod, storage, revision)])
    assert "password" not in dump(found)
    assert found[0].metadata.annotations == {"controller.kubernetes.io/pod-deletion-cost": "5"}
    assert '"containers"' in dump([found[2]])


def test_a_label_that_would_become_too_long() -> None:
    label = "-".join("abcdefghijklmnopqrstuvwxyzABCDEF")[:63]
    found = [
        decode_object(value("Pod", f"p{at}", meta={"labels": {"x": label, "y": str(at)}}, spec=spec()))
        for at in range(2)
    ]
    (one, _) = anonymize(found)
    assert isinstance(one, Pod)
    assert max(map(len, one.metadata.labels.values())) <= 63
    assert label not in one.metadata.labels.values()


def test_quotas_name_storage_classes() -> None:
    hard = {"requests.cpu": "5", "vault.storageclass.storage.k8s.io/requests.storage": "1Gi"}
    (one,) = anonymize([decode_object(value("ResourceQuota", "q", spec={"hard": hard}))])
    text = dump([one])
    assert '"requests.cpu"' in text
    assert ".storageclass.storage.k8s.io/requests.storage" in text
    assert "vault" not in text


def test_drivers_and_the_labels_that_they_define_stay() -> None:
    driver = {"name": "disk.acme.example", "nodeID": "rack-0", "topologyKeys": ["acme.example/rack"]}
    objects = [
        value("CSINode", "rack-0", "storage.k8s.io/v1", "", spec={"drivers": [driver]}),
        value("CSIDriver", "other.acme.example", "storage.k8s.io/v1", "", spec={}),
        value("Node", "rack-0", namespace="", meta={"labels": {"acme.example/rack": "rack-0"}}),
    ]
    node, found, labelled = anonymize([decode_object(one) for one in objects])
    assert isinstance(node, CSINode)
    (kept,) = node.spec.drivers
    assert (kept.name, kept.topology_keys) == ("disk.acme.example", ("acme.example/rack",))
    assert found.name == "other.acme.example"
    assert labelled.metadata.labels == {"acme.example/rack": labelled.name}
    assert node.name == labelled.name != "rack-0"


def test_pods_that_a_budget_lets_go_keep_their_times() -> None:
    time = "2026-01-01T00:00:00Z"
    pod = value("Pod", "web-0", spec=spec())
    budget = value("PodDisruptionBudget", "keep", "policy/v1", status={"disruptedPods": {"web-0": time}})
    one, renamed = anonymize([decode_object(each) for each in (pod, budget)])
    assert isinstance(renamed, PodDisruptionBudget)
    assert renamed.status.disrupted_pods == {one.name: time}
    assert one.name != "web-0"
