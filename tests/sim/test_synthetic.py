"""Made-up clusters."""

from __future__ import annotations

import pytest

from moorage import synthetic
from moorage.errors import InputError


def test_equal_arguments_give_equal_clusters() -> None:
    assert synthetic(50, 3, 200, seed=4) == synthetic(50, 3, 200, seed=4)
    assert synthetic(50, 3, 200, seed=4) != synthetic(50, 3, 200, seed=5)


def test_nodes_have_several_sizes_and_all_labels() -> None:
    nodes = synthetic(nodes=300, zones=4).nodes
    sizes = {(node.status.allocatable["cpu"], node.status.allocatable["memory"]) for node in nodes}
    assert len(sizes) == 15
    for cpu, memory in sizes:
        assert 4 <= int(cpu) <= 64
        assert int(memory.removesuffix("Gi")) // int(cpu) in (2, 4, 8)
    assert all(node.status.allocatable["pods"] == "110" for node in nodes)
    assert all(node.status.capacity == node.status.allocatable for node in nodes)
    assert [node.metadata.labels["topology.kubernetes.io/zone"] for node in nodes[:5]] == [
        "zone-0",
        "zone-1",
        "zone-2",
        "zone-3",
        "zone-0",
    ]
    assert {node.metadata.labels["topology.kubernetes.io/region"] for node in nodes} == {"region-0"}
    assert all(node.metadata.labels["kubernetes.io/hostname"] == node.name for node in nodes)


def test_pods_are_pending_and_of_a_few_templates() -> None:
    pods = synthetic(nodes=1, pods=500).pods
    assert len(pods) == len({pod.key for pod in pods}) == len({pod.metadata.uid for pod in pods}) == 500
    assert not any(pod.spec.node_name for pod in pods)
    assert all(pod.namespace == "default" and pod.metadata.labels["app"] in pod.name for pod in pods)
    assert len({id(pod.spec) for pod in pods}) == len({pod.metadata.labels["app"] for pod in pods}) == 6
    created = [pod.metadata.creation_timestamp or "" for pod in pods]
    assert created == sorted(set(created))
    assert created[0] == "2026-01-01T00:00:00Z"


def test_nothing_is_a_cluster_too() -> None:
    cluster = synthetic(nodes=0)
    assert cluster.nodes == cluster.pods == []


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"nodes": -1}, "synthetic: nodes: must be at least 0, not -1"),
        ({"zones": 0}, "synthetic: zones: must be at least 1, not 0"),
        ({"pods": -5}, "synthetic: pods: must be at least 0, not -5"),
    ],
)
def test_sizes_that_are_impossible_are_refused(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}$"):
        synthetic(**sizes)


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ({"nodes": 1_000_001}, "synthetic: nodes: must be at most 1000000, not 1000001"),
        ({"zones": 1_000_001}, "synthetic: zones: must be at most 1000000, not 1000001"),
        ({"pods": 10_000_001}, "synthetic: pods: must be at most 10000000, not 10000001"),
    ],
)
def test_more_than_there_is_memory_for(sizes: dict[str, int], text: str) -> None:
    with pytest.raises(InputError, match=f"^{text}$"):
        synthetic(**sizes)
