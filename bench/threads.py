"""One thread against two: `python -m bench.threads` prints a table.

With `--busy` there is a busy process on each core. The rounds of both take turns; figures are microseconds.
The last lines are below the number of nodes from which a loop is shared, so that their ratio is 1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

from bench import plugin_pods as pods
from bench.batch import Batch
from bench.cluster import filled_scheduler, placer_of, plain_pods
from bench.decide.test_scan import of_new_class
from bench.table import markdown

from moorage import Scheduler
from moorage._core.decide.placer import Placer
from moorage.kube import Pod

ROUNDS = 40
HEADINGS = ["what", "nodes", "best, 1", "best, 2", "median, 1", "median, 2", "ratio of best", "of medians"]


@dataclass(frozen=True)
class Workload:
    """What is timed: `prepare` returns one round for a number of threads, which is new to the caches."""

    name: str
    nodes: int
    prepare: Callable[[Scheduler, int], Callable[[], object]]


def build(scheduler: Scheduler, threads: int) -> Callable[[], object]:
    """The first pods of a class with node affinity: candidates of all nodes."""
    placer = placer_for(scheduler, threads)
    batch = Batch(scheduler, placer, of_new_class(300 + next(CLASSES)))
    BUILT.append(batch)
    return batch.place


@lru_cache(maxsize=2)
def placer_for(scheduler: Scheduler, threads: int) -> Placer:
    placer = placer_of(scheduler, 100)
    placer.search.threads = threads
    return placer


CLASSES = count()
BUILT: list[Batch] = []


def take_back() -> None:
    while BUILT:
        BUILT.pop().again()


def evaluation(pod: Pod) -> Callable[[Scheduler, int], Callable[[], object]]:
    """All filters and scores of all nodes for one pod."""

    def prepare(scheduler: Scheduler, threads: int) -> Callable[[], object]:
        placer, target = placer_for(scheduler, threads), scheduler.context.target_of(pod)
        placer.decider.decide(*target)
        return lambda: placer.decider.decide(*target)

    return prepare


def rejections(scheduler: Scheduler, threads: int) -> Callable[[], object]:
    """The verdicts of all nodes about a pod that fits nowhere."""
    placer = placer_for(scheduler, threads)
    huge = pods.pod("huge", {"app": "other"}, requests={"cpu": f"{1000 + next(CLASSES)}", "memory": "1Gi"})
    target = scheduler.context.target_of(huge)
    placer.decider.decide(*target)
    return lambda: placer.decider.rejections(*target)


def workloads() -> Iterator[Workload]:
    spread = pods.spread("web", "ScheduleAnyway", hostname=1)
    for nodes in (100_000, 50_000, 5_000):
        yield Workload("build of a class with node affinity", nodes, build)
        yield Workload("evaluation, plain", nodes, evaluation(plain_pods(1)[0]))
        yield Workload("evaluation, node affinity", nodes, evaluation(pods.affine_to_nodes()))
        yield Workload("evaluation, soft spread over hosts", nodes, evaluation(spread))
        yield Workload("evaluation, pod affinity", nodes, evaluation(pods.affine_to_pods()))
        yield Workload("rejections", nodes, rejections)


def measure(workload: Workload, scheduler: Scheduler, rounds: int) -> list[str]:
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for number in range(rounds):
        for threads in (1, 2) if number % 2 else (2, 1):
            run = workload.prepare(scheduler, threads)
            began = time.perf_counter()
            run()
            seconds[threads].append(time.perf_counter() - began)
        take_back()
    best, median = ([pick(taken) * 1e6 for taken in seconds.values()] for pick in (min, statistics.median))
    figures = [f"{time:,.0f}" for time in (*best, *median)]
    return [
        workload.name,
        f"{workload.nodes:,}",
        *figures,
        *(f"{one / two:.2f}" for one, two in (best, median)),
    ]


def spin() -> None:
    while True:
        pass


@contextmanager
def busy(is_on: bool) -> Iterator[None]:
    """With a busy process on each core."""
    spawn = multiprocessing.get_context("spawn")
    others = [spawn.Process(target=spin, daemon=True) for _ in range((os.cpu_count() or 1) if is_on else 0)]
    for other in others:
        other.start()
    try:
        yield
    finally:
        for other in others:
            other.terminate()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.threads", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--busy", action="store_true")
    asked = parser.parse_args(arguments)
    print(markdown([], HEADINGS), end="")
    schedulers: dict[int, Scheduler] = {}
    with busy(asked.busy):
        for workload in workloads():
            if workload.nodes not in schedulers:
                schedulers = {workload.nodes: filled_scheduler(workload.nodes)}
            row = measure(workload, schedulers[workload.nodes], asked.rounds)
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
