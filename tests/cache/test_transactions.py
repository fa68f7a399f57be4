"""Transactions, their participants, and forks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from weakref import ref

import pytest
from tests.cache.world import cache, disturb, said
from tests.core.inside import dump
from tests.make import node, pod

from moorage.compat import NodeTree
from moorage.engine.cache import ClusterCache, SchedulerCache, Transaction
from moorage.errors import MoorageError

# ---- transactions ----------------------------------------------------------------------------------------


class Saved:
    """A participant that knows how many transactions are open."""

    def __init__(self) -> None:
        self.open = 0

    def save(self) -> object:
        self.open += 1
        return self.open - 1

    def undo(self, saved: object) -> None:
        assert isinstance(saved, int)
        self.open = saved

    release = undo


@pytest.mark.parametrize("commits", [False, True])
def test_a_transaction_keeps_no_saved_state_after_its_end(commits: bool) -> None:
    """What is held of a state makes its owner log changes."""

    class Held:
        def __init__(self) -> None:
            self.saved: Any = None

        def save(self) -> object:
            out = Saved()
            self.saved = ref(out)
            return out

        def undo(self, saved: object) -> None:
            assert saved is self.saved()

        release = undo

    one, held = cache(), Held()
    one.participants.append(held)  # type: ignore[arg-type]
    with one.transaction() as transaction:
        assert held.saved() is not None
        if commits:
            transaction.commit()
    assert held.saved() is None


def test_a_transaction_that_is_interrupted_at_its_entry_is_not_open() -> None:
    """At each line of its own and of the functions that it calls, but for those of participants."""
    traced = {one.__code__ for one in (ClusterCache.transaction, Transaction.__init__, Transaction.begin)}
    interrupted = 0
    for allowed in range(100):
        one, saved, entered = cache(), Saved(), False
        one.participants.append(saved)  # type: ignore[arg-type]
        before, left = dump(one.state), iter(range(allowed))

        def trace(frame: Any, event: str, argument: Any, left: Iterator[int] = left) -> Any:
            if frame.f_code in traced and next(left, None) is None:
                sys.settrace(None)
                raise KeyboardInterrupt
            return trace

        old = sys.gettrace()
        try:
            sys.settrace(trace)
            with one.transaction():
                sys.settrace(None)
                entered = True
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            sys.settrace(old)
        assert (one.state.journal.depth, saved.open) == (0, 0)
        assert dump(one.state, before) == before
        if entered:
            break
    assert interrupted > 5


# ---- participants ----------------------------------------------------------------------------------------


class Recorder:
    """A participant that holds a number and writes down what it is asked."""

    def __init__(self, name: str, calls: list[str]) -> None:
        self.name = name
        self.calls = calls
        self.number = 0

    def save(self) -> object:
        self.calls.append(f"{self.name} save {self.number}")
        return self.number

    def undo(self, saved: object) -> None:
        self.calls.append(f"{self.name} undo {saved}")
        self.number = int(str(saved))

    def release(self, saved: object) -> None:
        self.calls.append(f"{self.name} release {saved}")

    def clone(self) -> Recorder:
        self.calls.append(f"{self.name} clone")
        out = Recorder(self.name, self.calls)
        out.number = self.number
        return out


def enlisted() -> tuple[SchedulerCache, list[Recorder], list[str]]:
    one, calls = SchedulerCache(), list[str]()
    recorders = [Recorder("x", calls), Recorder("y", calls)]
    one.participants += recorders
    return one, recorders, calls


@pytest.mark.parametrize(
    ("how", "calls", "number"),
    [
        ("rolled back", ["x save 0", "y save 0", "x undo 0", "y undo 0"], 0),
        ("raises", ["x save 0", "y save 0", "x undo 0", "y undo 0"], 0),
        ("committed", ["x save 0", "y save 0", "x release 0", "y release 0"], 1),
    ],
)
def test_participants_hear_how_a_transaction_ends(how: str, calls: list[str], number: int) -> None:
    one, (x, _), told = enlisted()
    with suppress(ZeroDivisionError), one.transaction() as transaction:
        x.number = 1
        if how != "rolled back":
            transaction.commit()
        if how == "raises":
            x.number //= 0
    assert (told, x.number) == (calls, number)


def test_participants_of_nested_transactions() -> None:
    one, (x, _), calls = enlisted()
    with one.transaction() as outer:
        x.number = 1
        with one.transaction():
            x.number = 2
        assert x.number == 1
        outer.commit()
    assert [call for call in calls if call[0] == "x"] == ["x save 0", "x save 1", "x undo 1", "x release 0"]


def test_a_transaction_has_one_block() -> None:
    one = SchedulerCache()
    bracket = one.transaction()
    with bracket as transaction:
        transaction.commit()
    with pytest.raises(MoorageError, match="has ended"):
        transaction.commit()
    with pytest.raises(MoorageError, match="has one block"), bracket:
        one.add_node(node("never"))
    with one.transaction():
        one.add_node(node("undone"))
    assert one.state.table.used == 0


def test_a_fork_clones_participants_in_order() -> None:
    one, (x, y), calls = enlisted()
    x.number = 3
    fork = one.fork()
    assert calls == ["x clone", "y clone"]
    mine, theirs = fork.participants
    assert isinstance(mine, Recorder)
    assert {id(mine), id(theirs)}.isdisjoint({id(x), id(y)})
    with fork.transaction():
        mine.number = 9
    assert (mine.number, x.number) == (3, 3)


# ---- forks -----------------------------------------------------------------------------------------------


def test_a_fork_is_a_copy() -> None:
    one = SchedulerCache(ttl=5.0, clock=lambda: 100.0)
    one.add_node(node("a"))
    one.assume_pod(pod("p", on="a"))
    one.finish_binding(pod("p"))
    fork = one.fork()
    assert said(fork.snapshot().nodes) == said(one.snapshot().nodes)
    assert (fork.snapshot().assumed_pods, NodeTree.of_cache(fork).list()) == ({"p": True}, ["a"])
    assert (fork.ttl, fork.clock()) == (5.0, 100.0)
    assert [held.name for held in fork.cleanup_assumed_pods(105.5)] == ["p"]
    assert one.is_assumed_pod(pod("p"))


def test_a_view_without_pending_changes_stays_so_over_rollbacks() -> None:
    """Or each transaction would read again what all those before it have undone."""
    one = cache()
    one.state.view.refresh()
    for _ in range(3):
        with one.transaction():
            disturb(one)
            one.state.view.refresh()
        assert one.state.view.cursor == one.state.log.head
    seen = one.state.view.node_names()
    one.add_node(node("another"))
    with one.transaction():
        one.state.view.refresh()
    assert one.state.view.cursor < one.state.log.head
    assert one.state.view.node_names() == seen
