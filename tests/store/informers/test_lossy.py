"""A watch that drops, repeats and reorders events: all objects mend what it has done."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from msgspec.structs import replace
from tests.make import node, pod
from tests.scheduler.test_store_feed import NODE_NAMES, Writes, assert_cache_follows, fresh_uid
from tests.store.informers.lossy import LossyClient

from moorage import Scheduler
from moorage.kube import Node, Pod
from moorage.store import ObjectStore, Replacement, WatchEvent


class LossyMachine(Writes):
    @initialize(names=st.lists(NODE_NAMES, unique=True), seed=st.integers(0, 2**16))
    def begin(self, names: list[str], seed: int) -> None:
        self.random = Random(seed)
        super().begin(names, 1000)

    def client(self) -> Any:
        self.lossy = LossyClient(self.store, self.random)
        return self.lossy

    @rule(kind=st.sampled_from([Node, Pod]))
    def pump(self, kind: Any) -> None:
        self.scheduler.informers.informer(kind).run_once()

    @rule()
    def run_scheduler(self) -> None:
        """Pods that the scheduler places may have gone, or be bound by somebody else."""
        result = self.scheduler.run()
        for key, name in result.placements.items():
            assert self.held(Pod, key.removeprefix("default/")).spec.node_name == name

    @rule()
    def list_again(self) -> None:
        self.lossy.expire()
        for kind in (Node, Pod):
            self.scheduler.informers.informer(kind).run_once()
        assert_cache_follows(self.scheduler, self.store)


TestLossyMachine = LossyMachine.TestCase
TestLossyMachine.settings = settings(
    deadline=None, max_examples=150, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow]
)


class Script:
    """A watch that delivers the objects, and then what the test hands it."""

    def __init__(self, objects: list[Any]) -> None:
        self.events: Any = Replacement(objects)

    def poll(self) -> Any:
        events, self.events = self.events, []
        return events

    def wait(self) -> bool:
        return True


class ScriptedClient(LossyClient):
    def follow(self, *arguments: Any, **options: Any) -> Any:
        return Script(self.store.list(*arguments, **options)[0])


def waiting_and_bound(names: str) -> tuple[ObjectStore, Scheduler, Script]:
    store = ObjectStore()
    store.create_many([node("a"), *(pod(name, on="a") for name in names)])
    client = ScriptedClient(store, Random(0))
    scheduler = Scheduler(client)
    return store, scheduler, scheduler.informers.informer(Pod)._watch  # type: ignore[return-value]


@pytest.mark.parametrize("wrong", ["uid", "state"])
def test_a_deletion_takes_away_what_the_name_stood_for(wrong: str) -> None:
    """The event of a pod that was created, or finished, unseen."""
    store, scheduler, watch = waiting_and_bound("p")
    gone = store.delete(Pod, "p", "default")
    if wrong == "uid":
        store.create(fresh_uid(pod("p", on="a")))
        gone = store.delete(Pod, "p", "default")
    else:
        gone = pod("p", on="")
    watch.events = [WatchEvent("DELETED", gone, "9")]
    scheduler.sync()
    assert scheduler.cache.snapshot().nodes["a"].pods == []
    assert scheduler.pods.pending == {}


def test_an_older_state_after_a_newer_one() -> None:
    store, scheduler, watch = waiting_and_bound("p")
    held = store.get(Pod, "p", "default")
    watch.events = [WatchEvent("MODIFIED", replace(held, spec=replace(held.spec, node_name="")), "9")]
    scheduler.sync()
    assert scheduler.cache.snapshot().nodes["a"].pods == []
    assert list(scheduler.pods.pending) == ["default/p"]
    watch.events = [WatchEvent("MODIFIED", held, "10")]
    scheduler.sync()
    assert_cache_follows(scheduler, store)


def test_a_deletion_of_what_is_not_known_is_passed_over() -> None:
    _, scheduler, watch = waiting_and_bound("")
    watch.events = [WatchEvent("DELETED", one, "9") for one in (pod("x", on="a"), pod("y"))]
    scheduler.sync()
    scheduler.informers.informer(Node)._watch.events = [  # type: ignore[union-attr]
        WatchEvent("DELETED", node("b"), "9"),
        WatchEvent("ADDED", node("c"), "10"),
    ]
    scheduler.sync()
    assert scheduler.cache.snapshot().nodes.keys() == {"a", "c"}
