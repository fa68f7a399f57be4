"""ClusterState: the operations on nodes and pods, their errors, rows and ghosts."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from msgspec import convert, to_builtins
from tests.core.inside import dump
from tests.core.refusals import ADDED, ASSUMED, assert_refused
from tests.doors.engine import ClusterState
from tests.doors.engine import bulk_operations as batches
from tests.make import node, pod

from moorage.errors import CacheError
from moorage.kube import Pod

GPU = "example.com/gpu"


def state(*names: str) -> ClusterState:
    """A state with plain nodes."""
    one = ClusterState()
    for name in names:
        one.set_node(node(name))
    return one


def pods_on(one: ClusterState, name: str) -> list[str]:
    row = one.table.find_row(name)
    return [] if row is None else [held.name for held in one.ledger.pods_of(row)]


def view(one: ClusterState) -> list[str]:
    one.view.refresh()
    return list(one.view.node_names())


def cpu(one: ClusterState, name: str) -> int:
    return int(one.table.requested["cpu"][one.table.find_row(name)])


# ---- errors ----------------------------------------------------------------------------------------------


def known() -> ClusterState:
    """Nodes a and b; on a an assumed pod and an added one."""
    one = state("a", "b")
    one.assume_pod(pod("assumed", on="a", requests={"cpu": 1}))
    one.add_pod(pod("added", on="a", requests={"cpu": 1}))
    return one


def test_a_pod_is_updated_where_it_was_added_alone() -> None:
    """What the cache itself refuses is in tests/cache."""
    not_added = "pod default/assumed is not added to scheduler cache, so cannot be updated"
    assert_refused(known(), CacheError, not_added, "update_pod", ASSUMED, ASSUMED)
    twice = "pod default/assumed was already in added state"
    assert_refused(known(), CacheError, twice, "update_pod", ADDED, ASSUMED)


def test_a_node_with_a_bad_quantity_changes_nothing() -> None:
    one = known()
    before, head = dump(one), one.log.head
    for name in ("a", "c"):
        for resource in ("cpu", "memory", "pods", "ephemeral-storage", GPU):
            with pytest.raises(ValueError, match="quantit"):
                one.set_node(node(name, zone="z", images=[(["i:1"], 1)], **{resource: "1K"}))
            assert dump(one, before) == before
    assert one.log.head == head
    assert view(one) == ["a", "b"]


@pytest.mark.parametrize("resource", ["cpu", "memory", GPU])
@pytest.mark.parametrize(
    ("operation", "name", "on"),
    [("assume_pod", "new", "elsewhere"), ("add_pod", "assumed", "elsewhere"), ("update_pod", "added", "a")],
)
def test_a_pod_with_a_bad_quantity_changes_nothing(operation: str, name: str, on: str, resource: str) -> None:
    one = known()
    before, head = dump(one), one.log.head
    bad = pod(name, on=on, requests={resource: " 1"})
    with pytest.raises(ValueError, match="quantit"):
        getattr(one, operation)(*([ADDED] if operation == "update_pod" else []), bad)
    assert dump(one, before) == before
    assert one.log.head == head
    assert one.table.find_row("elsewhere") is None


# ---- the life of a pod -----------------------------------------------------------------------------------


def test_an_update_may_bring_another_pod_of_the_same_name() -> None:
    one = state("a")
    one.add_pod(pod("p", on="a"))
    one.update_pod(pod("p", on="a"), pod("q", on="a", requests={"cpu": 1}))
    assert (pods_on(one, "a"), cpu(one, "a")) == (["q"], 1000)
    one.add_pod(pod("p", on="a"))


def test_many_pods_are_confirmed_and_forgotten_at_once() -> None:
    one = state("a", "b")
    there = [pod(f"p{at}", on="ab"[at % 2], requests={"cpu": 1}) for at in range(60)]
    batches.assume_pods(one, there)
    batches.add_pods(one, there[:20])
    assert [one.is_assumed_pod(each) for each in there] == [False] * 20 + [True] * 40
    batches.forget_pods(one, there[20:])
    assert [sorted(pods_on(one, name)) for name in "ab"] == [
        sorted(f"p{at}" for at in range(first, 20, 2)) for first in (0, 1)
    ]
    assert [cpu(one, name) for name in "ab"] == [10_000, 10_000]


def test_nodes_are_added_together_unless_one_is_known() -> None:
    one = state("a")
    assert not one.add_nodes([node("b"), node("a")])
    assert view(one) == ["a"]
    assert one.add_nodes([node("b"), node("c")])
    assert view(one) == ["a", "b", "c"]


def test_pods_of_any_type_are_read() -> None:
    class Other(Pod, frozen=True):
        """Slots of its own."""

    one = state("a", "b")
    other = convert(to_builtins(pod("q", on="b")), Other)
    batches.assume_pods(one, [pod("p", on="a"), other, pod("r", on="b")])
    for named in ("p", "q", "r"):
        for asked in (pod(named), SimpleNamespace(metadata=SimpleNamespace(uid=named)), other):
            assert one.is_assumed_pod(asked)
    assert (pods_on(one, "a"), pods_on(one, "b")) == (["p"], ["q", "r"])
    with pytest.raises(AttributeError, match="metadata"):
        one.has_pod(object())


# ---- rows ------------------------------------------------------------------------------------------------


def test_usage_is_kept_while_the_table_grows_to_many_rows() -> None:
    one = ClusterState()
    for number in range(200):
        one.set_node(node(f"n{number}", zone=f"z{number % 3}", **{f"example.com/{number % 40}": number}))
        one.add_pod(pod(f"p{number}", on=f"n{number // 2}", requests={"cpu": 1}))
    assert one.table.requested["cpu"].tolist() == [2000] * 100 + [0] * 100
    assert one.table.allocatable["example.com/7"].tolist()[:48] == [0] * 7 + [7] + [0] * 39 + [47]
    assert sorted(view(one)) == sorted(one.table.names)


def test_the_last_deadline_counts() -> None:
    one, expired = state("a"), list[list[str]]()
    one.assume_pod(pod("p", on="a"))
    for deadlines in ((10.0, 50.0), (15.0, 15.0)):
        for deadline in deadlines:
            one.finish_binding(pod("p"), deadline)
        expired.append([held.name for held in one.expire(20.0)])
    assert expired == [[], ["p"]]
