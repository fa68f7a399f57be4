"""IntLists: short lists per row in power-of-two pieces of one arena."""

from __future__ import annotations

from random import Random

from tests.core.inside import chunk, inside
from tests.doors.engine import ClusterState
from tests.make import node

END = 31  # in `state`: the end of the arena


def hold(one: ClusterState, name: str, images: int) -> None:
    """Let a node hold so many images of its own, each a pair of numbers in the list of its row."""
    one.set_node(node(name, images=[([f"{name}-{number}"], 1) for number in range(images)]))


def held(one: ClusterState, name: str) -> list[str | None]:
    row = one.table.find_row(name)
    return [one.images.names.names[image] for image in chunk(inside(one.images)["held"], row)[::2]]


def arena_end(one: ClusterState) -> int:
    return int(inside(inside(one.images)["held"])["state"].array("i4", END + 1)[END])


def test_outgrown_pieces_are_used_again() -> None:
    one = ClusterState()
    hold(one, "a", 9)
    end = arena_end(one)
    assert end == 1 + 2 + 4 + 8 + 16 + 32
    for name in "bcd":
        hold(one, name, 1)
    assert arena_end(one) == end + 2 * 2  # one of the three found the piece that node a outgrew
    hold(one, "e", 4)
    assert arena_end(one) == end + 2 * 2 + 2
    assert held(one, "a") == [f"a-{number}" for number in range(9)]


def test_lists_of_many_rows_do_not_mix() -> None:
    one, random = ClusterState(), Random(3)
    lists: dict[str, int] = {}
    for _ in range(300):
        name = f"n{random.randrange(20)}"
        lists[name] = random.randrange(12)
        hold(one, name, lists[name])
    assert {name: len(held(one, name)) for name in lists} == lists
    for name, images in lists.items():
        assert held(one, name) == [f"{name}-{number}" for number in range(images)]
