"""What the suites share: the cluster, and how a benchmark says which line of `bench/table.py` it measures."""

from __future__ import annotations

import gc
import shlex
import subprocess
import sysconfig
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bench.cluster import filled_scheduler

from moorage import Scheduler


def pytest_collection_finish() -> None:
    """What the suites hold at module level is not to cost each other's garbage collections."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Hypothesis looks at the end for what refers to its generators, and cannot see what is frozen."""
    gc.unfreeze()


@pytest.fixture(scope="session")
def scheduler() -> Scheduler:
    return filled_scheduler()


@pytest.fixture
def report(benchmark: Any) -> Callable[..., None]:
    """`report(what, operations=1, twin=False, seconds=None)`: the line of the table that this benchmark
    measures, how many operations a round has, whether it is the twin's value, and what the best round took
    where that is not all that was run."""
    lines = benchmark.extra_info.setdefault("lines", [])

    def note(what: str, operations: int = 1, twin: bool = False, seconds: float | None = None) -> None:
        line = {"what": what, "operations": operations, "twin": twin}
        lines.append(line if seconds is None else line | {"seconds": seconds})

    return note


def pytest_benchmark_update_machine_info(machine_info: dict[str, Any]) -> None:
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")
    version = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=True).stdout
    machine_info["compiler"] = version.partition("\n")[0]
    machine_info["numpy"] = np.__version__
