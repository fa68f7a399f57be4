"""After a rollback, and in a fork, all later answers are those of an untouched copy."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.core.inside import inside
from tests.core.world import Step, World, steps
from tests.doors.engine import TieBreak
from tests.make import node, pod

sequences = st.lists(steps(), max_size=10)
new_sequences = st.lists(steps(known=False), max_size=10)
slow = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def pair(tie_break: TieBreak, before: list[Step]) -> tuple[World, World]:
    """Two worlds with the same past."""
    one, untouched = World(tie_break), World(tie_break)
    assert one.carry_out(before) == untouched.carry_out(before)
    return one, untouched


def assert_same_future(one: World, untouched: World, later: list[Step]) -> None:
    one.now = untouched.now
    for step in later:
        assert one.answer(*step) == untouched.answer(*step), step
    assert one.visible() == untouched.visible()


def without_snapshots(some: list[Step]) -> list[Step]:
    """A snapshot that looks into a transaction is not as if it had not."""
    return [step for step in some if step[0] != "take_snapshot"]


class StopError(Exception):
    """Ends a transaction."""


def undo(world: World, undone: list[Step], inner: list[Step], how: str) -> None:
    """A transaction with another one inside, neither of which stays."""
    with suppress(StopError), world.cache.transaction() as outer:
        world.carry_out(undone)
        if how.startswith("inner"):
            with suppress(StopError), world.cache.transaction() as transaction:
                world.carry_out(inner)
                if how == "inner commits":
                    transaction.commit()
                if how == "inner raises":
                    raise StopError
            world.carry_out(undone)
        if how == "raises":
            outer.commit()
            raise StopError


@slow
@given(
    st.sampled_from(TieBreak),
    sequences,
    new_sequences,
    new_sequences,
    st.sampled_from(["rolled back", "raises", "inner commits", "inner rolled back", "inner raises"]),
    sequences,
)
@example(TieBreak.FIRST, [("set_node", node("n0"))], [("next",), ("reset",)], [], "raises", [("next",)])
@example(
    TieBreak.FIRST,
    [("set_node", node("n0")), ("set_node", node("n1")), ("next",)],
    [("reset",)],
    [],
    "rolled back",
    [("next",)],
)
def test_after_a_rollback_a_cache_answers_as_an_untouched_copy(
    tie_break: TieBreak,
    before: list[Step],
    undone: list[Step],
    inner: list[Step],
    how: str,
    later: list[Step],
) -> None:
    one, untouched = pair(tie_break, before)
    undone, inner = map(without_snapshots, (undone, inner))
    undo(one, undone, inner, how)
    assert_same_future(one, untouched, later)


@slow
@given(sequences, new_sequences, sequences, st.booleans())
def test_after_a_commit_a_cache_answers_as_one_without_transactions(
    before: list[Step], done: list[Step], later: list[Step], nested: bool
) -> None:
    one, plain = pair(TieBreak.GO_HEAP, before)
    with one.cache.transaction() as transaction:
        if nested:
            with one.cache.transaction() as inner:
                answers = one.carry_out(done)
                inner.commit()
        else:
            answers = one.carry_out(done)
        transaction.commit()
    assert plain.carry_out(done) == answers
    assert_same_future(one, plain, later)


@slow
@given(sequences, new_sequences, new_sequences, sequences, st.booleans())
def test_a_fork_and_its_original_answer_as_untouched_copies(
    before: list[Step], there: list[Step], here: list[Step], later: list[Step], in_transaction: bool
) -> None:
    """The original, the fork and a fork of the fork go their own ways."""
    one, untouched = pair(TieBreak.RANDOM, before)
    twin = untouched.fork()
    if in_transaction:
        there, here = map(without_snapshots, (there, here))
        with one.cache.transaction():
            one.carry_out(here)
            fork = one.fork()
            one.carry_out(there)
        twin = pair(TieBreak.RANDOM, before)[0]
        twin.carry_out(here)
        twin = twin.fork()
    else:
        fork = one.fork()
        one.carry_out(here)
        untouched.carry_out(here)
    grandchild, twin_grandchild = fork.fork(), twin.fork()
    assert fork.carry_out(there) == twin.carry_out(there)
    assert_same_future(one, untouched, later)
    assert_same_future(fork, twin, later)
    assert_same_future(grandchild, twin_grandchild, later)


def overflow(world: World) -> None:
    """Write more entries than the change log holds."""
    stamp = pod("stamp", on="n0")
    world.state.add_pod(stamp)
    for _ in range(world.state.log.capacity // 2):
        world.state.update_pod(stamp, stamp)
    world.state.remove_pod(stamp)


@settings(deadline=None, max_examples=5, suppress_health_check=list(HealthCheck))
@given(sequences, new_sequences, st.booleans(), sequences)
def test_rollback_of_more_than_the_log_holds(
    before: list[Step], undone: list[Step], refreshed: bool, later: list[Step]
) -> None:
    one, untouched = pair(TieBreak.RANDOM, before)
    with one.cache.transaction():
        overflow(one)
        one.carry_out(without_snapshots(undone))
        if refreshed:
            one.refresh()
    assert_same_future(one, untouched, later)


# ---- what one transaction may do between two refreshes of the view


def pending(world: World) -> None:
    """Changes that the view has not seen: a node is new, one has moved, an image is held by one more."""
    world.refresh()
    world.cache.add_node(node("n2", zone="z1", images=[(["i:1"], 5)]))
    world.cache.update_node(node("n0"), node("n0", zone="z2"))
    world.cache.add_pod(pod("p", on="n1", requests={"cpu": 1}))


def place(world: World) -> None:
    world.place(pod("q", requests={"cpu": 1}), 2)


def come_and_go(world: World) -> None:
    world.cache.remove_node(node("n1"))
    world.refresh()
    world.cache.add_node(node("n1", zone="z3"))
    world.cache.add_node(node("n9", zone="new", images=[(["new:1"], 1)]))


@pytest.mark.parametrize("refresh", [False, True])
@pytest.mark.parametrize("inside", [place, come_and_go, overflow, lambda world: None])
def test_rollback_with_pending_changes(inside: Callable[[World], Any], refresh: bool) -> None:
    worlds = []
    for undone in (True, False):
        world = World()
        for at, zone in enumerate(["z1", "z1", "z2"]):
            world.cache.add_node(node(f"n{at}", zone=zone, images=[(["i:1"], 5)] * (at < 2)))
        pending(world)
        if undone:
            with world.cache.transaction():
                if refresh:
                    world.refresh()
                inside(world)
                if refresh:
                    world.refresh()
        worlds.append(world)
    image_user = pod("r", requests={"cpu": 1})
    assert_same_future(worlds[0], worlds[1], [("decide", image_user), ("place", image_user, 5), ("refresh",)])


def test_a_snapshot_keeps_the_size_of_an_image_that_has_gone() -> None:
    world = World()
    world.cache.add_node(node("n0", images=[(["i:1"], 5)]))
    world.cache.update_snapshot(world.snapshot)
    world.cache.remove_node(node("n0"))
    world.cache.add_node(node("n1", images=[(["i:1"], 9)]))
    assert world.snapshot.get("n0").image_states["i:1"].size == 5


def test_transactions_that_ask_for_the_same_do_not_pile_up_memory() -> None:
    world = World()
    world.cache.add_node(node("n0", labels={"disk": "x"}))
    buffers = []
    for _ in range(4):
        with world.cache.transaction():
            world.decide(pod("p", node_selector={"disk": "x"}, requests={"example.com/gpu": 1}))
        buffers.append(len(inside(world.state.journal)["buffers"]))
    assert buffers[1:] == [buffers[1]] * 3
