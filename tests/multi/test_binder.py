"""The binder: what it lets pass, what it rejects and why, and what is left of either."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.core.make import ZONE, node, pod, port
from tests.multi.kit import World, asking
from tests.scheduler.groups.gang_kit import GATES
from tests.scheduler.make import profile_with

from moorage import Scheduler
from moorage.errors import CacheError
from moorage.framework import Code, FilterPlugin, ReservePlugin, Status
from moorage.multi import Binder, Placement
from moorage.objects import (
    Affinity,
    GangSchedulingPolicy,
    LabelSelector,
    ObjectMeta,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    PodSchedulingGroup,
)
from moorage.objects.model.godel import CNR, RESOURCE_TYPE, CNRStatus
from moorage.scheduler.placing.schedule_pods import schedule_one
from moorage.store import ConflictError, ForbiddenError


def test_a_placement_that_holds_is_bound_and_confirmed() -> None:
    world = World(asking("p"))
    assert world.bind("p", "a").is_bound
    assert world.where() == {"p": "a"}
    assert not world.binder.cache.is_assumed_pod(world.get("p"))


def test_of_two_for_the_last_room_the_second_is_rejected_with_the_reason() -> None:
    world = World(asking("p", "3"), asking("q", "2"))
    outcomes = world.binder.bind([world.placement("p", "a"), world.placement("q", "a")])
    assert [one.is_bound for one in outcomes] == [True, False]
    assert outcomes[1].status == Status(Code.UNSCHEDULABLE, ("Insufficient cpu",), "NodeResourcesFit")
    assert world.where() == {"p": "a"}
    assert world.bind("q", "b").is_bound


def anti_affinity(app: str) -> Affinity:
    terms = (PodAffinityTerm(label_selector=LabelSelector({"app": app}), topology_key=ZONE),)
    return Affinity(pod_anti_affinity=PodAffinity(required=terms))


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (
            pod("p", ports=[port(80)]),
            pod("q", ports=[port(80)]),
            "node(s) didn't have free ports for the requested pod ports",
        ),
        (
            pod("p", labels={"app": "x"}, affinity=anti_affinity("x")),
            pod("q", labels={"app": "x"}),
            "node(s) didn't satisfy existing pods anti-affinity rules",
        ),
        (
            pod("p", labels={"app": "x"}),
            pod("q", affinity=anti_affinity("x")),
            "node(s) didn't match pod anti-affinity rules",
        ),
    ],
)
def test_ports_and_topology_are_checked_anew(first: Pod, second: Pod, reason: str) -> None:
    world = World(first, second, nodes=(node("a", zone="z"), node("b", zone="z")))
    where = "a" if first.spec.containers[0].ports else "b"
    outcomes = world.binder.bind([world.placement("p", "a"), world.placement("q", where)])
    assert outcomes[0].is_bound
    assert outcomes[1].reason == reason


def test_nodes_and_pods_that_are_gone_are_reasons() -> None:
    world = World(asking("p"), asking("q"))
    placement = world.placement("q", "a")
    world.store.delete(Pod, "q", "default")
    world.binder.sync()
    assert world.bind("p", "c").reason == "node c is not found"
    assert world.binder.bind([placement])[0].reason == "pod default/q is deleted or being deleted"
    assert not world.binder.cache.dump().assumed_pods


def test_a_pod_is_bound_once() -> None:
    world = World(asking("p"))
    placement = world.placement("p", "a")
    assert world.binder.bind([placement])[0].is_bound
    assert (
        world.binder.bind([replace(placement, node="b")])[0].reason
        == "pod default/p was already in binder cache"
    )


def test_a_binding_that_the_store_refuses_leaves_nothing() -> None:
    world = World(asking("p"))
    placement = world.placement("p", "a")
    world.store.bind(world.get("p"), "b")  # the binder has not heard of it
    outcome = world.binder.bind([placement])[0]
    assert "already assigned to node" in outcome.reason
    assert world.where() == {"p": "b"}
    held = world.binder.cache.get_pod(placement.pod)
    assert held.spec.node_name == "b"
    assert not world.binder.cache.is_assumed_pod(held)


CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


@pytest.mark.parametrize("settings", [{}, {"config": CONFIG}])
def test_best_effort_pods_have_their_own_resources(settings: dict[str, Any]) -> None:
    """The node has no cpu left of what it guarantees, and 2 of what it reports for best effort."""
    best_effort = {RESOURCE_TYPE: "best-effort"}
    pods = [asking(name, cpu) for name, cpu in (("b1", "2"), ("b2", "2"), ("b3", "1"))]
    pods = [replace(one, metadata=replace(one.metadata, annotations=best_effort)) for one in pods]
    world = World(asking("p", "4"), asking("q", "1"), *pods, **settings)
    allocatable = {"cpu": "3", "memory": "8Gi", "pods": "10"}
    cnr = CNR(metadata=ObjectMeta(name="a"), status=CNRStatus(best_effort_resource_allocatable=allocatable))
    world.binder.cache.add_cnr(cnr)
    assert world.bind("p", "a").is_bound
    assert world.bind("q", "a").reason == "Insufficient cpu"
    assert world.bind("b1", "a").is_bound
    assert world.bind("b2", "a").reason == "Insufficient cpu"
    assert world.bind("b3", "a").is_bound
    assert world.bind("b2", "b").reason == "Too many pods, Insufficient cpu"  # nothing is reported of it


# ---- victims


def full(**settings: object) -> World:
    """Node a is full of x and y, b of z."""
    world = World(
        asking("x", "2"), asking("y", "2"), asking("z", "4"), asking("p", "3", 9), asking("q", "2", 9)
    )
    for name, where in (("x", "a"), ("y", "a"), ("z", "b")):
        assert world.bind(name, where).is_bound
    return world


def test_victims_leave_and_their_preemptor_is_bound() -> None:
    world = full()
    assert world.bind("p", "a").reason == "Insufficient cpu"
    assert world.bind("p", "a", "x").reason == "Insufficient cpu"
    assert world.bind("p", "a", "x", "y").is_bound
    assert world.where() == {"p": "a", "z": "b"}
    assert not world.binder.cache.is_pod_marked_to_delete(asking("x"))


def test_a_victim_has_one_preemptor() -> None:
    world = full()
    outcomes = world.binder.bind([world.placement("q", "a", "x"), world.placement("p", "a", "x", "y")])
    assert outcomes[0].is_bound
    assert outcomes[1].reason == "victim default/x is claimed by another pod"
    assert world.where() == {"q": "a", "y": "a", "z": "b"}
    assert not world.binder.cache.is_pod_marked_to_delete(asking("y"))


def test_a_victim_must_be_on_the_node() -> None:
    world = full()
    assert world.bind("p", "a", "z").reason == "victim default/z is not on node a"
    gone = world.placement("p", "a", "x", "y")
    world.store.delete(Pod, "x", "default")
    world.binder.sync()
    assert world.binder.bind([gone])[0].reason == "victim default/x is not on node a"


def test_a_victim_that_was_made_again_is_gone() -> None:
    world = full()
    placements = [world.placement("q", "b"), world.placement("p", "a", "x", "y")]
    old = world.store.delete(Pod, "x", "default")
    world.store.create(replace(old, metadata=replace(old.metadata, uid="again", resource_version="")))
    outcomes = world.binder.bind(placements)
    assert [outcome.reason for outcome in outcomes] == ["Insufficient cpu", ""]


def test_victims_must_not_be_better_protected_than_they_were() -> None:
    world = World(asking("x", "4", labels={"app": "x"}), asking("p", "4", 9))
    world.bind("x", "a")
    budget = PodDisruptionBudget(
        metadata=ObjectMeta(name="b", namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector({"app": "x"})),
        status=PodDisruptionBudgetStatus(disruptions_allowed=0),
    )
    world.store.create(budget)
    reason = "1 victims are protected by a PodDisruptionBudget now, 0 when they were chosen"
    world.binder.sync()
    assert world.bind("p", "a", "x").reason == reason
    assert world.bind("p", "a", "x", violations=1).is_bound


@pytest.mark.parametrize("error", [ForbiddenError("no"), OSError("no"), KeyboardInterrupt("no")])
def test_a_victim_that_cannot_be_deleted_rejects_its_preemptor(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def delete(*asked: Any, **named: Any) -> Any:
        raise error

    world = World(asking("x", "4"), asking("p", "4", 9), asking("q"))
    world.bind("x", "a")
    placements = [world.placement("p", "a", "x"), world.placement("q", "b")]
    monkeypatch.setattr(world.store, "delete", delete)
    if isinstance(error, Exception):
        refused, other = world.binder.bind(placements)
        assert (refused.reason, other.is_bound) == (str(error), True)
    else:
        with pytest.raises(KeyboardInterrupt):
            world.binder.bind(placements)
        assert not world.binder.cache.is_assumed_pod(world.get("q"))
    assert not world.binder.cache.is_assumed_pod(world.get("p"))
    assert not world.binder.cache.is_pod_marked_to_delete(world.get("x"))


def group_failure(world: World, *names: str) -> None:
    for name in names:
        pod = world.get(name)
        world.store.update(replace(pod, metadata=replace(pod.metadata, finalizers=("test/wait",))))
    world.binder.sync()


def test_a_preemptor_waits_for_its_victims_and_holds_the_room_meanwhile() -> None:
    world = full()
    group_failure(world, "x", "y")
    assert world.bind("p", "a", "x", "y").waiting
    assert world.binder.cache.is_assumed_pod(world.get("p"))
    assert world.binder.resume() == []
    for name in "xy":
        pod = world.get(name)
        assert pod.metadata.deletion_timestamp
        world.store.update(replace(pod, metadata=replace(pod.metadata, finalizers=())))
        world.binder.sync()
        assert world.bind("q", "a").reason == "Insufficient cpu"
    (outcome,) = world.binder.resume()
    assert outcome.is_bound
    assert world.where() == {"p": "a", "z": "b"}


def test_victims_that_do_not_go_in_time_are_let_go_of() -> None:
    world = full()
    group_failure(world, "x", "y")
    assert world.bind("p", "a", "x", "y").waiting
    world.clock.now += 600
    assert world.binder.resume() == []
    world.clock.now += 1
    (outcome,) = world.binder.resume()
    assert outcome.reason == "victims were not deleted within 600 s"
    assert not world.binder.cache.is_assumed_pod(world.get("p"))
    assert not world.binder.cache.is_pod_marked_to_delete(world.get("x"))


# ---- units


def gang(minimum: int) -> PodGroup:
    policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(minimum))
    meta = ObjectMeta(name="g", namespace="default")
    return PodGroup(metadata=meta, spec=PodGroupSpec(scheduling_policy=policy))


def members(count: int, cpu: str = "2") -> list[Pod]:
    group = PodSchedulingGroup(pod_group_name="g")
    return [asking(f"m{at}", cpu, scheduling_group=group) for at in range(count)]


@pytest.mark.parametrize(("minimum", "bound"), [(3, 0), (2, 2), (1, 2)])
def test_of_a_gang_its_minimum_is_bound_or_nobody(minimum: int, bound: int) -> None:
    world = World(*members(3), feature_gates=GATES)
    world.store.create(gang(minimum))
    world.binder.sync()
    outcomes = world.binder.bind([world.placement(f"m{at}", "a") for at in range(3)])
    assert sum(one.is_bound for one in outcomes) == len(world.where()) == bound
    assert outcomes[2].reason == "Insufficient cpu"
    if not bound:
        assert outcomes[0].reason == "pod group default/g: 2 of its pods could be bound, 3 are wanted"
    status = world.binder.cache.get_unit_scheduling_status("PodGroupUnit/default/g")
    assert status.name == ("SCHEDULED" if bound else "UNKNOWN")


def test_late_members_join_those_that_run() -> None:
    world = World(*members(3, "1"), feature_gates=GATES)
    world.store.create(gang(2))
    world.binder.sync()
    both = [world.placement("m0", "a"), world.placement("m1", "b")]
    assert all(one.is_bound for one in world.binder.bind(both))
    assert world.bind("m2", "a").is_bound


def test_groups_mean_nothing_without_the_gate() -> None:
    world = World(*members(3))
    world.store.create(gang(3))
    world.binder.sync()
    assert world.bind("m0", "a").is_bound


# ---- plugins and clients


class NotThis(FilterPlugin):
    name = "NotThis"

    def filter(self, state, pod, node_info):  # type: ignore[no-untyped-def]
        return Status(Code.UNSCHEDULABLE, ("not this one",)) if node_info.node.name == "a" else None


class Reserved(ReservePlugin):
    name = "Reserved"

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def reserve(self, state, pod, node_name):  # type: ignore[no-untyped-def]
        self.calls.append(("reserve", pod.name))
        return Status(Code.UNSCHEDULABLE, ("taken",)) if pod.name == "q" else None

    def unreserve(self, state, pod, node_name):  # type: ignore[no-untyped-def]
        self.calls.append(("unreserve", pod.name))


def test_plugins_of_a_profile_check_and_reserve() -> None:
    reserved = Reserved()
    world = World(asking("p"), asking("q"), profile=profile_with(NotThis(), reserved))
    assert world.bind("p", "a").reason == "not this one"
    assert world.bind("p", "b").is_bound
    assert world.bind("q", "b").reason == "taken"
    assert reserved.calls == [("reserve", "p"), ("reserve", "q"), ("unreserve", "q")]
    with pytest.raises(CacheError, match="does not exist in binder cache"):
        world.binder.cache.get_pod(world.get("q"))


class Seen(FilterPlugin):
    name = "Seen"

    def __init__(self) -> None:
        self.pods: list[list[str]] = []

    def filter(self, state, pod, node_info):  # type: ignore[no-untyped-def]
        self.pods.append([one.name for info in self.handle.snapshot().node_info_list for one in info.pods])
        return


def test_plugins_see_what_was_bound_before() -> None:
    seen = Seen()
    world = World(asking("p"), asking("q"), profile=profile_with(seen))
    assert world.bind("p", "b").is_bound
    assert world.bind("q", "b").is_bound
    assert seen.pods == [[], ["p"]]


def test_schedulers_bind_through_their_clients() -> None:
    world = World(*(asking(f"p{at}", "3") for at in range(2)))
    first, second = (Scheduler(world.binder.client_for(name)) for name in ("one", "two"))
    assert schedule_one(first.context, world.get("p0")).node == "a"
    assert schedule_one(second.context, world.get("p1")).node == "a"
    world.binder.client_for().bind(world.get("p0"), "a")
    with pytest.raises(ConflictError, match="Insufficient cpu"):
        world.binder.client_for().bind(world.get("p1"), "a")


def test_schedulers_that_follow_one_store_place_everything_in_turn() -> None:
    world = World(*(asking(f"p{at}", "1") for at in range(8)))
    schedulers = [Scheduler(world.binder.client_for(name)) for name in ("one", "two")]
    for scheduler in schedulers:
        scheduler.run()
    assert sorted(world.where()) == [f"p{at}" for at in range(8)]
    assert all(scheduler.sync() or True for scheduler in schedulers)
    for scheduler in schedulers:
        assert not scheduler.run().unschedulable


def test_a_binder_that_starts_again_knows_what_is_bound() -> None:
    world = World(asking("p", "3"), asking("q", "3"))
    world.bind("p", "a")
    again = Binder(world.store, clock=world.clock)
    (outcome,) = again.bind([Placement(world.get("q"), "a")])
    assert outcome.reason == "Insufficient cpu"
