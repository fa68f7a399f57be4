"""Methods and events of a BinderCache, one by one: what each does, and what it refuses without a change."""

from __future__ import annotations

import threading

import pytest
from msgspec.structs import replace
from tests.doors.engine import ClusterState, bound
from tests.doors.kube import node_name_of
from tests.make import node, port
from tests.multi.binder_cache.binder_kit import GANG, Kit, pod, refused
from tests.words import ASSUMED_NODE, GROUP_ANNOTATION

from moorage.compat.binder_cache import (
    BinderCache,
    CacheHandler,
    CachePodInfo,
    Movement,
    StoreName,
    UnitStatus,
    Victims,
    new_binder_cache,
)
from moorage.kube import Pod

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


def test_settings_and_pods_of_another_type_are_refused(kit: Kit) -> None:
    with pytest.raises(TypeError, match=r"^pod_assumed_ttl must be a number, not str$"):
        CacheHandler(pod_assumed_ttl="1m")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^period must be at least 0, not -1$"):
        CacheHandler(period=-1)
    for method in (kit.cache.assume_pod, kit.cache.forget_pod):
        with pytest.raises(TypeError, match=r"^info must be a CachePodInfo, not Pod$"):
            method(pod("a", "n"))  # type: ignore[arg-type]


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
    assert cleaned.wait(60)
    stop.set()
    thread.join(60)
    assert not thread.is_alive()


def test_a_new_cache_is_cleaned_in_the_background() -> None:
    handler = CacheHandler(period=3600)
    before = set(threading.enumerate())
    assert new_binder_cache(handler).handler is handler
    (thread,) = [one for one in threading.enumerate() if one not in before]
    assert thread.daemon
    handler.stop.set()
    thread.join(60)
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


@pytest.mark.parametrize("gate", [False, True])
def test_a_pod_that_cannot_be_read_changes_no_store(gate: bool) -> None:
    kit = Kit(resource_reservation=gate)
    bad = pod("a", "n", {GROUP_ANNOTATION: "g"}, requests={"cpu": "x"})
    for event in (kit.assume, kit.cache.add_pod, lambda one: kit.cache.update_pod(one, one)):
        with pytest.raises(ValueError, match="x"):
            event(bad)
    assert (kit.has(bad), kit.cache.dump().nodes) == (False, {})
    assert kit.cache.get_unit_status(GANG) == UnitStatus()


def test_the_node_of_a_pod_may_be_in_an_annotation() -> None:
    assert node_name_of(pod("a", "n", {ASSUMED_NODE: "m"})) == "n"
    assert node_name_of(pod("a", "", {ASSUMED_NODE: "m", NOMINATED_NODE: '{"node": "l"}'})) == "m"
    assert node_name_of(pod("a", "", {NOMINATED_NODE: '{"node": "l", "victims": []}'})) == "l"
    for text in ("", "{", "[]", "{}", '{"node": 1}'):
        assert node_name_of(pod("a", "", {NOMINATED_NODE: text})) == ""


def test_a_deadline_that_is_set_in_a_transaction_leaves_with_it() -> None:
    kit = Kit(pod_assumed_ttl=10)
    kit.assume(pod("a", "n"))
    for commits in (False, True):
        mark = kit.cache.state.begin()
        kit.cache.finish_binding(pod("a", "n"))
        (kit.cache.state.commit if commits else kit.cache.state.rollback)(mark)
        kit.clean(kit.clock.now + 20)
        assert kit.is_assumed(pod("a")) == (not commits)


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


# ---- pods by their names


def test_29_every_change_of_a_node_raises_its_generation(kit: Kit) -> None:
    one = pod("a", "n")
    steps = (
        lambda: kit.cache.add_node(node("n")),
        lambda: kit.assume(one),
        lambda: kit.cache.update_pod(pod("a"), one),
        lambda: kit.cache.delete_pod(one),
    )
    seen = [0]
    for step in steps:
        step()
        seen.append(kit.info("n").generation)
    assert seen == sorted(set(seen))


def called(name: str, uid: str, namespace: str = "default", on: str = "") -> Pod:
    one = pod(name, on)
    return replace(one, metadata=replace(one.metadata, uid=uid, namespace=namespace))


@pytest.mark.parametrize("assumed", [False, True])
@pytest.mark.parametrize("uid", ["a", "other", ""])
def test_a_pod_is_found_by_its_namespace_and_name(kit: Kit, uid: str, assumed: bool) -> None:
    kit.cache.add_pod(pod("b", "n"))
    (kit.assume if assumed else kit.cache.add_pod)(pod("a", "n"))
    kit.cache.add_pod(called("a", "c", "elsewhere", "n"))
    found = kit.cache.get_pod(called("a", uid))
    assert (found.metadata.uid, found.namespace, found.spec.node_name) == ("a", "default", "n")
    assert kit.cache.get_pod(called("a", uid, "elsewhere")).metadata.uid == "c"


@pytest.mark.parametrize("name", [("a", "elsewhere"), ("b", "default")])
def test_a_pod_of_another_name_or_namespace_is_not_found(kit: Kit, name: tuple[str, str]) -> None:
    kit.cache.add_pod(pod("a", "n"))
    one = called(name[0], "a", name[1])
    refused(f"pod {one.key} does not exist in binder cache", kit.cache.get_pod, one)
    kit.cache.delete_pod(pod("a", "n"))
    refused("pod default/a does not exist in binder cache", kit.cache.get_pod, pod("a"))


def test_of_pods_of_one_name_the_one_with_the_uid_is_found(kit: Kit) -> None:
    for uid in ("first", "second", "third"):
        kit.cache.add_pod(called("a", uid, on="n"))
    for uid in ("first", "second", "third"):
        assert kit.cache.get_pod(called("a", uid)).metadata.uid == uid
    assert kit.cache.get_pod(called("a", "unknown")).metadata.uid == "first"


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


def test_a_bound_pod_takes_its_class_along() -> None:
    classes = ClusterState().classes
    one = pod("p", labels={"app": "a"})
    known = classes.intern(one)
    there = bound(one, "n")
    assert (there.spec.node_name, vars(there)) == ("n", vars(one))
    assert classes.intern(there) == known == classes.intern(replace(there))
    assert not vars(bound(replace(one), "n"))
