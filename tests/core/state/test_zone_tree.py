"""The node tree: zones in first-seen order, round robin, and the zone key."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.make import node
from tests.doors.engine import ClusterState, zone_key

OLD, NEW = "failure-domain.beta.kubernetes.io/", "topology.kubernetes.io/"


@pytest.mark.parametrize(
    ("labels", "key"),
    [
        ({}, ""),
        ({"zone": "z"}, ""),
        ({NEW + "zone": "z"}, ":\x00:z"),
        ({NEW + "region": "r"}, "r:\x00:"),
        ({NEW + "region": "r", NEW + "zone": "z"}, "r:\x00:z"),
        ({OLD + "zone": "old", NEW + "zone": "new", NEW + "region": "r"}, "r:\x00:old"),
        ({OLD + "region": "old", NEW + "region": "new", NEW + "zone": "z"}, "old:\x00:z"),
        ({NEW + "zone": "", NEW + "region": ""}, ""),
    ],
)
def test_the_zone_key_of_a_node_is_made_of_its_region_and_zone(labels: dict[str, str], key: str) -> None:
    assert zone_key(labels) == key


def listed(one: ClusterState) -> list[str]:
    return [one.symbols.names[symbol] for symbol in one.tree.list()]


def tree(**zones: str) -> ClusterState:
    """A state with these nodes and their zones."""
    one = ClusterState()
    for name, zone in zones.items():
        one.set_node(node(name, zone=zone))
    return one


def test_round_robin_skips_zones_that_have_run_out() -> None:
    one = tree(a="z1", b="z1", c="z1", d="z2", e="", f="", g="z1")
    assert listed(one) == ["a", "d", "e", "b", "f", "c", "g"]
    assert one.tree.num_nodes == 7


def test_zones_keep_the_order_in_which_they_were_first_seen() -> None:
    one = tree(a="z2", b="z1", c="z2")
    assert one.tree.zones == [":\x00:z2", ":\x00:z1"]
    one.remove_node("a")
    assert listed(one) == ["c", "b"]
    one.remove_node("c")
    one.set_node(node("d", zone="z2"))
    assert listed(one) == ["b", "d"]


def test_removal_keeps_the_order_of_the_others() -> None:
    one = tree(a="z", b="z", c="z", d="z")
    one.remove_node("b")
    assert listed(one) == ["a", "c", "d"]


def test_a_node_that_moves_goes_last_in_its_new_zone() -> None:
    one = tree(a="z1", b="z1", c="z2")
    one.set_node(node("a", zone="z2"))
    assert listed(one) == ["b", "c", "a"]
    one.set_node(node("a", zone="z2", cpu="9"))
    assert listed(one) == ["b", "c", "a"]
    one.set_node(node("b", zone="z3"))
    assert one.tree.zones == [":\x00:z2", ":\x00:z3"]


@settings(deadline=None)
@given(st.lists(st.integers(0, 4), max_size=30))
def test_nodes_are_listed_in_turns_of_their_zones(zones: list[int]) -> None:
    one = tree(**{f"n{number}": f"z{zone}" for number, zone in enumerate(zones)})
    by_zone: dict[int, list[str]] = {}
    for number, zone in enumerate(zones):
        by_zone.setdefault(zone, []).append(f"n{number}")
    turns = [names[turn] for turn in range(30) for names in by_zone.values() if turn < len(names)]
    assert listed(one) == turns
