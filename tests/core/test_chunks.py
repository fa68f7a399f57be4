"""Chunks: short lists per row in power-of-two pieces of one arena."""

from __future__ import annotations

from random import Random

from moorage._core.state import ClusterState
from tests.core.inside import chunk, inside, values
from tests.core.make import node, pod

END = 31  # in `state`: the end of the arena


def arena_end(one: ClusterState) -> int:
    return int(inside(one.ledger.pods_on)["state"].array("i4", END + 1)[END])


def fill(one: ClusterState, name: str, pods: int) -> None:
    for number in range(pods):
        one.add_pod(pod(f"{name}{number}", on=name))


def test_lists_grow_by_powers_of_two() -> None:
    one = ClusterState()
    rooms = []
    for number in range(9):
        one.add_pod(pod(f"p{number}", on="a"))
        rooms.append(values(inside(one.ledger.pods_on)["room"], "i4", 1)[0])
    assert rooms == [1, 2, 4, 4, 8, 8, 8, 8, 16]
    assert chunk(one.ledger.pods_on, 0) == list(range(9))


def test_outgrown_pieces_are_used_again() -> None:
    one = ClusterState()
    fill(one, "a", 9)
    end = arena_end(one)
    assert end == 1 + 2 + 4 + 8 + 16
    for name in "bcd":
        fill(one, name, 1)
    assert arena_end(one) == end + 2  # one of the three found the piece that row 0 outgrew
    fill(one, "e", 4)
    assert arena_end(one) == end + 2 + 1
    assert chunk(one.ledger.pods_on, 0) == list(range(9))


def test_an_emptied_row_keeps_its_piece() -> None:
    one = ClusterState()
    fill(one, "a", 4)
    end = arena_end(one)
    for number in range(4):
        one.remove_pod(pod(f"a{number}"))
    assert chunk(one.ledger.pods_on, 0) == []
    fill(one, "b", 4)  # on the same row
    assert (one.table.find_row("b"), arena_end(one)) == (0, end)


def test_whole_lists_are_replaced() -> None:
    one = ClusterState()
    for size in (3, 0, 5, 1, 9, 9):
        names = [f"i{size}-{number}" for number in range(size)]
        one.set_node(node("a", images=[([name], 1) for name in names]))
        held = chunk(inside(one.images)["held"], 0)
        assert [one.images.names.names[image] for image in held] == names


def test_lists_of_many_rows_do_not_mix() -> None:
    one, random = ClusterState(), Random(3)
    lists: dict[str, list[str]] = {f"n{number}": [] for number in range(20)}
    rows = {name: number for number, name in enumerate(lists)}
    for name in lists:
        one.set_node(node(name))
    for number in range(600):
        name = random.choice(list(lists))
        on = lists[name]
        if on and random.random() < 0.4:
            gone = random.choice(on)
            one.remove_pod(pod(gone))
            on[on.index(gone)] = on[-1]
            on.pop()
        else:
            one.add_pod(pod(f"p{number}", on=name))
            on.append(f"p{number}")
    held = {name: [one_pod.name for one_pod in one.ledger.pods_of(row)] for name, row in rows.items()}
    assert held == lists
