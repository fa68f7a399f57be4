"""Store, informers and cache together: whatever is written, the cache is what the store says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from msgspec.structs import replace
from tests.core.twins.state_check import requests
from tests.doors.engine import schedule_one
from tests.make import node, pod

from moorage import Scheduler
from moorage.kube import Cluster, Node, Pod
from moorage.store import ObjectStore

NODE_NAMES = st.sampled_from(["a", "b", "c"])
POD_NAMES = st.sampled_from([f"p{number}" for number in range(5)])
FINISHED = ("Succeeded", "Failed")


def fresh_uid(one: Pod) -> Pod:
    """The pod as somebody creates it, who leaves the UID to the server."""
    return replace(one, metadata=replace(one.metadata, uid=""))


def assert_cache_follows(scheduler: Scheduler, store: ObjectStore) -> None:
    """Nodes, pods on nodes (ghosts included), what they request, and the pods that wait."""
    nodes = {one.name: one for one in store.list(Node)[0]}
    pods = [one for one in store.list(Pod)[0] if one.status.phase not in FINISHED]
    on: dict[str, dict[str, Pod]] = defaultdict(dict)
    for one in pods:
        if one.spec.node_name:
            on[one.spec.node_name][one.metadata.uid] = one
    dump = scheduler.cache.snapshot()
    assert dump.assumed_pods == {}
    assert dump.nodes.keys() == nodes.keys() | on.keys()
    for name, info in dump.nodes.items():
        assert info.node == nodes.get(name)
        assert {one.metadata.uid: one for one in info.pods} == on[name]
        assert len(info.pods) == len(on[name])
        cpu = sum(int(requests(one).get("cpu", 0)) for one in on[name].values())
        assert info.requested.milli_cpu == cpu
    # A pod that is being deleted waits until its turn comes, and is dropped then.
    waiting = {one.key: one for one in pods if not one.spec.node_name}
    assert scheduler.pods.pending.items() <= waiting.items()
    assert placeable(scheduler.pods.pending) == placeable(waiting)


def placeable(pods: Mapping[str, Pod]) -> dict[str, Pod]:
    return {key: one for key, one in pods.items() if not one.metadata.deletion_timestamp}


class Writes(RuleBasedStateMachine):
    """What the users of an API server do to nodes and pods."""

    def client(self) -> Any:
        return self.store

    @initialize(names=st.lists(NODE_NAMES, unique=True), history=st.sampled_from([1, 3, 1000]))
    def begin(self, names: list[str], history: int) -> None:
        """With a short history informers often have to list again."""
        self.store = ObjectStore(history=history)
        for name in names:
            self.store.create(node(name))
        self.scheduler = Scheduler(self.client())

    def held(self, kind: Any, name: str) -> Any:
        return next((one for one in self.store.list(kind)[0] if one.name == name), None)

    @rule(name=NODE_NAMES, cpu=st.integers(0, 4))
    def write_node(self, name: str, cpu: int) -> None:
        write = self.store.create if self.held(Node, name) is None else self.store.update
        write(node(name, cpu=cpu))

    @rule(name=NODE_NAMES)
    def delete_node(self, name: str) -> None:
        if self.held(Node, name) is not None:
            self.store.delete(Node, name)

    @rule(name=POD_NAMES, on=st.one_of(st.just(""), NODE_NAMES), cpu=st.integers(0, 2))
    def create_pod(self, name: str, on: str, cpu: int) -> None:
        if self.held(Pod, name) is None:
            self.store.create(fresh_uid(pod(name, on=on, requests={"cpu": cpu})))

    @rule(name=POD_NAMES, on=st.one_of(st.just(""), NODE_NAMES), cpu=st.integers(0, 2))
    def replace_pod(self, name: str, on: str, cpu: int) -> None:
        """Another pod of the same name: the UID is another one, and nobody sees the gap."""
        self.delete_pod(name)
        self.create_pod(name, on, cpu)

    @rule(name=POD_NAMES)
    def delete_pod(self, name: str) -> None:
        if self.held(Pod, name) is not None:
            self.store.delete(Pod, name, "default")

    @rule(name=POD_NAMES)
    def terminate_pod(self, name: str) -> None:
        """It stays for its grace period."""
        if self.held(Pod, name) is not None:
            self.store.delete(Pod, name, "default", grace_period_seconds=30)

    @rule(name=POD_NAMES, on=NODE_NAMES)
    def bind_pod(self, name: str, on: str) -> None:
        held = self.held(Pod, name)
        if held is not None and not held.spec.node_name and not held.metadata.deletion_timestamp:
            self.store.bind(held, on)

    @rule(name=POD_NAMES, label=st.sampled_from("xy"))
    def label_pod(self, name: str, label: str) -> None:
        held = self.held(Pod, name)
        if held is not None:
            self.store.update(replace(held, metadata=replace(held.metadata, labels={"app": label})))

    @rule(name=POD_NAMES, cpu=st.integers(0, 3))
    def resize_pod(self, name: str, cpu: int) -> None:
        held = self.held(Pod, name)
        if held is not None:
            containers = pod(name, requests={"cpu": cpu}).spec.containers
            self.store.update(replace(held, spec=replace(held.spec, containers=containers)))

    @rule(name=POD_NAMES, phase=st.sampled_from([*FINISHED, "Running"]))
    def set_phase(self, name: str, phase: str) -> None:
        held = self.held(Pod, name)
        if held is not None and held.status.phase not in FINISHED:
            self.store.update(replace(held, status=replace(held.status, phase=phase)))


class FeedMachine(Writes):
    @rule()
    def sync(self) -> None:
        self.scheduler.sync()
        assert_cache_follows(self.scheduler, self.store)

    @rule(kind=st.sampled_from([Node, Pod]))
    def pump(self, kind: Any) -> None:
        """Pods may arrive before their nodes, and nodes go before their pods."""
        self.scheduler.informers.informer(kind).run_once()

    @rule()
    def run_scheduler(self) -> None:
        result = self.scheduler.run()
        assert_cache_follows(self.scheduler, self.store)
        for key, name in result.placements.items():
            assert self.held(Node, name) is not None
            assert self.held(Pod, key.removeprefix("default/")).spec.node_name == name
        assert result.unschedulable.keys() == placeable(self.scheduler.pods.pending).keys()

    @rule(name=POD_NAMES)
    def assume(self, name: str) -> None:
        """A cycle places one waiting pod; somebody else has the last word on where it goes."""
        self.scheduler.sync()
        waiting = self.scheduler.pods.pending.get(f"default/{name}")
        if waiting is None or waiting.metadata.deletion_timestamp:
            return  # who terminates cannot be bound
        if schedule_one(self.scheduler.context, waiting).node is None:
            return
        assert self.scheduler.cache.is_assumed_pod(waiting)
        self.end_of_assumed(name)
        self.sync()

    def end_of_assumed(self, name: str) -> None:
        """Every way in which an assumed pod can end, one after the other."""
        ways = [
            lambda: self.bind_pod(name, "a"),
            lambda: self.delete_pod(name),
            lambda: self.replace_pod(name, "b", 1),
            lambda: self.replace_pod(name, "", 1),
            lambda: self.set_phase(name, "Failed"),
        ]
        self.turn = (getattr(self, "turn", -1) + 1) % len(ways)
        ways[self.turn]()


TestFeedMachine = FeedMachine.TestCase
TestFeedMachine.settings = settings(
    deadline=None, max_examples=60, stateful_step_count=30, suppress_health_check=[HealthCheck.too_slow]
)


def assumed() -> tuple[Scheduler, ObjectStore, Pod]:
    """A scheduler that has assumed a pod, which the store still has as waiting.

    Two writes are one too many for its watch: the informer lists again.
    """
    store = ObjectStore(history=1)
    store.create_many([node("a"), node("b")])
    waiting = store.create(pod("p", requests={"cpu": 1}))
    scheduler = Scheduler(store)
    assert schedule_one(scheduler.context, waiting).node == "a"
    return scheduler, store, waiting


@pytest.mark.parametrize("on", ["", "b"])
def test_an_assumed_pod_gives_way_to_another_of_its_name(on: str) -> None:
    scheduler, store, _ = assumed()
    store.delete(Pod, "p", "default")
    other = pod("p", on=on, requests={"cpu": 2})
    store.create(replace(other, metadata=replace(other.metadata, uid="other")))
    scheduler.sync()
    assert_cache_follows(scheduler, store)


def test_an_assumed_pod_that_is_bound_and_deleted_between_two_pumps() -> None:
    scheduler, store, waiting = assumed()
    store.bind(waiting, "b")
    store.delete(Pod, "p", "default")
    scheduler.sync()
    assert_cache_follows(scheduler, store)


def test_a_waiting_pod_of_another_uid_waits_behind_the_others() -> None:
    store = ObjectStore()
    store.create_many([pod("p"), pod("q")])
    scheduler = Scheduler(store)
    assert list(scheduler.pods.pending) == ["default/p", "default/q"]
    store.delete(Pod, "p", "default")
    store.create(fresh_uid(pod("p")))
    scheduler.sync()
    assert list(scheduler.pods.pending) == ["default/q", "default/p"]


def test_a_bad_event_is_logged_and_the_next_one_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    """Two pods of one UID: the cache refuses the second."""
    scheduler = Scheduler(Cluster(nodes=[node("a")]))
    twice = [pod("p", on="a"), pod("q", on="a"), pod("r", on="a")]
    twice[1] = replace(twice[1], metadata=replace(twice[1].metadata, uid="p"))
    scheduler.client.create_many(twice)  # type: ignore[attr-defined]
    scheduler.sync()
    assert [one.name for one in scheduler.cache.snapshot().nodes["a"].pods] == ["p", "r"]
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("moorage.scheduler", "ERROR")
    assert "was already in added state" in record.getMessage()


class Race(ObjectStore):
    """Somebody else deletes q when the scheduler is about to bind it."""

    def bind(self, one: Pod, on: str) -> None:
        self.bind_many([one], [on])

    def bind_many(self, pods: Any, nodes: Any, keys: Any = None) -> None:
        if any(one.name == "q" for one in pods) and self.list(Pod, field_selector="metadata.name=q")[0]:
            self.delete(Pod, "q", "default")
        super().bind_many(pods, nodes, keys)


class OneByOne:
    """A client that is not the store itself."""

    def __init__(self) -> None:
        self.store = Race()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


@pytest.mark.parametrize("client", [Race, OneByOne])
def test_a_pod_whose_binding_is_refused_is_taken_back(client: Any) -> None:
    store = client()
    store.create_many([node("a"), *(pod(name, requests={"cpu": 1}) for name in "pqr")])
    scheduler = Scheduler(store)
    result = scheduler.run()
    assert result.placements == {"default/p": "a", "default/r": "a"}
    assert result.unschedulable["default/q"].message == 'pods "q" not found'
    assert_cache_follows(scheduler, store)


@pytest.mark.parametrize("client", [Race, OneByOne])
def test_others_are_tried_again_when_a_binding_is_refused(client: Any) -> None:
    store = client()
    store.create_many([node("a"), pod("q", requests={"cpu": 3}, priority=1), pod("r", requests={"cpu": 3})])
    assert Scheduler(store).run().placements == {"default/r": "a"}


def test_a_finished_pod_goes_only_once() -> None:
    store = ObjectStore()
    store.create_many([node("a"), pod("p", on="a"), pod("q")])
    scheduler = Scheduler(store)
    assert scheduler.queue.pop()
    store.patch(Pod, "p", "default", {"status": {"phase": "Succeeded"}}, subresource="status")
    scheduler.sync()
    store.patch(Pod, "p", "default", {"metadata": {"labels": {"a": "b"}}})
    store.delete(Pod, "p", "default")
    scheduler.sync()
    assert [event.label for event, _, _ in scheduler.queue.in_flight_events()] == ["AssignedPodDelete"]
