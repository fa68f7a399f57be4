"""The suite of the front page has the lines that are shown."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from bench import table, test_whole_operations
from bench.scheduler_perf import read_workloads
from bench.workloads import test_workloads


def test_each_line_of_the_front_page_is_measured() -> None:
    workloads = read_workloads(str(test_whole_operations.WORKLOADS))
    assert [one.case for one in workloads] == list(dict.fromkeys(one.case for one in workloads))
    assert {one.case for one in workloads} == {*test_whole_operations.CASES, *test_workloads.CASES}
    measured = {
        f"`bench.scheduler_perf` {one.full_name}, per {test_whole_operations.UNITS.get(one.case, 'pod')}"
        for one in workloads
        if one.case in test_whole_operations.CASES
    }
    measured |= set(re.findall(r'report\("(.+?)"', Path(test_whole_operations.__file__).read_text()))
    front = tomllib.loads((table.ROOT / "bench/reference.toml").read_text())["front"]
    assert {one["what"] for one in front} == measured
