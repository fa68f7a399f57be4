"""The scheduling queue: a million pods in, out, and both; sweeps over unschedulable pods."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from moorage import Scheduler
from moorage.framework.plugin.events import ASSIGNED_POD_ADD, NODE_ADD
from moorage.objects.model.meta import ObjectMeta
from moorage.objects.model.node import Node, NodeStatus
from moorage.objects.model.pod import (
    Container,
    Pod,
    PodSpec,
    ResourceRequirements,
)
from moorage.queue import SchedulingQueue

N = 1_000_000
REJECTED = 10_000
PRIORITIES = (0, 0, 0, 100, 1000)
ROOM = {"cpu": "64", "memory": "256Gi", "pods": "110"}


def make_pods(count: int) -> list[Pod]:
    random = Random(0)
    requests = ResourceRequirements(requests={"cpu": "1", "memory": "1Gi"})
    specs = [PodSpec(priority=p, containers=(Container(name="c", resources=requests),)) for p in PRIORITIES]
    return [
        Pod(metadata=ObjectMeta(name=f"p{n}", namespace="default", uid=f"uid-{n}"), spec=random.choice(specs))
        for n in range(count)
    ]


@pytest.fixture(scope="module")
def pods() -> list[Pod]:
    return make_pods(N)


@pytest.fixture
def measure(benchmark: Any, report: Any) -> Callable[..., None]:
    """`measure(what, per, setup, run)`: one run on a fresh state per round."""

    def note(what: str, per: int, setup: Any, run: Any, twin: bool = False) -> None:
        report(f"queue, {what}", per, twin)
        benchmark.pedantic(run, setup=setup, rounds=3)

    return note


def new_queue() -> SchedulingQueue:
    """That of a default profile, whose clock moves with every look at it."""
    times = iter(range(1 << 62))
    scheduler = Scheduler()
    frameworks = [engine.framework for engine in scheduler.engines.values()]
    return SchedulingQueue(frameworks, lambda: next(times) / 1000)


def filled(pods: list[Pod]) -> SchedulingQueue:
    queue = new_queue()
    for pod in pods:
        queue.add(pod)
    return queue


def push(queue: SchedulingQueue, pods: list[Pod]) -> None:
    add = queue.add
    for pod in pods:
        add(pod)


def pop(queue: SchedulingQueue) -> None:
    pop, done = queue.pop, queue.done
    while (info := pop(0)) is not None:
        done(info.pod.metadata.uid)


def test_push(measure: Any, pods: list[Pod]) -> None:
    measure("push of 1,000,000, per pod", N, lambda: ((new_queue(), pods), {}), push)


def test_pop(measure: Any, pods: list[Pod]) -> None:
    measure("pop and done of 1,000,000, per pod", N, lambda: ((filled(pods),), {}), pop)


def test_push_and_pop(measure: Any, pods: list[Pod]) -> None:
    """A pod comes and one goes, while half a million wait."""
    half = N // 2

    def mix(queue: SchedulingQueue) -> None:
        add, pop, done = queue.add, queue.pop, queue.done
        for pod in pods[half:]:
            add(pod)
            info = pop(0)
            assert info is not None
            done(info.pod.metadata.uid)

    measure("push, pop and done among 500,000, per pod", half, lambda: ((filled(pods[:half]),), {}), mix)


def test_a_heap_of_tuples_push(measure: Any, pods: list[Pod]) -> None:
    def run(heap: list[Any]) -> None:
        for number, pod in enumerate(pods):
            heapq.heappush(heap, (-(pod.spec.priority or 0), number, pod))

    measure("push of 1,000,000, per pod", N, lambda: (([],), {}), run, twin=True)


def test_a_heap_of_tuples_pop(measure: Any, pods: list[Pod]) -> None:
    def setup() -> tuple[Any, dict[str, Any]]:
        heap = [(-(pod.spec.priority or 0), number, pod) for number, pod in enumerate(pods)]
        heapq.heapify(heap)
        return (heap,), {}

    def run(heap: list[Any]) -> None:
        while heap:
            heapq.heappop(heap)

    measure("pop and done of 1,000,000, per pod", N, setup, run, twin=True)


def rejected(plugin: str) -> tuple[Any, dict[str, Any]]:
    """A queue of pods that a plugin has rejected."""
    queue = filled(make_pods(REJECTED))
    while (info := queue.pop(0)) is not None:
        info.unschedulable_plugins = frozenset({plugin})
        queue.add_unschedulable_if_not_present(info)
    queue.move_all_to_active_or_backoff_queue(
        ASSIGNED_POD_ADD, None, make_pods(1)[0]
    )  # who wants it is known
    return (queue,), {}


@pytest.mark.parametrize(
    ("what", "event", "new"),
    [
        ("a bound pod, of no interest to them", ASSIGNED_POD_ADD, make_pods(1)[0]),
        ("a node without room", NODE_ADD, Node(metadata=ObjectMeta(name="n"))),
        (
            "a node with room",
            NODE_ADD,
            Node(metadata=ObjectMeta(name="n"), status=NodeStatus(allocatable=ROOM)),
        ),
    ],
    ids=["none", "skip", "queue"],
)
def test_sweep(measure: Any, what: str, event: Any, new: Any) -> None:
    def run(queue: SchedulingQueue) -> None:
        queue.move_all_to_active_or_backoff_queue(event, None, new)

    measure(
        f"10,000 pods that NodeResourcesFit rejected: {what}", 1, lambda: rejected("NodeResourcesFit"), run
    )
