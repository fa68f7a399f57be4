"""Batches of pods whose nodes depend on the pods there: whole cycles, counters kept current."""

from __future__ import annotations

from typing import Any

import pytest
from bench.batch import Batch
from bench.cluster import PERCENTAGES, cycle_of
from bench.kinds import KINDS, Kind, scheduler_with_service
from bench.plugin_pods import copies

from moorage import Scheduler

PODS = 1000


@pytest.fixture(scope="module")
def with_service() -> Scheduler:
    return scheduler_with_service()


@pytest.mark.parametrize("percentage", PERCENTAGES, ids=PERCENTAGES.values())
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_kind(benchmark: Any, report: Any, with_service: Scheduler, kind: Kind, percentage: int) -> None:
    there = kind.settle(with_service)
    batch = Batch(with_service, cycle_of(with_service, percentage), copies(kind.pod(), PODS))
    report(f"{kind.name}, 5,000 nodes, {PERCENTAGES[percentage]}", PODS)
    benchmark.pedantic(batch.place_run, setup=batch.again, rounds=10)
    assert len(batch.rows) == PODS
    for one in (batch, *there):
        one.again()
