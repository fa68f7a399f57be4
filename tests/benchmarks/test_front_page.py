"""The suite of the front page: what it times as a whole, and that it has the lines that are shown."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from bench import table, test_front_page
from tests.sim.perf.make import DATA

from moorage.sim.perf import loop, read_cases, run_workload


def test_a_window_is_timed_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "Meter", test_front_page.WholeMeter)
    report = run_workload(read_cases(str(DATA), "SchedulingBasic")[0].workloads[0])
    assert test_front_page.WholeMeter.latest.pods == report.measured_pods > 0
    assert test_front_page.WholeMeter.latest.seconds > report.engine_seconds > 0


def test_each_line_of_the_front_page_is_measured() -> None:
    cases = read_cases(str(test_front_page.WORKLOADS), "")
    assert {case.name for case in cases} == set(test_front_page.CASES)
    measured = {
        f"`moorage perf` {case.workloads[0].full_name}, per {test_front_page.UNITS.get(case.name, 'pod')}"
        for case in cases
    }
    measured |= set(re.findall(r'report\("(.+?)"', Path(test_front_page.__file__).read_text()))
    front = tomllib.loads((table.ROOT / "bench/reference.toml").read_text())["front"]
    assert {one["what"] for one in front} == measured
