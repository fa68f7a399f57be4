"""Memory of a scheduler through which pods come and go: it follows the cluster, not its history."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
from tests.doors.engine import scheduler_state
from tests.live.kit.cluster_workload import AT_ONCE, PATHS, create, node, pod, send
from tests.live.kit.followed_pods import FollowedPods
from tests.live.kit.live_process import Process

from moorage.live.client import ApiClient

pytestmark = [pytest.mark.live, pytest.mark.slow]
ALIVE, WARM, MORE = 300, 6_000, 6_000
"""Pods that are there at once; so many come before the first measurement, and so many between both. When the
first is made, the scheduler forgets classes of pods that are gone, as there have been `FEW_CLASSES`."""
A_POD = 1024
"""Bytes that a pod may leave behind."""


def resident(pid: int) -> int:
    """Bytes of memory that a process has."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def job_pods() -> Iterator[dict[str, Any]]:
    """Pods with labels of their own, as those of Jobs have. Some fit nowhere."""
    for at in count():
        value = pod(f"job{at:06}", "99" if at % 17 == 0 else "200m")
        value["metadata"]["labels"] = {"job-name": f"job{at}", "app": f"app{at % 50}"}
        yield value


def churn(admin: ApiClient, followed: FollowedPods, values: Iterator[dict[str, Any]]) -> Iterator[int]:
    """Let pods come, and older ones go; yields how many have come so far."""
    alive, pods = deque[str](), 0
    while True:
        made = list(islice(values, 50))
        pods += len(made)
        create(admin, made)
        alive += [value["metadata"]["name"] for value in made]
        while len(alive) > ALIVE:
            send(admin, "DELETE", f"{PATHS['Pod']}/{alive.popleft()}", AT_ONCE)
        followed.await_that(
            lambda: all(one.spec.node_name or one.status.conditions for one in followed.pods())
        )
        yield pods


def test_pods_with_labels_of_their_own_leave_nothing_behind(
    scheduler: Callable[..., Process], admin: ApiClient
) -> None:
    assert WARM > scheduler_state.FEW_CLASSES
    create(admin, [node(f"n{at:03}") for at in range(200)])
    process = scheduler()
    coming = churn(admin, FollowedPods(admin), job_pods())
    while next(coming) < WARM:
        pass
    before = resident(process.process.pid)
    while next(coming) < WARM + MORE:
        pass
    after = resident(process.process.pid)
    assert after - before <= MORE * A_POD, (before, after)
    assert process.end() == 0, process.log.read_text()
