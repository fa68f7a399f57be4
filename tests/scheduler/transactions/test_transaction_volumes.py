"""Volumes that are found, claimed and made in a transaction are undone with it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any

import pytest
from tests.controllers.workloads.make import replicas
from tests.doors.cluster import SimulatedController
from tests.doors.engine import schedule_pods, sources_of
from tests.framework.make import make
from tests.make import node, pod
from tests.plugins.volume_binding_kit import LATE, MADE, asking, disk, waiting
from tests.scheduler.make import profile_with
from tests.scheduler.placing.test_background_binding import World, two
from tests.scheduler.transactions.interrupts import check_settled
from tests.scheduler.transactions.test_transactions import everything
from tests.volume.make import storage_class
from tests.words import SELECTED_NODE

import moorage as mo
from moorage import Scheduler
from moorage.engine.volume import AssumeCache
from moorage.kube import PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from moorage.store import ObjectStore

AT_ONCE = storage_class("at-once", "storage.example.com")


def world() -> Scheduler:
    """Claims whose volumes are found or made with the node, and one that is bound before; two of the pods
    ask for the last free disk in b's zone."""
    nodes = [node("a", "z1", cpu="2"), node("b", "z2", cpu="2")]
    claims = [waiting("c"), waiting("d", "made"), waiting("e", "at-once"), waiting("f", size="20Gi")]
    disks = [disk("v1", on="z1"), disk("v2", on="z2", size="50Gi")]
    pods = [
        asking("p", "c", requests={"cpu": "1"}),
        asking("q", "d", requests={"cpu": "1"}),
        asking("r", "e", requests={"cpu": "1"}),
        asking("s", "f", requests={"cpu": "1"}),
        pod("t", requests={"cpu": "1"}),
    ]
    return Scheduler(mo.Cluster(nodes=nodes, pods=pods, others=[LATE, MADE, AT_ONCE, *claims, *disks]))


def run(one: Scheduler) -> None:
    assert one.run().placements
    claims = one.client.list(PersistentVolumeClaim)[0]
    assert any(SELECTED_NODE in held.metadata.annotations for held in claims)
    assert any(held.name.startswith("pvc-") for held in one.client.list(PersistentVolume)[0])


def schedule_one(one: Scheduler) -> None:
    decisions = [schedule_pods.schedule_one(one.context, each) for each in pending(one)]
    assert any(decision.node for decision in decisions)


def schedule(one: Scheduler) -> None:
    assert one.schedule_pods(pending(one)).rows.max() >= 0


def write(one: Scheduler) -> None:
    one.client.create(storage_class("new", "new.example.com"))
    one.client.create(waiting("g", "new"))
    one.client.create(asking("u", "g"))
    one.run()
    one.client.delete(Pod, "u", "default")
    one.client.delete(PersistentVolumeClaim, "g", "default")
    one.client.delete(PersistentVolume, "v1")
    one.run()


def explain(one: Scheduler) -> None:
    one.ask.explain("default/s")


def pending(one: Scheduler) -> list[Pod]:
    return [each for each in one.client.list(Pod)[0] if not each.spec.node_name]


def caches(one: Scheduler) -> list[AssumeCache[Any]]:
    sources = one.handle.shared(sources_of)  # made at the first use, which is not the same for a fork
    return [sources.pv_cache, sources.pvc_cache]


def assumed(cache: AssumeCache[Any]) -> dict[str, tuple[Any, ...]]:
    """The latest of all objects, by the value of the index, each with what informers have."""
    listed = {value: cache.list_value(value) for value in cache.index_values()}
    return {
        value: tuple((held, cache.get_api_obj(held.key)) for held in those) for value, those in listed.items()
    }


def with_volumes(one: Scheduler) -> dict[str, Any]:
    """All that decisions and users can see, of volumes as well."""
    assert isinstance(one.volumes, SimulatedController)
    claims = vars(one.volumes)["_claims"]  # made at the first claim
    provisioners = {} if claims is None else vars(claims)["_plugins"]
    return everything(one) | {
        "objects": [
            one.client.list(kind) for kind in (PersistentVolume, PersistentVolumeClaim, StorageClass)
        ],
        "assumed volumes": [assumed(cache) for cache in caches(one)],
        "provisioned": {name: plugin.volumes.copy() for name, plugin in provisioners.items()},
        "time": one.volumes.now(),
    }


def outcome(one: Scheduler) -> Any:
    """What a run does, and what it leaves."""
    result = one.run()
    reasons = {key: failure.message for key, failure in result.unschedulable.items()}
    return result.placements, reasons, with_volumes(one)


def begun() -> Scheduler:
    """What sees to volumes has been at work before: some pods are bound, more have come since."""
    one = world()
    one.run()
    one.client.create(waiting("h", "made", size="2Gi"))
    one.client.create(waiting("i"))
    one.client.create(disk("v3", on="z2"))
    one.client.create(node("c", "z2", cpu="2"))
    one.client.create_many((asking("w", "h", requests={"cpu": "1"}), asking("x", "i", requests={"cpu": "1"})))
    one.sync()
    return one


THROUGH_THE_SCHEDULER = [run, schedule_one, schedule, explain]
ACTIONS = [*THROUGH_THE_SCHEDULER, write]


@pytest.mark.parametrize("make_world", [world, begun])
@pytest.mark.parametrize("action", ACTIONS)
def test_a_rollback_takes_volumes_back(
    make_world: Callable[[], Scheduler], action: Callable[[Scheduler], None]
) -> None:
    one, twin = make_world(), make_world()
    before = with_volumes(one)
    assert before == with_volumes(twin)
    with one.transaction():
        action(one)
    assert with_volumes(one) == before
    assert outcome(one) == outcome(twin)
    check_settled(one)


@pytest.mark.parametrize("action", THROUGH_THE_SCHEDULER)
def test_a_rollback_of_the_cache_alone_takes_volumes_back(action: Callable[[Scheduler], None]) -> None:
    one = world()
    before = with_volumes(one)
    with one.cache.transaction():
        action(one)
    one.sync()
    assert with_volumes(one) == before


def test_a_rollback_of_the_cache_alone_takes_back_what_controllers_did() -> None:
    spec = {"storageClassName": "at-once", "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"metadata": {"name": "disk"}, "spec": spec}
    one = world()
    one.client.create(replicas("StatefulSet", "db", 1, volumeClaimTemplates=[claim]))
    one.sync()
    before = with_volumes(one)
    for _ in range(2):
        with one.cache.transaction():
            assert one.context.let_controllers_proceed()
            assert with_volumes(one) != before
        assert with_volumes(one) == before


@pytest.mark.parametrize("commits", [False, True])
def test_pods_that_are_being_bound_in_a_transaction(commits: bool) -> None:
    """Their volumes are bound by others, who have not done so at the end."""

    def find(each: World) -> Any:
        uids = ("p", "q", "r")
        one = each.scheduler
        in_pre_bind = [uid for uid in uids if one.handle.get_pod_in_pre_bind(uid)]
        return in_pre_bind, list(one.bindings.running), one.volumes.now(), everything(one)

    world, twin = two(can_wait=False), two(can_wait=False)
    with world.scheduler.transaction() as transaction:
        assert len(world.scheduler.run().binding) == 2
        assert find(world)[0] == ["p", "q"]
        if commits:
            transaction.commit()
    if commits:
        twin.scheduler.run()
    assert find(world) == find(twin)
    for each in (world, twin):
        each.scheduler.run()
        each.clock.now = 3.0
        each.settle()
    assert world.scheduler.advance().placements.keys() == twin.scheduler.advance().placements.keys()
    assert world.bound() == twin.bound() == ["p", "q", "r"]


def test_threads_that_bind_end_before_the_rollback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two threads one fails about p while the other is at work on q; more pods are to come."""
    at_work, decided, ended = threading.Event(), threading.Event(), threading.Event()

    def reserve(self: Any, state: Any, asked: Pod, node_name: str) -> None:
        if asked.name == "s":
            decided.set()

    def pre_bind(self: Any, state: Any, asked: Pod, node_name: str) -> None:
        if asked.name == "p":
            assert at_work.wait(60)
            assert decided.wait(60)
            raise ValueError("p fails")
        at_work.set()
        ended.wait(0.3)

    def pool(*arguments: Any) -> futures.ThreadPoolExecutor:
        pools.append(executor(*arguments))
        return pools[-1]

    pools, executor = list[futures.ThreadPoolExecutor](), futures.ThreadPoolExecutor
    monkeypatch.setattr(futures, "ThreadPoolExecutor", pool)
    store = ObjectStore()
    store.create_many((node("a"), *(pod(name) for name in "pqrs")))
    plugins = (
        make(mo.ReservePlugin, "Notes", reserve=reserve),
        make(mo.PreBindPlugin, "Slow", pre_bind=pre_bind),
    )
    one = Scheduler(store, profile=profile_with(*plugins), binding_threads=2, fail_fast=True)
    before = everything(one)
    with pytest.raises(ValueError, match="p fails"), one.transaction():
        one.run()
    ended.set()
    pools[0].shutdown()  # nothing is at work any more
    assert everything(one) == before
    assert not [name for name in "pqrs" if one.handle.get_pod_in_pre_bind(name)]
    assert one.bindings.running == {}


def test_who_binds_volumes_is_not_that_of_a_transaction_undone() -> None:
    """The plan of pods with volumes is there before; the binder is made within."""
    one, twin = world(), world()
    for each in (one, twin):
        assert each.context.engine_of(pending(each)[0]).plan.complete()
    with one.transaction():
        run(one)
    assert outcome(one) == outcome(twin)


def test_volumes_are_made_in_the_order_in_which_their_claims_came() -> None:
    """Whoever makes them was at work in a transaction that was undone."""
    one, twin = begun(), begun()
    with one.transaction():
        one.client.create(waiting("y", "at-once"))
        one.run()
    for each in (one, twin):
        each.client.create(waiting("z", "at-once"))
        each.client.create(waiting("k", "at-once"))
    assert outcome(one) == outcome(twin)
