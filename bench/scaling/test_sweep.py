"""Cells of a sweep, whole replays with measures, by a process per processor; the twin is one process."""

from __future__ import annotations

import os
from typing import Any

import pytest
from bench.scaling.sweep_executors import DATA, SIZES, document

from moorage.sim.sweep import make_executor, sweep

DEMAND, CELLS = SIZES["large"]


@pytest.mark.parametrize("name", ["processes", "serial"])
def test_cells(benchmark: Any, report: Any, name: str) -> None:
    """Pods of openb's list that demand thirty times the GPUs of the excerpt, by BestFit with GPU shares."""
    report("a cell of a sweep, 5,068 pods, 31 nodes, by all processors", CELLS, twin=name == "serial")
    workers = os.cpu_count() or 1
    with make_executor(name, workers) as executor:
        sweep(document(0.1, 8 * workers), data=DATA, executor=executor)  # starts the workers
        result = benchmark.pedantic(
            sweep, args=(document(DEMAND, CELLS),), kwargs={"data": DATA, "executor": executor}, rounds=2
        )
    assert len(result.runs()) >= CELLS
