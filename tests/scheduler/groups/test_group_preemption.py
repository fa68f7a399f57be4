"""Pods that are evicted for a group: for all of it, and no more than it needs."""

from __future__ import annotations

from collections import Counter
from itertools import cycle
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.inside import dump
from tests.doors.engine import (
    Unit,
    place_group,
    units_by_importance,
    violations,
)
from tests.framework.make import make
from tests.make import ZONE, in_tree, node, pod, port
from tests.preemption.test_dry_run import LABELS, spread
from tests.preemption.test_eviction_units import SINGLE, group, member
from tests.preemption.twin import priority
from tests.preemption.world import HOST, LEAVING, budget, nominated, terminating, victim
from tests.scheduler.groups.gang_kit import (
    GATES,
    TOPOLOGY,
    gang,
    members,
    nodes,
    on_nodes,
    store_of,
    topology,
    world,
)
from tests.scheduler.make import profile_with

import moorage as mo
from moorage import Scheduler, default_profile
from moorage.engine.framework import Profile
from moorage.engine.preemption import DefaultPreemption
from moorage.engine.scheduler import Eviction, ScheduleResult
from moorage.kube import Affinity, LabelSelector, Pod, PodAffinity, PodAffinityTerm, PodGroup, UnitKey

PYTHON = make(mo.FilterPlugin, "P", filter=lambda *rest: None)


def asking(minimum: int = 3, priority: int = 10, **spec: Any) -> PodGroup:
    """The group p, which wants nodes."""
    one = gang("p", minimum)
    return replace(one, spec=replace(one.spec, priority=priority, **spec))


def its(count: int, priority: int = 10, **rest: Any) -> list[Pod]:
    """Pods of the group p."""
    return members("p", count, priority=priority, **rest)


def full(*objects: Any, python: bool = False, **rest: Any) -> Scheduler:
    plugins = {"profile": profile_with(PYTHON, in_tree("GangScheduling")())} if python else {}
    return world(*objects, **{"feature_gates": GATES} | plugins | rest)


def evicted(result: ScheduleResult) -> list[str]:
    return sorted(key.removeprefix("default/") for key in result.evicted)


def test_pods_leave_on_several_nodes_and_the_group_is_placed() -> None:
    there = [
        victim("v", "a", cpu=4, priority=1),
        victim("w", "b", cpu=4),
        victim("x", "c", cpu=4, priority=2),
    ]
    one = full(nodes(4, 4, 4), there, asking(2), its(2, cpu=3))
    result = one.run()
    assert result.evicted == {
        key: Eviction(at, "default/p") for key, at in [("default/v", "a"), ("default/w", "b")]
    }
    assert on_nodes(one) == {"x": "c", "p-0": "a", "p-1": "b"}
    assert not result.unschedulable
    notes = {event.note for event in one.handle.recorder.events if event.reason == "Preempted"}
    assert notes == {"Preempted by podgroup group-p on node cluster"}


def test_a_group_that_is_nominated_without_evictions_goes_to_its_nodes() -> None:
    """While v counts, p-0 and p-1 spread, and p-2 wants a node without them. In the search without v they are
    on one node, where v fits as well."""
    two = [node(name, cpu=8, labels={HOST: name}) for name in "ab"]
    term = PodAffinityTerm(label_selector=LabelSelector(match_labels=LABELS), topology_key=HOST)
    alone = its(3, affinity=Affinity(pod_anti_affinity=PodAffinity(required=(term,))))[2]
    there = [victim("v", cpu=4), victim("k", "b", cpu=4, priority=10)]
    one = full(two, there, asking(), [*its(2, labels=LABELS), alone])
    result = one.run()
    assert not result.evicted
    assert on_nodes(one) == {"v": "a", "k": "b", "p-0": "a", "p-1": "a", "p-2": "b"}
    assert not result.unschedulable


def test_nominations_that_come_and_go_end_the_run() -> None:
    """Each second attempt nominates p-0, which fits where p-1 does not; the others end that."""
    answers = cycle(
        [({0: mo.NominatingInfo("a")}, mo.Status(mo.Code.SUCCESS)), (None, mo.Status(mo.Code.UNSCHEDULABLE))]
    )
    asked = list[object]()

    class Nominating(DefaultPreemption):
        def pod_group_post_filter(self, failed: mo.FailedGroup) -> Any:
            asked.append(failed)
            return next(answers) if len(asked) < 20 else (None, mo.Status(mo.Code.ERROR))

    plugins = default_profile(GATES).plugins
    profile = Profile([Nominating() if one.name == Nominating.name else one for one in plugins])
    result = full(nodes(1), asking(2), [its(1)[0], its(2, cpu=2)[1]], profile=profile).run()
    assert {*result.unschedulable} == {"default/p-0", "default/p-1"}
    assert 2 < len(asked) < 20


def test_a_group_with_a_pod_on_a_node_that_is_gone_is_an_error() -> None:
    there = [member("m0", cpu=4), member("m1", "b", cpu=4), member("m2", cpu="1m")]
    one = full(nodes(5, 5), group(), there, asking(1), its(1, cpu=3))
    store_of(one).delete(mo.Node, "b")
    result = one.run()
    assert not result.evicted
    assert [rejected.message for rejected in result.unschedulable.values()] == [
        'error in "DefaultPreemption" PodGroupPostFilter plugins: pod group preemption: failed to create '
        'domain: failed to get node info for node "b" from snapshot: nodeinfo not found for node name "b"'
    ]


def test_images_do_not_score_in_the_search() -> None:
    """Where v is, the image would draw the small pod beside it, and the large pod has the other node."""
    large = node("b", images=[(["big:1"], 10**12)])
    there = [victim("u", cpu=4), victim("v", "b", cpu=1, priority=1)]
    small, other = its(1)[0], its(2, cpu=4)[1]
    image = replace(small.spec.containers[0], image="big:1")
    pods = [replace(small, spec=replace(small.spec, containers=(image,))), other]
    assert evicted(full([node("a"), large], there, asking(2), pods).run()) == ["u", "v"]


def test_an_error_of_the_search_is_that_of_the_group() -> None:
    """Once the victim has gone the plugin fails; while it is there the plugin is not asked."""

    def on_empty_nodes(plugin: Any, state: Any, pod: Pod, info: Any) -> Any:
        return None if info.pods else mo.Status(mo.Code.ERROR, ("broke",))

    fails = make(mo.FilterPlugin, "Fails", filter=on_empty_nodes)
    plugins = profile_with(in_tree("GangScheduling")(), fails)
    one = full(nodes(4), [victim("v", cpu=4)], asking(1), its(1, cpu=3), profile=plugins)
    error = (
        'error in "DefaultPreemption" PodGroupPostFilter plugins: pod group preemption: '
        'failed to schedule other pod from a pod group: running "Fails" filter plugin: broke'
    )
    result = one.run()
    assert not result.evicted
    assert [rejected.message for rejected in result.unschedulable.values()] == [error]
    (condition,) = store_of(one).get(PodGroup, "p", "default").status.conditions
    assert (condition.reason, condition.message) == ("SchedulerError", error)


def test_counters_of_other_nodes_decide_too() -> None:
    """The labelled pod leaves for the spread over zones, though it is on another node."""
    zones = [node("a", zone="z"), node("b", zone="z", cpu=1), node("c", zone="y", cpu="1m")]
    constraint = spread(LabelSelector(match_labels=LABELS), ZONE)
    pods = its(1, cpu=2, labels=LABELS, topology_spread_constraints=(constraint,))
    there = [victim("v", cpu=1, priority=1), victim("w", "b", labels=LABELS)]
    assert evicted(full(zones, there, asking(1), pods).run()) == ["w"]


def message(one: Scheduler) -> str:
    result = one.run()
    assert not result.evicted
    (condition,) = store_of(one).get(PodGroup, "p", "default").status.conditions
    return condition.message.partition("pod group preemption: ")[2]


def test_why_nobody_leaves() -> None:
    low, high = victim("v", cpu=4), victim("v", cpu=4, priority=10)
    assert message(full(nodes(4), [high], asking(1), its(1, cpu=3))) == (
        "No preemption victims found for incoming preemptor"
    )
    stays = [victim("w", "b", cpu=4, priority=10)]
    assert message(full(nodes(4, 4), [low, *stays], asking(2), its(2, cpu=3))) == (
        "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
    )
    never = its(1, cpu=3, preemption_policy="Never")
    assert message(full(nodes(4), [low], asking(1), never)) == "not eligible due to preemptionPolicy=Never."
    none = Profile(tuple(one for one in default_profile(GATES).plugins if one.name != "DefaultPreemption"))
    assert message(full(nodes(4), [low], asking(1), its(1, cpu=3), profile=none)) == ""


def test_a_preemption_that_goes_on_is_waited_for() -> None:
    going = terminating(victim("v", cpu=4), LEAVING)
    waiting = [nominated(one, "a") for one in its(1, cpu=3)]
    assert message(full(nodes(4), [going], asking(1), waiting)) == "ongoing preemption on nominated nodes"


def with_ports(one: Pod, ports: Any) -> Pod:
    container = replace(one.spec.containers[0], ports=ports)
    return replace(one, spec=replace(one.spec, containers=(container,)))


@pytest.mark.parametrize(("node", "leaves"), [("", "w"), ("a", "v")], ids=["plain", "nominated"])
def test_victims_make_room_for_the_nominations_of_the_group_too(node: str, leaves: str) -> None:
    """A pod that is nominated to the node found for it counts twice for the pods after it."""
    there = [victim("v", cpu=2, priority=1), victim("w", cpu=1)]
    pods = [nominated(one, node) for one in its(2, cpu=1)]
    assert evicted(full(nodes(4), there, asking(2), pods).run()) == [leaves]


def test_victims_that_take_their_time_are_waited_for() -> None:
    slow = victim("v", cpu=4, termination_grace_period_seconds=30)
    slow = replace(slow, metadata=replace(slow.metadata, finalizers=("keep",)))
    one = full(nodes(4), [slow], asking(1), its(1, cpu=3))
    result = one.run()
    assert evicted(result) == ["v"]
    assert "default/p-0" in result.unschedulable
    (waiting,) = [each for each in store_of(one).list(Pod)[0] if each.name == "p-0"]
    assert waiting.status.nominated_node_name == "a"
    (gone,) = [each for each in store_of(one).list(Pod)[0] if each.name == "v"]
    (condition,) = gone.status.conditions
    assert condition.message == "default-scheduler: preempting to accommodate a higher priority podgroup"


def test_nothing_stays_of_a_search() -> None:
    there = [victim("v", cpu=4), victim("w", "b", cpu=4, priority=99)]
    one = full(nodes(4, 4), there, asking(2), its(2, cpu=3))
    assert not one.run().evicted
    before = dump(one.cache.state)
    assert not one.run().evicted
    assert dump(one.cache.state, before) == before


def test_a_reserve_plugin_finds_no_pods_that_may_leave_and_hears_of_nominated_pods() -> None:
    """It is asked while the group is placed without them, though the core alone filters, and again when the
    group has room on the nominated node."""
    seen: list[list[str]] = []

    def reserve(plugin: Any, state: Any, pod: Pod, node: str) -> None:
        info = one.cache.node_info(node)
        assert info is not None
        seen.append([each.name for each in info.pods])

    looks = make(mo.ReservePlugin, "Looks", reserve=reserve, unreserve=lambda *rest: None)
    plugins = profile_with(in_tree("GangScheduling")(), looks)
    one = full(nodes(4), [victim("v", cpu=4)], asking(1), its(1, cpu=3), profile=plugins)
    assert evicted(one.run()) == ["v"]
    assert seen == [["p-0"]] * 3, "without v, with the nomination, and for good"


def test_pods_of_the_group_count_at_prefilter_of_those_after_them() -> None:
    """p-1 is asked about terms of other pods, as p-0 has one that selects it; so u does not return to it."""
    term = PodAffinityTerm(label_selector=LabelSelector(match_labels=LABELS), topology_key=HOST)
    apart = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
    there = [victim("v", cpu="1m", affinity=apart, priority=2), victim("w", cpu=2)]
    there += [victim("u", "b", cpu="1m", affinity=apart, priority=2), victim("x", "b", cpu=2)]
    pods = [its(1, cpu=3, affinity=apart)[0], its(2, cpu=2, labels=LABELS)[1]]
    two = [node(name, cpu=5, labels={HOST: name}) for name in "ab"]
    assert evicted(full(two, there, asking(2), pods).run()) == ["u", "w"]


# ---- the twin ----------------------------------------------------------------------------------------------


def unit_key(one: Pod) -> UnitKey:
    """The whole group g or h, or the pod itself."""
    mine = one.spec.scheduling_group
    return ("group", mine.pod_group_name) if mine and mine.pod_group_name in "gh" else ("pod", one.name)


def search(
    cluster: list[Any], there: list[Pod], groups: list[PodGroup], pods: list[Pod], budgets: list[Any]
) -> tuple[list[str], dict[str, str]]:
    """Victims and nominations, each question asked of a scheduler of its own over what is left."""
    there = sorted(there, key=lambda one: one.spec.node_name)
    units = units_of(there, {one.name: one.spec.priority or 0 for one in groups})
    lower = [unit for unit in units if unit.priority < 10]
    staying = [pod for unit in units if unit.priority >= 10 for pod in unit.pods]
    found = placed(cluster, staying, pods, 3) if lower else None
    if found is None:
        return [], {}
    room = {one.name: 6 for one in cluster}
    for each in [*staying, *[one for one in pods if one.name in found]]:
        room[each.spec.node_name or found[each.name]] -= cpus(each)
    ordered = units_by_importance(lower)
    costs = violations(ordered, budgets)
    gone: list[str] = []
    for protected in (True, False):
        for unit, cost in zip(ordered, costs, strict=True):
            if bool(cost) == protected:
                wanted = Counter[str]()
                for pod in unit.pods:
                    wanted[pod.spec.node_name] += cpus(pod)
                taken = set(found.values())
                if all(room[name] >= cpu or name not in taken for name, cpu in wanted.items()):
                    for name, cpu in wanted.items():
                        room[name] -= cpu
                else:
                    gone += [pod.name for pod in unit.pods]
    return sorted(gone), found


def cpus(one: Pod) -> int:
    return int(one.spec.containers[0].resources.requests["cpu"])


def units_of(there: list[Pod], own: dict[str, int]) -> list[Unit]:
    """The units of some pods; `own` has the priorities of groups."""
    units: dict[UnitKey, list[Pod]] = {}
    for one in there:
        units.setdefault(unit_key(one), []).append(one)
    found = []
    for pods in units.values():
        mine = pods[0].spec.scheduling_group
        name = mine.pod_group_name if mine else ""
        ordered = tuple(sorted(pods, key=lambda one: -priority(one)))
        found.append(Unit(ordered, own.get(name, priority(pods[0])), bool(name)))
    return found


def placed(cluster: list[Any], there: list[Pod], pods: list[Pod], minimum: int) -> dict[str, str] | None:
    """Where the pods of a group with a minimum go beside others; None where it fails."""
    one = world(cluster, there, feature_gates=GATES)
    done = place_group(one.context, one.context.engine_of(pods[0]), asking(minimum), pods)
    if not done.succeeded:
        return None
    return {pods[at].name: one.table.row_name(row) for at, row in enumerate(done.rows) if row >= 0}


@st.composite
def clusters(draw: Any) -> tuple[list[Any], list[Pod], list[PodGroup], list[Pod], list[Any]]:
    names = "abc"
    groups = [group(name, draw(st.integers(8, 11))) for name in "gh"] + [group("i", 9, SINGLE)]
    room = dict.fromkeys(names, 6)
    there = []
    for at in range(draw(st.integers(5, 9))):
        on, size = draw(st.sampled_from(names)), draw(st.integers(1, 3))
        if room[on] >= size:
            room[on] -= size
            to, value = draw(st.sampled_from(["g", "h", "i", ""])), draw(st.integers(8, 11))
            labels = draw(st.sampled_from([{}, LABELS]))
            there.append(
                member(f"v{at}", on, size, to, priority=value, labels=labels)
                if to
                else victim(f"v{at}", on, size, priority=value, labels=labels)
            )
    pods = its(draw(st.integers(3, 4)), cpu=draw(st.integers(2, 4)))
    budgets = [budget(draw(st.integers(0, 2)), LABELS)] if draw(st.booleans()) else []
    return [node(name, cpu=6) for name in names], there, groups, pods, budgets


@settings(deadline=None, max_examples=40)
@given(clusters())
def test_the_twin_finds_the_same(
    made: tuple[list[Any], list[Pod], list[PodGroup], list[Pod], list[Any]],
) -> None:
    cluster, there, groups, pods, budgets = made
    for python in (False, True):
        one = full(cluster, groups, there, budgets, asking(), pods, python=python)
        engine = one.context.engine_of(pods[0])
        before = {each.name for each in store_of(one).list(Pod)[0]}
        done = place_group(one.context, engine, asking(), pods, evicts=True)
        assume(python or not done.succeeded)  # what fits without victims is not searched for
        gone = before - {each.name for each in store_of(one).list(Pod)[0]}
        nominations = {pods[at].name: why.nominated_node for at, why in done.failures.items()}
        found = sorted(gone), {name: node for name, node in nominations.items() if node}
        assert found == search(cluster, there, groups, pods, budgets)
        assert all(row < 0 for row in done.rows)


# ---- with and without plugins outside the core -------------------------------------------------------------


@st.composite
def crowded(draw: Any) -> tuple[list[Pod], list[Pod]]:
    """Pods nominated to nodes, of more and of less importance than the group p; and pods of p in two sizes,
    some of which are nominated too, and use a host port."""
    others = [
        nominated(pod(f"n{at}", requests={"cpu": draw(st.integers(1, 3))}, priority=rank), on)
        for at, (rank, on) in enumerate(
            draw(st.lists(st.tuples(st.sampled_from([9, 10, 20]), st.sampled_from("abc")), max_size=4))
        )
    ]
    small, large = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    sizes = [small, small, draw(st.sampled_from([small, large])), large]
    pods = [
        nominated(its(4, cpu=size)[at], draw(st.sampled_from(["", "", "a", "b"])))
        for at, size in enumerate(sizes)
    ]
    if draw(st.integers(0, 3)) == 0:
        pods[1] = with_ports(pods[1], (port(80),))
    return others, pods


@settings(deadline=None, max_examples=60)
@given(clusters(), crowded(), st.integers(2, 4))
def test_a_group_is_placed_alike_with_plugins_outside_the_core(
    made: tuple[list[Any], list[Pod], list[PodGroup], list[Pod], list[Any]],
    beside: tuple[list[Pod], list[Pod]],
    minimum: int,
) -> None:
    """Its pods, and whom they evict, beside nominated pods: with one outside, each pod has a cycle of its
    own, and units leave and return as pods of the cache."""
    (cluster, there, groups, _, budgets), (others, pods) = made, beside
    found = []
    for python in (False, True):
        one = full(cluster, groups, there, budgets, asking(minimum), others, pods, python=python)
        before = {each.name for each in store_of(one).list(Pod)[0]}
        done = place_group(one.context, one.context.engine_of(pods[0]), asking(minimum), pods, evicts=True)
        gone = before - {each.name for each in store_of(one).list(Pod)[0]}
        nodes = [one.table.row_name(row) if row >= 0 else "" for row in done.rows]
        why = {at: (each.nominated_node, each.group_failure) for at, each in done.failures.items()}
        found.append((nodes, why, sorted(gone), one.context.rotation.start))
    assert found[0] == found[1]


@pytest.mark.parametrize("count", [3, 4])
def test_a_nominated_node_outside_a_placement_is_not_tried_there(count: int) -> None:
    """kube-scheduler v1.37, evaluateNominatedNode: a nominated node that is not in the placement is passed
    over, so that the placement of the other zone fails."""
    there = [node(name, zone=zone, cpu=3, pods=9) for name, zone in (("a", "z"), ("e", "z"), ("d", "x"))]
    group = gang("g", 2, priority=1, **topology(ZONE)), members("g", count, 3, priority=1)
    low = pod("low", requests={"cpu": 1}, node_name="e")
    one = world(there, low, *group, feature_gates=TOPOLOGY)
    result = one.run()
    assert [*result.evicted] == ["default/low"]
    assert result.placements == {"default/g-0": "a", "default/g-1": "e"}
    texts = {failure.search_message for failure in result.unschedulable.values()}
    assert texts == {"0/2 nodes are available: 2 Insufficient cpu."}
