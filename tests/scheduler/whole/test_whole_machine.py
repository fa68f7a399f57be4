"""Store, cache, queue and scheduler together, against twins that are recomputed or searched from end to end.

Whatever is written, heard of late, tried, refused or evicted: no pod is lost, and none is queued twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace
from tests.doors.engine import Loop, schedule_pods
from tests.framework.make import make
from tests.make import node, pod
from tests.queue.make import Clock
from tests.queue.twin import assert_same_places
from tests.scheduler.cycle.plain_filter import host_ports, refusal
from tests.scheduler.make import profile_with
from tests.scheduler.whole.whole_twin import FINISHED, OURS, Followed
from tests.scheduler.whole.whole_world import (
    APPS,
    KINDS,
    MOST,
    NODE_NAMES,
    NODES,
    PDB,
    PICK,
    PODS,
    TOLD,
    Stored,
)

import moorage as mo
from moorage.engine.queue import QueuedPodInfo
from moorage.kube import (
    LabelSelector,
    Node,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    Taint,
)
from moorage.store import ApiError, ObjectStore


class WholeMachine(RuleBasedStateMachine):
    @initialize(python=st.booleans(), nodes=st.lists(NODES, max_size=3), pods=st.lists(PODS, max_size=6))
    def begin(self, python: bool, nodes: list[Any], pods: list[Any]) -> None:
        """With a plugin in Python a cycle ends with the binding; else that is a step of its own."""
        self.store, self.clock, self.binds = ObjectStore(), Clock(), python
        plugins = (make(mo.ReservePlugin, "R", reserve=None, unreserve=None),) if python else ()
        self.scheduler = Followed(self.store, self.clock, profile=profile_with(*plugins))
        self.scheduler.handle.on_eviction.append(self.evicted)
        self.twin, self.queue = self.scheduler.followed, self.scheduler.queue
        self.stored: dict[str, Stored] = {}
        self.names = 0
        self.popped: dict[str, QueuedPodInfo] = {}
        self.placed: dict[str, tuple[Any, str]] = {}
        self.victims: dict[str, str] = {}
        for name, made in zip("abc", nodes, strict=False):
            self.write_node(name, made, False)
        for made in pods:
            self.create(made, False)
        self.scheduler.sync()

    def told(self, told: bool) -> None:
        if told:
            self.scheduler.sync()

    def choose(self, pick: int, **wanted: Any) -> str:
        """The name of some stored pod with these properties; "" where there is none."""
        found = [n for n, o in self.stored.items() if all(getattr(o, k) == v for k, v in wanted.items())]
        return found[pick % len(found)] if found else ""

    def get(self, name: str) -> Pod:
        return self.store.get(Pod, name, "default")

    # ---- others write --------------------------------------------------------------------------------------

    @rule(made=PODS, told=TOLD)
    def create(self, made: dict[str, Any], told: bool) -> None:
        if len(self.stored) >= MOST:
            return
        self.names += 1
        one = pod(
            f"p{self.names}",
            on="" if made["kind"] in ("gated", "port") else made["on"],
            labels={"app": made["app"]},
            requests={"cpu": made["cpu"], "memory": f"{made['cpu'] // 2}Gi"},
            priority=made["priority"],
            **KINDS[made["kind"]],
        )
        meta = replace(one.metadata, uid="", finalizers=("f/keep",) if made["kept"] else ())
        stored = self.store.create(replace(one, metadata=meta))
        self.stored[one.name] = Stored.of(stored)
        self.told(told)

    @rule(pick=PICK, told=TOLD)
    def delete(self, pick: int, told: bool) -> None:
        if name := self.choose(pick):
            self.store.delete(Pod, name, "default")
            self.ends(name)
            self.told(told)

    def ends(self, name: str) -> None:
        self.stored[name].is_ending = True
        if not self.stored[name].kept:
            del self.stored[name]

    @rule(pick=PICK, ending=st.sampled_from([True, True, False]), told=TOLD)
    def let_go(self, pick: int, ending: bool, told: bool) -> None:
        if name := self.choose(pick, kept=True, is_ending=ending):
            self.store.patch(Pod, name, "default", {"metadata": {"finalizers": None}})
            self.stored[name].kept = False
            if ending:
                del self.stored[name]
            self.told(told)

    @rule(pick=PICK, app=APPS, told=TOLD)
    def label(self, pick: int, app: str, told: bool) -> None:
        if name := self.choose(pick):
            self.store.patch(Pod, name, "default", {"metadata": {"labels": {"app": app}}})
            self.stored[name].app = app
            self.told(told)

    @rule(pick=PICK, told=TOLD)
    def ungate(self, pick: int, told: bool) -> None:
        if name := self.choose(pick, gated=True):
            self.store.patch(Pod, name, "default", {"spec": {"schedulingGates": None}})
            self.stored[name].gated = False
            self.told(told)

    @rule(pick=PICK, told=TOLD)
    def scale_down(self, pick: int, told: bool) -> None:
        name = self.choose(pick)
        if not name or not self.stored[name].cpu:
            return
        held = self.get(name)
        self.stored[name].cpu -= 1
        requests = {"cpu": self.stored[name].cpu}
        containers = pod(name, requests=requests | {"memory": "0Gi"}).spec.containers
        containers = (replace(containers[0], ports=held.spec.containers[0].ports),)
        self.store.update(replace(held, spec=replace(held.spec, containers=containers)))
        self.told(told)

    @rule(pick=PICK, told=TOLD)
    def finish(self, pick: int, told: bool) -> None:
        name = self.choose(pick, is_finished=False)
        if name and self.stored[name].on:
            self.store.patch(Pod, name, "default", {"status": {"phase": "Succeeded"}}, subresource="status")
            self.stored[name].is_finished = True
            self.told(told)

    @rule(pick=PICK, on=NODE_NAMES, told=TOLD)
    def bound_by_others(self, pick: int, on: str, told: bool) -> None:
        """But not pods with host ports: a node does not count how many pods have one."""
        name = self.choose(pick, on="", gated=False, is_ending=False, is_finished=False)
        if name and not host_ports(held := self.get(name)):
            self.store.bind(held, on)
            self.stored[name].on = on
            self.told(told)

    @rule(name=NODE_NAMES, made=NODES, told=TOLD)
    def write_node(self, name: str, made: dict[str, Any], told: bool) -> None:
        one = node(
            name,
            zone=made["zone"],
            taints=(Taint(key="taint", effect="NoSchedule"),) if made["tainted"] else (),
            unschedulable=made["unschedulable"],
            cpu=made["cpu"],
            pods=made["pods"],
        )
        known = [each.name for each in self.store.list(Node)[0]]
        (self.store.update if name in known else self.store.create)(one)
        self.told(told)

    @rule(name=NODE_NAMES, told=TOLD)
    def delete_node(self, name: str, told: bool) -> None:
        if name in [each.name for each in self.store.list(Node)[0]]:
            self.store.delete(Node, name)
            self.told(told)

    @rule(allowed=st.integers(0, 1), app=APPS, told=TOLD)
    def write_budget(self, allowed: int, app: str, told: bool) -> None:
        one = PodDisruptionBudget(
            metadata=ObjectMeta(name=PDB, namespace="default"),
            spec=PodDisruptionBudgetSpec(selector=LabelSelector({"app": app})),
            status=PodDisruptionBudgetStatus(disruptions_allowed=allowed),
        )
        known = self.store.list(PodDisruptionBudget)[0]
        (self.store.update if known else self.store.create)(one)
        self.told(told)

    # ---- what the scheduler hears, and time ----------------------------------------------------------------

    @rule()
    def sync(self) -> None:
        self.scheduler.sync()

    @rule(kind=st.sampled_from([Node, Pod]))
    def pump(self, kind: Any) -> None:
        """Nodes may be heard of before the pods that were written earlier, and the other way round."""
        self.scheduler.pump(kind)

    @rule(milliseconds=st.sampled_from([0, 999, 2_000, 31_000, 330_000]))
    def time_passes(self, milliseconds: int) -> None:
        since = self.clock.milliseconds
        self.clock.milliseconds += milliseconds
        self.scheduler.queue.run_periodic(self.clock())
        self.twin.queue.run_periodic(since, self.clock.milliseconds)

    @rule(pick=PICK)
    def activate(self, pick: int) -> None:
        if name := self.choose(pick):
            self.scheduler.queue.activate([self.get(name)])

    # ---- the scheduler tries pods --------------------------------------------------------------------------

    @rule()
    def pop(self) -> None:
        for info in self.queue.pop():
            self.popped[info.pod.metadata.uid] = info

    @rule(pick=PICK)
    def put_back(self, pick: int) -> None:
        infos = self.popped.values()
        there = [info for info in infos if self.twin.pods.get(info.pod.key) is info.pod]
        if there:
            self.queue.put_back([self.popped.pop(there[pick % len(there)].pod.metadata.uid)])

    @rule(pick=PICK)
    def attempt(self, pick: int) -> None:
        if self.popped:
            self.attempt_to_place(self.popped.pop(list(self.popped)[pick % len(self.popped)]))

    @rule(count=st.integers(1, 6))
    def attempts_in_a_row(self, count: int) -> None:
        for _ in range(count):
            for info in self.queue.pop():
                self.attempt_to_place(info)

    def attempt_to_place(self, info: QueuedPodInfo) -> None:
        """As a run does it."""
        one = info.pod
        there = [each for each in self.store.list(Pod)[0] if not each.metadata.deletion_timestamp]
        is_gone = one.metadata.uid not in [each.metadata.uid for each in there]
        if one.metadata.deletion_timestamp or self.scheduler.cache.state.has_pod(one):
            self.queue.done([info])
            return
        if is_gone and self.binds:  # nobody could bind it: it waits until its deletion is heard of
            if self.scheduler.pods.current(one) is None:
                self.queue.done([info])
            else:
                self.queue.put_back([info])
            return
        decision = self.decide(one)
        if decision.node is None:
            failure = decision.failure
            latest = self.scheduler.pods.indexer.get(info.pod.key)
            self.queue.give_back([info], [latest], [failure.rejectors], [failure.nominating])
            return
        if self.binds:
            self.queue.done([info])
        else:  # in flight until it is bound
            self.placed[one.metadata.uid] = info, decision.node

    def decide(self, one: Pod) -> Any:
        """A cycle for one pod, and what the plain filter says of it."""
        nodes, on = dict(self.twin.nodes), self.twin.on()
        is_free = not self.scheduler.handle.nominator
        decision = schedule_pods.schedule_one(self.scheduler.context, one)
        if decision.node is not None:
            assert refusal(one, nodes[decision.node], on, nodes) == ""
            if self.binds:
                self.stored[one.name].on = decision.node
                self.scheduler.sync()
            else:
                self.twin.assume(one, decision.node)
        elif decision.diagnosis is not None and is_free and not one.spec.topology_spread_constraints:
            fitting = [name for name, at in nodes.items() if not refusal(one, at, on, nodes)]
            assert not fitting, f"{one.key} fits {fitting}: {decision.diagnosis.message()}"
        return decision

    @rule(pick=PICK, told=TOLD)
    def bind(self, pick: int, told: bool) -> None:
        if not self.placed:
            return
        uid = list(self.placed)[pick % len(self.placed)]
        info, on = self.placed.pop(uid)
        if uid in self.twin.assumed:
            self.bind_one(info, on)
        else:
            self.queue.done([info])
        self.told(told)

    def bind_one(self, info: Any, on: str) -> None:
        one = info.pod
        try:
            self.store.bind(one, on)
        except ApiError as error:
            Loop(self.scheduler.context).refuse(info, error)
            self.twin.freed(self.twin.assumed.pop(one.metadata.uid))
        else:
            self.stored[one.name].on = on
            self.queue.done([info])

    @rule(pick=PICK)
    def schedule_one(self, pick: int) -> None:
        """Somebody asks for a pod that waits."""
        queued = [info.pod for infos in self.scheduler.queue.pending_pods()[:4] for info in infos]
        there = [one for one in queued if one.metadata.uid not in self.twin.assumed]
        self.scheduler.sync()
        there = [one for one in there if self.twin.pods.get(one.key) is one]
        there = [one for one in there if one.metadata.deletion_timestamp is None]  # nobody could bind those
        if there:
            one = there[pick % len(there)]
            decision = self.decide(one)
            if decision.node is not None and not self.binds:
                self.store.bind(one, decision.node)
                self.stored[one.name].on = decision.node
                self.scheduler.sync()

    @rule()
    def run_all(self) -> None:
        before = len(self.victims)
        result = self.scheduler.run()
        for key, on in result.placements.items():
            self.stored[key.removeprefix("default/")].on = on
        on, nodes, is_over = self.twin.on(), self.twin.nodes, len(self.victims) > before
        for key, name in result.placements.items():
            one = self.get(key.removeprefix("default/"))
            why = refusal(one, nodes[name], on, nodes, is_over=True)
            assert why == "" or (is_over and why.startswith("anti"))
        in_flight = {info.pod.metadata.uid for info in self.scheduler.queue.in_flight()}
        assert in_flight == self.popped.keys() | self.placed.keys()

    def evicted(self, victims: Sequence[Pod], on: str, preemptor: Pod) -> None:
        assert preemptor.spec.preemption_policy != "Never"
        for victim in victims:
            assert (victim.spec.priority or 0) < (preemptor.spec.priority or 0)
            self.twin_of_victim(victim, victim.spec.node_name or on)

    def twin_of_victim(self, victim: Pod, on: str) -> None:
        held = self.stored.get(victim.name)
        if held is None or held.uid != victim.metadata.uid:
            del self.twin.assumed[victim.metadata.uid]  # nobody else knew it any more
            return
        self.victims[victim.metadata.uid] = victim.name
        ending = [one for one in self.store.list(Pod)[0] if one.metadata.uid == victim.metadata.uid]
        if self.binds or any(one.spec.node_name for one in ending):  # a run binds some before it evicts them
            held.on = on
        self.ends(victim.name)

    # ---- what holds after each -----------------------------------------------------------------------------

    @invariant()
    def the_store_is_as_it_must_be(self) -> None:
        there = self.store.list(Pod)[0]
        assert {one.name: Stored.of(one) for one in there} == self.stored

    @invariant()
    def victims_are_gone_or_go(self) -> None:
        for one in self.store.list(Pod)[0]:
            if one.metadata.uid in self.victims:
                assert one.metadata.deletion_timestamp is not None
                said = {each.type: (each.status, each.reason) for each in one.status.conditions}
                assert said["DisruptionTarget"] == ("True", "PreemptionByScheduler")

    @invariant()
    def the_queue_is_its_twin(self) -> None:
        assert_same_places(self.scheduler.queue, self.twin.queue)

    @invariant()
    def the_cache_is_what_was_heard(self) -> None:
        self.twin.check_cache(self.scheduler)

    @invariant()
    def every_pod_that_waits_is_somewhere_once(self) -> None:
        self.twin.check_once(self.scheduler)
        self.twin.check_nominations(self.scheduler)
        others = {one.key for one in self.twin.pods.values() if one.spec.scheduler_name not in OURS}
        assert self.scheduler.pods.others.keys() <= others
        ended = {
            one.key for one in self.twin.pods.values() if one.status.phase in FINISHED and one.spec.node_name
        }
        assert self.scheduler.pods.finished.keys() == ended


TestWholeMachine = WholeMachine.TestCase
TestWholeMachine.settings = settings(
    deadline=None, max_examples=60, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow]
)


def test_a_placed_pod_that_is_evicted_and_kept_is_in_flight_no_longer() -> None:
    """Its finalizer keeps it in the store, so it neither gets a node nor is deleted."""
    nodes = [{"cpu": 2, "pods": 3, "zone": "z1", "tainted": False, "unschedulable": False}] * 3
    kinds = [("never", "x", 9, 2), ("plain", "x", 0, 1), ("tolerant", "y", 0, 1), ("pinned", "y", 0, 2)]
    pods = [
        {"kind": kind, "app": app, "priority": priority, "cpu": cpu, "kept": kind == "tolerant", "on": ""}
        for kind, app, priority, cpu in [*kinds, ("not by y", "y", 9, 0)]
    ]
    pods[3]["on"] = "a"
    machine = WholeMachine()
    machine.begin(python=False, nodes=nodes, pods=pods)
    machine.run_all()
    assert machine.victims
    assert not machine.scheduler.queue.in_flight()
    machine.teardown()
