"""Pods that a run has placed, entered by their template, and what becomes of them; and memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from bench.cluster import NODES, plain_pods

from moorage import synthetic
from moorage._core.decide import bulk_operations as batches
from moorage._core.state.cluster_state import ClusterState

LARGE = 130_000
SIZES = [(NODES, 50_000), (LARGE, 1_000_000)]
TEMPLATE = plain_pods(1)[0]


class Run:
    """A cluster, and rows for pods, in no order. Their usage is not accounted for, as runs do that."""

    def __init__(self, nodes: int, pods: int) -> None:
        self.pods = pods
        self.state = ClusterState()
        for node in synthetic(nodes=nodes, pods=0, seed=1).nodes:
            self.state.set_node(node)
        self.rows: npt.NDArray[np.int32] = np.random.default_rng(1).integers(0, nodes, pods).astype(np.int32)
        self.pod_class = self.state.classes.intern(TEMPLATE)

    def assume(self) -> None:
        self.state.assume_template(self.pod_class, TEMPLATE, 0, self.rows)

    def finish(self) -> None:
        batches.finish_template(self.state, TEMPLATE, 0, self.pods, 30.0)

    def confirm(self) -> None:
        batches.confirm_template(self.state, TEMPLATE, 0, self.pods)

    def forget(self) -> None:
        batches.forget_template(self.state, TEMPLATE, 0, self.pods)

    def clear(self) -> None:
        """Nothing is assumed, but all memory is there."""
        mark = self.state.begin()
        self.assume()
        self.state.rollback(mark)


@pytest.fixture(scope="module", params=SIZES, ids=lambda size: f"{size[0]} nodes")
def size(request: Any) -> tuple[int, int]:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def run(size: tuple[int, int]) -> Run:
    return Run(*size)


@pytest.mark.parametrize("operation", ["assume", "finish", "forget", "confirm"])
def test_by_ordinals(benchmark: Any, report: Any, run: Run, operation: str) -> None:
    """With the memory that earlier pods have left."""
    states: list[ClusterState] = []
    base = run.state

    def setup() -> None:
        run.state = base.fork()
        run.clear()
        states[:] = [run.state]  # the last round's goes now, not inside the measurement
        if operation != "assume":
            run.assume()

    report(f"template, {operation}, {len(base.table.names):,} nodes", run.pods)
    act: Callable[[], None] = getattr(run, operation)
    benchmark.pedantic(act, setup=setup, rounds=5)
    run.state = base


def test_new_memory(benchmark: Any, report: Any, run: Run) -> None:
    """The first pods of a cluster: their memory is taken as well."""
    base = run.state
    states: list[ClusterState] = []

    def setup() -> None:
        run.state = base.fork()
        states[:] = [run.state]

    report(f"template, assume, new memory, {len(base.table.names):,} nodes", run.pods)
    benchmark.pedantic(run.assume, setup=setup, rounds=5)
    run.state = base
