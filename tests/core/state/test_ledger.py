"""The ledger of one row and of many: what is known of each pod, apart from usage."""

from __future__ import annotations

from tests.core.inside import deadlines, inside, numbers_of_row, pod_records
from tests.core.make import node, pod
from tests.doors.engine import ClusterState

FREE, ASSUMED, ADDED = 0, 1, 2


def states(one: ClusterState) -> list[int]:
    return pod_records(one)["state"].tolist()  # type: ignore[no-any-return]


def test_pods_are_assumed_added_or_free_in_the_ledger() -> None:
    one = ClusterState()
    one.assume_pod(pod("p", on="a"))
    one.add_pod(pod("q", on="a"))
    assert states(one) == [ASSUMED, ADDED]
    one.add_pod(pod("p", on="a"))
    one.remove_pod(pod("q", on="a"))
    assert states(one) == [ADDED, FREE]
    assert (len(one.ledger), inside(one.ledger)["objects"][1]) == (1, None)


def test_assumed_pods_are_sorted() -> None:
    one = ClusterState()
    for name in "pqr":
        one.assume_pod(pod(name, on="a"))
    one.forget_pod(pod("p", on="a"))
    one.assume_pod(pod("s", on="a"))
    one.add_pod(pod("q", on="a"))
    assert one.assumed_pods() == ["r", "s"]


def test_a_confirmed_pod_has_no_deadline() -> None:
    one = ClusterState()
    one.assume_pod(pod("p", on="a"))
    one.finish_binding(pod("p"), 3.0)
    assert deadlines(one) == [(3.0, 0)]
    one.add_pod(pod("p", on="a"))
    assert deadlines(one) == []


def test_the_last_pod_moves_into_the_hole() -> None:
    one = ClusterState()
    for name, on in (("p", "a"), ("q", "b"), ("r", "a"), ("s", "a"), ("t", "b")):
        one.add_pod(pod(name, on=on))
    one.remove_pod(pod("p", on="a"))
    assert [numbers_of_row(one, row) for row in range(2)] == [[3, 2], [1, 4]]
    assert pod_records(one)["row"][1:].tolist() == [1, 0, 0, 1]


def test_a_row_without_pods() -> None:
    one = ClusterState()
    for number in range(40):
        one.set_node(node(f"n{number}"))
    assert one.ledger.pods_of(39) == []
