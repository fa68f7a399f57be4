"""Two forks of a scheduler, placing pods of a template in a thread each; the twin takes one thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from bench import plugin_pods as pods
from bench.cluster import NODES, filled_scheduler, plain_pods

from moorage import Scheduler
from moorage.kube import Pod

PODS = 4_000
KINDS: dict[str, Callable[[], Pod]] = {
    "plain pods": lambda: plain_pods(1)[0],
    "soft spread over hosts": lambda: pods.spread("web", "ScheduleAnyway", hostname=1),
}


@pytest.fixture(scope="module")
def original() -> Scheduler:
    return filled_scheduler(NODES)


@pytest.mark.parametrize("threads", [2, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_placing(benchmark: Any, report: Any, original: Scheduler, kind: str, threads: int) -> None:
    """Pods by template, on nodes that are 90 % in use."""
    report(f"two forks placed by two threads, {kind}, 5,000 nodes, per pod", 2 * PODS, twin=threads == 1)
    pod = KINDS[kind]()

    def place(fork: Scheduler) -> int:
        return len(fork.schedule_by_template(pod, PODS))

    with ThreadPoolExecutor(threads) as executor:

        def setup() -> tuple[tuple[list[Scheduler]], dict[str, Any]]:
            return ([original.fork() for _ in range(2)],), {}

        placed = benchmark.pedantic(
            lambda forks: list(executor.map(place, forks)), setup=setup, rounds=9, warmup_rounds=1
        )
    assert placed[0] == placed[1] > 0
