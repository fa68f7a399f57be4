"""Explanations of groups: what fits at once, what stops the next pod, and changes that place the group."""

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
    Taint,
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


def test_of_a_group_that_fits_nothing_is_offered() -> None:
    found = group_of_explained(world(nodes(4, 4), gang("g", 2), members("g", 2, 3)))
    assert (found.fits, found.next, found.message, found.nodes, found.changes) == (2, "", "", [], [])


def test_pods_beyond_the_minimum_need_no_change() -> None:
    found = group_of_explained(world(nodes(4, 4), gang("g", 2), members("g", 3, 3)))
    assert (found.fits, found.next, found.changes) == (2, "default/g-2", [])


def test_members_with_a_node_count() -> None:
    on = member("old", "g", 3)
    on = replace(on, spec=replace(on.spec, node_name="a"))
    found = group_of_explained(world(nodes(4, 4), gang("g", 3), on, members("g", 2, 3)))
    assert (found.pods, found.scheduled, found.fits) == (3, 1, 1)
    assert change(found, "min-count").values["to"] == "2"
    assert change(found, "add-node").text.startswith("add a node like ")
    assert found.headline().endswith("1 of 2 pods fit at once, 1 more have a node; minCount is 3")


def test_no_smaller_minimum_is_offered_where_no_pod_fits() -> None:
    on = member("old", "g", 3)
    on = replace(on, spec=replace(on.spec, node_name="a"))
    found = group_of_explained(world(nodes(4), gang("g", 2), on, members("g", 1, 3)))
    assert (found.scheduled, found.fits) == (1, 0)
    assert {one.kind for one in found.changes} == {"add-node", "lower-request"}


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


def test_too_few_pods_are_told() -> None:
    found = group_of_explained(world(nodes(9), gang("g", 3), members("g", 2)))
    assert (found.fits, found.next) == (2, "")
    assert found.headline().endswith("minCount is 3, but there are only 2")
    assert [each.text for each in found.changes] == ["lower minCount from 3 to 2"]


def test_a_group_is_explained_in_the_domain_that_takes_most_of_it() -> None:
    zones = [node(name, zone=zone, cpu=4) for name, zone in (("a", "x"), ("b", "y"), ("c", "y"), ("d", "x"))]
    zones[3] = replace(zones[3], spec=replace(zones[3].spec, unschedulable=True))
    one = world(zones, gang("g", 4, **topology(ZONE)), members("g", 4, 3), feature_gates=TOPOLOGY)
    found = group_of_explained(one)
    assert (found.fits, found.domain, found.next) == (2, f"{ZONE}=y", "default/g-2")
    assert [each.nodes for each in found.nodes] == [["b", "c"]]
    assert change(found, "add-node").values["nodes"] == 2
    assert change(found, "add-node").values["like"] == "b"
    assert change(found, "min-count").values["to"] == "2"


def test_the_domain_that_takes_most_counts_not_that_with_the_best_score() -> None:
    """A node that one pod fills scores more than two nodes that stay nearly empty."""
    there = [node("a", zone="x", cpu=3), *(node(name, zone="y", cpu=500, pods=1) for name in "bc")]
    one = world(there, gang("g", 3, **topology(ZONE)), members("g", 3, 3), feature_gates=TOPOLOGY)
    found = group_of_explained(one)
    assert (found.fits, found.domain) == (2, f"{ZONE}=y")


def test_what_helps_the_next_pod_is_tried_in_each() -> None:
    tainted = [node(name, cpu=4, taints=(Taint(key="t", effect="NoSchedule"),)) for name in "bcd"]
    cordoned = replace(node("e", cpu=8), spec=replace(node("e").spec, unschedulable=True))
    one = world(nodes(4), tainted, cordoned, gang("g", 3), members("g", 3, 3))
    texts = [each.text for each in group_of_explained(one).changes]
    assert "in each pod: tolerate t:NoSchedule" in texts
    assert "uncordon node e" in texts


def test_a_change_that_places_the_next_pod_but_not_the_group_is_not_offered() -> None:
    tainted = node("b", cpu=4, taints=(Taint(key="t", effect="NoSchedule"),))
    found = group_of_explained(world(nodes(4), tainted, gang("g", 3), members("g", 3, 3)))
    assert not [each for each in found.changes if each.kind == "add-toleration"]


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


@pytest.mark.parametrize(
    ("its", "pods", "text", "for_pods"),
    [
        (
            {"priority": 5, "priority_class_name": "mid"},
            {},
            "give the PodGroup the priority of its pods: 0, not 5",
            "set priorityClassName mid in each pod (priority 5)",
        ),
        (
            {},
            {"priority": 7, "priority_class_name": "high"},
            "set priorityClassName high in the PodGroup (priority 7)",
            "give each pod the priority of the PodGroup: 0, not 7",
        ),
    ],
)
def test_one_priority_is_offered_to_a_group_and_pods_with_different_ones(
    its: dict[str, Any], pods: dict[str, Any], text: str, for_pods: str
) -> None:
    one = world(nodes(3), gang("g", 2, **its), members("g", 4, **pods))
    before = one.fork()
    found = group_of_explained(one)
    assert not before.ask.diff(one)
    own, other = its.get("priority", 0), pods.get("priority", 0)
    assert found.message == (
        "all pods in a single pod group should have the same priority as the pod group's priority, "
        f"got {other} and {own}; the priority of the PodGroup is {own}"
    )
    offered, of_pods = found.changes
    assert (offered.kind, offered.text, offered.placed) == ("priority", text, 3)
    assert offered.values == {"from": str(own), "to": str(other)}
    assert (of_pods.kind, of_pods.text, of_pods.placed) == ("pod-priority", for_pods, 3)
    assert of_pods.values == {"from": str(other), "to": str(own)}
    for priority in (own, other):
        same = world(nodes(3), gang("g", 2, priority=priority), members("g", 4, priority=priority))
        assert len(same.run().placements) == offered.placed


@pytest.mark.parametrize(
    ("minimum", "priorities", "policy"),
    [
        (2, (7, 7), "Never"),  # another rule forbids the group
        (4, (7, 7), None),  # the group has too few pods
    ],
)
def test_a_priority_that_does_not_place_the_group_is_not_offered(
    minimum: int, priorities: tuple[int, int], policy: str | None
) -> None:
    pods = [member(f"g-{at}", "g", priority=one) for at, one in enumerate(priorities)]
    pods[1] = replace(pods[1], spec=replace(pods[1].spec, preemption_policy=policy))
    found = group_of_explained(world(nodes(9), gang("g", minimum), pods))
    assert found.message.endswith("got 7 and 0; the priority of the PodGroup is 0")
    assert not found.changes


def test_pods_of_different_priorities_are_offered_that_of_their_group() -> None:
    pods = [member(f"g-{at}", "g", priority=one) for at, one in enumerate((0, 7, 0))]
    (offered,) = group_of_explained(world(nodes(9), gang("g", 3), pods)).changes
    assert offered.text == "give each pod the priority of the PodGroup: 0, not 7"
    bound = member("bound", "g", priority=7, node_name="a")  # its priority cannot be changed
    assert not group_of_explained(world(nodes(9), gang("g", 3), pods, bound)).changes


def test_a_topology_that_no_node_has_is_named_with_the_labels_like_it() -> None:
    there = [node(name, zone="x", cpu=4) for name in "ab"]
    labels = replace(there[0].metadata, labels={**there[0].metadata.labels, "racks": "r"})
    there[0] = replace(there[0], metadata=labels)
    found = group_of_explained(
        world(there, gang("g", 2, **topology("rack")), members("g", 3, 3), feature_gates=TOPOLOGY)
    )
    assert (found.fits, found.next, found.nodes) == (0, "", [])
    assert found.message == 'no node has the label "rack"; nearest: racks'
    (offered,) = found.changes
    assert (offered.kind, offered.text) == ("drop", "remove the topology rack from schedulingConstraints")
    assert offered.placed == len(
        world(there, gang("g", 2), members("g", 3, 3), feature_gates=TOPOLOGY).run().placements
    )


def test_a_topology_is_not_removed_where_the_group_fits_nowhere_without_it() -> None:
    there = [node("a", zone="x", cpu=4)]
    one = world(there, gang("g", 2, **topology("rack")), members("g", 2, 3), feature_gates=TOPOLOGY)
    assert not group_of_explained(one).changes


def test_members_outside_of_each_domain_are_told() -> None:
    there = [node("a", zone="x", cpu=4), node("b", cpu=4)]
    its = gang("g", 2, **topology(ZONE)), member("old", "g", node_name="b"), members("g", 1)
    found = group_of_explained(world(there, *its, feature_gates=TOPOLOGY))
    assert "no topology domain found for pod default/old" in found.message
    assert (found.next, [each.kind for each in found.changes]) == ("", ["drop"])


def test_where_pods_ask_for_different_amounts_the_largest_is_lowered() -> None:
    pods = [member("g-0", "g", 1), member("g-1", "g", 3), member("g-2", "g", 2)]
    found = group_of_explained(world(nodes(5), gang("g", 3), pods))
    assert change(found, "lower-request").text == (
        "in each pod: lower the cpu request of container c from 3 to 2"
    )


def test_a_group_in_a_tree_names_its_top() -> None:
    one = world(nodes(4), composite("top", 1), gang("g", 2, "top"), members("g", 2, 3), feature_gates=TREES)
    assert group_of_explained(one).tree == "default/top"


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


@pytest.mark.parametrize(
    "objects",
    [
        [nodes(2, 2), low(2, 5), members("g", 2, 3)],  # no node is large enough
        [nodes(4, 4), low(2, 5), members("g", 2, 3, preemption_policy="Never")],
        [nodes(4, 4, 4), low(2, 5), members("g", 1, 3), member("there", "g", 3, node_name="c")],
    ],
)
def test_evictions_that_no_priority_brings_are_not_told(objects: list[Any]) -> None:
    found = group_of_explained(world(*objects, gang("g", 2)))
    assert (found.fits, found.evictions) == (0, None)


def test_of_many_victims_the_number_and_some_are_told() -> None:
    many = [member(f"low-{at}", "", 1, node_name="a") for at in range(7)]
    found = group_of_explained(
        world(nodes(7), many, gang("g", 1, priority=1), members("g", 1, 7, priority=1))
    )
    assert found.evictions is not None
    assert len(found.evictions.victims) == 7
    assert found.evictions.text.startswith("preemption: it would evict 7 pods, default/low-")
    assert found.evictions.text.endswith(" (0), … to place 1 of its pods")


def test_no_evictions_are_told_of_a_group_that_needs_none() -> None:
    one = world(nodes(4, 4), low(2), gang("g", 1, priority=9), members("g", 2, 3, priority=9))
    assert group_of_explained(one).evictions is None


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
