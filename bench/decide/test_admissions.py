"""Queues of Kueue: cycles in which nothing changes, first attempts, and a day of jobs."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import chain
from random import Random
from typing import Any

import pytest

from moorage import Cluster, Timeline, replay
from moorage.kube import Node, NodeStatus, Object, ObjectMeta, decode_object
from moorage.kube.model.meta import Resources
from moorage.queues import Cycle, Kueue, Settings

Json = dict[str, Any]

QUEUES, COHORTS = 1000, 50
DAY, JOBS = 86_400_000, 10_000
TENANTS, QUOTA = 10, 36  # nine tenths of it are used
FLAVORS = ("reserved", "spot")


def of_kueue(kind: str, name: str, spec: Json, namespace: str = "") -> Object:
    meta = {"name": name, "namespace": namespace, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return decode_object(
        {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": meta, "spec": spec}
    )


def queue(at: int, strategy: str, cohort: str, nominal: int) -> list[Object]:
    """A queue of two flavors."""
    flavors = [{"name": name, "resources": [{"name": "cpu", "nominalQuota": nominal}]} for name in FLAVORS]
    spec = {
        "cohortName": cohort,
        "queueingStrategy": strategy,
        "namespaceSelector": {},
        "preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "LowerPriority"},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
    }
    name = f"q{at:04}"
    return [
        of_kueue("ClusterQueue", name, spec),
        of_kueue("LocalQueue", name, {"clusterQueue": name}, "default"),
    ]


def workload(number: int, at: int, pods: int, priority: int = 0) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    pod_set = {"name": "main", "count": pods, "template": {"spec": {"containers": [container]}}}
    spec = {"queueName": f"q{at:04}", "priority": priority, "podSets": [pod_set]}
    return of_kueue("Workload", f"w{number:05}", spec, "default")


def queues(strategy: str, is_fair: bool, count: int, cohorts: int, nominal: int) -> Kueue:
    objects = [of_kueue("ResourceFlavor", name, {}) for name in FLAVORS]
    for at in range(count):
        objects += queue(at, strategy, f"cohort-{at % cohorts}", nominal)
    return Kueue(objects, Settings(fair_sharing=() if is_fair else None))


def waiting(strategy: str, each: int, is_fair: bool, preempts: bool = False) -> Kueue:
    """Queues that are full, and as many workloads in each that wait for room; those that preempt look for
    victims, and ask for more than they find."""
    priority, least, most = (2, 17, 30) if preempts else (0, 1, 16)
    kueue, random = queues(strategy, is_fair, QUEUES, COHORTS, 8), Random(0)
    for at in range(2 * QUEUES):
        kueue.apply(workload(at, at % QUEUES, 8, priority=1))
    kueue.run()
    for number in range(2 * QUEUES, (each + 2) * QUEUES):
        kueue.apply(workload(number, number % QUEUES, random.randint(least, most), priority), number)
    assert not any(cycle.admitted for cycle in [kueue.cycle(), kueue.cycle()])
    return kueue


@pytest.mark.parametrize("preempts", [False, True], ids=["no victims", "victims"])
@pytest.mark.parametrize("is_fair", [False, True], ids=["classical", "fair"])
def test_a_cycle_in_which_nothing_changes(
    benchmark: Any, report: Callable[..., None], is_fair: bool, preempts: bool
) -> None:
    kueue = waiting("StrictFIFO", 50, is_fair, preempts)
    ways = f"{', fair sharing' * is_fair}{', which look for victims' * preempts}"
    report(f"Kueue, 1,000 blocked heads before 50,000 workloads{ways}")
    cycle: Cycle = benchmark(kueue.cycle)
    assert len(cycle.waiting) == QUEUES


@pytest.mark.parametrize("preempts", [False, True], ids=["no victims", "victims"])
@pytest.mark.parametrize("is_fair", [False, True], ids=["classical", "fair"])
def test_first_attempts(benchmark: Any, report: Callable[..., None], is_fair: bool, preempts: bool) -> None:
    kueue = waiting("BestEffortFIFO", 20, is_fair, preempts)
    ways = f"{', fair sharing' * is_fair}{', which look for victims' * preempts}"
    report(f"Kueue, 1,000 first attempts beside 20,000 workloads{ways}")
    tried = benchmark.pedantic(kueue.cycle, rounds=16)
    assert len(tried.waiting) == QUEUES


def day(is_fair: bool) -> int:
    """Let a day's jobs come to queues of one cohort, run for up to an hour, and go; return how many ran."""
    kueue, random, finished = queues("BestEffortFIFO", is_fair, TENANTS, 1, QUOTA), Random(0), 0
    events: list[tuple[int, int, Object | None]] = [
        (
            random.randrange(DAY),
            number,
            workload(number, random.randrange(TENANTS), random.choice([1, 1, 2, 4, 8]), random.randrange(3)),
        )
        for number in range(JOBS)
    ]
    events.sort(key=lambda each: each[:2])
    runs: dict[int, int] = {}
    while events:
        now, number, obj = heappop(events)
        kueue.advance(now - kueue.now)
        key = f"default/w{number:05}"
        if obj is not None:
            kueue.apply(obj, number)
        elif runs.get(number) == now:
            kueue.finish(key)
            kueue.delete("Workload", key)
            finished += 1
        for cycle in kueue.run():
            for preempted in cycle.preempted:
                runs.pop(int(preempted.workload[-5:]), None)
            for admitted in cycle.admitted:
                at = int(admitted.workload[-5:])
                runs[at] = now + random.randrange(60_000, 60 * 60_000)
                heappush(events, (runs[at], at, None))
    return finished


@pytest.mark.parametrize("is_fair", [False, True], ids=["classical", "fair"])
def test_a_day_of_jobs(benchmark: Any, report: Callable[..., None], is_fair: bool) -> None:
    report(f"Kueue, a day with 10,000 jobs, per job{', fair sharing' * is_fair}", JOBS)
    assert benchmark.pedantic(day, (is_fair,), rounds=1) == JOBS


def job(number: int, tenant: int, pods: int) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    labels = {"kueue.x-k8s.io/queue-name": f"q{tenant:04}"}
    return decode_object(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": f"j{number:05}", "namespace": "default", "labels": labels},
            "spec": {"suspend": True, "parallelism": pods, "completions": pods, "template": template},
        }
    )


def test_a_replay_of_a_day(benchmark: Any, report: Callable[..., None]) -> None:
    room: Resources = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    names = [f"n{at:03}" for at in range(60)]
    nodes = [Node(metadata=ObjectMeta(name=name), status=NodeStatus(allocatable=room)) for name in names]
    timeline, random = Timeline(Cluster(nodes=nodes)), Random(0)
    flavors = [of_kueue("ResourceFlavor", name, {}) for name in FLAVORS]
    made = [queue(at, "BestEffortFIFO", "cohort", QUOTA) for at in range(TENANTS)]
    for obj in chain(flavors, *made):
        timeline.create(0, obj)
    for number in range(JOBS):
        at = random.random() * DAY / 1000
        timeline.create(at, job(number, random.randrange(TENANTS), random.choice([1, 1, 2, 4, 8])))
        timeline.delete(at + random.uniform(60, 3600), f"job/j{number:05}")
    report("Kueue, a day with 10,000 Jobs replayed with their pods and nodes, per job", JOBS)
    benchmark.pedantic(replay, (timeline,), rounds=1)
