"""Random steps on a scheduler, in transactions that nest, beside a twin that sees only what is committed."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress

import pytest
from msgspec.structs import replace
from tests.controllers.workloads.make import daemons, replicas
from tests.doors.engine import schedule_pods
from tests.make import node, pod
from tests.plugins.volume_binding_kit import LATE, MADE, disk, waiting
from tests.preemption.world import budget
from tests.scheduler.groups.gang_kit import GATES, gang
from tests.scheduler.transactions.interrupts import check_usage
from tests.scheduler.transactions.test_transaction_volumes import AT_ONCE, with_volumes
from tests.volume.make import uses

import moorage as mo
from moorage import Scheduler
from moorage.kube import (
    Node,
    Object,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    PodSchedulingGroup,
    StorageClass,
)
from moorage.store import ApiError

Step = Callable[[Scheduler], object]
PODS = [f"p{number}" for number in range(12)]
NODES = list("abc")
CLAIMS = ["c0", "c1", "c2", "c3"]
DISKS = ["v0", "v1", "v2"]
GROUPS = list("gh")


def tried(step: Step) -> Step:
    """A step that the store or the cache may refuse."""

    def work(one: Scheduler) -> None:
        with suppress(ApiError, mo.MoorageError):
            step(one)

    return work


def pending(one: Scheduler) -> list[Pod]:
    """The pods without a node that are not assumed."""
    pods: list[Pod] = one.client.list(Pod)[0]
    return [each for each in pods if not each.spec.node_name and not one.cache.state.has_pod(each)]


def make_pod(rng: random.Random) -> Pod:
    labels = {"app": rng.choice("xy")}
    return pod(
        rng.choice(PODS),
        requests={"cpu": rng.choice(["1", "2", "1500m"])},
        labels=labels,
        priority=rng.choice([0, 0, 5, 10]),
        scheduler_name=rng.choice(["", "", "", "", "other"]),
        volumes=tuple(uses(claim=name) for name in rng.sample(CLAIMS, rng.choice([0, 0, 1, 2]))),
        scheduling_group=rng.choice([None, None, None, PodSchedulingGroup(rng.choice(GROUPS))]),
    )


def make_other(rng: random.Random) -> Object:
    """A claim, a disk, a group, a storage class or a budget."""
    kinds = [
        waiting(rng.choice(CLAIMS), rng.choice(["late", "made", "at-once"]), rng.choice(["1Gi", "20Gi"])),
        disk(rng.choice(DISKS), on=rng.choice(["z0", "z1"]), size=rng.choice(["10Gi", "30Gi"])),
        gang(rng.choice(GROUPS), rng.choice([0, 1, 2, 3])),
        rng.choice([LATE, MADE, AT_ONCE]),
        budget(rng.choice([0, 1]), {"app": rng.choice("xy")}, name="pdb"),
    ]
    return rng.choice(kinds)


def update_pod(one: Scheduler, name: str, app: str) -> None:
    held = one.client.get(Pod, name, "default")
    one.client.update(replace(held, metadata=replace(held.metadata, labels={"app": app})))


def update_node(one: Scheduler, name: str, cpu: str) -> None:
    held = one.client.get(Node, name)
    one.client.update(replace(held, status=node(name, cpu=cpu).status))


def forget_assumed(one: Scheduler, on_permit: bool = False) -> None:
    """Take back what is assumed, pods that wait on Permit only where asked to."""
    for each in one.cache.state.pods():
        if on_permit or one.handle.get_waiting_pod(each.metadata.uid) is None:
            one.context.take_back([each])


def schedule_and_forget(one: Scheduler) -> None:
    one.schedule_pods(pending(one))
    forget_assumed(one)


def schedule_one(one: Scheduler, at: int) -> None:
    pods = pending(one)
    if pods:
        schedule_pods.schedule_one(one.context, pods[at % len(pods)])
        forget_assumed(one)


def schedule_workload(one: Scheduler, name: str) -> None:
    one.schedule_workload(one.client.get(PodGroup, name, "default"))
    forget_assumed(one)


def schedule_template(one: Scheduler, template: Pod, pods: int) -> None:
    one.schedule_by_template(template, pods)
    forget_assumed(one)


def preempt(one: Scheduler, commits: bool) -> None:
    """Pods with volumes are refused."""
    outcome = one.preempt_pods([each for each in pending(one) if not each.spec.volumes])
    if commits:
        outcome.commit()
        forget_assumed(one)
    else:
        outcome.undo()


def draw(rng: random.Random) -> Step:
    """A step with all that it needs to know."""
    made, name, at = make_pod(rng), rng.choice(PODS), rng.randrange(12)
    a_node, cpu, app = rng.choice(NODES), rng.choice(["2", "3"]), rng.choice("xyz")
    commits, other = rng.random() < 0.5, make_other(rng)
    claim, volume, group = rng.choice(CLAIMS), rng.choice(DISKS), rng.choice(GROUPS)
    storage_class = rng.choice(["made", "at-once"])
    web = replicas("Deployment", "web", rng.choice([1, 3]), cpu, minReadySeconds=rng.choice([0, 30]))
    steps: list[Step] = [
        lambda one: one.client.create(made),
        lambda one: one.client.create(made),
        lambda one: one.client.create(node(a_node, cpu=cpu, zone=app)),
        lambda one: one.client.delete(Pod, name, "default"),
        lambda one: one.client.delete(Node, a_node),
        lambda one: update_pod(one, name, app),
        lambda one: update_node(one, a_node, cpu),
        lambda one: one.sync(),
        lambda one: one.run(),
        lambda one: one.run(),
        lambda one: one.advance(),
        lambda one: forget_assumed(one, on_permit=True),
        schedule_and_forget,
        lambda one: schedule_one(one, at),
        lambda one: preempt(one, commits),
        lambda one: one.cache.fork().state.pods(),
        lambda one: one.client.create(other),
        lambda one: one.client.create(other),
        lambda one: one.client.delete(PersistentVolumeClaim, claim, "default"),
        lambda one: one.client.delete(PersistentVolume, volume),
        lambda one: one.client.delete(PodGroup, group, "default"),
        lambda one: one.client.delete(StorageClass, storage_class),
        lambda one: one.client.delete(PodDisruptionBudget, "pdb", "default"),
        lambda one: schedule_workload(one, group),
        lambda one: schedule_template(one, made, at),
        lambda one: one.ask.explain(one.client.get(Pod, name, "default")),
        lambda one: one.change.apply(web),
        lambda one: one.change.apply(daemons("log")),
        lambda one: one.change.scale("deploy/web", at % 4),
        lambda one: one.change.drain(a_node),
        lambda one: one.change.remove_nodes(a_node),
        lambda one: one.change.add_nodes(1, a_node, zone="z0"),
        lambda one: one.change.taint(a_node, "k:NoExecute" if commits else "k-"),
        lambda one: one.change.delete("deploy/web"),
        lambda one: one.ask.rollouts(),
    ]
    return tried(rng.choice(steps))


class Machine:
    """A scheduler, and its twin."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        tie_break = self.rng.choice(["go-heap", "first", "random"])
        self.gates = self.rng.choice([{}, GATES])
        self.one, self.twin = (self._make(tie_break, seed) for _ in range(2))
        self.steps = 0

    def _make(self, tie_break: str, seed: int) -> Scheduler:
        nodes = [node(name, cpu="3", zone=f"z{at % 2}") for at, name in enumerate(NODES)]
        cluster = mo.Cluster(nodes=nodes, others=[LATE, MADE, AT_ONCE])
        return Scheduler(cluster, tie_break=tie_break, seed=seed, feature_gates=self.gates)

    def go(self, steps: int) -> None:
        while self.steps < steps:
            if self.rng.random() < 0.5:
                for step in self.transaction(depth=1):
                    step(self.twin)
            else:
                self._step()(self.twin)
            check_usage(self.one)
            assert with_volumes(self.one) == with_volumes(self.twin)

    def _step(self) -> Step:
        self.steps += 1
        step = draw(self.rng)
        step(self.one)
        return step

    def transaction(self, depth: int) -> list[Step]:
        """The steps of a transaction that are to stay."""
        done: list[Step] = []
        with self.one.transaction() as transaction:
            for _ in range(self.rng.randrange(1, 6)):
                if depth < 3 and self.rng.random() < 0.3:
                    done += self.transaction(depth + 1)
                else:
                    done.append(self._step())
            if self.rng.random() < 0.4:
                transaction.commit()
        return done if transaction.committed else []


@pytest.mark.parametrize("seed", range(6))
def test_what_is_undone_leaves_no_trace(seed: int) -> None:
    Machine(seed).go(150)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 200))
def test_what_is_undone_leaves_no_trace_in_many_steps(seed: int) -> None:
    Machine(seed).go(1000)
