"""Workloads of scheduler_perf that are not among the whole operations, each timed as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from bench.test_whole_operations import measure

CASES = (
    "SchedulingWhileGated",
    "SchedulingDeletedPodsWithFinalizers",
    "HostPortConflict",
    "SchedulingInTreePVs",
)


@pytest.mark.parametrize("case", CASES)
def test_perf(benchmark: Any, report: Any, case: str) -> None:
    measure(benchmark, report, case)
