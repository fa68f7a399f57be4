"""Batches of pods whose nodes depend on the pods there: whole cycles, counters kept current."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from bench.batch import Batch
from bench.cluster import NODES, PERCENTAGES, placer_of
from bench.decide.test_scan import twin_of
from bench.kinds import KINDS, Kind, scheduler_with_service
from bench.plugin_pods import copies
from bench.twins.plugin_twins import Nodes
from bench.twins.term_twins import TermBatch

from moorage import Scheduler
from moorage._core.decide.decider import num_feasible_nodes_to_find
from moorage.kube import Node

PODS = 1000


@pytest.fixture(scope="module")
def with_service() -> Scheduler:
    return scheduler_with_service()


def twin(scheduler: Scheduler, kind: Kind, there: Sequence[Batch]) -> TermBatch:
    state, pod = scheduler.cache.state, kind.pod()
    bound = [state.get_pod(one) for batch in there for one in batch.pods]
    nodes = Nodes(scheduler, scheduler.client.list(Node)[0], bound)
    filters, scores = ([of(nodes, pod) for of in twins] for twins in (kind.filters, kind.scores))
    return TermBatch(twin_of(scheduler, pod), filters, scores)


kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
percentages = pytest.mark.parametrize("percentage", PERCENTAGES, ids=PERCENTAGES.values())


def line(kind: Kind, percentage: int) -> str:
    return f"{kind.name}, {NODES:,} nodes, {PERCENTAGES[percentage]}"


@percentages
@kinds
def test_kind(benchmark: Any, report: Any, with_service: Scheduler, kind: Kind, percentage: int) -> None:
    there = kind.settle(with_service)
    batch = Batch(with_service, placer_of(with_service, percentage), copies(kind.pod(), PODS))
    wanted = num_feasible_nodes_to_find(percentage, NODES)
    expected = twin(with_service, kind, there).place_run(PODS, wanted)
    batch.place()
    assert np.array_equal(batch.rows, with_service.context.view_rows()[expected])
    report(line(kind, percentage), PODS)
    benchmark.pedantic(batch.place, setup=batch.again, rounds=10)
    assert len(batch.rows) == PODS
    for one in (batch, *there):
        one.again()


@percentages
@kinds
def test_kind_numpy(
    benchmark: Any, report: Any, with_service: Scheduler, kind: Kind, percentage: int
) -> None:
    there, wanted = kind.settle(with_service), num_feasible_nodes_to_find(percentage, NODES)
    report(line(kind, percentage), PODS, twin=True)

    def fresh() -> tuple[tuple[TermBatch], dict[str, Any]]:
        return (twin(with_service, kind, there),), {}

    benchmark.pedantic(lambda one: one.place_run(PODS, wanted), setup=fresh, rounds=10)
    for one in there:
        one.again()
