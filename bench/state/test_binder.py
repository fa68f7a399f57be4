"""A binder over a store of 5,000 nodes: placements checked, written and confirmed; two schedulers on it."""

from __future__ import annotations

from typing import Any

import pytest

from moorage import Scheduler, synthetic
from moorage.multi import Binder, Placement
from moorage.multi.optimistic import simulate_optimistically

PODS, CHUNK = 35_000, 512
COSTLY: dict[str, Any] = {"tie_break": "random", "percentage_of_nodes_to_score": 100}
"""Settings with which a decision evaluates all nodes."""


def test_bind(benchmark: Any, report: Any) -> None:
    """Each pod on the node that one scheduler chose, in chunks as of two schedulers."""
    cluster = synthetic(nodes=5_000, zones=8, pods=PODS)
    where = Scheduler(cluster).run().placements

    def fresh() -> tuple[tuple[Binder, list[Placement]], dict[str, Any]]:
        scheduler = Scheduler(cluster)
        pods = [info.pod for info in scheduler.queue.pending_pods().active]
        return (Binder(scheduler.client), [Placement(pod, where[pod.key]) for pod in pods]), {}

    def bind(binder: Binder, placements: list[Placement]) -> None:
        for first in range(0, PODS, CHUNK):
            assert all(outcome.is_bound for outcome in binder.bind(placements[first : first + CHUNK]))

    report("binder: check, write and echo of a placement", PODS)
    benchmark.pedantic(bind, setup=fresh, rounds=3)


@pytest.mark.parametrize("schedulers", [1, 2])
@pytest.mark.parametrize(("kind", "per_node", "settings"), [("plain", 7, {}), ("costly", 1, COSTLY)])
def test_schedulers(
    benchmark: Any, report: Any, schedulers: int, kind: str, per_node: int, settings: dict[str, Any]
) -> None:
    """Deciding, binding and hearing of others; the twin is one scheduler that does the same."""
    cluster, seconds = synthetic(nodes=5_000, zones=8, pods=5_000 * per_node), list[float]()

    def run() -> None:
        out = simulate_optimistically(cluster, schedulers, settings=settings)
        seconds.append(out.deciding + out.binding + out.updating)

    benchmark.pedantic(run, rounds=3)
    what = f"two schedulers, {kind} pods, 5,000 nodes, each"
    report(what, 5_000 * per_node, twin=schedulers == 1, seconds=min(seconds))
