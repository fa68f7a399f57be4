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
from tests.core.make import node, pod

from moorage.cache import ClusterCache, NodeInfoClone, SchedulerCache, Snapshot, Transaction


def cpu(one: SchedulerCache) -> dict[str, int]:
    return {name: info.requested.milli_cpu for name, info in one.snapshot().nodes.items()}


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


def test_what_is_not_committed_is_undone() -> None:
    one = cache()
    nodes, assumed, order = said(one.snapshot().nodes), one.snapshot().assumed_pods, one.node_tree().list()
    before = dump(one.state)
    with one.transaction():
        disturb(one)
        assert dump(one.state, before) != before
    assert dump(one.state, before) == before
    assert said(one.snapshot().nodes) == nodes
    assert (one.snapshot().assumed_pods, one.node_tree().list()) == (assumed, order)


def test_what_is_committed_stays() -> None:
    one, other = cache(), cache()
    disturb(other)
    with one.transaction() as transaction:
        disturb(one)
        transaction.commit()
    assert dump(one.state) == dump(other.state)


def test_an_exception_undoes_what_was_committed() -> None:
    one = cache()
    before = dump(one.state)

    def disturb_and_fail() -> None:
        with one.transaction() as transaction:
            disturb(one)
            transaction.commit()
            raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        disturb_and_fail()
    assert dump(one.state, before) == before


def test_an_inner_transaction_ends_with_the_outer_one() -> None:
    one = cache()
    before = dump(one.state)
    with one.transaction() as outer:
        one.add_pod(pod("x", on="a", requests={"cpu": 1}))
        with one.transaction():
            one.add_pod(pod("y", on="a", requests={"cpu": 1}))
        with one.transaction() as inner:
            one.add_pod(pod("z", on="a", requests={"cpu": 2}))
            inner.commit()
        assert cpu(one)["a"] == 4000
        outer.commit()
    assert cpu(one)["a"] == 4000
    with one.transaction():
        with one.transaction() as inner:
            one.remove_pod(pod("x", on="a"))
            inner.commit()
        assert cpu(one)["a"] == 3000
    assert cpu(one)["a"] == 4000
    one.remove_pod(pod("z", on="a"))
    one.remove_pod(pod("x", on="a"))
    assert dump(one.state)["pods"].keys() == before["pods"].keys()


def test_a_refused_operation_leaves_the_transaction_as_it_is() -> None:
    one = cache()
    with one.transaction() as transaction:
        one.assume_pod(pod("x", on="a", requests={"cpu": 1}))
        with suppress(Exception):
            one.assume_pod(pod("x", on="a"))
        transaction.commit()
    assert cpu(one)["a"] == 2000


def test_an_expiry_is_undone() -> None:
    one = SchedulerCache(ttl=1.0)
    one.add_node(node("a"))
    one.assume_pods([pod("p", on="a"), pod("q", on="a")])
    one.finish_binding(pod("p"), 0.0)
    with one.transaction():
        one.finish_binding(pod("q"), 0.0)
        assert len(one.cleanup_assumed_pods(9.0)) == 2
    assert one.snapshot().assumed_pods == {"p": True, "q": True}
    assert [held.name for held in one.cleanup_assumed_pods(9.0)] == ["p"]


def test_the_iteration_of_the_tree_is_undone() -> None:
    one = cache()
    tree = one.node_tree()
    assert tree.next() == "a"
    with one.transaction():
        assert [tree.next(), tree.next()] == ["c", "b"]
    assert tree.next() == "c"
    with one.transaction():
        tree.reset_exhausted()
    assert tree.next() == "b"


def test_a_snapshot_follows_what_was_undone() -> None:
    one, snapshot = cache(), Snapshot()
    with one.transaction():
        disturb(one)
        one.update_snapshot(snapshot)
        assert [info.name for info in snapshot.node_info_list] == ["c", "d", "a"]
    one.update_snapshot(snapshot)
    assert sorted(info.name for info in snapshot.node_info_list) == ["a", "b", "c"]
    assert {info.name: info.requested.milli_cpu for info in snapshot.node_info_list} == {
        name: amount for name, amount in cpu(one).items() if name in "abc"
    }


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


def test_participants_are_taken_back_with_the_cache() -> None:
    one, (x, y), calls = enlisted()
    x.number, y.number = 1, 2
    with one.transaction():
        x.number = 7
    assert calls == ["x save 1", "y save 2", "x undo 1", "y undo 2"]
    assert (x.number, y.number) == (1, 2)


def test_participants_release_what_they_saved_for_a_transaction_that_is_committed() -> None:
    one, (x, _), calls = enlisted()
    with one.transaction() as transaction:
        x.number = 7
        transaction.commit()
    assert calls == ["x save 0", "y save 0", "x release 0", "y release 0"]
    assert x.number == 7


def test_participants_of_nested_transactions() -> None:
    one, (x, _), calls = enlisted()
    with one.transaction() as outer:
        x.number = 1
        with one.transaction():
            x.number = 2
        assert x.number == 1
        outer.commit()
    assert [call for call in calls if call[0] == "x"] == ["x save 0", "x save 1", "x undo 1", "x release 0"]


def test_an_exception_undoes_participants() -> None:
    one, (x, _), _ = enlisted()
    with suppress(ZeroDivisionError), one.transaction() as transaction:
        x.number = 7
        transaction.commit()
        x.number //= 0
    assert x.number == 0


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
    assert (fork.snapshot().assumed_pods, fork.node_tree().list()) == ({"p": True}, ["a"])
    assert (fork.ttl, fork.clock()) == (5.0, 100.0)
    assert [held.name for held in fork.cleanup_assumed_pods(105.5)] == ["p"]
    assert one.is_assumed_pod(pod("p"))


def test_a_fork_and_its_origin_are_independent() -> None:
    one = cache()
    nodes, fork = said(one.snapshot().nodes), one.fork()
    before = dump(one.state)
    disturb(fork)
    assert dump(one.state, before) == before
    assert said(one.snapshot().nodes) == nodes
    changed = dump(fork.state)
    disturb(one)
    one.add_node(node("e", zone="z9", **{"example.com/gpu": 3}))
    assert dump(fork.state, changed) == changed


def test_a_fork_made_in_a_transaction_keeps_what_its_origin_undoes() -> None:
    one = cache()
    with one.transaction():
        disturb(one)
        fork = one.fork()
    assert set(fork.snapshot().nodes) == {"a", "c", "d"}
    assert set(one.snapshot().nodes) == {"a", "b", "c", "ghost", "later"}
    infos: dict[str, NodeInfoClone] = {}
    fork.update_node_name_to_info_map(infos)
    assert infos["d"].requested.milli_cpu == 1000


def test_the_iteration_of_a_fork_is_its_own() -> None:
    one = cache()
    assert one.node_tree().next() == "a"
    fork = one.fork()
    assert [fork.node_tree().next(), fork.node_tree().next()] == ["c", "b"]
    assert one.node_tree().next() == "c"


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
