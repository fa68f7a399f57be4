"""NodesView: rows of the node table, or NodeInfos, as columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.doors.engine import CycleColumns
from tests.make import node, pod

from moorage.engine.cache import SchedulerCache
from moorage.engine.framework import NodesView

GPU = "nvidia.com/gpu"
COLUMNS = {
    "allocatable": {"cpu": [8000, 2000], "memory": [1 << 33, 1 << 33], "pods": [10, 10], GPU: [0, 4]},
    "requested": {"cpu": [0, 500], "memory": [0, 0], "pods": [0, 1], GPU: [0, 3], "nobody.has/it": [0, 0]},
    "nonzero": {"cpu": [0, 500], "memory": [0, 200 << 20]},
}


def cache() -> SchedulerCache:
    out = SchedulerCache()
    out.add_node(node("a", labels={"disk": "ssd"}))
    out.add_node(node("b", cpu=2, **{GPU: 4, "ephemeral-storage": 100}))
    out.add_node(node("c", cpu=8, zone="z", labels={"disk": ""}))
    out.add_pod(pod("p", on="b", requests={"cpu": "500m", GPU: 3}))
    return out


def table_nodes(of: SchedulerCache) -> NodesView:
    rows = np.array([of.state.table.find_row(name) for name in "cb"], dtype=np.int32)
    return NodesView(CycleColumns(of.state), lambda: rows)


def info_nodes(of: SchedulerCache) -> NodesView:
    return NodesView.of([info for name in "cb" if (info := of.node_info(name)) is not None])


@pytest.mark.parametrize("make", [table_nodes, info_nodes])
def test_columns_are_aligned_with_the_nodes(make: Any) -> None:
    nodes = make(cache())
    assert (nodes.names, len(nodes)) == (["c", "b"], 2)
    for kind, columns in COLUMNS.items():
        for resource, values in columns.items():
            column = getattr(nodes, kind)[resource]
            assert (column.tolist(), column.dtype) == (values, np.int64)
    assert nodes.allocatable["ephemeral-storage"].tolist() == [0, 100]


@pytest.mark.parametrize("make", [table_nodes, info_nodes])
def test_names_of_columns(make: Any) -> None:
    nodes = make(cache())
    assert {"cpu", "memory", "pods", "ephemeral-storage", GPU} <= set(nodes.allocatable)
    assert len(nodes.requested) == len(list(nodes.requested))
    assert list(nodes.nonzero) == ["cpu", "memory"]
    assert nodes.allocatable["example.com/none"].tolist() == [0, 0]
    with pytest.raises(KeyError, match="nodes have no resource memry; nearest: memory"):
        nodes.allocatable["memry"]


@pytest.mark.parametrize("make", [table_nodes, info_nodes])
def test_nodes_one_by_one_and_their_labels(make: Any) -> None:
    nodes = make(cache())
    assert [info.name for info in nodes] == ["c", "b"]
    assert nodes.node_info(1).pods[0].name == "p"
    for at in (-1, 2):
        with pytest.raises(IndexError, match=f"^there is no node {at} among 2$"):
            nodes.node_info(at)
    assert nodes.labels("disk").tolist() == ["", None]
    assert (nodes.labels("disk") == "").tolist() == [True, False]


@pytest.mark.parametrize("make", [table_nodes, info_nodes])
@pytest.mark.parametrize(
    ("text", "number"),
    [("7", 7), ("-3", -3), ("007", 7), ("", -1), ("1_0", -1), ("1.5", -1), ("٣", -1), (str(1 << 63), -1)],
)
def test_labels_that_are_integers_are_numbers(make: Any, text: str, number: int) -> None:
    of = cache()
    of.update_node(node("b"), node("b", labels={"rank": text}))
    assert make(of).label_numbers("rank", -1).tolist() == [-1, number]


def test_columns_of_labels_follow_the_nodes() -> None:
    of = cache()
    nodes = table_nodes(of)
    assert nodes.labels("disk").tolist() == ["", None]
    of.update_node(node("b"), node("b", labels={"disk": "3"}))
    assert nodes.labels("disk").tolist() == ["", "3"]
    assert nodes.label_numbers("disk", 0).tolist() == [0, 3]
    of.assume_pod(pod("q", on="c"))
    assert nodes.label_numbers("disk", 0).tolist() == [0, 3]


def test_columns_follow_what_changes() -> None:
    of = cache()
    nodes = table_nodes(of)
    assert nodes.requested["cpu"].tolist() == [0, 500]
    of.assume_pod(pod("q", on="c", requests={"cpu": 1}))
    assert nodes.requested["cpu"].tolist() == [1000, 500]


def test_a_clone_shows_its_own_pods() -> None:
    info = cache().node_info("b")
    assert info is not None
    clone = info.clone()
    clone.add_pod(pod("q", on="b", requests={"cpu": "250m"}))
    nodes = NodesView.of([clone])
    assert (nodes.requested["cpu"].tolist(), nodes.requested["pods"].tolist()) == ([750], [2])
    assert nodes.rows.tolist() == [-1]


def test_a_node_that_is_gone_has_no_labels() -> None:
    of = cache()
    of.remove_node(node("b"))
    info = of.node_info("b")
    assert info is not None
    assert NodesView.of([info]).labels("disk") == [None]
