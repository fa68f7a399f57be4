"""The suite of the front page has the lines that are shown."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from bench import table, test_front_page

from moorage.sim.perf import read_cases


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
