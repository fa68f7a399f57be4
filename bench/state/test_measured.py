"""A run of plain pods with metrics (`Scheduler.measure`); its twin is the same run without them."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from bench.cluster import filled_scheduler, plain_pods

from moorage import Scheduler

PODS = 20_000


@pytest.mark.parametrize("measured", [True, False], ids=["metrics", "none"])
def test_run(benchmark: Any, report: Any, measured: bool) -> None:
    def waiting() -> tuple[tuple[Scheduler], dict[str, Any]]:
        scheduler = filled_scheduler()
        scheduler.client.create_many(plain_pods(PODS))  # type: ignore[attr-defined]
        scheduler.sync()
        if measured:
            scheduler.measure()
        gc.collect()
        return (scheduler,), {}

    report("`Scheduler.run()` with metrics, 5,000 nodes, per pod", PODS, twin=not measured)
    result = benchmark.pedantic(Scheduler.run, setup=waiting, rounds=7, warmup_rounds=1)
    assert len(result.placements) == PODS
