"""The change log: a ring of what changed."""

from __future__ import annotations

import pytest
from tests.core.inside import entries
from tests.doors.engine import ChangeLog, ClusterState, Journal, Kind
from tests.make import node, pod

ROW, STATIC, ORDER = Kind.LOG_ROW, Kind.LOG_STATIC, Kind.LOG_ORDER


@pytest.mark.parametrize("capacity", [0, -1, 3, 12])
def test_the_capacity_is_a_power_of_two(capacity: int) -> None:
    with pytest.raises(ValueError, match=r"^the capacity of a change log is a power of two$"):
        ChangeLog(Journal(), capacity)


def test_a_new_log_is_empty() -> None:
    log = ChangeLog(Journal(), 4)
    assert (log.head, log.capacity) == (0, 4)
    assert log.rows_since(0) == []


def test_what_each_operation_logs() -> None:
    one = ClusterState()
    steps = [
        (lambda: one.set_node(node("a")), [(STATIC, 0), (ORDER, 0)]),
        (lambda: one.set_node(node("b")), [(STATIC, 1), (ORDER, 1)]),
        (lambda: one.set_node(node("a", zone="z")), [(STATIC, 0)]),
        (lambda: one.assume_pod(pod("p", on="a")), [(ROW, 0)]),
        (lambda: one.finish_binding(pod("p"), 1.0), []),
        (lambda: one.add_pod(pod("p", on="a")), [(ROW, 0)]),
        (lambda: one.remove_pod(pod("p", on="a")), [(ROW, 0)]),
        (lambda: one.assume_pod(pod("p", on="a")), [(ROW, 0)]),
        (lambda: one.add_pod(pod("p", on="b")), [(ROW, 0), (ROW, 1)]),
        (lambda: one.update_pod(pod("p"), pod("p", on="b")), [(ROW, 1)]),
        (lambda: one.update_pod(pod("p"), pod("p", on="b", requests={"cpu": 1})), [(ROW, 1), (ROW, 1)]),
        (lambda: one.remove_node("b"), [(STATIC, 1), (ORDER, 1)]),
        (lambda: one.remove_pod(pod("p", on="b")), [(ROW, 1)]),
    ]
    for operation, logged in steps:
        cursor = one.log.head
        operation()
        assert entries(one.log, cursor) == logged
        assert one.log.rows_since(cursor) == list(dict.fromkeys(row for _, row in logged))
        assert one.log.head == cursor + len(logged)


def test_sequence_numbers_and_generations() -> None:
    one = ClusterState()
    one.set_node(node("a"))
    one.set_node(node("b"))
    one.add_pod(pod("p", on="a"))
    assert one.log.head == 5
    # An order entry is not a change of the row.
    assert [one.table.row_generation(row) for row in range(2)] == [5, 3]


def test_a_consumer_that_fell_behind_learns_it() -> None:
    one = ClusterState()
    one.add_pod(pod("p", on="a"))
    for _ in range(one.log.capacity):
        one.update_pod(pod("p"), pod("p", on="a"))
    assert one.log.head == one.log.capacity + 1
    assert one.log.rows_since(0) is None
    assert one.log.rows_since(1) == [0]
    assert one.log.rows_since(one.log.head) == []


def test_rows_are_of_rows_alone() -> None:
    one = ClusterState()
    one.set_node(node("a"))
    one.namespaces.set("n", {"team": "a"})
    assert [kind for kind, _ in entries(one.log, 2)] == [Kind.LOG_NAMESPACE]
    assert one.log.rows_since(2) == []
    assert one.log.rows_since(0) == [0]
    one.add_pod(pod("p", on="b"))
    assert one.log.rows_since(0, ROW, STATIC) == [0, 1]
    assert one.log.rows_since(0, STATIC, STATIC) == [0]
