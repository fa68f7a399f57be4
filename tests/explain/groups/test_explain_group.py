"""Explanations of groups beside the case `answers/groups_that_wait`: runs, evictions, trees, random ones."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.doors.answers import explain_group
from tests.doors.cluster import effective_request, lower
from tests.make import ZONE, node
from tests.scheduler.groups.gang_kit import (
    GATES,
    TOPOLOGY,
    TREES,
    composite,
    gang,
    member,
    members,
    nodes,
    store_of,
    topology,
    world,
)

from moorage import Scheduler
from moorage.errors import MoorageError
from moorage.kube import (
    Affinity,
    LabelSelector,
    Node,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodGroup,
    PodSchedulingGate,
)
from moorage.kube.releases import DEFAULT_GATES
from moorage.store import NotFoundError

HOSTNAME = "kubernetes.io/hostname"


def group_of_explained(one: Scheduler, pod: str = "default/g-0") -> Any:
    found = one.ask.explain(pod).group
    assert found is not None
    return found


def change(found: Any, kind: str) -> Any:
    (one,) = [each for each in found.changes if each.kind == kind]
    return one


def test_no_pod_of_a_group_has_a_place_while_one_is_gated() -> None:
    """It fits, but a run does not try it; the reason is that of the run."""
    first, last = members("g", 2)
    gated = replace(last, spec=replace(last.spec, scheduling_gates=(PodSchedulingGate("x"),)))
    one = world(nodes(4), gang("g", 2), [first, gated])
    assert [(one.ask.explain(f"default/g-{at}").skipped) for at in (0, 1)] == [
        "another pod of its group is gated",
        "gated",
    ]
    assert not one.ask.explain("default/g-0").has_place
    assert one.run().skipped == {
        f"default/g-{at}": one.ask.explain(f"default/g-{at}").skipped for at in (0, 1)
    }
    assert world(nodes(4), gang("g", 2), [first, last]).ask.explain("default/g-0").has_place


def test_the_printed_text_tells_of_the_group_first() -> None:
    """Each pod by itself fits, so that a ranking of its nodes alone would say that it is placed."""
    says = repr(world(nodes(4, 4), gang("g", 4), members("g", 4, 3)).ask.explain("podgroup/g"))
    assert says.splitlines()[:4] == [
        "group default/g: 2 of 4 pods fit at once; minCount is 4",
        "default/g-2 fits nowhere beside these: 0/2 nodes are available: 2 Insufficient cpu.",
        "default/g-0 by itself: fits 2 of 2 nodes",
        "NODE  RANK  TOTAL  REASONS",
    ]
    whole = repr(world(nodes(4, 4), gang("g", 2), members("g", 2, 3)).ask.explain("podgroup/g"))
    assert whole.splitlines()[:2] == [
        "group default/g: 2 of 2 pods fit at once; minCount is 2",
        "default/g-0 by itself: fits 2 of 2 nodes",
    ]
    found = world(nodes(4, 4), gang("g", 4), members("g", 4, 3)).ask.explain("podgroup/g")
    assert [found.headline(), *found.remarks()] == says.splitlines()[:3]
    nowhere = repr(world(nodes(4), gang("g", 1), members("g", 1, 9)).ask.explain("default/g-0"))
    assert nowhere.splitlines()[1].startswith("default/g-0 fits nowhere: 0/1 nodes are available")


def test_pods_beyond_the_minimum_need_no_change() -> None:
    found = group_of_explained(world(nodes(4, 4), gang("g", 2), members("g", 3, 3)))
    assert (found.fits, found.next, found.changes) == (2, "default/g-2", [])


def test_an_explanation_ends_where_no_plugin_counts_the_pods_of_a_group() -> None:
    off = {"multiPoint": {"disabled": [{"name": "GangScheduling"}]}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": off}],
    }
    there = [node("a", zone="x", cpu=4)]
    its = gang("g", 3, **topology(ZONE)), members("g", 3, 3)
    found = group_of_explained(world(there, *its, feature_gates=TOPOLOGY, config=config))
    assert (found.fits, found.next) == (1, "default/g-1")


def test_pods_that_cannot_form_a_group_are_told_why() -> None:
    pods = [member("g-0", "g"), member("g-1", "g", scheduler_name="other")]
    profiles = [{"schedulerName": name} for name in ("default-scheduler", "other")]
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": profiles,
    }
    found = group_of_explained(world(nodes(9), gang("g", 2), pods, config=config))
    assert found.message == (
        'all pods in a single pod group should have the same .spec.schedulerName set, got: "other" and '
        '"default-scheduler"'
    )
    assert not found.changes


def test_a_priority_is_not_offered_where_another_rule_forbids_the_group() -> None:
    pods = [member(f"g-{at}", "g", priority=7) for at in range(2)]
    pods[1] = replace(pods[1], spec=replace(pods[1].spec, preemption_policy="Never"))
    found = group_of_explained(world(nodes(9), gang("g", 2), pods))
    assert found.message.endswith("got 7 and 0; the priority of the PodGroup is 0")
    assert not found.changes


def test_members_outside_of_each_domain_are_told() -> None:
    there = [node("a", zone="x", cpu=4), node("b", cpu=4)]
    its = gang("g", 2, **topology(ZONE)), member("old", "g", node_name="b"), members("g", 1)
    found = group_of_explained(world(there, *its, feature_gates=TOPOLOGY))
    assert "no topology domain found for pod default/old" in found.message
    assert (found.next, [each.kind for each in found.changes]) == ("", ["drop"])


@pytest.mark.parametrize(
    ("gates", "objects"),
    [
        (GATES, [gang("g", 1), member("g-0", "")]),
        (DEFAULT_GATES, [gang("g", 1), members("g", 1)]),
    ],
)
def test_other_pods_have_no_group(gates: Any, objects: list[Any]) -> None:
    assert world(nodes(4), *objects, feature_gates=gates).ask.explain("default/g-0").group is None


def test_a_group_that_does_not_exist_is_said_to_be_missing() -> None:
    one = world(nodes(4), members("g", 2), member("bound", "g", node_name="a"))
    found = group_of_explained(one)
    assert (found.minimum, found.pods, found.changes) == (0, 2, [])
    assert found.headline() == "group default/g: there is no such PodGroup"
    assert found.message.startswith("its pods wait until it is created")
    assert one.ask.explain("default/bound").group is None


@pytest.mark.parametrize(("gates", "evicts"), [(GATES, False), (DEFAULT_GATES, True)])
def test_no_eviction_for_a_single_pod_is_offered_where_groups_count(gates: Any, evicts: bool) -> None:
    there = member("there", "", 4, node_name="a")
    found = world(nodes(4), there, gang("g", 0), members("g", 1, 3), feature_gates=gates).ask.explain(
        "default/g-0"
    )
    assert (found.preemption is not None, found.raised_priority is not None) == (evicts, evicts)


def low(*priorities: int) -> list[Pod]:
    """A pod on each of the nodes a, b and so on, which leaves no room for the pods of the group."""
    return [
        member(f"low-{name}", "", 3, node_name=name, priority=one)
        for name, one in zip("abc", priorities, strict=False)
    ]


@pytest.mark.parametrize(
    ("own", "priority", "text"),
    [
        (9, 9, "preemption: it would evict default/low-b (5), default/low-a (2) to place 2 of its pods"),
        (
            0,
            6,
            "with priority 6 in the PodGroup and its pods, it would evict default/low-b (5), default/low-a "
            "(2) to place 2 of its pods",
        ),
    ],
)
def test_whom_a_group_evicts_is_told_with_the_smallest_priority_that_helps(
    own: int, priority: int, text: str
) -> None:
    def made(one: int) -> Scheduler:
        return world(nodes(4, 4), low(2, 5), gang("g", 2, priority=one), members("g", 2, 3, priority=one))

    one = made(own)
    before = one.fork()
    found = group_of_explained(one).evictions
    assert found is not None
    assert (found.priority, found.is_own, found.text) == (priority, own == priority, text)
    assert not before.ask.diff(one)
    ran = made(priority).run()
    assert [*ran.evicted] == [pod.key for pod in found.victims]
    assert len(ran.placements) == found.placed
    assert own == priority or not made(priority - 1).run().placements


def test_more_priority_may_help_less_and_the_smallest_that_helps_is_told() -> None:
    """The group has to be near a pod that a group of the highest priority would evict."""
    near = PodAffinityTerm(label_selector=LabelSelector(match_labels={"app": "db"}), topology_key=HOSTNAME)

    def made(own: int) -> Scheduler:
        there = [member("db", "", 1, node_name="a", priority=5, labels={"app": "db"}), *low(2)]
        affinity = Affinity(pod_affinity=PodAffinity(required=(near,)))
        new = members("g", 1, 3, priority=own, affinity=affinity)
        return world([node("a", cpu=4, labels={HOSTNAME: "a"})], there, gang("g", 1, priority=own), new)

    found = group_of_explained(made(0)).evictions
    assert found is not None
    assert (found.priority, [pod.key for pod in found.victims]) == (3, ["default/low-a"])
    assert [*made(3).run().evicted] == ["default/low-a"]
    assert not made(6).run().evicted


def test_no_evictions_are_told_of_pods_that_never_evict() -> None:
    pods = members("g", 2, 3, preemption_policy="Never")
    found = group_of_explained(world(nodes(4, 4), low(2, 5), pods, gang("g", 2)))
    assert (found.fits, found.evictions) == (0, None)


def test_a_group_is_named_as_a_workload_is() -> None:
    one = world(nodes(4), gang("g", 2), members("g", 2, 3), members("h", 1))
    assert one.ask.explain("podgroup/g").pod.name == "g-0"


def test_of_a_composite_group_the_pod_groups_at_the_leaves_are_named() -> None:
    """A composite group within it cannot be explained either."""
    tree = composite("top", 1), composite("mid", 1, "top"), gang("g", 2, "top"), gang("h", 2, "mid")
    one = world(nodes(4), *tree, gang("apart", 1), members("g", 2, 3), feature_gates=TREES)
    its = "explain one of its groups: podgroup/default/g, podgroup/default/h$"
    with pytest.raises(MoorageError, match=f"^compositepodgroup/top: a CompositePodGroup has no .* {its}"):
        one.ask.explain("compositepodgroup/top")


def test_a_composite_group_without_groups_is_told_from_one_that_does_not_exist() -> None:
    one = world(nodes(4), composite("top", 1), feature_gates=TREES)
    with pytest.raises(MoorageError, match=r"^compositepodgroup/top: .*; no PodGroup belongs to it$"):
        one.ask.explain("compositepodgroup/top")
    for absent in ("nosuch", "other/top"):
        with pytest.raises(NotFoundError, match=r"^there is no CompositePodGroup"):
            one.ask.explain(f"compositepodgroup/{absent}")


def test_composite_groups_in_a_circle_end() -> None:
    one = world(
        composite("top", 1, "mid"), composite("mid", 1, "top"), gang("g", 1, "mid"), feature_gates=TREES
    )
    with pytest.raises(MoorageError, match=r"its groups: podgroup/default/g$"):
        one.ask.explain("compositepodgroup/top")


def test_of_many_groups_of_a_composite_one_five_are_named() -> None:
    many = [gang(f"g{at}", 1, "top") for at in range(6)]
    one = world(nodes(4), composite("top", 1), many, feature_gates=TREES)
    with pytest.raises(MoorageError, match=r"podgroup/default/g0, .*, podgroup/default/g4, …$"):
        one.ask.explain("compositepodgroup/top")


def test_groups_of_a_kind_are_tried_once_and_each_is_told_what_it_would_be_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    racks = [
        node(name, labels={"rack": rack, HOSTNAME: name}, cpu=4)
        for name, rack in zip("abc", "xxy", strict=True)
    ]
    term = PodAffinityTerm(label_selector=LabelSelector(match_labels={"app": "db"}), topology_key=HOSTNAME)
    apart = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
    its: dict[str, list[Any]] = {
        "a": [gang("a", 4), members("a", 4, 3)],
        "b": [gang("b", 5), members("b", 4, 3)],
        "c": [gang("c", 4), members("c", 4, 2)],
        "d": [gang("d", 4, **topology("rack")), members("d", 4, 3)],
        "e": [gang("e", 4), members("e", 3, 3)],
        "f": [gang("f", 4), members("f", 3, 3), member("old", "f", node_name="a")],
        "g": [gang("g", 4), members("g", 4, 3, affinity=apart)],
        "h": [gang("h", 4), members("h", 4, 3, affinity=apart)],
    }
    one, tried, known = (
        world(racks, *chain.from_iterable(its.values()), feature_gates=TOPOLOGY),
        list[str](),
        dict[Hashable, explain_group.Fit](),
    )
    place = explain_group.try_group
    monkeypatch.setattr(
        explain_group, "try_group", lambda *given: tried.append(given[2].name) or place(*given)
    )
    pods = [store_of(one).get(Pod, f"{name}-0", "default") for name in its]
    together = [explain_group.fit_of_group(one.context, pod, known) for pod in pods]
    assert [*dict.fromkeys(tried)] == ["a", "c", "d", "e", "f", "g", "h"]
    assert together == [explain_group.fit_of_group(one.context, pod, {}) for pod in pods]
    assert together[1] is not None
    assert (together[1].next, together[1].message) == (
        "default/b-3",
        "0/3 nodes are available: 3 Insufficient cpu.",
    )


# ---- each offered change places the group ------------------------------------------------------------------


def made(one: Scheduler, explained: Any, offered: Any) -> None:
    """Make a change in the cluster itself."""
    store = store_of(one)
    if offered.kind == "add-node":
        one.change.add_nodes(offered.values.get("nodes", 1), offered.values["like"])
    elif offered.kind == "min-count":
        old = store.get(PodGroup, "g", "default")
        new = gang("g", int(offered.values["to"]))
        bound_as_before = replace(new.spec, scheduling_constraints=old.spec.scheduling_constraints)
        store.update(replace(new, spec=bound_as_before))
    elif offered.kind == "lower-request":
        gates = one.cache.state.classes.gates
        for pod in store.list(Pod)[0]:
            most = 1000 * int(offered.values["to"])
            lowered = lower(pod, offered.values["resource"], most, gates)
            if effective_request(pod, offered.values["resource"], gates) > most and lowered is not None:
                store.delete(Pod, pod.name, "default")
                store.create(lowered[0])
    elif offered.kind == "uncordon-node":
        one.change.uncordon(offered.values["node"])
    else:
        raise AssertionError(offered)


@settings(deadline=None, max_examples=60)
@given(
    cpus=st.lists(st.tuples(st.integers(1, 7), st.sampled_from("xy"), st.booleans()), min_size=1, max_size=4),
    asked=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    minimum=st.integers(1, 6),
    tied=st.booleans(),
)
def test_each_change_places_as_many_pods_as_it_says(
    cpus: list[tuple[int, str, bool]], asked: list[int], minimum: int, tied: bool
) -> None:
    def made_world() -> Scheduler:
        spec = topology(ZONE) if tied else {}
        there: list[Node] = []
        for name, (cpu, zone, cordoned) in zip("abcd", cpus, strict=False):
            each = node(name, zone=zone, cpu=cpu, pods=9)
            there.append(replace(each, spec=replace(each.spec, unschedulable=cordoned)))
        pods = [member(f"g-{at}", "g", cpu) for at, cpu in enumerate(asked)]
        return world(there, gang("g", minimum, **spec), pods, feature_gates=TOPOLOGY)

    one = made_world()
    before = one.fork()
    found = group_of_explained(one)
    assert not before.ask.diff(one)
    placed = len(one.run().placements)
    assert bool(placed) == (found.fits >= minimum), "what fits at once decides about the group"
    if placed or len(asked) < minimum:
        assert placed == (found.fits if placed and not tied else placed)
        return
    for offered in found.changes:
        if "resource" in offered.values and not offered.values["to"].isdecimal():
            continue  # millicores
        changed = made_world()
        made(changed, found, offered)
        assert len(changed.run().placements) == offered.placed, offered
