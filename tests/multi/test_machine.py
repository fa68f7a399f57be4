"""Schedulers and a binder over one store, under faults: watches that lose, repeat and reorder events,
schedulers that die between a decision and its binding, a binder that starts again. No node ever has more than
it can take, and once everybody has listed again the binder's cache is what the store says."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.core.make import node
from tests.multi.kit import asking
from tests.scheduler.make import Clock
from tests.store.informers.lossy import LossyClient

from moorage import Scheduler
from moorage.multi import Binder, Outcome, Placement
from moorage.multi.binder_cache.cache_handler import POD_ASSUMED_TTL
from moorage.objects import Node, Pod
from moorage.scheduler.placing.schedule_pods import schedule_one
from moorage.store import NotFoundError, ObjectStore

NODES = ("a", "b", "c")
CPU = 4
WHICH = st.integers(0, 1)


class BinderMachine(RuleBasedStateMachine):
    """Two schedulers, each with proposals that it has not sent yet."""

    @initialize(names=st.lists(st.sampled_from(NODES), unique=True, min_size=1), seed=st.integers(0, 2**16))
    def begin(self, names: list[str], seed: int) -> None:
        self.random, self.clock, self.store, self.count = Random(seed), Clock(), ObjectStore(), 0
        self.store.create_many(node(name) for name in names)
        self.clients = [LossyClient(self.store, self.random) for _ in range(3)]
        self.start_binder()
        self.schedulers = [self.make_scheduler(which) for which in range(2)]
        self.proposed: list[list[Placement]] = [[], []]

    def start_binder(self) -> None:
        self.binder = Binder(self.clients[2], clock=self.clock)  # type: ignore[arg-type]

    def make_scheduler(self, which: int) -> Scheduler:
        return Scheduler(self.clients[which], clock=self.clock)  # type: ignore[arg-type]

    def pods(self, bound: bool) -> list[Pod]:
        return [one for one in self.store.list(Pod)[0] if bool(one.spec.node_name) == bound]

    # ---- what others do

    @rule(cpu=st.integers(1, 3), priority=st.integers(0, 2))
    def create(self, cpu: int, priority: int) -> None:
        self.count += 1
        self.store.create(asking(f"p{self.count}", str(cpu), priority))

    @precondition(lambda self: self.store.list(Pod)[0])
    @rule(at=st.integers(0, 20))
    def delete(self, at: int) -> None:
        pods = self.store.list(Pod)[0]
        self.store.delete(Pod, pods[at % len(pods)].name, "default")

    @rule(name=st.sampled_from(NODES))
    def toggle_node(self, name: str) -> None:
        """Nodes come, and go when nothing runs there."""
        try:
            self.store.get(Node, name)
        except NotFoundError:
            self.store.create(node(name))
            return
        if not any(pod.spec.node_name == name for pod in self.pods(bound=True)):
            self.store.delete(Node, name)

    # ---- schedulers

    @rule(which=WHICH)
    def propose(self, which: int) -> None:
        """A scheduler decides about a pod by what it has heard, and assumes it."""
        scheduler = self.schedulers[which]
        waiting = [pod for pod in self.pods(bound=False) if not scheduler.cache.state.has_pod(pod)]
        if not waiting:
            return
        pod = self.random.choice(waiting)
        engine = next(iter(scheduler.engines.values()))
        engine.runs_post_filter = False
        decision = schedule_one(scheduler.context, pod)
        if decision.node is not None:
            self.proposed[which].append(Placement(pod, decision.node, scheduler=str(which)))

    @rule(which=WHICH)
    def propose_eviction(self, which: int) -> None:
        """Or it finds somebody of lower priority who could go, whoever that is by now."""
        waiting = [pod for pod in self.pods(bound=False) if pod.spec.priority]
        if not waiting:
            return
        pod = self.random.choice(waiting)
        lower = [v for v in self.pods(bound=True) if (v.spec.priority or 0) < (pod.spec.priority or 0)]
        if lower:
            victim = self.random.choice(lower)
            self.proposed[which].append(Placement(pod, victim.spec.node_name, (victim,), 0, str(which)))

    @rule(which=WHICH, count=st.integers(1, 3))
    def send(self, which: int, count: int) -> None:
        """Some proposals reach the binder."""
        sent, self.proposed[which] = self.proposed[which][:count], self.proposed[which][count:]
        outcomes = self.binder.bind(sent)
        assert [one.placement for one in outcomes] == sent
        self.update(which, outcomes)

    def update(self, which: int, outcomes: list[Outcome]) -> None:
        cache = self.schedulers[which].cache
        for one in outcomes:
            pod = one.placement.pod
            if one.is_bound:
                there = {held.metadata.uid: held.spec.node_name for held in self.pods(bound=True)}
                assert there[pod.metadata.uid] == one.placement.node
            elif cache.is_assumed_pod(pod):
                cache.forget_pod(cache.get_pod(pod))

    @rule(which=WHICH)
    def die(self, which: int) -> None:
        """A scheduler dies with its proposals, and another one takes its place."""
        self.proposed[which] = []
        self.schedulers[which] = self.make_scheduler(which)

    # ---- the binder

    @rule()
    def restart_binder(self) -> None:
        self.start_binder()

    @rule()
    def pump(self) -> None:
        self.binder.informers.run_once()

    @rule(seconds=st.sampled_from([1, 400, 1000]))
    def pass_time(self, seconds: int) -> None:
        """A watch that has lost the event of a binding lists again before the assumed pod expires."""
        if seconds >= POD_ASSUMED_TTL:
            self.list_all()
        self.clock.now += seconds
        self.binder.cache.clean(self.clock.now)
        self.binder.resume()

    @rule()
    def list_again(self) -> None:
        """Everybody lists: what the binder has is what the store says, and nothing else."""
        self.list_all()
        self.binder.resume()  # binds pods whose victims are gone; watches may lose these bindings
        self.list_all()
        dump = self.binder.cache.dump()
        held = {pod.metadata.uid: pod.spec.node_name for info in dump.nodes.values() for pod in info.pods}
        assert held == {pod.metadata.uid: pod.spec.node_name for pod in self.pods(bound=True)}
        assert not dump.assumed_pods
        used = self.binder.cache.state.table.requested["cpu"]
        for row, name in enumerate(self.binder.cache.state.table.names):
            asked = sum(cpu_of(pod) for pod in self.pods(bound=True) if pod.spec.node_name == name)
            assert used[row] == 1000 * asked

    def list_all(self) -> None:
        for client in self.clients:
            client.expire()
        self.binder.informers.run_once()

    @invariant()
    def no_node_has_more_than_it_can_take(self) -> None:
        if not hasattr(self, "store"):
            return
        used: dict[str, int] = {}
        for pod in self.pods(bound=True):
            used[pod.spec.node_name] = used.get(pod.spec.node_name, 0) + cpu_of(pod)
        assert all(cpu <= CPU for cpu in used.values()), used


def cpu_of(pod: Any) -> int:
    return int(pod.spec.containers[0].resources.requests["cpu"])


TestBinderMachine = BinderMachine.TestCase
TestBinderMachine.settings = settings(
    deadline=None, max_examples=60, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow]
)
