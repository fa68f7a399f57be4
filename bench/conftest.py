"""What the suites share, and the table that they end with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from bench.cluster import filled_scheduler

from moorage import Scheduler


@pytest.fixture(scope="session")
def scheduler() -> Scheduler:
    return filled_scheduler()


# ---- the table


@dataclass
class Line:
    """One measurement: the best round, per operation."""

    what: str
    seconds: float
    is_twin: bool
    kube_scheduler: float | None


LINES = pytest.StashKey[list[Line]]()


@pytest.fixture
def report(request: pytest.FixtureRequest, benchmark: Any) -> Iterator[Any]:
    """`report(what, operations, twin=False)`: note what the benchmark of this test measures; `kube_scheduler`
    is what the same takes there, in seconds per operation, as measured elsewhere."""
    noted: list[tuple[str, int, bool, float | None]] = []

    def note(what: str, operations: int = 1, twin: bool = False, kube_scheduler: float | None = None) -> None:
        noted.append((what, operations, twin, kube_scheduler))
        benchmark.extra_info["operations"] = operations

    yield note
    for what, operations, twin, kube_scheduler in noted:
        if benchmark.stats is not None and benchmark.stats.stats.rounds:
            seconds = benchmark.stats.stats.min / operations
            benchmark.extra_info["ns_per_operation"] = round(seconds * 1e9, 1)
            request.config.stash.setdefault(LINES, []).append(Line(what, seconds, twin, kube_scheduler))


def in_units(seconds: float) -> str:
    for unit, factor in (("ns", 1e9), ("µs", 1e6), ("ms", 1e3)):
        if seconds * factor < 1000:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Per measurement the value, its twin's, and how many times faster it is; best rounds of this run."""
    lines = config.stash.get(LINES, [])
    if not lines:
        return
    twins = {line.what: line.seconds for line in lines if line.is_twin}
    terminalreporter.write_sep("=", "moorage beside its twins (bench/README.md)")
    terminalreporter.write_line(
        f"{'per operation':<46}{'moorage':>12}{'twin':>12}{'ratio':>8}{'upstream':>12}"
    )
    for line in lines:
        if line.is_twin:
            continue
        twin = twins.get(line.what)
        shown = ("-", "-") if twin is None else (in_units(twin), f"{twin / line.seconds:.1f}x")
        upstream = "" if line.kube_scheduler is None else in_units(line.kube_scheduler)
        cells = f"{in_units(line.seconds):>12}{shown[0]:>12}{shown[1]:>8}{upstream:>12}".rstrip()
        terminalreporter.write_line(f"{line.what:<46}{cells}")
