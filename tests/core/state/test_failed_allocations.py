"""Each allocation of Python fails in turn while a cluster state changes: MemoryError, and nothing changed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from tests.conftest import NIGHTLY
from tests.core.inside import dump
from tests.core.state.test_domains import HOST, make, rejected, spread_over
from tests.doors.engine import ClusterState, Journal, Placer, RunningPods
from tests.make import node, pod
from tests.words import GROUP_ANNOTATION

memory = pytest.importorskip("_testcapi", reason="a CPython without its test modules")
Operation = Callable[[ClusterState], object]
# Cython tells of generators that it closes while an exception is on its way.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def without(allocation: int, operation: Callable[[], object]) -> bool:
    """Carry an operation out while one allocation fails; whether it ran out of memory."""
    memory.set_nomemory(allocation, allocation + 1)
    try:
        operation()
    except (MemoryError, RuntimeError):  # the latter of a lock
        return True
    finally:
        memory.remove_mem_hooks()
    return False


def made() -> ClusterState:
    state = ClusterState()
    for name in "abc":
        state.set_node(node(name))
    state.add_pod(pod("there", on="a"))
    state.assume_pod(pod("assumed", on="b"))
    state.add_pod(pod("ghostly", on="ghost"))
    return state


# Made while there is memory: the making itself is not tested, and CPython 3.12 crashes in it.
NEW, CHANGED = node("new", labels={"disk": "ssd"}), node("a", zone="z")
PRESENT, ASSUMED, GHOSTLY = pod("there", on="a"), pod("assumed", on="b"), pod("ghostly", on="ghost")
OPERATIONS: dict[str, Operation] = {
    "new node": lambda state: state.set_node(NEW),
    "other node": lambda state: state.set_node(CHANGED),
    "node goes": lambda state: state.remove_node("c"),
    "remove": lambda state: state.remove_pod(PRESENT),
    "last pod of a ghost goes": lambda state: state.remove_pod(GHOSTLY),
    "forget": lambda state: state.forget_pod(ASSUMED),
}
WITHOUT_MEMORY = {"remove", "forget"}
"""Operations that may allocate nothing outside a transaction."""


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("nested", [False, True])
def test_an_operation_without_memory_changes_nothing(name: str, nested: bool) -> None:
    failed = allocation = unharmed = 0
    while unharmed < 10:
        state = made()
        mark = state.begin() if nested else None
        before = dump(state)
        if without(allocation, partial(OPERATIONS[name], state)):
            failed, unharmed = failed + 1, 0
            assert dump(state, before) == before, allocation
            OPERATIONS[name](state)
        else:
            unharmed += 1
        if mark is not None:
            state.rollback(mark)
        allocation += 1
    assert failed or (not nested and name in WITHOUT_MEMORY)


def test_an_action_is_recorded_as_a_whole_or_not_at_all() -> None:
    outcomes = set()
    for allocation in range(20):
        journal, table = Journal(), dict[str, Any]()
        mark = journal.begin()
        for key in "abcd":  # then the list of actions has to grow
            journal.put(table, key, 1)
        outcomes.add(without(allocation, partial(journal.put, table, "second", 2)))
        journal.rollback(mark)
        assert (table, journal.depth) == ({}, 0)
    assert outcomes == {False, True}


# ---- replicas, columns and counters

WEB, OTHER = (replace(one, metadata=replace(one.metadata, uid="")) for one in (pod("web"), pod("other")))


def replica(ordinal: int, on: str) -> Any:
    meta = replace(WEB.metadata, name=f"web-{ordinal}", uid=f"default/web-#{ordinal}")
    return replace(WEB, metadata=meta, spec=replace(WEB.spec, node_name=on))


SECOND, LAST = replica(1, "n1"), replica(10, "n3")
COUNTED = {"app": "x"}
THERE, MORE = pod("there", on="n0", labels=COUNTED), pod("more", on="n1", labels=COUNTED)
OF_A_NEW_CLASS = pod("more", on="n1", labels=COUNTED | {"rev": "2"})
WITH_A_DEVICE = pod("device", on="n1", requests={"example.com/device": 1})
SPREADS = [spread_over(key) for key in (HOST, "topology.kubernetes.io/zone", "nowhere")]


def assume(state: ClusterState, template: Any, first: int, rows: list[int]) -> None:
    state.assume_template(INTERNED[template.name], template, first, np.array(rows, dtype=np.int32))


INTERNED: dict[str, int] = {}


def counting() -> tuple[ClusterState, Placer]:
    """Two entries of replicas, one pod with an object, and counters; the classes of all pods are known."""
    state, placer = make(4)
    INTERNED.update({one.name: state.classes.intern(one) for one in (WEB, OTHER)})
    assume(state, WEB, 0, [0, 1, 2])
    assume(state, WEB, 10, [3])
    state.add_pod(THERE)
    rejected(state, placer, SPREADS[0])
    for one in (*SPREADS, SECOND, LAST, MORE, OF_A_NEW_CLASS, WITH_A_DEVICE):
        state.classes.intern(one)  # msgspec crashes if it has no memory for a key
    return state, placer


def ask(state: ClusterState, placer: Placer, spread: int) -> set[str]:
    try:
        return rejected(state, placer, SPREADS[spread])
    except TypeError as error:  # numpy without memory to look for a loop
        raise MemoryError from error


def consequences(state: ClusterState, placer: Placer) -> list[Any]:
    """What is answered while pods come and go."""
    told: list[Any] = [[ask(state, placer, at) for at in range(3)]]
    for at in range(3):
        state.add_pod(pod(f"later-{at}", on=f"n{at}", labels=COUNTED))
        told.append([ask(state, placer, at) for at in range(3)])
    assume(state, WEB, 30, [0, 1])
    told.append([[one.name for one in state.pods_of(row)] for row in range(4)])
    for ordinal in (31, 30):
        state.forget_pod(replica(ordinal, f"n{ordinal - 30}"))
    return [*told, ask(state, placer, 0), [[one.name for one in state.pods_of(row)] for row in range(4)]]


CHANGES: dict[str, Callable[[ClusterState, Placer], object]] = {
    "replicas": lambda state, placer: assume(state, WEB, 20, [0, 1]),
    "replicas of another template": lambda state, placer: assume(state, OTHER, 0, [0, 1]),
    "a replica goes": lambda state, placer: state.forget_pod(SECOND),
    "the last replica goes": lambda state, placer: state.forget_pod(LAST),
    "a replica gets an object": lambda state, placer: state.add_pod(SECOND),
    "the last replica gets an object": lambda state, placer: state.add_pod(LAST),
    "a new resource": lambda state, placer: state.add_pod(WITH_A_DEVICE),
    "a counted pod": lambda state, placer: state.add_pod(MORE),
    "a counted pod of a new class": lambda state, placer: state.add_pod(OF_A_NEW_CLASS),
    "a counted pod goes": lambda state, placer: state.remove_pod(THERE),
    "a counter": lambda state, placer: ask(state, placer, 1),
    "a counter of a new label": lambda state, placer: ask(state, placer, 2),
}
READING = {"a counter", "a counter of a new label"}
TRANSACTIONS = ["none", "goes on", "rolled back"]


@pytest.mark.share(2)
@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("transaction", TRANSACTIONS)
def test_a_change_without_memory_can_be_made_again(name: str, transaction: str) -> None:
    change, unharmed, failed = CHANGES[name], 0, 0
    state, placer = counting()
    change(state, placer)
    after = consequences(state, placer)
    before = consequences(*counting())
    # By day each allocation fails in one kind of transaction.
    for allocation in count() if NIGHTLY else count(TRANSACTIONS.index(transaction), len(TRANSACTIONS)):
        state, placer = counting()
        mark = None if transaction == "none" else state.begin()
        was = dump(state)
        if not without(allocation, partial(change, state, placer)):
            unharmed += 1
            if unharmed == 5:
                break
            continue
        failed, unharmed = failed + 1, 0
        if name not in READING:
            assert dump(state, was) == was, allocation
        if transaction == "rolled back":
            state.rollback(mark)
            assert consequences(state, placer) == before, allocation
        else:
            change(state, placer)
            assert consequences(state, placer) == after, allocation
    assert failed


MEMBER = replace(
    pod("member"), metadata=replace(pod("member").metadata, annotations={GROUP_ANNOTATION: "gang"})
)
SAME_NAME = replace(THERE, metadata=replace(THERE.metadata, namespace="elsewhere", uid="same-name"))


@pytest.mark.parametrize(
    "one", [MEMBER, pod("alone"), SAME_NAME], ids=["member", "alone", "of the same name"]
)
@pytest.mark.parametrize("leaves", [False, True])
def test_the_index_of_running_pods_is_as_before(one: Any, leaves: bool) -> None:
    keys = ["gang", "single/default/alone", "single/default/there", "single/elsewhere/there"]
    outcomes = set()
    for allocation in range(30):
        state = ClusterState()
        index = RunningPods(state, None, lambda held: "gang", GROUP_ANNOTATION, "single")
        index.enter(THERE)
        if leaves:
            index.enter(one)
        before = [index.running(key) for key in keys]
        mark = state.begin()
        change = partial(index.leave if leaves else index.enter, one)
        outcomes.add(failed := without(allocation, change))
        if failed:
            assert [index.running(key) for key in keys] == before, allocation
            change()
        assert [index.running(key) for key in keys] != before
        state.rollback(mark)
        assert [index.running(key) for key in keys] == before, allocation
    assert outcomes == {False, True}
