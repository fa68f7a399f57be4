"""Groups, whatever is created, deleted, gated or tried: all or nothing, and no pod is lost; what is derived
is what would be recomputed, and what is undone leaves no trace in later decisions."""

from __future__ import annotations

import math
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from tests.doors.engine import schedule_pods
from tests.framework.make import make
from tests.make import in_tree, node
from tests.queue.make import Clock
from tests.scheduler.groups.gang_kit import GATES, gang, member, on_nodes, ungated
from tests.scheduler.make import profile_with
from tests.scheduler.transactions.interrupts import check_usage

import moorage as mo
from moorage import Scheduler
from moorage.engine.scheduler import ScheduleResult
from moorage.errors import MoorageError
from moorage.kube import AllDisruptionMode, DisruptionMode, Node, Pod, PodGroup, PodSchedulingGate, group_of
from moorage.store import ObjectStore

GROUPS = {"g": 3, "h": 2, "b": 0}
URGENT = {"h": 5}
"""Priority of groups, and of their pods."""
CPU = {"g": 2, "h": 3, "b": 1, "": 2}
NAMES = st.sampled_from(list(CPU))
PICK = st.integers(0, 20)
MOST = 14
FINISHED = ("Succeeded", "Failed")
WHOLE = DisruptionMode(all=AllDisruptionMode())


class GangMachine(RuleBasedStateMachine):
    @initialize(
        python=st.booleans(),
        cpus=st.lists(st.integers(2, 7), max_size=3),
        there=st.sets(st.sampled_from(list(GROUPS))),
    )
    def begin(self, python: bool, cpus: list[int], there: set[str]) -> None:
        self.store, self.clock = ObjectStore(), Clock()
        plugins = (make(mo.ReservePlugin, "R", reserve=None, unreserve=None),) if python else ()
        profile = profile_with(*plugins, in_tree("GangScheduling")())
        self.scheduler = Scheduler(self.store, clock=self.clock, profile=profile, feature_gates=GATES)
        self.names = 0
        self.result: ScheduleResult | None = None
        for name, cpu in zip("abc", cpus, strict=False):
            self.write_node(name, cpu)
        for name in there:
            self.create_group(name)

    # ---- others write

    @rule(group=NAMES, count=st.integers(1, 4), priority=st.sampled_from([0, 0, 5]), gated=st.integers(0, 4))
    def create(self, group: str, count: int, priority: int, gated: int) -> None:
        """Some pods of a group, or of none; the one with the number `gated` is."""
        if len(self.store.list(Pod)[0]) >= MOST:
            return
        for number in range(count):
            self.names += 1
            gates = (PodSchedulingGate("wait"),) if number == gated else ()
            self.store.create(
                member(
                    f"p{self.names}",
                    group,
                    CPU[group],
                    priority=URGENT.get(group, 0) if group else priority,
                    scheduling_gates=gates,
                )
            )

    @rule(name=st.sampled_from(list(GROUPS)), whole=st.booleans())
    def create_group(self, name: str, whole: bool = False) -> None:
        """A group, whose pods may only be evicted together."""
        if name not in {one.name for one in self.store.list(PodGroup)[0]}:
            mode = {"disruption_mode": WHOLE} if whole else {}
            self.store.create(gang(name, GROUPS[name], priority=URGENT.get(name, 0), **mode))

    @rule(name=st.sampled_from(list(GROUPS)))
    def delete_group(self, name: str) -> None:
        if name in {one.name for one in self.store.list(PodGroup)[0]}:
            self.store.delete(PodGroup, name, "default")

    @rule(name=st.sampled_from(["g", "h"]), minimum=st.integers(1, 4))
    def resize(self, name: str, minimum: int) -> None:
        """Grow or shrink a group."""
        if name in {one.name for one in self.store.list(PodGroup)[0]}:
            self.store.update(gang(name, minimum, priority=URGENT.get(name, 0)))

    @rule(pick=PICK)
    def delete(self, pick: int) -> None:
        there = self.store.list(Pod)[0]
        if there:
            self.store.delete(Pod, there[pick % len(there)].name, "default")

    @rule(pick=PICK)
    def ungate(self, pick: int) -> None:
        there = [one for one in self.store.list(Pod)[0] if one.spec.scheduling_gates]
        if there:
            self.store.update(ungated(there[pick % len(there)]))

    @rule(name=st.sampled_from("abc"), cpu=st.integers(2, 7))
    def write_node(self, name: str, cpu: int) -> None:
        known = {one.name for one in self.store.list(Node)[0]}
        one = node(name, cpu=cpu, pods=100)
        (self.store.update if name in known else self.store.create)(one)

    # ---- the scheduler

    @rule()
    def sync(self) -> None:
        self.scheduler.sync()

    @rule(milliseconds=st.sampled_from([999, 31_000, 330_000]))
    def time_passes(self, milliseconds: int) -> None:
        self.clock.milliseconds += milliseconds
        self.scheduler.queue.run_periodic(self.clock())
        self.scheduler.advance()

    @rule(pick=PICK)
    def schedule_one(self, pick: int) -> None:
        """Somebody asks for a pod; it may wait for others."""
        self.scheduler.sync()
        there = [one for one in self.store.list(Pod)[0] if not self.is_away(one)]
        if there:
            one = there[pick % len(there)]
            decision = schedule_pods.schedule_one(self.scheduler.context, one)
            if (
                decision.node is not None
                and not decision.waiting
                and not on_nodes(self.scheduler).get(one.name)
            ):
                self.store.bind(one, decision.node)  # where the core alone decides, others bind
            self.scheduler.advance()
            self.scheduler.sync()

    def is_away(self, one: Pod) -> bool:
        return bool(
            one.spec.node_name or one.spec.scheduling_gates or self.scheduler.cache.state.has_pod(one)
        )

    @rule()
    def run_all(self) -> None:
        before = on_nodes(self.scheduler)
        groups = {one.key: group_of(one) for one in self.store.list(Pod)[0]}
        self.result = result = self.scheduler.run()
        evicted = Counter[Any](groups[key] for key in result.evicted)
        waiting = self.scheduler.bindings.waiting
        new = on_nodes(self.scheduler).keys() - before.keys()
        assert {key.removeprefix("default/") for key in result.placements} <= new
        scheduled, fresh = Counter[Any](), Counter[Any]()
        for one in self.store.list(Pod)[0]:
            if one.spec.node_name:
                scheduled[group_of(one)] += 1
                fresh[group_of(one)] += one.name in new
        for name, minimum in self.minimums().items():
            key = ("default", name)
            is_partial = fresh[key] and scheduled[key] + evicted[key] < minimum
            assert not is_partial, f"a part of {name}"
        self.check_nobody_was_forgotten(scheduled, len(waiting))
        assert {info.pod.metadata.uid for info in self.scheduler.queue.in_flight()} <= waiting.keys()

    @rule(pick=PICK)
    def run_in_thought(self, pick: int) -> None:
        """In a transaction that is undone, or in a fork: each decides like the other, and nothing stays."""
        self.scheduler.sync()
        before, waiting = on_nodes(self.scheduler), self.where()
        fork = self.scheduler.fork()
        with self.scheduler.transaction():
            placements = dict(self.scheduler.run().placements)
        assert (on_nodes(self.scheduler), self.where()) == (before, waiting)
        assert dict(fork.run().placements) == placements
        assert (on_nodes(self.scheduler), self.where()) == (before, waiting)

    @rule(
        group=st.sampled_from(list(GROUPS)),
        count=st.integers(1, 4),
        minimum=st.integers(1, 4),
        pick=PICK,
        runs=st.booleans(),
    )
    def change_in_thought(self, group: str, count: int, minimum: int, pick: int, runs: bool) -> None:
        """Groups come, grow, shrink and go in a transaction that is undone: a run decides as if it had not
        been."""
        self.scheduler.sync()
        before, fork = (on_nodes(self.scheduler), self.where()), self.scheduler.fork()
        with self.scheduler.transaction():
            self.create_group(group, whole=runs)
            self.create(group, count, 0, 4)
            if runs:
                self.scheduler.run()
            self.delete(pick)
            self.resize("g", minimum)
            self.scheduler.run()
            self.delete_group(group)
            self.scheduler.sync()
        assert (on_nodes(self.scheduler), self.where()) == before
        self.decide_as(fork)

    @rule(pick=PICK, size=st.integers(1, 3), group=NAMES)
    def ask(self, pick: int, size: int, group: str) -> None:
        """Questions leave no trace."""
        self.scheduler.sync()
        before, fork = (on_nodes(self.scheduler), self.where()), self.scheduler.fork()
        there = self.store.list(Pod)[0]
        if there:
            self.scheduler.ask.explain(there[pick % len(there)].key)
        with suppress(MoorageError):  # pods are being bound
            self.scheduler.ask.capacity(member("asked", group, CPU[group]), gang=size)
        alone = [one for one in there if not self.is_away(one) and group_of(one) is None]
        if alone:
            with suppress(MoorageError):  # the pod is in flight, or waits
                self.scheduler.preempt_pods([alone[pick % len(alone)]]).undo()
        assert (on_nodes(self.scheduler), self.where()) == before
        self.decide_as(fork)

    def decide_as(self, fork: Scheduler) -> None:
        """The next run decides as that of a scheduler that was equal before."""
        expected = fork.run()
        self.run_all()
        assert self.result is not None
        assert dict(self.result.placements) == dict(expected.placements)
        assert self.result.evicted == expected.evicted
        failed = [
            {key: one.message for key, one in each.unschedulable.items()} for each in (self.result, expected)
        ]
        assert failed[0] == failed[1]

    def where(self) -> list[list[str]]:
        """The names of the pods that wait, by place."""
        return [[info.pod.name for info in infos] for infos in self.scheduler.queue.pending_pods()]

    def minimums(self) -> dict[str, int]:
        return {one.name: one.min_count for one in self.store.list(PodGroup)[0]}

    def check_nobody_was_forgotten(self, scheduled: Counter[Any], waiting: int) -> None:
        """Groups that are there have no place: pods of one group are equal, so counting says so."""
        free = self.free()
        left = [one for one in self.store.list(Pod)[0] if not self.is_away(one)]
        if waiting or self.scheduler.handle.nominator:
            return  # pods that wait on Permit, or for victims, hold what not everybody else can have
        for name, cpu in CPU.items():
            key = ("default", name) if name else None
            mine = [one for one in left if group_of(one) == key]
            room = sum(amount // cpu for amount in free.values())
            minimum = self.minimums().get(name)
            if not mine or (name and minimum is None):
                continue
            there = [one for one in self.store.list(Pod)[0] if group_of(one) == key]
            is_gated = any(one.spec.scheduling_gates and not one.spec.node_name for one in there)
            if name and (is_gated or len(there) < (minimum or 0)):
                continue
            needed = max(1, (minimum or 0) - scheduled[key]) if name else 1
            assert min(room, len(mine)) < needed, f"{name or 'a pod'}: {room} fit, {needed} are needed"

    def free(self) -> dict[str, int]:
        free = {one.name: int(one.status.allocatable["cpu"]) for one in self.store.list(Node)[0]}
        for one in self.store.list(Pod)[0]:
            if one.spec.node_name:
                free[one.spec.node_name] -= int(one.spec.containers[0].resources.requests["cpu"])
        return free

    # ---- what holds after each

    @invariant()
    def every_pod_that_waits_is_somewhere_once(self) -> None:
        queue, cache = self.scheduler.queue, self.scheduler.cache.state
        listed = [info.pod.metadata.uid for infos in queue.pending_pods() for info in infos]
        assert len(listed) == len(set(listed)) == len(queue)
        heard = self.scheduler.informers.informer(Pod).indexer.values()
        lost = {one.metadata.uid for one in heard if not one.spec.node_name and not cache.has_pod(one)} - set(
            listed
        )
        assert not lost

    @invariant()
    def what_is_derived_of_groups_is_what_would_be_recomputed(self) -> None:
        groups, cache = self.scheduler.groups, self.scheduler.cache.state
        informers = self.scheduler.informers
        known = {one.unit: one for one in informers.informer(PodGroup).indexer.values()}
        heard = [one for one in informers.informer(Pod).indexer.values() if one.status.phase not in FINISHED]
        whole = {unit: one for unit, one in known.items() if one.spec.disruption_mode is not None}
        priorities = {unit: one.spec.priority or 0 for unit, one in known.items()}
        assert groups.whole == {unit: priorities[unit] for unit in whole}
        assert dict(groups.evicted_with) == {unit: unit for unit in whole}
        assert groups.lowest_priority == min(priorities.values(), default=math.inf)
        for name in GROUPS:
            unit = "default", name
            of_group = [one for one in heard if group_of(one) == unit]
            on = {one.name for one in of_group if cache.has_pod(one)}
            assert groups.size(unit) == len(of_group)
            assert groups.priority_of(unit) == priorities.get(unit)
            assert groups.root(unit) == (unit if unit in known else None)
            if unit in known:
                assert groups.is_complete(unit) == (len(of_group) >= max(1, known[unit].min_count))
            assert {one.name for one in groups.scheduled(unit)[0]} == on
            pending = {one.name for one in of_group} - on
            assert {one.name for one in groups.pending(unit)} == pending

    @invariant()
    def rows_have_what_their_pods_request(self) -> None:
        check_usage(self.scheduler)

    @invariant()
    def units_are_those_of_the_queue(self) -> None:
        queue = self.scheduler.queue
        expected: dict[Any, set[str]] = {}
        for infos in queue.pending_pods():
            for info in infos:
                if (unit := group_of(info.pod)) is not None:
                    expected.setdefault(unit, set()).add(info.pod.metadata.uid)
        assert {unit: set(group.members) for unit, group in queue.groups.items()} == expected


TestGangMachine = GangMachine.TestCase
TestGangMachine.settings = settings(
    deadline=None,
    max_examples=60,
    stateful_step_count=30,
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.mark.slow
def test_the_machine_holds_for_many_steps() -> None:
    many = settings(TestGangMachine.settings, max_examples=1000, stateful_step_count=100)
    run_state_machine_as_test(GangMachine, settings=many)  # type: ignore[no-untyped-call]


# ---- found by the machine ----------------------------------------------------------------------------------


def with_waiting_pod(cpus: list[int]) -> GangMachine:
    """The pod p1 of the group g waits on Permit; it was not popped from the queue."""
    one = GangMachine()
    one.begin(python=False, cpus=cpus, there={"g"})
    one.create(group="g", count=1, priority=0, gated=4)
    one.schedule_one(pick=0)
    assert list(one.scheduler.bindings.waiting) == ["p1"]
    return one


def test_the_room_of_a_deleted_waiting_pod_is_used_in_the_next_run() -> None:
    one = with_waiting_pod([2])
    one.delete(pick=0)
    one.create(group="", count=1, priority=0, gated=4)
    one.run_all()
    assert on_nodes(one.scheduler) == {"p2": "a"}


def test_a_group_that_failed_beside_a_deleted_waiting_pod_is_tried_again() -> None:
    one = with_waiting_pod([2, 4])
    one.delete(pick=0)
    one.create(group="g", count=3, priority=0, gated=4)
    one.run_all()
    assert sorted(on_nodes(one.scheduler)) == ["p2", "p3", "p4"]


def test_a_waiting_pod_that_was_popped_with_its_group_returns_to_it() -> None:
    """It is evicted after the attempt of the others has ended, and they have lost their group."""
    one = with_waiting_pod([2])
    one.create(group="g", count=2, priority=0, gated=4)
    one.run_all()
    assert [info.pod.name for info in one.scheduler.queue.in_flight()] == ["p1"]
    one.delete_group(name="g")
    one.create(group="", count=1, priority=5, gated=4)
    one.run_all()
    one.every_pod_that_waits_is_somewhere_once()
    assert one.scheduler.queue.groups["default", "g"].members.keys() == {"p1", "p2", "p3"}
