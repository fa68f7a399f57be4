"""The node table: columns are copies, what forks and undone transactions leave, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from tests.doors.engine import ClusterState
from tests.make import node, pod

GPU = "example.com/gpu"
LIMIT = 2**53


def test_whether_a_node_has_some_of_a_resource() -> None:
    one = ClusterState()
    one.set_node(node("a", **{GPU: 0}))
    one.add_pod(pod("p", on="a", requests={GPU: 1}))
    assert not one.table.has_allocatable(GPU)
    assert not one.table.has_allocatable("example.com/unknown")
    one.set_node(node("b", **{GPU: 2}))
    assert one.table.has_allocatable(GPU)
    fork = one.fork()
    one.remove_node("b")
    assert not one.table.has_allocatable(GPU)
    assert fork.table.has_allocatable(GPU)


def test_columns_are_int64_copies_that_cannot_be_written() -> None:
    one = ClusterState()
    one.set_node(node("a"))
    column = one.table.allocatable["cpu"]
    assert column.dtype == np.int64
    with pytest.raises(ValueError, match="read-only"):
        column[0] = 1
    one.set_node(node("a", cpu="9"))
    assert column.tolist() == [4000]


@pytest.mark.parametrize("kind", ["allocatable", "requested", "nonzero"])
def test_an_unknown_resource_is_a_key_error(kind: str) -> None:
    columns = getattr(ClusterState().table, kind)
    with pytest.raises(KeyError, match=GPU):
        columns[GPU]


def test_pods_have_no_default_request() -> None:
    with pytest.raises(KeyError, match="pods"):
        ClusterState().table.nonzero["pods"]


def test_resources_that_do_not_count_are_left_out() -> None:
    one = ClusterState()
    names = ["kubernetes.io/batch-cpu", "hugepages-2Mi", "attachable-volumes-csi", GPU]
    one.set_node(node("a", **dict.fromkeys([*names, "gpu", "requests.example.com/gpu"], 3)))
    assert one.table.resources == ["ephemeral-storage", *names]


def test_raw_matrices_share_memory_until_a_growth() -> None:
    one = ClusterState()
    one.set_node(node("a", **{GPU: 2}))
    rows, others = one.table.raw()
    assert (rows["alloc_cpu"].tolist(), others[GPU].tolist()) == ([4000.0], [[2, 0]])
    one.add_pod(pod("p", on="a", requests={"cpu": 1, GPU: 1}))
    assert (rows["req_cpu"].tolist(), rows["pods"].tolist(), others[GPU].tolist()) == (
        [1000.0],
        [1],
        [[2, 1]],
    )
    with pytest.raises(ValueError, match="read-only"):
        rows["alloc_cpu"][0] = 1
    for number in range(20):
        one.set_node(node(f"n{number}"))
    one.set_node(node("a", cpu="1", **{GPU: 5}))
    assert (rows["alloc_cpu"].tolist(), others[GPU].tolist()) == ([4000.0], [[2, 1]])


def test_a_resource_that_only_a_fork_has_seen() -> None:
    one = ClusterState()
    one.set_node(node("a"))
    one.fork().set_node(node("b", **{GPU: 1}))
    assert one.table.allocatable[GPU].tolist() == [0]
    assert one.table.raw()[1][GPU].tolist() == [[0, 0]]


def test_a_resource_that_only_an_undone_transaction_has_seen() -> None:
    one = ClusterState()
    one.set_node(node("a"))
    mark = one.begin()
    one.set_node(node("b", **{GPU: 1}))
    one.rollback(mark)
    assert one.table.raw()[1][GPU].tolist() == [[0, 0]]
    assert one.table.requested[GPU].tolist() == [0]


@pytest.mark.parametrize("ledgers", [-1, 0, 9, 10**8])
def test_the_number_of_ledgers_is_bounded(ledgers: int) -> None:
    """Each is an array over all rows, so that a mistaken number would take all memory first."""
    with pytest.raises(ValueError, match=f"^{ledgers} ledgers: 1 to 8$"):
        ClusterState(ledgers)


def test_what_is_free_is_written_by_column() -> None:
    one = ClusterState()
    for name, cpu in (("a", "4"), ("gone", "9"), ("b", "2")):
        one.set_node(node(name, cpu=cpu, memory=str(LIMIT * 4), **{GPU: 2}))
    one.add_pod(pod("p", on="a", requests={"cpu": "1500m", "memory": LIMIT, GPU: 1}))
    one.remove_node("gone")
    resources, scales = (
        ("pods", "cpu", "memory", GPU, "example.com/none"),
        np.array([1, 1e-3, 1 / LIMIT, 2, 1]),
    )
    out = np.full((4, 5), 7, np.float32)
    one.table.write_free(resources, scales, out)
    assert out[: one.table.used].tolist() == [[9, 2.5, 3, 2, 0], [0] * 5, [10, 2, 4, 4, 0]][: one.table.used]
    assert not out[one.table.used :].any()
    for width, rows in ((4, 4), (5, 2)):
        with pytest.raises(ValueError, match=f"{rows} rows of {width} columns, where 3 of 5 are wanted"):
            one.table.write_free(resources, scales, np.zeros((rows, width), np.float32))
    with pytest.raises(ValueError, match="where 3 of 5 are wanted"):
        one.table.write_free(resources, scales[1:], out)
