"""Groups in runs: all that the minimum asks for or none, who comes later, who is gated, whose turn it is."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.doors.engine import schedule_one
from tests.make import node, pod
from tests.scheduler.groups.gang_kit import (
    GATES,
    gang,
    member,
    members,
    nodes,
    on_nodes,
    placed,
    store_of,
    ungated,
    world,
)
from tests.scheduler.make import Clock, profile_with
from tests.words import GROUP_ANNOTATION

from moorage import Scheduler, default_profile
from moorage.answers.explain import explain_in_turn
from moorage.engine.framework import Profile
from moorage.errors import InputError
from moorage.kube import ObjectMeta, Pod, PodGroup, PodGroupSpec, PodSchedulingGate, ResourceRequirements

GODEL = "scheduling.godel.kubewharf.io"


def test_new_members_enter_in_their_order() -> None:
    """Also while one waits, which they may help."""
    one = world(gang("g", 2), gang("h", 2), clock=Clock())
    store_of(one).create_many([*members("g", 3), pod("alone")])
    one.sync()
    store_of(one).create_many([*members("g2", 1), *members("h", 2)])
    one.sync()
    waiting = one.queue.pending_pods()
    assert [info.pod.name for info in waiting.gated] == ["g2-0"]
    assert [info.pod.name for info in waiting.active] == ["g-0", "g-1", "g-2", "alone", "h-0", "h-1"]


def test_a_member_that_cannot_be_read_is_named() -> None:
    first, second = members("g", 2)
    container = replace(second.spec.containers[0], resources=ResourceRequirements(requests={"cpu": "x"}))
    second = replace(second, spec=replace(second.spec, containers=(container,)))
    one = world(nodes(2), gang("g", 2), [first, second], feature_gates=GATES)
    with pytest.raises(
        InputError, match=rf"^Pod {second.key}: spec.containers\[0\].resources.requests\[cpu\]: "
    ):
        one.run()


def test_the_minimum_holds_with_the_plugin() -> None:
    """Without GangScheduling pods of a group are tried together, and no more."""
    one = world(nodes(2), gang("g", 3), members("g", 3))
    assert not one.run().placements
    profile = Profile(tuple(one for one in default_profile(GATES).plugins if one.name != "GangScheduling"))
    one = world(nodes(2), gang("g", 4), members("g", 3), profile=profile)
    assert placed(one.run()) == ["g-0", "g-1"]


def test_failing_groups_do_not_keep_others_from_their_turn() -> None:
    """Each is tried once more when others were bound, and the run ends."""
    groups = [gang(name, 3) for name in "gh"]
    one = world(nodes(2), groups, members("g", 3), members("h", 3), [pod("p", requests={"cpu": 1})])
    result = one.run()
    assert placed(result) == ["p"]
    assert len(result.unschedulable) == 6
    attempts = {info.pod.name: info.attempts for info in one.queue.pending_pods().error_backoff}
    assert attempts == dict.fromkeys([f"{name}-{number}" for name in "gh" for number in range(3)], 2)


@pytest.mark.parametrize("late", ["h-0", "h-1"])
def test_a_pod_is_explained_after_the_groups_before_its_own(late: str) -> None:
    def make() -> Scheduler:
        first, second = members("g", 2), members("h", 2)
        return world(nodes(2, 3), gang("g", 2), gang("h", 2), first, second)

    seen = explain_in_turn(make, [f"default/{late}"])[f"default/{late}"]
    assert (seen.situation.placed, seen.situation.node) == (2, make().run().placements[f"default/{late}"])


def test_groups_after_one_that_evicts_are_tried_again() -> None:
    low = member("low", "", 4, priority=-1)
    one = world(nodes(4, 2), replace(low, spec=replace(low.spec, node_name="a")), gang("g", 2), gang("h", 2))
    store_of(one).create_many([*members("g", 2, 2), *members("h", 2)])
    result = one.run()
    assert result.evicted.keys() == {"default/low"}
    assert sorted(placed(result)) == ["g-0", "g-1", "h-0", "h-1"]


def test_members_are_tried_together_in_the_order_of_their_names() -> None:
    """The first member brings the others, those too that a pod in between is before."""
    one = world(nodes(9), gang("g", 1))
    store_of(one).create_many([member("late", "g"), pod("between"), member("early", "g")])
    assert placed(one.run()) == ["early", "late", "between"]


def test_too_few_pods_and_no_group_wait_outside() -> None:
    one = world(nodes(9), gang("g", 2), members("g", 1), members("none", 1))
    result = one.run()
    assert result.skipped == {
        "default/g-0": "GangScheduling: waiting for minCount pods from a gang to appear in scheduling queue",
        "default/none-0": "GangScheduling: waiting for pods's pod group "
        '"none" to appear in scheduling queue',
    }
    store_of(one).create(gang("none", 1))
    store_of(one).create(member("g-1", "g"))
    assert sorted(placed(one.run())) == ["g-0", "g-1", "none-0"]


def test_a_gated_member_gates_its_group() -> None:
    gated = member("g-2", "g", scheduling_gates=(PodSchedulingGate("wait"),))
    one = world(nodes(9), gang("g", 2), [*members("g", 2), gated], gang("h", 1), members("h", 1))
    result = one.run()
    assert placed(result) == ["h-0"]
    others = dict.fromkeys(("default/g-0", "default/g-1"), "another pod of its group is gated")
    assert result.skipped == {"default/g-2": "gated"} | others
    assert len(one.queue.pending_pods().gated) == 3
    store_of(one).update(ungated(store_of(one).get(Pod, "g-2", "default")))
    one.sync()
    assert len(one.queue.pending_pods().active) == 3
    assert placed(one.run()) == ["g-0", "g-1", "g-2"]


def test_a_deleted_member_is_missed() -> None:
    kept = members("g", 3)
    kept[0] = replace(kept[0], metadata=replace(kept[0].metadata, finalizers=("keep",)))
    one = world(nodes(9), gang("g", 3), kept)
    store_of(one).delete(Pod, "g-0", "default")
    result = one.run()
    assert not result.placements
    assert result.skipped == {"default/g-0": "terminating"}
    assert len(result.unschedulable) == 2


def test_groups_of_godel_are_placed_whole() -> None:
    meta = ObjectMeta(name="g", namespace="default")
    group = PodGroup(api_version=f"{GODEL}/v1alpha1", metadata=meta, spec=PodGroupSpec(min_member=3))
    mine = [pod(f"g-{number}", requests={"cpu": 1}) for number in range(3)]
    annotated = [
        replace(item, metadata=replace(item.metadata, annotations={GROUP_ANNOTATION: "g"})) for item in mine
    ]
    one = world(nodes(2), group, annotated)
    assert not one.run().placements
    assert store_of(one).get(PodGroup, "g", "default").status.phase == "Pending"
    store_of(one).create(node("b"))
    assert len(one.run().placements) == 3
    assert store_of(one).get(PodGroup, "g", "default").status.phase == "Scheduled"


def test_members_that_ask_for_different_schedulers() -> None:
    profiles = [profile_with(scheduler_name=name) for name in ("default-scheduler", "other")]
    mine = [member("a", "g"), member("b", "g", scheduler_name="other")]
    one = world(nodes(9), gang("g", 2), mine, profile=None, profiles=profiles)
    result = one.run()
    assert {failure.message for failure in result.unschedulable.values()} == {
        "all pods in a single pod group should have the same .spec.schedulerName set, "
        'got: "other" and "default-scheduler"'
    }


# ---- one by one ------------------------------------------------------------------------------------------


def test_waiting_ends_after_five_minutes() -> None:
    clock = Clock()
    one = world(nodes(9), gang("g", 2), members("g", 2), clock=clock)
    assert schedule_one(one.context, store_of(one).get(Pod, "g-0", "default")).waiting
    clock.now = 299.0
    assert one.advance().waiting
    clock.now = 300.0
    result = one.advance()
    assert not result.waiting
    message = result.unschedulable["default/g-0"].message
    assert "rejected due to timeout after waiting 5m0s at plugin GangScheduling" in message
    assert not one.cache.snapshot().assumed_pods


def test_scheduling_in_an_order_waits_as_well() -> None:
    one = world(nodes(9), gang("g", 2), members("g", 2))
    pods = [store_of(one).get(Pod, f"g-{number}", "default") for number in range(2)]
    one.schedule_pods(pods[:1])
    assert not on_nodes(one)
    one.schedule_pods(pods[1:])
    one.advance()
    assert on_nodes(one).keys() == {"g-0", "g-1"}


@pytest.mark.parametrize(("deleted", "gated"), [(["g-0"], []), (["g-0", "g-1"], ["g-2"])])
def test_a_gang_that_loses_pods_is_gated_with_the_next_one(deleted: list[str], gated: list[str]) -> None:
    """PreEnqueue is asked before the pod that goes is forgotten, as upstream."""
    one = world(nodes(9), gang("g", 3), members("g", 3))
    one.sync()
    for name in deleted:
        one.client.delete(Pod, name, "default")
    one.sync()
    assert [info.pod.name for info in one.queue.pending_pods().gated] == gated
