"""Public dumps: what a reader of the file expects, worked out by hand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from moorage import expanded
from moorage.kube import Cluster, load, parse_milli

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "data"


def owners(cluster: Cluster) -> dict[str, int]:
    """How many pods each controller has; a generated hash is left out of the name."""
    counts: Counter[str] = Counter()
    for pod in cluster.pods:
        owner = pod.metadata.controller()
        if owner is None:
            counts[f"{pod.namespace}/-"] += 1
            continue
        suffix = pod.metadata.labels.get("pod-template-hash")
        name = owner.name.removesuffix(f"-{suffix}") if suffix else owner.name
        counts[f"{pod.namespace}/{owner.kind}/{name}"] += 1
    return dict(counts)


def test_pods_as_the_api_server_returns_them() -> None:
    cluster = load(DATA / "openshift_insights.json")
    master, worker = cluster.nodes
    assert [taint.key for taint in master.spec.taints] == ["node-role.kubernetes.io/master"]
    assert worker.spec.taints == ()
    assert [pod.name for pod in cluster.finished] == ["auditlog-retention-28566720-t22qj"]
    bound = Counter(pod.spec.node_name for pod in cluster.pods)
    assert bound == {master.name: 3, worker.name: 1, "pvx510.wdf.sap.corp": 1, "": 1}
    pending = next(pod for pod in cluster.pods if not pod.spec.node_name)
    assert pending.name == "router-default-7bbdcfcf9b-7xdln"
    assert pending.spec.priority == 2_000_000_000
    assert cluster.warnings == [
        "1 pod is bound to nodes that are not in the input: "
        "di-288312/vsystem-867f4b77cc-pqcns on pvx510.wdf.sap.corp."
    ]
    assert cluster.skipped == {}


def test_controllers_without_their_pods() -> None:
    cluster = expanded(load(DATA / "troubleshoot_bundle.json"))
    assert len(cluster.nodes) == 2
    assert owners(cluster) == {
        "default/ReplicaSet/kotsadm-operator": 1,
        "kube-system/ReplicaSet/coredns": 2,
        "default/StatefulSet/kotsadm-postgres": 1,
        "default/ReplicaSet/kotsadm": 1,
        "rook-ceph/ReplicaSet/rook-ceph-crashcollector-kurl-002": 1,
    }
    assert all(not pod.spec.node_name for pod in cluster.pods)
    assert [one.name for one in cluster.others if one.kind == "PersistentVolumeClaim"] == [
        "data-postgresql-0",
        "kotsadm-postgres-kotsadm-postgres-0",  # of the StatefulSet, as the dump does not have it
    ]
    assert cluster.skipped == {}


def test_nodes_of_a_troubleshoot_dump_are_read() -> None:
    cluster = load(DATA / "troubleshoot_nodes.json")
    small, gpu = cluster.nodes
    assert (small.name, parse_milli(small.status.allocatable["cpu"])) == ("smallnode-3i74t", 1000)
    assert gpu.status.allocatable["nvidia.com/gpu"] == "1"
    assert len(gpu.status.images) == 2
    assert cluster.pods == []


@pytest.mark.parametrize("readme", ["tests/data/README.md", "examples/README.md"])
def test_every_file_has_its_source_and_licence(readme: str) -> None:
    text = (ROOT / readme).read_text()
    for file in (ROOT / readme).parent.iterdir():
        assert file.name == "README.md" or f"| {file.name} |" in text
