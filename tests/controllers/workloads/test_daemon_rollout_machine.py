"""Rollouts of DaemonSets look only at what has changed, and decide as if they looked at everything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from tests.controllers.workloads.make import machine, scheduler, template
from tests.controllers.workloads.slow_daemon_sets import SlowDaemonSets
from tests.doors.kube import DaemonRollout
from tests.objects.make import workload

import moorage as mo
from moorage import Scheduler
from moorage.kube import Node, Object, Pod, build_cluster
from moorage.store import NotFoundError

Step = Callable[[Scheduler], object]
STRATEGIES: list[dict[str, Any]] = [
    {},
    {"type": "OnDelete"},
    *[{"rollingUpdate": {"maxUnavailable": n}} for n in (2, "40%")],
    *[{"rollingUpdate": {"maxUnavailable": 0, "maxSurge": n}} for n in (1, "30%")],
]
KEEPS = {"tolerations": [{"key": "t", "operator": "Exists"}]}


def log(cpu: str, name: str = "log", strategy: int = 0, seconds: int = 0, **spec: Any) -> Object:
    update = {"type": "RollingUpdate"} | STRATEGIES[strategy]
    fields = {"updateStrategy": update, "minReadySeconds": seconds, "template": template(name, cpu, **spec)}
    return workload("DaemonSet", name, fields)


def slow(one: Scheduler) -> Scheduler:
    """Have a scheduler look at all nodes and pods in every round."""
    controllers = one.controllers
    assert controllers is not None
    fast = controllers.daemon_sets
    controllers.daemon_sets = SlowDaemonSets(fast._control, fast._nodes, fast._availability)
    return one


def state(one: Scheduler) -> object:
    pods: list[Pod] = one.client.list(Pod)[0]
    assert one.controllers is not None
    shown = [(p.name, p.metadata.uid, p.spec.node_name, p.metadata.labels, p.status.phase) for p in pods]
    return shown, one.controllers.availability.save(), one.controllers.control.deletions


def change_pod(name: str, change: Callable[[Pod], Pod | None]) -> Step:
    def step(one: Scheduler) -> None:
        try:
            found = change(one.client.get(Pod, name, "default"))
            if found is None:
                one.client.delete(Pod, name, "default")
            else:
                one.client.update(found)
        except NotFoundError:
            pass

    return step


def change_node(name: str, path: str, value: object) -> Step:
    def step(one: Scheduler) -> None:
        listed: list[Node] = one.client.list(Node)[0]
        for node in listed:
            if node.name == name:
                one.client.update(mo.edit(node, {path: value}))

    return step


class Machine:
    """A scheduler and its slow twin, which both do the same random steps."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        objects = [*map(machine, "abcdefg"), log("1"), log("500m", "net")]
        self.both = [mo.Scheduler(build_cluster(objects)), slow(mo.Scheduler(build_cluster(objects)))]
        self.added = 0

    def draw(self) -> Step:
        rng = self.rng
        name = rng.choice("abcdefg")
        pods: list[Pod] = self.both[0].client.list(Pod)[0]
        pod = rng.choice(pods).name if pods else ""
        ready = [{"type": "Ready", "status": rng.choice(("True", "False"))}]
        taints = rng.choice([(), ({"key": "t", "effect": rng.choice(("NoSchedule", "NoExecute"))},)])
        wanted = log(
            rng.choice(("1", "1500m", "3", "5", "5", "5")), rng.choice(("log", "net")),
            rng.randrange(len(STRATEGIES)), rng.choice((0, 0, 10)),
            **rng.choice(({}, {}, {}, KEEPS, {"nodeSelector": {"pool": "x"}})),
        )  # fmt: skip
        alone = {"metadata.ownerReferences": [], "metadata.labels": {}}
        self.added += 1
        fresh = machine(f"new{self.added}")
        steps: list[tuple[int, Step]] = [
            (3, lambda one: one.run()),
            (8, lambda one: one.sync()),
            (2, lambda one: one.change.apply(wanted)),
            (2, change_pod(pod, lambda _: None)),
            (4, change_pod(pod, lambda it: mo.edit(it, {"status.conditions": ready}))),
            (1, change_pod(pod, lambda it: mo.edit(it, {"status.phase": "Failed"}))),
            (
                1,
                change_pod(pod, lambda it: mo.edit(it, alone)),
            ),
            (3, change_node(name, "spec.taints", list(taints))),
            (1, change_node(name, "metadata.labels", {"pool": rng.choice("xy")})),
            (1, lambda one: one.change.apply(fresh)),
            (2, lambda one: one.change.remove_nodes([name]) if one.cache.node_info(name) else None),
            (2, lambda one: one.change.apply(machine(name))),
        ]
        return rng.choices([step for _, step in steps], [weight for weight, _ in steps])[0]

    def step(self) -> None:
        kind = self.rng.random()
        if kind < 0.06:
            self.both = [self.both[0].fork(), slow(self.both[1].fork())]
        elif kind < 0.3:
            trials = [self.draw() for _ in range(self.rng.randrange(2, 9))]
            for one in self.both:
                with one.transaction():
                    for trial in trials:
                        trial(one)
        else:
            step = self.draw()
            for one in self.both:
                step(one)
        fast, twin = map(state, self.both)
        assert fast == twin


@pytest.mark.share(3)
@pytest.mark.parametrize("seed", range(3))
def test_a_rollout_decides_as_if_it_looked_at_all_nodes(seed: int) -> None:
    both = Machine(seed)
    for _ in range(120):
        both.step()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_a_rollout_decides_as_if_it_looked_at_all_nodes_in_many_steps(seed: int) -> None:
    both = Machine(seed)
    for _ in range(1000):
        both.step()


def test_a_rollout_looks_at_the_nodes_that_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, look = Counter[str](), DaemonRollout.look

    def counted(self: Any, name: str, *rest: Any) -> None:
        looks[name] += 1
        look(self, name, *rest)

    monkeypatch.setattr(DaemonRollout, "look", counted)
    one = scheduler(*(machine(f"n{at}") for at in range(40)), log("1"))
    one.change.apply(log("1500m"))
    one.run()
    assert len(looks) == 40
    assert max(looks.values()) <= 4, looks


def stuck(one: Scheduler) -> int:
    """The number of pods of a rollout that fit nowhere, after an old pod has changed."""
    listed: list[Pod] = one.client.list(Pod)[0]
    last = [pod for pod in listed if pod.spec.node_name][-1]
    one.client.update(mo.edit(last, {"metadata.annotations": {"at": last.metadata.resource_version}}))
    return len(one.run().unschedulable)


def test_a_rollout_goes_on_when_a_node_is_lost() -> None:
    one = scheduler(*map(machine, "abcd"), log("1", strategy=2))
    one.change.apply(log("5", strategy=2))
    assert stuck(one) == 2
    one.change.remove_nodes(["a"])
    assert stuck(one) == 2  # of three nodes


def test_a_rollout_goes_on_when_nodes_change() -> None:
    """No more than 40 % of the nodes without a taint lose their pods."""
    one = scheduler(*map(machine, "abcd"), log("1", strategy=3))
    for name in "cd":
        change_node(name, "spec.taints", [{"key": "t", "effect": "NoSchedule"}])(one)
    one.change.apply(log("5", strategy=3))
    assert stuck(one) == 1
    for name in "cd":
        change_node(name, "spec.taints", [])(one)
    assert stuck(one) == 2
