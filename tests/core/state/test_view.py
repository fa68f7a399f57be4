"""The view: list order, frozen image counts, scan columns, and what a consumer does that fell behind."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.core.inside import chunk, entries, inside
from tests.core.placing import enter, place_run
from tests.core.twins.state_check import check, check_columns
from tests.core.twins.state_twin import StateTwin
from tests.doors.engine import ClusterState, Placer, TieBreak, count_verdicts
from tests.make import node, pod

from moorage import default_profile
from moorage.kube import Container, Node, Taint


class Both:
    """A state and its twin under the same calls."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.twin = StateTwin()

    def __getattr__(self, operation: str) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            getattr(self.state, operation)(*arguments)
            getattr(self.twin, operation)(*arguments)

        return call

    def refresh(self) -> list[str]:
        """Bring both up to date and compare everything; the list order."""
        self.state.view.refresh()
        self.twin.refresh()
        check(self.state, self.twin)
        check_columns(self.state)
        return list(self.state.view.node_names())


@pytest.fixture
def both() -> Both:
    """Zones z1: a, b and z2: c, d; refreshed, so the order is a c b d."""
    one = Both()
    for name, zone in (("a", "z1"), ("b", "z1"), ("c", "z2"), ("d", "z2")):
        one.set_node(node(name, zone=zone))
    assert one.refresh() == ["a", "c", "b", "d"]
    return one


# ---- order -----------------------------------------------------------------------------------------------


def test_rows_of_names(both: Both) -> None:
    """They are those of the list, as `find_row` tells them, whatever came or went since the refresh."""
    view, names = both.state.view, ["d", "none", "a", "e", "a", "", "z1"]
    both.set_node(node("e"))
    both.remove_node("a")
    for _ in range(2):
        expected = [-1 if row is None else row for row in map(view.find_row, names)]
        assert view.rows_of(names).tolist() == expected
        both.refresh()
    assert [at for at in expected if at < 0] == [-1] * 5
    assert view.rows_of([]).tolist() == []


def test_rows_at_positions(both: Both) -> None:
    view = both.state.view
    some = np.array([view.size - 1, 0, 0], dtype=np.int32)
    assert view.rows_at(some).tolist() == view.rows()[some].tolist()
    names = both.state.symbols.names
    assert [names[symbol] for symbol in view.symbols_at(some)] == view.names_of(view.rows_at(some))
    for position in (-1, view.size):
        for at in (view.rows_at, view.symbols_at):
            with pytest.raises(IndexError, match=f"the list of {view.size} nodes has no position {position}"):
                at(np.array([position], dtype=np.int32))


# ---- image counts ----------------------------------------------------------------------------------------


def seen(one: Both, name: str) -> dict[str | None, int]:
    """Frozen image counts of a node, as of the last refresh."""
    row = one.state.table.find_row(name)
    pairs = chunk(inside(one.state.view)["seen"], row)
    names = one.state.images.names.names
    return {names[image]: count for image, count in zip(pairs[::2], pairs[1::2], strict=True)}


@pytest.fixture
def imaged() -> Both:
    """Nodes a and b hold image i; refreshed."""
    one = Both()
    for name in "ab":
        one.set_node(node(name, images=[(["i"], 7)]))
    one.set_node(node("c"))
    one.refresh()
    return one


@pytest.mark.parametrize(("pods", "counted"), [(1, 1), (2, 2)])
def test_the_last_placement_of_a_run_is_copied_at_the_next_cycle(
    imaged: Both, pods: int, counted: int
) -> None:
    """Images change after a run. One whose last pod fitted nowhere had a cycle after the placement."""
    for name in "bc":
        imaged.set_node(node(name, pods=0, images=[(["i"], 7)] if name == "b" else []))
    imaged.set_node(node("a", pods=1, images=[(["i"], 7)]))
    state = imaged.state
    placer = Placer(state, default_profile().compile(state), TieBreak.FIRST, 100)
    pod_class = state.classes.intern(pod("p"))
    rows = place_run(placer, pod_class, pods)
    assert rows.tolist() == [state.table.find_row("a")]
    enter(state, [pod("p", on="a")], rows)
    imaged.set_node(node("b"))
    state.view.refresh()
    assert seen(imaged, "a") == {"i": counted}


# ---- columns and the log ---------------------------------------------------------------------------------


def test_transactions_on_end_leave_no_more_to_read(imaged: Both) -> None:
    """What was pending before them stays pending, in its order; what they undid is not read again."""
    imaged.remove_node("b")
    imaged.add_pod(pod("p", on="a"))
    log, view = imaged.state.log, imaged.state.view
    pending = entries(log, view.cursor)
    for number in range(5):
        mark = imaged.state.begin()
        imaged.state.set_node(node(f"new-{number}"))
        imaged.state.add_pod(pod("q", on="c"))
        view.refresh()
        imaged.state.rollback(mark)
        assert entries(log, view.cursor) == list(dict.fromkeys(pending))
    imaged.refresh()


def overflow(one: Both) -> None:
    """Write more entries than the change log holds; they do not change any sums."""
    assert one.state.log.capacity == 1 << 16
    stamp = pod("stamp", on="a")
    one.state.add_pod(stamp)
    for _ in range(one.state.log.capacity):
        one.state.update_pod(stamp, stamp)
    one.twin.add_pod(stamp)
    for _ in range(3):
        one.twin.update_pod(stamp, stamp)
    assert one.state.log.rows_since(one.state.view.cursor) is None


def test_a_view_that_fell_behind_is_as_if_it_had_not(both: Both) -> None:
    random = Random(5)
    images = [(["i"], 1)], [(["j"], 2)], []
    for number in range(40):
        name = random.choice("abcdefgh")
        if number % 4 == 3 and both.state.has_node(name):
            both.remove_node(name)
        else:
            both.set_node(node(name, zone=random.choice(["z1", "z2", "z3"]), images=random.choice(images)))
        both.add_pod(pod(f"p{number}", on=name, requests={"cpu": number}))
        if number in (10, 25):
            both.refresh()
    overflow(both)
    both.refresh()


def test_falling_behind_keeps_the_order_and_frozen_counts_of_untouched_rows(imaged: Both) -> None:
    imaged.set_node(node("c", zone="z1", images=[(["i"], 7)]))
    imaged.refresh()
    imaged.set_node(node("c", zone="z2", images=[(["i"], 7)]))
    overflow(imaged)
    assert imaged.refresh() == ["a", "b", "c"]
    assert [seen(imaged, name) for name in "abc"] == [{"i": 3}, {"i": 2}, {"i": 3}]


def test_the_columns_of_a_fork_that_nobody_has_refreshed() -> None:
    one = ClusterState()
    one.set_node(node("a"))
    one.view.refresh()
    check_columns(one.fork())


def test_a_rollback_that_skips_pending_changes_taints_nodes_again() -> None:
    """A search asks first whether any node is tainted; the view had read that none was."""
    state = ClusterState()
    placer = Placer(state, default_profile().compile(state), TieBreak.FIRST, 100)
    state.set_node(node("a", taints=[Taint(key="k", effect="NoSchedule")]))
    pod_class = state.classes.intern(pod("p"))
    state.view.refresh()
    state.add_pod(pod("q", on="unknown"))  # pending when the transaction begins
    mark = state.begin()
    state.set_node(node("a"))
    state.view.refresh()
    state.rollback(mark)
    assert place_run(placer, pod_class, 1).tolist() == []


# ---- what others have read of a view that a rollback restores --------------------------------------------


class Kept:
    """A state, a placer that keeps candidates, and one that scans; of pods with image i."""

    def __init__(self, *nodes: Node) -> None:
        self.state = ClusterState()
        for one in nodes:
            self.state.set_node(one)
        plan = default_profile().compile(self.state)
        self.placers = [Placer(self.state, plan, TieBreak.FIRST, 100) for _ in range(2)]
        self.placers[1].decider.keeps_candidates = False
        spec = {"containers": (Container(name="c", image="i:1"),)}
        self.pod_class = self.state.classes.intern(pod("p", requests={"cpu": 1}, **spec))

    def placed(self, placer: Placer, pods: int) -> list[int]:
        """The rows of pods in a transaction that is rolled back."""
        mark = self.state.begin()
        try:
            placer.decider.start = 0
            return place_run(placer, self.pod_class, pods).tolist()
        finally:
            self.state.rollback(mark)

    def same(self, pods: int = 5) -> list[int]:
        kept, scanned = (self.placed(placer, pods) for placer in self.placers)
        assert kept == scanned
        return kept

    def rejections(self) -> dict[int, int]:
        """The kept numbers of nodes by verdict, read in a transaction that changes nothing."""
        mark = self.state.begin()
        try:
            found = self.placers[0].decider.rejections(self.pod_class)
            assert found == count_verdicts(self.placers[1].search.verdicts(self.pod_class)[1])
        finally:
            self.state.rollback(mark)
        return found


def zoned(lost: bool) -> Kept:
    """Nodes of two zones; with `lost` the view has fallen behind the log."""
    one = Kept(*(node(name, zone=zone, pods=2) for name, zone in zip("abcde", "xxyyy", strict=True)))
    one.state.view.refresh()
    if lost:
        one.state.add_pod(stamp := pod("stamp", on="a", requests={"cpu": 1}))
        for _ in range(one.state.log.capacity):
            one.state.update_pod(stamp, stamp)
    return one


@pytest.mark.parametrize("lost", [False, True])
def test_candidates_follow_the_order_of_a_refresh_that_was_undone(lost: bool) -> None:
    """A node that moves to another zone is listed elsewhere only after another one was removed."""
    one = zoned(lost)
    outer = one.state.begin()
    one.state.set_node(node("d", zone="y", pods=0))
    one.state.remove_node("e")
    before = one.same()
    one.state.set_node(node("a", zone="y", pods=2))
    one.state.set_node(node("b", zone="x", pods=2, unschedulable=True))
    assert one.same() != before
    one.state.rollback(outer)
    one.same()


@pytest.mark.parametrize("lost", [False, True])
def test_rejections_follow_the_order_of_a_refresh_that_was_undone(lost: bool) -> None:
    one = zoned(lost)
    one.state.begin()
    one.state.set_node(node("b", zone="x", unschedulable=True))
    one.state.set_node(node("d", zone="y", pods=0))
    one.state.remove_node("e")
    before = one.rejections()
    one.state.set_node(node("a", zone="y", pods=2))
    assert one.rejections() == before
    one.state.set_node(node("b", zone="x"))
    assert one.rejections() != before


def test_candidates_follow_image_counts_of_a_refresh_that_was_undone() -> None:
    """An entry that several transactions have read: its row copies the counts of the next refresh."""
    image = {"images": [(["i:1"], 900 << 20)]}
    one = Kept(*(node(name, **image) for name in "ab"), *(node(name) for name in "cdefgh"))
    one.state.view.refresh()
    one.same(40)
    one.state.add_pod(pod("q", on="a", requests={"cpu": 2}))
    for _ in range(3):  # the entry of a is read, and is not logged again: the pod is placed on b
        assert one.same(1) == [one.state.table.find_row("b")]
    for name in "cdef":
        one.state.set_node(node(name, cpu=1, **image))
    one.same(40)
