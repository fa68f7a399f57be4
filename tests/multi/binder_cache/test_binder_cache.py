"""Methods and events of a BinderCache, one by one: what each does, and what it refuses without a change."""

from __future__ import annotations

import threading

import pytest
from msgspec.structs import replace
from tests.core.make import port
from tests.doors.compat import (
    BinderCache,
    CacheHandler,
    CachePodInfo,
    StoreName,
    UnitStatus,
    Victims,
    new_binder_cache,
)
from tests.doors.engine import ClusterState, bound
from tests.doors.kube import ASSUMED_NODE, GROUP_ANNOTATION, Movement, node_name_of
from tests.multi.binder_cache.binder_kit import GANG, Kit, best_effort, member, pod, refused

from moorage.errors import CacheCorruptedError, CacheError
from moorage.objects import Pod

NOMINATED_NODE = "godel.bytedance.com/nominated-node"

NO_UID = "cannot get cache key for pod with empty UID"


@pytest.fixture
def kit() -> Kit:
    return Kit()


# ---- what it is made of


def test_what_the_times_are() -> None:
    handler = CacheHandler()
    assert handler.pod_assumed_ttl == 300.0
    assert handler.assumed_pod_expiration == 900.0
    assert handler.deleted_marker_ttl == 600.0
    assert handler.reservation_ttl == 60.0
    assert handler.period == 10.0
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
    refused("pod default/a was already in binder cache", kit.assume, member("a", "m"))
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
    with pytest.raises(CacheCorruptedError, match="pod default/a was assumed on n but forgotten on m"):
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


def test_a_deadline_that_is_set_in_a_transaction_leaves_with_it() -> None:
    kit = Kit(pod_assumed_ttl=10)
    kit.assume(pod("a", "n"))
    for commits in (False, True):
        mark = kit.cache.state.begin()
        kit.cache.finish_binding(pod("a", "n"))
        (kit.cache.state.commit if commits else kit.cache.state.rollback)(mark)
        kit.clean(kit.clock.now + 20)
        assert kit.is_assumed(pod("a")) == (not commits)


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


def test_a_pod_whose_time_is_over_is_not_found_whatever_is_asked_first(kit: Kit) -> None:
    kit.assume(pod("a", "n"))
    kit.clock.now = 901.0
    with pytest.raises(CacheError):
        kit.cache.get_pod(pod("a"))
    assert (kit.has(pod("a")), kit.used("n")) == (False, (0, 0))


@pytest.mark.parametrize("finished", [False, True])
def test_a_pod_whose_time_is_over_is_not_assumed_any_more(kit: Kit, finished: bool) -> None:
    kit.assume(pod("a", "n"))
    if finished:
        kit.cache.finish_binding(pod("a", "n"))
    kit.clock.now = 300.0 if finished else 900.0
    assert kit.is_assumed(pod("a"))
    kit.clock.now += 0.001
    assert not kit.is_assumed(pod("a"))
    assert (kit.has(pod("a")), kit.cache.dump().assumed_pods, kit.used("n")) == (False, {}, (0, 0))
    kit.cache.add_pod(pod("a", "n"))  # it is confirmed after all
    assert (kit.is_assumed(pod("a")), kit.used("n")) == (False, (100, 1))


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
    refused("pod default/b was already in added state", kit.cache.update_pod, pod("a", "n"), pod("b", "m"))
    assert (kit.used("n"), kit.used("m")) == ((100, 1), (100, 1))


def test_a_pod_of_another_uid_that_was_assumed_leaves_its_group_too(kit: Kit) -> None:
    kit.cache.add_pod(pod("a", "n"))
    kit.assume(member("b", "m"))
    assert kit.cache.get_unit_status(GANG).running_pods == ("b",)
    kit.cache.update_pod(pod("a", "n"), pod("b", "m"))
    assert (kit.has(pod("a")), kit.is_assumed(pod("b"))) == (False, False)
    assert (kit.used("n"), kit.used("m")) == ((0, 0), (100, 1))
    assert kit.cache.get_unit_status(GANG).running_pods == ()


def test_a_marked_pod_is_marked_where_it_is(kit: Kit) -> None:
    kit.cache.add_pod(pod("a", "n"))
    with pytest.raises(CacheCorruptedError, match="pod default/a was added to n but marked on m"):
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


# ---- events that are nothing to a binder


def test_owners_and_movements_change_nothing(kit: Kit) -> None:
    kit.cache.add_owner("ReplicaSet", "default/rs", {"a": "b"})
    kit.cache.update_owner("ReplicaSet", "default/rs", None, None)
    kit.cache.delete_owner("ReplicaSet", "default/rs")
    kit.cache.add_movement(None)
    kit.cache.update_movement(None, Movement())
    kit.cache.delete_movement(Movement())
    assert (kit.cache.state.log.head, kit.cache.dump().nodes) == (0, {})


# ---- what is remembered of a pod's class


@pytest.mark.parametrize("report", ["add_pod", "update_pod"])
def test_a_report_is_charged_for_what_it_says(kit: Kit, report: str) -> None:
    """Most reports say no more than that a pod is bound, and are not read again."""

    def tell(old: Pod, new: Pod) -> None:
        kit.cache.add_pod(new) if report == "add_pod" else kit.cache.update_pod(old, new)

    for name, new in (
        ("same", pod("same", "n")),
        ("larger", pod("larger", "n", requests={"cpu": "300m"})),
        ("best-effort", best_effort("best-effort", "n")),
    ):
        kit.assume(pod(name, "n"))
        tell(pod(name), new)
    assert kit.used("n") == (400, 3)
    assert kit.info("n").best_effort_requested.milli_cpu == 100


def test_a_bound_pod_takes_its_class_along() -> None:
    classes = ClusterState().classes
    one = pod("p", labels={"app": "a"})
    known = classes.intern(one)
    there = bound(one, "n")
    assert (there.spec.node_name, vars(there)) == ("n", vars(one))
    assert classes.intern(there) == known == classes.intern(replace(there))
    assert not vars(bound(replace(one), "n"))
