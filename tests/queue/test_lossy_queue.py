"""The scheduling queue behind a watch that drops, repeats and reorders events: after a new list the pods wait
that a scheduler finds which has only just come."""

from __future__ import annotations

from itertools import chain
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from msgspec.structs import replace

from moorage import Scheduler
from moorage.engine.queue import QueuedPodInfo, SchedulingQueue
from moorage.engine.scheduler import Rejectors
from moorage.kube import Node, Pod
from tests.scheduler.test_store_feed import NODE_NAMES, POD_NAMES
from tests.store.informers.test_lossy import LossyMachine

NOBODY: frozenset[str] = frozenset()
PLUGINS = st.sampled_from(
    [NOBODY, frozenset({"NodeResourcesFit"}), frozenset({"NodeName", "TaintToleration"})]
)


def waiting(queue: SchedulingQueue) -> dict[str, Pod]:
    """The pods that wait, by UID; each is in one place."""
    infos = list(chain(*queue.pending_pods()))
    found = {info.pod.metadata.uid: info.pod for info in infos}
    assert len(found) == len(infos) == len(queue)
    assert all(queue.get(uid) is not None for uid in found)
    return found


def nominated(scheduler: Scheduler, names: Any) -> dict[str, list[str]]:
    """Who is nominated to each node, whatever the order."""
    found = scheduler.handle.nominator.nominated_pods_for_node
    return {
        name: sorted(one.metadata.uid for one in found(name) if not is_terminating(one)) for name in names
    }


def is_terminating(one: Pod) -> bool:
    return one.metadata.deletion_timestamp is not None


class LossyQueueMachine(LossyMachine):
    """Attempts begin, fail and are given up while events are lost."""

    @initialize(names=st.lists(NODE_NAMES, unique=True), seed=st.integers(0, 2**16))
    def begin(self, names: list[str], seed: int) -> None:
        self.popped: list[QueuedPodInfo] = []
        super().begin(names, seed)

    @rule(name=POD_NAMES, node=st.one_of(st.just(""), NODE_NAMES))
    def nominate(self, name: str, node: str) -> None:
        held = self.held(Pod, name)
        if held is not None:
            self.store.update(replace(held, status=replace(held.status, nominated_node_name=node)))

    @rule()
    def pop(self) -> None:
        self.popped += self.scheduler.queue.pop()

    @rule(rejectors=PLUGINS, at=st.integers(0, 4))
    def fail(self, rejectors: frozenset[str], at: int) -> None:
        if self.popped:
            info = self.popped.pop(at % len(self.popped))
            latest = self.scheduler.pods.indexer.get(info.pod.key)
            self.scheduler.queue.give_back([info], [latest], [Rejectors(rejectors, NOBODY)])

    @rule()
    def put_back(self) -> None:
        """Before anything is heard."""
        self.scheduler.queue.put_back(self.scheduler.queue.pop())

    @rule()
    def run_scheduler(self) -> None:
        """Every attempt ends first: a run tries all pods."""
        while self.popped:
            self.fail(NOBODY, 0)
        super().run_scheduler()

    @rule()
    def list_again(self) -> None:
        self.lossy.expire()
        for kind in (Node, Pod):
            self.scheduler.informers.informer(kind).run_once()
        fresh, queue = Scheduler(self.store), self.scheduler.queue
        wanted, found = waiting(fresh.queue), waiting(queue)
        in_flight = {info.pod.metadata.uid for info in queue.in_flight()}
        assert found.items() <= wanted.items()
        # One that is being deleted waits until its turn comes, and is dropped then.
        assert {uid for uid, one in wanted.items() if not is_terminating(one)} <= found.keys() | in_flight
        if not in_flight:
            names = ("a", "b", "c")
            assert nominated(self.scheduler, names) == nominated(fresh, names)

    @invariant()
    def events_are_kept_for_pods_in_flight_alone(self) -> None:
        if hasattr(self, "scheduler"):
            queue = self.scheduler.queue
            assert {info.pod.metadata.uid for info in self.popped} == {
                info.pod.metadata.uid for info in queue.in_flight()
            }
            assert queue.in_flight() or not queue.in_flight_events()


TestLossyQueueMachine = LossyQueueMachine.TestCase
TestLossyQueueMachine.settings = settings(
    deadline=None, max_examples=100, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow]
)
