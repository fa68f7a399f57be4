"""Methods and events of a BinderCache, one by one: what each does, and what it refuses without a change."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from msgspec.structs import replace
from tests.cache.binder_kit import Kit, best_effort, pod, refused
from tests.core.make import node, port

from moorage.cache import (
    BinderCache,
    CacheHandler,
    CachePodInfo,
    SchedulingStatus,
    Snapshot,
    StoreName,
    UnitStatus,
    Victims,
    new_binder_cache,
)
from moorage.cache.cache_handler import (
    ASSUMED_POD_EXPIRATION,
    DELETED_MARKER_TTL,
    PERIOD,
    POD_ASSUMED_TTL,
    RESERVATION_TTL,
)
from moorage.errors import CacheCorruptedError, CacheError
from moorage.objects.godel import ASSUMED_NODE, NOMINATED_NODE, Movement, node_name_of, unit_key
from moorage.objects.meta import LabelSelector, ObjectMeta
from moorage.objects.node import Node
from moorage.objects.pod import Pod, PodSchedulingGroup
from moorage.objects.pod_group import GROUP_ANNOTATION, PodGroup, PodGroupStatus
from moorage.objects.policy import PodDisruptionBudget, PodDisruptionBudgetSpec
from moorage.store import ObjectStore
from moorage.store.informer import Informer

NO_UID = "cannot get cache key for pod with empty UID"
GANG = "PodGroupUnit/default/g"


@pytest.fixture
def kit() -> Kit:
    return Kit()


def member(name: str, on: str = "n") -> Pod:
    return pod(name, on, {GROUP_ANNOTATION: "g"})


def group(phase: str, name: str = "g") -> PodGroup:
    return PodGroup(metadata=ObjectMeta(name=name, namespace="default"), status=PodGroupStatus(phase=phase))


def pdb(name: str, namespace: str = "default", **labels: str) -> PodDisruptionBudget:
    spec = PodDisruptionBudgetSpec(selector=LabelSelector(match_labels=labels))
    return PodDisruptionBudget(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec)


# ---- what it is made of


def test_what_the_times_are() -> None:
    handler = CacheHandler()
    assert (handler.pod_assumed_ttl, POD_ASSUMED_TTL) == (300.0, 300.0)
    assert (handler.assumed_pod_expiration, ASSUMED_POD_EXPIRATION) == (900.0, 900.0)
    assert (handler.deleted_marker_ttl, DELETED_MARKER_TTL) == (600.0, 600.0)
    assert (handler.reservation_ttl, RESERVATION_TTL) == (60.0, 60.0)
    assert (handler.period, PERIOD) == (10.0, 10.0)
    assert not handler.resource_reservation


@pytest.mark.parametrize("gate", [False, True])
def test_stores_stand_in_godels_order(gate: bool) -> None:
    cache = BinderCache(CacheHandler(resource_reservation=gate))
    order = ["PdbStore", "ReservationStore", "UnitStatusStore", "DeletedMarkerStore", "NodeStore", "PodStore"]
    assert list(StoreName) == order
    names = [store.name for store in cache.stores]
    assert names == [name for name in order if gate or name != "ReservationStore"]
    assert [cache.find_store(name) for name in names] == list(cache.stores)


def test_the_cleaner_runs_until_it_is_told_to_stop() -> None:
    stop, cleaned = threading.Event(), threading.Event()
    now = [0.0]

    class Cache(BinderCache):
        def clean(self, now: float) -> None:
            super().clean(now)
            if not self.pods.find(pod("a")):
                cleaned.set()

    handler = CacheHandler(clock=lambda: now[0], period=0.001, stop=stop, pod_assumed_ttl=10)
    cache = Cache(handler)
    cache.assume_pod(CachePodInfo(pod("a", "n")))
    cache.finish_binding(pod("a", "n"))
    thread = cache.run(handler.period, handler.stop)
    now[0] = 11.0
    assert cleaned.wait(30)
    stop.set()
    thread.join(30)
    assert not thread.is_alive()


def test_a_new_cache_is_cleaned_in_the_background() -> None:
    handler = CacheHandler(period=3600)
    before = set(threading.enumerate())
    assert new_binder_cache(handler).handler is handler
    (thread,) = [one for one in threading.enumerate() if one not in before]
    assert thread.daemon
    handler.stop.set()
    thread.join(30)
    assert not thread.is_alive()


# ---- assume, finish, forget


def test_what_is_decided_about_a_pod_travels_with_it(kit: Kit) -> None:
    victims = Victims((pod("v", "n"),), {"why": "priority"})
    info = CachePodInfo(pod("a", "n"), cycle_state={"numa": 1}, victims=victims)
    kit.cache.add_pod(pod("v", "n"))
    kit.cache.assume_pod(info)
    assert kit.used("n") == (200, 2), "victims leave by events of their own"
    kit.cache.forget_pod(info)
    assert kit.used("n") == (100, 1)


@pytest.mark.parametrize("known", ["assumed", "added"])
def test_a_known_pod_cannot_be_assumed(kit: Kit, known: str) -> None:
    (kit.assume if known == "assumed" else kit.cache.add_pod)(member("a"))
    refused("pod a was already in binder cache", kit.assume, member("a", "m"))
    assert kit.used("n") == (100, 1)
    assert kit.cache.get_node_info("m") is None
    assert kit.cache.get_unit_status(GANG).running_pods == ("a",)


@pytest.mark.parametrize("gate", [False, True])
def test_a_pod_that_cannot_be_read_changes_no_store(gate: bool) -> None:
    kit = Kit(resource_reservation=gate)
    bad = pod("a", "n", {GROUP_ANNOTATION: "g"}, requests={"cpu": "x"})
    for event in (kit.assume, kit.cache.add_pod, lambda one: kit.cache.update_pod(one, one)):
        with pytest.raises(ValueError, match="x"):
            event(bad)
    assert (kit.has(bad), kit.cache.dump().nodes) == (False, {})
    assert kit.cache.get_unit_status(GANG) == UnitStatus()


def test_a_pod_is_forgotten_where_it_was_assumed(kit: Kit) -> None:
    kit.assume(member("a"))
    with pytest.raises(CacheCorruptedError, match="pod a was assumed on n but forgotten on m"):
        kit.forget(member("a", "m"))
    assert kit.used("n") == (100, 1)
    assert kit.cache.get_unit_status(GANG).running_pods == ("a",)
    kit.forget(member("a"))
    kit.forget(member("a"))
    assert kit.cache.dump().nodes == {}


def test_the_node_of_a_pod_may_be_in_an_annotation() -> None:
    assert node_name_of(pod("a", "n", {ASSUMED_NODE: "m"})) == "n"
    assert node_name_of(pod("a", "", {ASSUMED_NODE: "m", NOMINATED_NODE: '{"node": "l"}'})) == "m"
    assert node_name_of(pod("a", "", {NOMINATED_NODE: '{"node": "l", "victims": []}'})) == "l"
    for text in ("", "{", "[]", "{}", '{"node": 1}'):
        assert node_name_of(pod("a", "", {NOMINATED_NODE: text})) == ""


def test_each_attempt_to_bind_moves_the_deadline() -> None:
    kit = Kit(pod_assumed_ttl=10)
    kit.assume(pod("a", "n"))
    for now in (0, 8, 16):
        kit.clean(now)
        kit.cache.finish_binding(pod("a", "n"))
    kit.clean(26)
    assert kit.is_assumed(pod("a")), "also past its first deadlines"
    kit.clean(26.5)
    assert not kit.is_assumed(pod("a"))


def test_only_pods_whose_time_is_over_expire() -> None:
    kit = Kit(pod_assumed_ttl=10)
    first, second, third = pod("a", "n"), pod("b", "n", ports=[port(8080)]), pod("c", "n")
    for one in (first, second, third):
        kit.assume(one)
    kit.cache.finish_binding(first)
    kit.clock.now = 15
    kit.cache.finish_binding(second)
    kit.clean(20)
    assert kit.used("n") == (200, 2)
    assert kit.info("n").used_ports == {("0.0.0.0", "TCP", 8080)}
    kit.clean(26)
    assert (kit.used("n"), kit.info("n").used_ports) == ((100, 1), frozenset())


def test_a_confirmed_pod_does_not_expire() -> None:
    kit = Kit(pod_assumed_ttl=10)
    for one in (pod("a", "n"), pod("b", "n")):
        kit.assume(one)
        kit.cache.finish_binding(one)
    kit.cache.update_pod(pod("a", "n"), pod("a", "n"))
    kit.clean(21)
    assert (kit.has(pod("a")), kit.has(pod("b"))) == (True, False)


def test_an_expired_pod_comes_back_with_a_report(kit: Kit) -> None:
    kit.assume(member("a"))
    kit.clean(901)
    assert kit.cache.get_unit_status(GANG).running_pods == ()
    kit.cache.update_pod(member("a"), member("a"))
    assert kit.used("n") == (100, 1)
    assert not kit.is_assumed(pod("a"))


def test_many_assumptions_leave_nothing_behind(kit: Kit) -> None:
    """Deadlines of pods that have gone do not pile up, and those that count are kept."""
    kit.assume(pod("stays", "n"))
    for _ in range(1000):
        kit.assume(pod("a", "n"))
        kit.forget(pod("a", "n"))
    kit.clean(901)
    assert kit.cache.dump().nodes == {}


@pytest.mark.parametrize("number", range(9))
def test_a_pod_needs_a_uid(kit: Kit, number: int) -> None:
    one = pod("", "n")
    methods = (
        kit.assume,
        kit.forget,
        kit.cache.finish_binding,
        kit.cache.is_assumed_pod,
        kit.cache.get_pod,
        kit.cache.is_pod_marked_to_delete,
        kit.cache.add_pod,
        kit.cache.delete_pod,
        lambda one: kit.cache.update_pod(one, one),
    )
    refused(NO_UID, methods[number], one)
    assert kit.cache.dump().nodes == {}


# ---- pods as they are reported


def test_only_a_changed_pod_is_stored(kit: Kit) -> None:
    first, second = pod("a", "n"), pod("a", "n", {"new": "yes"}, requests={"cpu": "200m"}, ports=[port(90)])
    for one in (first, second, first, second):
        kit.cache.update_pod(first, one)
        assert kit.cache.get_pod(pod("a")) is one
    assert kit.used("n") == (200, 1)
    assert kit.info("n").used_ports == {("0.0.0.0", "TCP", 90)}


def test_an_assumed_pod_is_replaced_by_what_is_reported(kit: Kit) -> None:
    kit.assume(member("a"))
    kit.cache.update_pod(member("a", ""), best_effort("a", "m"))
    kit.cache.update_pod(best_effort("a", "m"), pod("a", "m", requests={"cpu": "200m"}))
    assert kit.cache.get_node_info("n") is None
    assert kit.used("m") == (200, 1)
    assert kit.info("m").best_effort_requested.milli_cpu == 0
    assert kit.cache.get_unit_status(GANG).running_pods == ()
    assert kit.cache.get_unit_status("SinglePodUnit/default/a").running_pods == ("a",)


def test_a_pod_of_another_uid_takes_the_place_of_the_old_one(kit: Kit) -> None:
    kit.cache.add_pod(pod("a", "n"))
    kit.cache.mark_pod_to_delete(pod("a", "n"), pod("p"))
    kit.cache.update_pod(pod("a", "n"), pod("b", "m"))
    assert (kit.has(pod("a")), kit.cache.is_pod_marked_to_delete(pod("a"))) == (False, False)
    assert kit.used("m") == (100, 1)
    kit.cache.add_pod(pod("a", "n"))
    refused("pod b was already in added state", kit.cache.update_pod, pod("a", "n"), pod("b", "m"))
    assert (kit.used("n"), kit.used("m")) == ((100, 1), (100, 1))


def test_a_marked_pod_is_marked_where_it_is(kit: Kit) -> None:
    kit.cache.add_pod(pod("a", "n"))
    with pytest.raises(CacheCorruptedError, match="pod a was added to n but marked on m"):
        kit.cache.mark_pod_to_delete(pod("a", "m"), pod("p"))
    assert not kit.cache.is_pod_marked_to_delete(pod("a"))
    refused(NO_UID, kit.cache.mark_pod_to_delete, pod("", "n"), pod("p"))
    refused(NO_UID, kit.cache.mark_pod_to_delete, pod("a", "n"), pod(""))
    refused(NO_UID, kit.cache.remove_delete_pod_marker, pod("a", "n"), pod(""))


def test_marking_again_starts_the_time_anew(kit: Kit) -> None:
    one = pod("a", "n")
    kit.cache.add_pod(one)
    kit.cache.mark_pod_to_delete(one, pod("p"))
    kit.clock.now = 500
    kit.cache.mark_pod_to_delete(one, pod("q"))
    kit.clean(1100)
    assert kit.cache.is_pod_marked_to_delete(one)
    kit.cache.remove_delete_pod_marker(one, pod("q"))
    assert not kit.cache.is_pod_marked_to_delete(one)


# ---- units


@pytest.mark.parametrize(
    ("phase", "status"),
    [
        ("Pending", SchedulingStatus.PENDING),
        ("PreScheduling", SchedulingStatus.PENDING),
        ("Scheduled", SchedulingStatus.SCHEDULED),
        ("Running", SchedulingStatus.SCHEDULED),
        ("Finished", SchedulingStatus.SCHEDULED),
        ("Failed", SchedulingStatus.SCHEDULED),
        ("Timeout", SchedulingStatus.TIMEOUT),
        ("Unknown", SchedulingStatus.UNKNOWN),
        ("", SchedulingStatus.UNKNOWN),
    ],
)
def test_the_phase_of_a_group_is_its_status(kit: Kit, phase: str, status: SchedulingStatus) -> None:
    kit.cache.add_pod_group(group(phase))
    assert kit.cache.get_unit_status(GANG) == UnitStatus(status)


def test_a_changed_group_says_its_status_anew(kit: Kit) -> None:
    kit.cache.set_unit_scheduling_status(GANG, SchedulingStatus.TIMEOUT)
    kit.cache.update_pod_group(group("Pending"), group("Scheduled", "h"))
    assert kit.cache.get_unit_scheduling_status(GANG) == SchedulingStatus.UNKNOWN
    assert kit.cache.get_unit_scheduling_status("PodGroupUnit/default/h") == SchedulingStatus.SCHEDULED
    assert [int(one) for one in SchedulingStatus] == [0, 1, 2, 3]


def test_running_pods_are_those_assumed_and_bound(kit: Kit) -> None:
    kit.assume(member("c"))
    kit.cache.add_pod(member("a"))
    kit.cache.add_pod(member("b"))
    kit.cache.add_pod(member("d", ""))
    assert kit.cache.get_unit_status(GANG).running_pods == ("a", "b", "c")
    for name in ("a", "b", "c"):
        kit.cache.delete_pod(member(name))
    assert kit.cache.get_unit_status(GANG) == UnitStatus()


def test_the_unit_of_a_pod(kit: Kit) -> None:
    one = pod("a", "n")
    kubernetes = replace(one, spec=replace(one.spec, scheduling_group=PodSchedulingGroup(pod_group_name="g")))
    assert (unit_key(one), unit_key(member("a")), unit_key(kubernetes)) == (
        "SinglePodUnit/default/a",
        GANG,
        GANG,
    )
    kit.assume(kubernetes)
    assert kit.cache.get_unit_status(GANG).running_pods == ("a",)
    assert kit.cache.get_unit_status("SinglePodUnit/default/a").running_pods == ()


# ---- disruption budgets


def test_budgets_and_whom_they_select(kit: Kit) -> None:
    one = pod("a", "n", labels={"app": "x"})
    kit.cache.add_pdb(pdb("b", app="x"))
    kit.cache.add_pdb(pdb("a", app="x"))
    kit.cache.add_pdb(pdb("other", "elsewhere", app="x"))
    assert [each.name for each in kit.cache.pdbs.pdbs_of(one)] == ["a", "b"]
    changed = replace(pdb("a", app="x"), spec=replace(pdb("a", app="x").spec, min_available=1))
    kit.cache.update_pdb(pdb("a", app="x"), changed)
    assert kit.cache.pdbs.pdbs_of(one)[0] is changed
    kit.cache.update_pdb(changed, pdb("a", app="y"))
    assert [each.name for each in kit.cache.pdbs.pdbs_of(one)] == ["b"]
    kit.cache.delete_pdb(pdb("b"))
    kit.cache.delete_pdb(pdb("b"))
    assert [each.key for each in kit.cache.pdbs.pdbs] == ["default/a", "elsewhere/other"]


# ---- events that are nothing to a binder


def test_owners_and_movements_change_nothing(kit: Kit) -> None:
    kit.cache.add_owner("ReplicaSet", "default/rs", {"a": "b"})
    kit.cache.update_owner("ReplicaSet", "default/rs", None, None)
    kit.cache.delete_owner("ReplicaSet", "default/rs")
    kit.cache.add_movement(None)
    kit.cache.update_movement(None, Movement())
    kit.cache.delete_movement(Movement())
    assert (kit.cache.state.log.head, kit.cache.dump().nodes) == (0, {})


# ---- transactions, forks, snapshots


def everything(cache: BinderCache) -> Any:
    return (
        cache.get_unit_status(GANG),
        cache.is_pod_marked_to_delete(pod("a")),
        cache.pdbs.pdbs,
        cache.nodes.nm_nodes,
        cache.nodes.cnrs,
        {name: [one.name for one in info.pods] for name, info in cache.dump().nodes.items()},
    )


def disturb(cache: BinderCache) -> None:
    cache.set_unit_scheduling_status(GANG, SchedulingStatus.TIMEOUT)
    cache.assume_pod(CachePodInfo(member("c")))
    cache.remove_delete_pod_marker_by_key("a", "p")
    cache.delete_pod(member("a"))
    cache.add_pdb(pdb("new"))
    cache.delete_pdb(pdb("old"))


@pytest.mark.parametrize("gate", [False, True])
def test_a_rollback_takes_every_store_back(gate: bool) -> None:
    kit = Kit(resource_reservation=gate)
    kit.cache.add_node(node("n"))
    kit.cache.add_pdb(pdb("old"))
    kit.cache.add_pod_group(group("Pending"))
    for name in ("a", "b"):
        kit.cache.add_pod(member(name))
    kit.cache.mark_pod_to_delete(member("a"), pod("p"))
    before, fork = everything(kit.cache), kit.cache.fork()
    with kit.cache.transaction():
        disturb(kit.cache)
        assert everything(kit.cache) != before
    assert everything(kit.cache) == before
    with kit.cache.transaction() as outer:
        with kit.cache.transaction() as inner:
            disturb(kit.cache)
            inner.commit()
        outer.commit()
    after = everything(kit.cache)
    assert after != before
    assert everything(fork) == before
    disturb(fork)
    assert everything(fork) == after


def test_a_snapshot_shows_guaranteed_pods(kit: Kit) -> None:
    kit.cache.add_node(node("n"))
    snapshot = Snapshot()
    kit.cache.update_snapshot(snapshot)
    kit.assume(pod("a", "n"))
    kit.assume(best_effort("b", "n"))
    kit.cache.update_snapshot(snapshot)
    assert snapshot.get("n").requested.milli_cpu == 100
    assert len(snapshot.get("n").pods) == 2


# ---- informers, and what they missed


def test_a_relist_makes_up_for_what_was_lost(kit: Kit) -> None:
    """Whatever informers have said, after a relist the cache has what the server has."""
    store = ObjectStore()
    for one in (node("n"), node("m"), pod("a", "n"), pod("b", "m"), pod("waits")):
        store.create(one)
    kit.cache.add_node(node("gone"))
    kit.cache.add_pod(pod("gone", "gone"))
    kit.cache.add_pod(pod("b", "n"))
    kit.cache.mark_pod_to_delete(pod("gone", "gone"), pod("p"))
    kit.assume(pod("waits", "m"))
    kit.assume(pod("never", "m"))
    nodes, pods = Informer(store, Node), Informer(store, Pod)
    for informer in (nodes, pods):
        informer.run_once()
    kit.cache.relist(nodes.indexer.values(), pods.indexer.values())
    assert sorted(kit.cache.dump().nodes) == ["m", "n"]
    assert (kit.used("n"), kit.used("m")) == ((100, 1), (200, 2))
    assert kit.cache.dump().assumed_pods == {"waits": True}
    assert not kit.cache.is_pod_marked_to_delete(pod("gone"))
    assert kit.cache.get_unit_status("SinglePodUnit/default/gone") == UnitStatus()


def test_a_relist_that_cannot_be_read_changes_nothing(kit: Kit) -> None:
    kit.cache.add_node(node("n"))
    kit.cache.add_pod(pod("a", "n"))
    with pytest.raises(ValueError, match="x"):
        kit.cache.relist([node("m")], [pod("b", "m"), pod("c", "m", requests={"cpu": "x"})])
    assert (list(kit.cache.dump().nodes), kit.used("n")) == (["n"], (100, 1))


def test_a_store_refuses_by_its_cache(kit: Kit) -> None:
    with pytest.raises(CacheError, match="pod a does not exist in binder cache"):
        kit.cache.get_pod(pod("a"))
