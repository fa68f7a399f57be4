"""The scheduling queue: a million pods in, out, and both; sweeps over unschedulable pods."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from moorage import Scheduler
from moorage._core.base.watch_events import Notice
from moorage.engine.framework import QUEUE
from moorage.engine.framework.events import ASSIGNED_POD_ADD, NODE_ADD
from moorage.engine.queue import SchedulingQueue
from moorage.kube import (
    Affinity,
    Container,
    LabelSelector,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    ResourceRequirements,
)

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
        queue.add([pod])
    return queue


def push(queue: SchedulingQueue, pods: list[Pod]) -> None:
    add = queue.add
    for pod in pods:
        add([pod])


def pop(queue: SchedulingQueue) -> None:
    pop, done = queue.pop, queue.done
    while infos := pop():
        done(infos)


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
            add([pod])
            done(pop())

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


def in_batches(scheduler: Scheduler, pods: list[Pod]) -> None:
    """All pods come, are popped and end their attempts, as in a run."""
    queue, ages = scheduler.queue, scheduler.pods.ages
    assert ages is not None
    queue.add(map(ages.entry, pods))
    while infos := queue.pop(len(pods)):
        queue.done(infos)
    assert not queue.in_flight()


def test_batches(measure: Any, pods: list[Pod]) -> None:
    what = "push, pop and done of 1,000,000 in batches, per pod"
    measure(what, N, lambda: ((Scheduler(), pods), {}), in_batches)


def test_a_heap_of_tuples_in_batches(measure: Any, pods: list[Pod]) -> None:
    def run() -> None:
        heap = [(-(pod.spec.priority or 0), number, pod) for number, pod in enumerate(pods)]
        waiting = {entry[2].metadata.uid: entry for entry in heap}
        heap.sort()
        flying = dict[str, Pod]()
        for entry in heap:
            uid = entry[2].metadata.uid
            del waiting[uid]
            flying[uid] = entry[2]
        for entry in heap:
            del flying[entry[2].metadata.uid]

    what = "push, pop and done of 1,000,000 in batches, per pod"
    measure(what, N, lambda: ((), {}), run, twin=True)


def attracted(number: int, colours: int) -> Pod:
    """A pod that has to be beside a pod of one of some colours."""
    selector = LabelSelector({"colour": str(number % colours)})
    term = PodAffinityTerm(topology_key="zone", label_selector=selector)
    affinity = Affinity(pod_affinity=PodAffinity(required=(term,)))
    return Pod(
        metadata=ObjectMeta(name=f"p{number}", namespace="default", uid=f"uid-{number}"),
        spec=PodSpec(containers=(Container(name="c"),), affinity=affinity),
    )


def waiting_for_colours(colours: int) -> tuple[SchedulingQueue, Any, Pod]:
    """A queue of 1,000 pods that InterPodAffinity rejected, its hint, and a pod of another colour."""
    queue = filled([attracted(number, colours) for number in range(1000)])
    while infos := queue.pop():
        queue.give_back(infos, [infos[0].pod], [(frozenset({"InterPodAffinity"}), frozenset())])
    (hint,) = [
        one.hint
        for one in queue.hints.by_profile["default-scheduler"]["InterPodAffinity"]
        if one.event.matches(ASSIGNED_POD_ADD)
    ]
    labels = {"colour": "none", "app": "a"}
    new = Pod(
        metadata=ObjectMeta(name="new", namespace="default", uid="new", labels=labels),
        spec=PodSpec(node_name="n", containers=(Container(name="c"),)),
    )
    queue.move_all(ASSIGNED_POD_ADD, [Notice(None, new)])  # who wants it is known
    return queue, hint, new


@pytest.mark.parametrize("colours", [1, 1000])
@pytest.mark.parametrize("twin", [False, True], ids=["queue", "twin"])
def test_event_with_waiting_pods(measure: Any, colours: int, twin: bool) -> None:
    """The twin calls the hint for every pod."""
    queue, hint, new = waiting_for_colours(colours)
    pods = [info.pod for info in queue.inactive()]

    def run() -> None:
        for _ in range(100):
            queue.move_all(ASSIGNED_POD_ADD, [Notice(None, new)])

    def run_twin() -> None:
        assert not [pod for pod in pods if hint(pod, None, new) is QUEUE]

    what = f"an added pod, 1,000 pods wait for others of {colours:,} colours"
    measure(what, 1 if twin else 100, lambda: ((), {}), run_twin if twin else run, twin)
    assert len(queue.pending_pods().unschedulable) == len(pods) == 1000


def rejected(plugin: str) -> tuple[Any, dict[str, Any]]:
    """A queue of pods that a plugin has rejected."""
    queue = filled(make_pods(REJECTED))
    while infos := queue.pop():
        queue.give_back(infos, [infos[0].pod], [(frozenset({plugin}), frozenset())])
    queue.move_all(ASSIGNED_POD_ADD, [Notice(None, make_pods(1)[0])])  # who wants it is known
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
        queue.move_all(event, [Notice(None, new)])

    measure(
        f"10,000 pods that NodeResourcesFit rejected: {what}", 1, lambda: rejected("NodeResourcesFit"), run
    )
