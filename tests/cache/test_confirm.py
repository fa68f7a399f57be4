"""Confirming in bulk what the cache's own scheduler has bound."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from msgspec import convert
from msgspec.structs import replace
from tests.core.inside import pod_records
from tests.doors.engine import schedule_one
from tests.make import node, pod, port

from moorage import Scheduler
from moorage.engine.cache import SchedulerCache
from moorage.errors import CacheError
from moorage.kube import Cluster, OwnerReference, Pod, PodStatus
from moorage.store import ObjectStore


def cache() -> SchedulerCache:
    one = SchedulerCache()
    one.add_node(node("a"))
    one.add_node(node("b"))
    one.assume_pods([pod("p", on="a", requests={"cpu": 1}), pod("q", on="a", requests={"cpu": 1})])
    return one


def used(one: SchedulerCache, name: str) -> int:
    info = one.node_info(name)
    return info.requested.milli_cpu if info is not None else 0


def test_confirmed_pods_are_added() -> None:
    one = cache()
    reported = pod("p", on="a", requests={"cpu": 1})
    one.confirm_pods([reported])
    assert not one.is_assumed_pod(reported)
    assert one.get_pod(reported) is reported
    assert used(one, "a") == 2000
    one.remove_pod(reported)
    assert used(one, "a") == 1000


@pytest.mark.parametrize("batch", [False, True])
def test_a_confirmation_tells_that_a_pod_is_terminating(batch: bool) -> None:
    one = cache()
    late = pod("p", on="a", requests={"cpu": 1})
    late = replace(late, metadata=replace(late.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
    (one.add_pods([late]) if batch else one.add_pod(late))
    assert pod_records(one.state)["terminating"].tolist() == [1, 0]


@pytest.mark.parametrize("batch", [False, True])
def test_a_confirmed_pod_claims_its_host_ports_again(batch: bool) -> None:
    one = cache()
    both = [pod(name, on="b", ports=[port(80)]) for name in ("x", "y")]
    one.assume_pods(both)
    one.forget_pod(both[0])  # frees the port, as upstream's HostPortInfo
    (one.add_pods(both[1:]) if batch else one.add_pod(both[1]))
    info = one.node_info("b")
    assert info is not None
    assert info.used_ports == {("0.0.0.0", "TCP", 80)}


@pytest.mark.parametrize("batch", [False, True])
def test_an_undone_confirmation_brings_the_object_back(batch: bool) -> None:
    one = cache()
    held = one.get_pod(pod("p"))
    reported = replace(held, metadata=replace(held.metadata, annotations={"a": "b"}))
    with one.transaction():
        (one.add_pods([reported]) if batch else one.add_pod(reported))
    assert one.get_pod(reported) is held
    assert one.is_assumed_pod(held)


OWNER = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="r", uid="u", controller=True)
RESIZED = {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}


def changed(what: str) -> Pod:
    """The pod as reported after it was bound, and changed before that, unseen."""
    one = pod("p", on="a", requests={"cpu": 1})
    if what == "spec":
        return pod("p", on="a", requests={"cpu": 2})
    if what == "status":
        return replace(one, status=convert(RESIZED, PodStatus))
    changes: dict[str, Any] = {"labels": {"app": "x"}} if what == "labels" else {"owner_references": [OWNER]}
    return replace(one, metadata=replace(one.metadata, **changes))


@pytest.mark.parametrize("what", ["spec", "status", "labels", "owner"])
def test_a_pod_that_changed_before_it_was_bound_is_read_again(what: str) -> None:
    one, fresh = cache(), SchedulerCache()
    fresh.add_node(node("a"))
    one.forget_pod(pod("q", on="a", requests={"cpu": 1}))
    one.confirm_pods([changed(what)])
    fresh.add_pod(changed(what))
    held, read = one.get_pod(pod("p")), fresh.get_pod(pod("p"))
    assert used(one, "a") == used(fresh, "a") == (2000 if what in ("spec", "status") else 1000)
    assert one.state.classes.labels_of(one.state.classes.intern(held)) == read.metadata.labels
    bystander = pod("p", on="a", requests={"cpu": 1})
    same = one.state.classes.intern(held) == one.state.classes.intern(bystander)
    assert not same


def test_a_confirmed_pod_is_where_its_report_says() -> None:
    one = cache()
    one.confirm_pods([pod("p", on="b", requests={"cpu": 1}), pod("new", on="b", requests={"cpu": 2})])
    assert (used(one, "a"), used(one, "b")) == (1000, 3000)


def test_a_pod_that_was_added_in_between_is_left_as_it_is() -> None:
    one = cache()
    one.add_pod(pod("p", on="a", requests={"cpu": 1}))
    one.confirm_pods([pod("p", on="a", requests={"cpu": 1}), pod("q", on="a", requests={"cpu": 1})])
    assert used(one, "a") == 2000
    assert not one.is_assumed_pod(pod("q"))


def test_what_happens_to_a_bound_pod_before_the_next_sync(caplog: pytest.LogCaptureFixture) -> None:
    """The report of a binding is confirmed before a later event of the same pump is taken."""
    scheduler = Scheduler(Cluster(nodes=[node("a")], pods=[pod("p", requests={"cpu": 1}), pod("gone")]))
    store = scheduler.client
    pods = list(scheduler.pods.pending.values())
    for one in pods:
        schedule_one(scheduler.context, one)
        store.bind(one, "a")
    bound = store.get("Pod", "p", "default")
    store.update(pod("p", on="a", requests={"cpu": 2}))
    store.delete("Pod", "gone", "default")
    with caplog.at_level(logging.ERROR):
        scheduler.sync()
    assert not caplog.records
    assert used(scheduler.cache, "a") == 2000
    assert not scheduler.cache.is_assumed_pod(bound)
    assert scheduler.pods.pending == {}


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (1, 2, 0, 3), (3, 2, 1, 0)])
def test_bindings_are_confirmed_in_whatever_order_they_are_reported(order: tuple[int, ...]) -> None:
    pods = [pod(f"p{at}", requests={"cpu": 1}) for at in range(4)]
    scheduler = Scheduler(Cluster(nodes=[node(name) for name in "abcd"], pods=pods))
    nodes = [schedule_one(scheduler.context, one).node for one in pods]
    scheduler.cache.forget_pod(scheduler.cache.get_pod(pods[3]))  # its report finds no assumed pod
    store = scheduler.client
    assert isinstance(store, ObjectStore)
    store.bind_many([pods[at] for at in order], [nodes[at] or "" for at in order])
    scheduler.sync()
    confirmed = [scheduler.cache.get_pod(one) for one in pods]
    assert [one.name for one in confirmed] == [one.name for one in pods]
    assert [one.spec.node_name for one in confirmed] == nodes
    assert not any(map(scheduler.cache.is_assumed_pod, confirmed))
    assert [used(scheduler.cache, name) for name in "abcd"] == [1000] * 4
    by_node = {one.spec.node_name: one.name for one in confirmed}
    held = {name: scheduler.cache.node_info(name) for name in "abcd"}
    assert {name: [each.name for each in info.pods] for name, info in held.items() if info} == {
        name: [one] for name, one in by_node.items()
    }


def test_pods_that_others_bound_are_added_with_their_nodes() -> None:
    one, twin = cache(), cache()
    pods = [pod(f"r{at}", requests={"cpu": 1}) for at in range(3)]
    one.add_bound_pods([*pods, pod("p", requests={"cpu": 1})], ["a", "b", "b", "a"])
    where = zip(pods, "abb", strict=True)
    twin.add_pods([replace(pod, spec=replace(pod.spec, node_name=name)) for pod, name in where])
    twin.add_pod(pod("p", on="a", requests={"cpu": 1}))
    assert sorted(p.name for p in one.state.pods()) == sorted(p.name for p in twin.state.pods())
    assert [used(one, name) for name in "ab"] == [used(twin, name) for name in "ab"] == [3000, 2000]
    assert not one.is_assumed_pod(pod("p"))
    assert one.get_pod(pods[1]).spec.node_name == "b"


def test_new_pods_that_others_bound_are_entered_as_they_are() -> None:
    one = cache()
    pods = [pod("r", requests={"cpu": 1}), pod("s", requests={"cpu": 1})]
    one.add_bound_pods(pods, ["a", "new"])
    assert [one.get_pod(each).spec.node_name for each in pods] == ["a", "new"]
    assert [used(one, name) for name in ("a", "new")] == [3000, 1000]
    one.update_pod(one.get_pod(pods[0]), pod("r", on="a", requests={"cpu": 2}))
    assert used(one, "a") == 4000
    one.remove_pod(pod("r", on="a"))
    one.remove_pod(pod("s", on="new"))
    assert used(one, "a") == 2000
    with pytest.raises(ValueError, match="2 pods and 1 nodes"):
        one.add_bound_pods(pods, ["a"])


def test_pods_that_others_bound_are_added_once() -> None:
    one = cache()
    with pytest.raises(CacheError, match="pod default/r was already in added state"):
        one.add_bound_pods([pod("r"), pod("r")], ["a", "b"])
    assert not one.state.has_pod(pod("r"))
