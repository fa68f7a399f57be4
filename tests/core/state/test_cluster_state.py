"""ClusterState: the operations on nodes and pods, their errors, rows and ghosts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec import convert, to_builtins
from msgspec.structs import replace
from tests.core.inside import dump, inside, numbers, pod_records, row_array
from tests.core.make import node, pod, port
from tests.core.placing import enter
from tests.core.refusals import (
    ADDED,
    ASSUMED,
    CORRUPTED,
    CORRUPTING,
    NEW,
    REFUSED,
    assert_refused,
)
from tests.doors.engine import ClusterState
from tests.doors.engine import bulk_operations as batches

from moorage.errors import CacheCorruptedError, CacheError
from moorage.objects import Pod

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


@pytest.mark.parametrize(
    ("operation", "arguments", "text"),
    [
        *REFUSED,
        ("remove_node", ("c",), "node c is not found"),
        (
            "update_pod",
            (ASSUMED, ASSUMED),
            "pod default/assumed is not added to scheduler cache, so cannot be updated",
        ),
        ("update_pod", (ADDED, ASSUMED), "pod default/assumed was already in added state"),
    ],
)
def test_a_refused_operation_changes_nothing(operation: str, arguments: tuple[Any, ...], text: str) -> None:
    assert_refused(known(), CacheError, text, operation, *arguments)


@pytest.mark.parametrize(
    ("operation", "arguments", "text"),
    CORRUPTING,
)
def test_a_broken_invariant_changes_nothing(operation: str, arguments: tuple[Any, ...], text: str) -> None:
    assert_refused(known(), CacheCorruptedError, f"{text}\n{CORRUPTED}", operation, *arguments)


@pytest.mark.parametrize(
    "operation",
    ["assume_pod", "forget_pod", "add_pod", "update_pod", "remove_pod", "get_pod", "is_assumed_pod"],
)
def test_a_pod_without_uid_is_an_error(operation: str) -> None:
    nameless = replace(NEW, metadata=replace(NEW.metadata, uid=""))
    arguments = (nameless,) * (2 if operation == "update_pod" else 1)
    assert_refused(known(), CacheError, "Cannot get cache key for pod with empty UID", operation, *arguments)


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


def test_assume_confirm_remove() -> None:
    one = state("a")
    plain = pod("p", on="a", requests={"cpu": 1})
    one.assume_pod(plain)
    assert one.is_assumed_pod(plain)
    assert (cpu(one, "a"), len(one.ledger), one.assumed_pods()) == (1000, 1, ["p"])
    reported = replace(plain, metadata=replace(plain.metadata, labels={"a": "b"}))
    one.add_pod(reported)
    assert not one.is_assumed_pod(plain)
    assert one.get_pod(plain) is reported
    one.remove_pod(plain)
    assert (cpu(one, "a"), len(one.ledger), one.is_assumed_pod(plain)) == (0, 0, False)


def test_a_report_from_another_node_moves_the_pod() -> None:
    one = state("a", "b")
    one.assume_pod(pod("p", on="a", requests={"cpu": 1}))
    one.add_pod(pod("p", on="b", requests={"cpu": 2}))
    assert (cpu(one, "a"), cpu(one, "b")) == (0, 2000)
    assert (pods_on(one, "a"), pods_on(one, "b")) == ([], ["p"])


def test_a_confirmed_pod_is_the_last_on_the_node() -> None:
    one = state("a")
    for name in "pqr":
        one.assume_pod(pod(name, on="a", requests={"cpu": 1}))
    one.add_pod(pod("p", on="a", requests={"cpu": 1}))  # taken away, the last in its hole, and put back
    assert pods_on(one, "a") == ["r", "q", "p"]
    one.add_pod(pod("q", on="a", requests={"cpu": 2}))
    assert pods_on(one, "a") == ["r", "p", "q"]
    assert cpu(one, "a") == 4000


def test_an_update_may_bring_another_pod_of_the_same_name() -> None:
    one = state("a")
    one.add_pod(pod("p", on="a"))
    one.update_pod(pod("p", on="a"), pod("q", on="a", requests={"cpu": 1}))
    assert (pods_on(one, "a"), cpu(one, "a")) == (["q"], 1000)
    one.add_pod(pod("p", on="a"))


def test_an_update_derives_the_class_anew() -> None:
    one = state("a")
    one.add_pod(pod("p", on="a", requests={"cpu": 1}, labels={"app": "x"}))
    one.update_pod(pod("p"), pod("p", on="a", requests={"cpu": "250m"}, ports=[port(80)]))
    assert cpu(one, "a") == 250
    one.update_pod(pod("p"), pod("p", on="a"))
    assert cpu(one, "a") == 0
    assert one.table.nonzero["cpu"].tolist() == [100]


def test_a_forgotten_pod_leaves_no_usage_and_can_be_assumed_again() -> None:
    one = state("a")
    one.assume_pod(pod("p", on="a", requests={"cpu": 1}))
    one.forget_pod(pod("p", on="a"))
    assert (cpu(one, "a"), len(one.ledger)) == (0, 0)
    one.assume_pod(pod("p", on="a"))


def test_a_removal_moves_the_last_pod_into_the_hole() -> None:
    one = state("a")
    for name in "pqrs":
        one.add_pod(pod(name, on="a"))
    one.remove_pod(pod("q", on="a"))
    assert pods_on(one, "a") == ["p", "s", "r"]
    one.remove_pod(pod("r", on="a"))
    one.add_pod(pod("t", on="a"))
    assert pods_on(one, "a") == ["p", "s", "t"]


def test_numbers_of_pods_are_reused() -> None:
    one = state("a")
    for name in "pqr":
        one.add_pod(pod(name, on="a"))
    one.remove_pod(pod("p", on="a"))
    one.remove_pod(pod("q", on="a"))
    one.add_pod(pod("s", on="a"))
    assert (numbers(one), len(pod_records(one))) == ({"r": 2, "s": 1}, 3)


def test_a_batch_enters_pods_whose_usage_is_accounted_for() -> None:
    one = state("a", "b")
    waiting = [pod("p", requests={"cpu": 1}), pod("q", requests={"cpu": 1})]
    enter(one, waiting, np.array([1, 0], dtype=np.int32))
    assert (pods_on(one, "b"), pods_on(one, "a")) == (["p"], ["q"])
    assert one.is_assumed_pod(waiting[0])
    assert one.get_pod(waiting[0]).spec.node_name == "b"
    assert cpu(one, "b") == 0
    with pytest.raises(CacheError, match="is on b in the cache, so it cannot be forgotten on no node"):
        one.forget_pod(waiting[0])


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


# ---- expiry ----------------------------------------------------------------------------------------------


def assumed(*deadlines: float) -> ClusterState:
    """Assumed pods p0, p1, … on node a with these deadlines."""
    one = state("a")
    for number, deadline in enumerate(deadlines):
        one.assume_pod(pod(f"p{number}", on="a", requests={"cpu": 1}))
        one.finish_binding(pod(f"p{number}"), deadline)
    return one


def expire(one: ClusterState, now: float) -> list[str]:
    return [held.name for held in one.expire(now)]


def test_pods_expire_after_their_deadline_earliest_first() -> None:
    one = assumed(30.0, 10.0, 20.0, 20.0)
    assert expire(one, 10.0) == []
    assert expire(one, 20.5) == ["p1", "p2", "p3"]
    assert cpu(one, "a") == 1000
    assert expire(one, 99.0) == ["p0"]
    assert expire(one, 99.0) == []


def test_only_a_finished_binding_can_expire() -> None:
    one = state("a")
    one.assume_pod(pod("p", on="a"))
    assert expire(one, 1e9) == []


def test_the_last_deadline_counts() -> None:
    one = assumed(10.0)
    one.finish_binding(pod("p0"), 50.0)
    assert expire(one, 20.0) == []
    one.finish_binding(pod("p0"), 15.0)
    one.finish_binding(pod("p0"), 15.0)
    assert expire(one, 20.0) == ["p0"]


def test_confirmed_forgotten_and_unknown_pods_do_not_expire() -> None:
    one = assumed(10.0, 10.0)
    one.add_pod(pod("p0", on="a"))
    one.forget_pod(pod("p1", on="a"))
    one.finish_binding(pod("p0"), 5.0)
    one.finish_binding(pod("unknown"), 5.0)
    one.assume_pod(pod("p2", on="a"))  # takes the number of p1
    assert expire(one, 99.0) == []
    assert len(one.ledger) == 2


def test_an_expired_pod_can_come_back() -> None:
    one = assumed(1.0)
    expire(one, 2.0)
    one.add_pod(pod("p0", on="a", requests={"cpu": 1}))
    assert expire(one, 99.0) == []
    assert cpu(one, "a") == 1000


# ---- rows ------------------------------------------------------------------------------------------------


def test_pods_may_come_before_their_node() -> None:
    one = ClusterState()
    one.add_pod(pod("p", on="a", requests={"cpu": 1}, ports=[port(80)]))
    assert not one.has_node("a")
    assert not one.table.is_present(0)
    assert (view(one), pods_on(one, "a"), cpu(one, "a")) == ([], ["p"], 1000)
    one.set_node(node("a", cpu="2"))
    assert one.table.is_present(0)
    assert (view(one), pods_on(one, "a"), cpu(one, "a")) == (["a"], ["p"], 1000)
    assert one.table.allocatable["cpu"].tolist() == [2000]


def test_a_ghost_keeps_its_pods_and_goes_with_the_last() -> None:
    one = state("a", "b")
    one.add_pod(pod("p", on="a", requests={"cpu": 1}))
    one.add_pod(pod("q", on="a"))
    one.remove_node("a")
    assert (one.has_node("a"), one.table.is_present(0)) == (False, False)
    assert (view(one), pods_on(one, "a"), cpu(one, "a")) == (["b"], ["p", "q"], 1000)
    assert one.table.allocatable["cpu"].tolist() == [0, 4000]
    one.remove_pod(pod("p", on="a"))
    assert one.table.names == ["a", "b"]
    one.remove_pod(pod("q", on="a"))
    assert one.table.names == [None, "b"]
    with pytest.raises(CacheError, match="node a is not found"):
        one.remove_node("a")


def test_a_node_that_comes_back_revives_its_ghost() -> None:
    one = state("a", "b")
    one.add_pod(pod("p", on="a", requests={"cpu": 1}))
    one.remove_node("a")
    view(one)
    one.set_node(node("a", unschedulable=True))
    assert (view(one), one.table.find_row("a"), cpu(one, "a")) == (["b", "a"], 0, 1000)
    one.remove_pod(pod("p", on="a"))
    assert one.table.names == ["a", "b"]


def test_rows_are_stable_and_reused() -> None:
    one = state("a", "b", "c")
    one.set_node(node("b", zone="z", cpu="9"))
    assert one.table.names == ["a", "b", "c"]
    one.remove_node("a")
    one.remove_node("c")
    assert one.table.names == [None, "b", None]
    one.set_node(node("d"))
    one.set_node(node("e"))
    one.set_node(node("f"))
    assert one.table.names == ["e", "b", "d", "f"]


def test_a_reused_row_is_as_new() -> None:
    one = state("a")
    one.set_node(node("a", unschedulable=True, images=[(["i:1"], 5)], memory=1 << 58, **{GPU: 3}))
    one.add_pod(pod("p", on="a", requests={"cpu": 1, GPU: 1}, ports=[port(80)]))
    one.remove_node("a")
    one.remove_pod(pod("p", on="a"))
    one.set_node(node("b"))
    fresh = state("b")
    assert one.table.find_row("b") == 0
    assert row_array(one).tolist() == row_array(fresh).tolist()
    assert (one.table.allocatable[GPU].tolist(), one.table.requested[GPU].tolist()) == ([0], [0])
    assert one.images.state("i:1") is None
    assert inside(one.table)["port_set"].array("i4", 1).tolist() == [0]


def test_usage_is_kept_while_the_table_grows_to_many_rows() -> None:
    one = ClusterState()
    for number in range(200):
        one.set_node(node(f"n{number}", zone=f"z{number % 3}", **{f"example.com/{number % 40}": number}))
        one.add_pod(pod(f"p{number}", on=f"n{number // 2}", requests={"cpu": 1}))
    assert one.table.requested["cpu"].tolist() == [2000] * 100 + [0] * 100
    assert one.table.allocatable["example.com/7"].tolist()[:48] == [0] * 7 + [7] + [0] * 39 + [47]
    assert sorted(view(one)) == sorted(one.table.names)
