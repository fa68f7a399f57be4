"""The node table: columns, exactness beyond 2^53, label columns, other resources."""

from __future__ import annotations

import numpy as np
import pytest
from tests.core.inside import label_columns
from tests.doors.engine import ClusterState
from tests.make import node, pod

GPU = "example.com/gpu"
LIMIT = 2**53


def test_columns_by_resource_name() -> None:
    one = ClusterState()
    one.set_node(node("a", cpu="1500m", memory="1Ki", pods="7", **{GPU: 2, "ephemeral-storage": "1M"}))
    one.set_node(node("b"))
    one.add_pod(pod("p", on="a", requests={"cpu": "100m", GPU: 1}))
    table = one.table
    assert list(table.allocatable) == ["cpu", "memory", "pods", "ephemeral-storage", GPU]
    requested = [column.tolist() for column in table.requested.values()]
    assert requested == [[100, 0], [0, 0], [1, 0], [0, 0], [1, 0]]
    assert [len(kind) for kind in (table.allocatable, table.requested, table.nonzero)] == [5, 5, 2]


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


def test_pods_beyond_int32_are_clamped() -> None:
    one = ClusterState()
    one.set_node(node("a", pods=1 << 40))
    one.set_node(node("b", pods=-(1 << 40)))
    assert one.table.allocatable["pods"].tolist() == [2**31 - 1, -(2**31 - 1)]


# ---- label columns ---------------------------------------------------------------------------------------


def use(one: ClusterState, key: str) -> None:
    """A pod that asks for a label is named; the table makes the column when something is next to change."""
    one.classes.intern(pod("asks", node_selector={key: "x"}))
    one.commit(one.begin())


def test_columns_grow_with_the_rows() -> None:
    one = ClusterState()
    use(one, "disk")
    for number in range(50):
        one.set_node(node(f"n{number}", labels={"disk": str(number), "arch": "x"}))
    use(one, "arch")
    assert label_columns(one) == {"disk": [str(number) for number in range(50)], "arch": ["x"] * 50}


def test_names_find_rows() -> None:
    one = ClusterState()
    for number in range(3000):  # symbols beyond the first reservation
        one.symbols.intern(str(number))
    one.set_node(node("late"))
    assert one.table.find_row("late") == 0
    assert one.table.row_name(0) == "late"
    assert one.table.find_row("5") is None
    assert one.table.find_row("never seen") is None


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
