"""Groups that are evicted whole, from the queue to the store."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.doors.engine import schedule_one
from tests.framework.make import make
from tests.make import node, pod
from tests.preemption.test_eviction_units import SINGLE, group, member
from tests.preemption.world import preemptor, victim
from tests.scheduler.groups.gang_kit import (
    GATES,
    nodes,
    on_nodes,
    store_of,
    world,
)
from tests.scheduler.make import profile_with

import moorage as mo
from moorage import Scheduler
from moorage.engine.scheduler import Eviction
from moorage.kube import Pod, PodGroup

PYTHON = make(mo.FilterPlugin, "P", filter=lambda *rest: None)


def full(*pods: Pod, **rest: Any) -> Scheduler:
    """Nodes a, b and c of 4 cpus, and a group of low priority with pods on the first two."""
    there = [member("m0", cpu=4), member("m1", "b", cpu=2), victim("v", "c", cpu=3, priority=99)]
    return world(nodes(4, 4, 4), rest.pop("group", group()), [*there, *pods], **rest)


def test_the_whole_group_leaves_and_the_pod_is_placed() -> None:
    one = full(preemptor(3))
    result = one.run()
    assert result.placements == {"default/p": "a"}, "the first of two that are equal"
    assert result.evicted == {
        "default/m0": Eviction("a", "default/p"),
        "default/m1": Eviction("b", "default/p"),
    }
    assert on_nodes(one) == {"v": "c", "p": "a"}
    events = [event for event in one.handle.recorder.events if event.reason == "Preempted"]
    assert [(event.regarding.metadata.name, event.note) for event in events] == [
        ("m0", "Preempted by pod p on node a"),
        ("m1", "Preempted by pod p on node a"),
    ]


def test_a_single_pod_leaves_where_the_group_does_not_mind() -> None:
    one = full(preemptor(3), group=group(mode=SINGLE))
    assert one.run().evicted == {"default/m0": Eviction("a", "default/p")}


def test_pods_of_higher_priority_leave_with_a_group_of_lower() -> None:
    """The priority of the group counts, though no pod of the cluster has a lower one."""
    there = [member("m0", cpu=4, priority=99), member("m1", "b", cpu=4, priority=99)]
    one = world(nodes(4, 4), group(), there, preemptor(3))
    assert one.run().evicted.keys() == {"default/m0", "default/m1"}


def test_what_is_known_of_failures_ends_when_a_group_changes() -> None:
    """Only the group stood in the way, and nothing else has changed since."""
    there = [member("m0", cpu=4, priority=1)]
    one = world(nodes(4), group(priority=99), there)
    first, second = (replace(preemptor(3), metadata=pod(name).metadata) for name in "pq")
    store_of(one).create_many([first, second])
    one.sync()
    assert one.schedule_pods([first]).rows.tolist() == [-1]
    scope = one.engines["default-scheduler"].search.states.scope
    store_of(one).delete(PodGroup, "g", "default")
    one.sync()
    assert one.engines["default-scheduler"].search.states.scope != scope
    assert one.schedule_pods([second]).failures[0].nominated_node == "a"


def test_a_batch_after_such_an_event_is_told_of_its_failures_anew() -> None:
    one = world(nodes(4), victim("v", cpu=4, priority=99))
    pods = [replace(preemptor(3), metadata=pod(name).metadata) for name in "pqrs"]
    store_of(one).create_many(pods)
    one.sync()
    before = one.schedule_pods(pods[:2]).failures
    store_of(one).create(group("other", 99))
    one.sync()
    after = one.schedule_pods(pods[2:]).failures
    assert [why.message for why in after.values()] == [why.message for why in before.values()]
    assert len(after) == 2


def test_the_output_shows_every_victim() -> None:
    one = full(preemptor(3))
    seen = one.ask.explain("default/p").preemption
    assert seen is not None
    shown = {each.name: [pod.name for pod in each.victims.pods] for each in seen.listed(None)}
    assert shown == {"a": ["m0", "m1"], "b": ["m0", "m1"]}
    assert one.run().evicted
    result = full(preemptor(3)).run()
    assert result.placements["default/p"]
    assert {key: eviction.by for key, eviction in result.evicted.items()} == {
        "default/m0": "default/p",
        "default/m1": "default/p",
    }


def test_what_is_known_of_groups_is_not_of_the_copy_that_an_explanation_looks_at() -> None:
    one = full(preemptor(3), feature_gates=GATES)
    assert one.ask.explain("default/p").preemption is not None
    one.cache.assume_pod(member("m2", "b"))
    store_of(one).create(replace(member("m2"), spec=replace(member("m2").spec, node_name="")))
    one.sync()
    assert {each.name for each in one.groups.scheduled(("default", "g"))[0]} == {"m0", "m1", "m2"}


def test_pods_placed_at_once_evict_such_groups_whole() -> None:
    asked = preemptor(3)
    with full().preempt_pods([asked]) as tried:
        assert [each.name for each in tried.victims(0)] == ["m0", "m1"]
    with full(group=group(mode=SINGLE)).preempt_pods([asked]) as tried:
        assert [each.name for each in tried.victims(0)] == ["m0"]


# ---- batches -----------------------------------------------------------------------------------------------


@st.composite
def clusters(draw: Any) -> tuple[list[Any], list[Pod], list[Pod]]:
    names = "abcd"
    groups = [group(name, draw(st.integers(0, 2))) for name in "gh"] + [group("i", 0, SINGLE)]
    there = [
        member(
            f"v{at}",
            draw(st.sampled_from(names)),
            draw(st.integers(1, 2)),
            draw(st.sampled_from(["g", "h", "i", "no"])),
            priority=draw(st.integers(0, 2)),
        )
        for at in range(draw(st.integers(2, 8)))
    ]
    asking = [
        pod(f"p{at}", requests={"cpu": draw(st.integers(1, 4))}, priority=draw(st.integers(0, 4)))
        for at in range(draw(st.integers(1, 5)))
    ]
    return [node(name, cpu=4) for name in names] + groups, there, asking


@settings(deadline=None, max_examples=60)
@given(clusters())
def test_a_batch_decides_like_single_cycles_and_like_a_plugin_in_python(
    made: tuple[list[Any], list[Pod], list[Pod]],
) -> None:
    objects, there, asking = made
    outcomes = []
    for plugins in ({}, {}, {"profile": profile_with(PYTHON)}):
        one = world(objects, there, asking, feature_gates=GATES, **plugins)
        if len(outcomes) == 1:
            for each in asking:
                schedule_one(one.context, each)
        else:
            one.schedule_pods(asking)
        left = sorted(each.name for each in store_of(one).list(Pod)[0])
        placed = {
            info.name: sorted(each.name for each in info.pods)
            for info in map(one.cache.node_info, "abcd")
            if info is not None
        }
        outcomes.append((left, placed))
    assert outcomes[0] == outcomes[1] == outcomes[2]
