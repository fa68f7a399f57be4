"""Gangs that fit are placed as the scheduler places groups; counts are in `tests/cases/cli/capacity*.md`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from moorage import Scheduler
from moorage.errors import InputError
from moorage.kube import Pod
from tests.make import ZONE, make, node, pod, scheduler
from tests.planning.test_capacity import clusters
from tests.scheduler.groups.gang_kit import GATES, TOPOLOGY, gang, member, store_of, topology, world

WEB = pod("web", requests={"cpu": "1500m"})
QUOTA = make("ResourceQuota", "default/q", {"hard": {"pods": "5"}})


def test_a_quota_that_ends_within_a_gang_ends_the_count_before_it() -> None:
    found = scheduler(node("a", cpu="20", pods=99), QUOTA).ask.capacity(WEB, gang=3)
    assert (found.rounds, found.count, found.rest) == (1, 3, 2)
    assert "exceeded quota" in found.refusal


@settings(deadline=None)
@given(clusters(), st.integers(1, 5))
def test_gangs_are_what_the_engine_places_as_a_whole(made: tuple[Scheduler, Pod], size: int) -> None:
    one, template = made
    before = one.fork()
    each, found = one.ask.capacity(template), one.ask.capacity(template, gang=size)
    assert (found.rounds, found.rest) == divmod(each.count, size)
    assert found.message == each.message
    with one.transaction():
        result = one.schedule_by_template(template, found.rounds * size, 1000)
        placed = Counter(one.table.names[row] for row in result.rows.tolist())
    assert found.templates[0].nodes == placed
    assert not before.ask.diff(one)


@pytest.mark.parametrize("size", [0, -1, True, 1.5, "2", 2**31])
def test_a_size_that_is_no_positive_number_is_refused(size: Any) -> None:
    refused = r"gang:? must be a whole number (from 1 to 2147483647|or None), not"
    with pytest.raises((InputError, TypeError), match=refused):
        scheduler(node("a")).ask.capacity(WEB, gang=size)


@pytest.mark.parametrize(
    ("templates", "message"),
    [
        ([WEB, (pod("db"), 2)], "gang: must be a multiple of 3 (1 default/web, 2 default/db), not 2"),
        (
            [WEB, member("m", "g")],
            "gang: the pods of a gang must be in one pod group, not in default/g, no group",
        ),
    ],
)
def test_a_gang_that_its_templates_cannot_make_is_refused(templates: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        scheduler(node("a")).ask.capacity(templates, gang=2)
    assert str(error.value) == message


def test_a_gang_of_several_templates_has_each_by_its_share() -> None:
    one, big = scheduler(node("a", cpu="11", pods=99)), pod("db", requests={"cpu": 2})
    before = one.fork()
    found = one.ask.capacity([big, (WEB, 2)], gang=3)
    assert [(each.share, each.count, each.nodes) for each in found.templates] == [
        (1, 2, {"a": 2}),
        (2, 4, {"a": 4}),
    ]
    assert (found.rounds, found.gang, found.rest, found.failed) == (2, 3, 0, "default/db")
    found = one.ask.capacity([big, (WEB, 2)], gang=6)
    assert [(each.share, each.count) for each in found.templates] == [(2, 2), (4, 4)]
    found = one.ask.capacity([big, (WEB, 3)], gang=8)
    assert (found.rounds, found.rest, found.failed) == (0, 6, "default/web")
    assert not before.ask.diff(one)


# ---- groups ------------------------------------------------------------------------------------------------


def zones(*cpus: int) -> list[Any]:
    """A node in each of the zones a, b and so on."""
    return [node(name, zone=name, cpu=cpu, pods=99) for name, cpu in zip("abcdef", cpus, strict=False)]


def as_groups(one: Scheduler, number: int, size: int, cpu: int, **spec: Any) -> int:
    """How many of some groups a run places."""
    for at in range(number):
        name = f"run-{at}"
        store_of(one).create(gang(name, size, **spec))
        store_of(one).create_many([member(f"{name}-{each}", name, cpu) for each in range(size)])
    placed = Counter(key.rpartition("-")[0] for key in one.run().placements)
    assert set(placed.values()) <= {size}
    return len(placed)


def test_gangs_of_a_group_that_is_bound_to_a_topology_are_each_in_one_zone() -> None:
    one = world(zones(3, 3, 1), gang("g", 7, **topology(ZONE)), feature_gates=TOPOLOGY)
    before = one.fork()
    found = one.ask.capacity(member("m", "g", 1), gang=2)
    assert (found.rounds, found.count, found.rest) == (2, 4, 1)
    assert found.templates[0].nodes == {"a": 2, "b": 2}
    assert found.domains == {f"{ZONE}=a": 1, f"{ZONE}=b": 1}
    assert found.to_dict()["gang"]["domains"] == found.domains
    assert found.message == (
        "pod group is unschedulable, 0/3 placements are available, first placement status: "
        "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
    )
    assert found.binding == ()
    assert not before.ask.diff(one)
    assert one.ask.capacity(member("m", "g", 1), gang=2, max=1).rounds == 1


def test_gangs_of_several_templates_of_a_bound_group_are_each_in_one_zone() -> None:
    one = world(zones(4, 3, 2), gang("g", 3, **topology(ZONE)), feature_gates=TOPOLOGY)
    found = one.ask.capacity([member("big", "g", 2), (member("small", "g", 1), 2)], gang=3)
    assert [each.nodes for each in found.templates] == [{"a": 1}, {"a": 2}]
    assert (found.rounds, found.rest, found.failed) == (1, 2, "default/big")
    assert "minCount (3) cannot be satisfied" in found.message


def test_a_whole_gang_is_all_that_its_group_waits_for() -> None:
    one = world(zones(9), gang("g", 4))
    assert one.ask.capacity(member("m", "g"), gang=4).templates[0].skipped == ""
    assert "minCount" in one.ask.capacity(member("m", "g"), gang=3).templates[0].skipped


@pytest.mark.parametrize(("cpus", "rest"), [((3, 2, 1), 3), ((1, 2), 2), ((4, 3), 0)])
def test_the_rest_of_a_bound_group_is_what_fits_in_one_domain(cpus: tuple[int, ...], rest: int) -> None:
    one = world(zones(*cpus), gang("g", 4, **topology(ZONE)), feature_gates=TOPOLOGY)
    found = one.ask.capacity(member("m", "g", 1), gang=4, **({"max": 1} if not rest else {}))
    assert (found.rounds, found.rest) == (0 if rest else 1, rest)


def test_a_quota_that_ends_within_a_gang_of_a_bound_group_leaves_a_rest() -> None:
    one = world(zones(9), gang("g", 4, **topology(ZONE)), QUOTA, feature_gates=TOPOLOGY)
    found = one.ask.capacity(member("m", "g", 1), gang=4)
    assert (found.rounds, found.rest, found.failure) == (1, 1, None)


@settings(deadline=None)
@given(
    cpus=st.lists(st.integers(0, 7), min_size=1, max_size=4),
    size=st.integers(1, 4),
    cpu=st.integers(1, 3),
    tied=st.booleans(),
)
def test_a_run_places_as_many_groups_as_gangs_fit(cpus: list[int], size: int, cpu: int, tied: bool) -> None:
    spec = topology(ZONE) if tied else {}
    one = world(zones(*cpus), gang("g", 1, **spec), feature_gates=TOPOLOGY)
    found = one.ask.capacity(member("m", "g", cpu), gang=size)
    assert found.rounds == as_groups(one, found.rounds + 1, size, cpu, **spec)


def test_pods_of_the_group_that_have_a_node_do_not_tie_new_gangs_to_their_domain() -> None:
    old = member("old", "g", 1)
    old = replace(old, spec=replace(old.spec, node_name="a"))
    one = world(zones(3, 3), gang("g", 1, **topology(ZONE)), old, feature_gates=TOPOLOGY)
    assert one.ask.capacity(member("m", "g", 1), gang=2).templates[0].nodes == {"a": 2, "b": 2}


def test_without_its_gate_the_topology_of_a_group_does_not_count() -> None:
    one = world(zones(3, 3), gang("g", 2, **topology(ZONE)), feature_gates=GATES)
    assert one.ask.capacity(member("m", "g", 1), gang=2).rounds == 3
