"""A binder over a store of 5,000 nodes: placements checked, written and confirmed."""

from __future__ import annotations

from typing import Any

from moorage import Scheduler, synthetic
from moorage.multi import Binder, Placement

PODS, CHUNK = 35_000, 512


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
