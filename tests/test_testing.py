"""The fixture for pytest-benchmark times a workload from the same start, round by round."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import moorage as mo
from moorage.testing import SchedulingBenchmark
from tests.house.source import ROOT

SIZE = {"cpu": "2", "pods": "9"}
NODE = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": SIZE, "capacity": SIZE}}


def pod(name: str) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
    return {"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers}}


class Benchmark:
    """The fixture of pytest-benchmark, as far as it is used: it calls, and tells the fastest time."""

    def __init__(self) -> None:
        self.extra_info: dict[str, Any] = {}
        self.stats: Any = SimpleNamespace(stats=SimpleNamespace(min=0.000006))
        self.starts: list[Any] = []

    def pedantic(
        self, target: Callable[..., Any], setup: Callable[[], Any], rounds: int, warmup_rounds: int
    ) -> Any:
        for _ in range(rounds + warmup_rounds):
            args, kwargs = setup()
            self.starts += args
            result = target(*args, **kwargs)
        return result


def test_pending_pods_are_scheduled_anew_in_each_round() -> None:
    benchmark = Benchmark()
    result = SchedulingBenchmark(benchmark)([NODE, pod("a"), pod("b"), pod("c")], rounds=2)
    assert (len(result.placements), len(result.unschedulable)) == (2, 1)
    assert benchmark.extra_info == {"nodes": 1, "placed": 2, "unschedulable": 1, "microseconds_per_pod": 2.0}
    assert len({id(one) for one in benchmark.starts}) == 3


def test_pods_of_the_caller_are_scheduled_in_their_order() -> None:
    benchmark = Benchmark()
    benchmark.stats = None  # as with --benchmark-disable
    given = [pod("z"), mo.read_object(pod("y")), pod("x")]
    result = SchedulingBenchmark(benchmark)(mo.load(NODE), given, rounds=1, seed=3)
    assert list(result.placements) == ["default/z", "default/y"]
    assert benchmark.extra_info == {"nodes": 1, "placed": 2, "unschedulable": 1}


@pytest.mark.nightly
def test_the_page_followed_literally_gives_a_measurement(tmp_path: Path) -> None:
    page = (ROOT / "docs/guide/profile_your_workload.md").read_text()
    conftest, speed = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_speed.py").write_text(speed)
    command = [sys.executable, "-m", "pytest", "-q", "test_speed.py", "--benchmark-json=out.json"]
    # Under pytest-xdist, pytest-benchmark measures nothing.
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    done = subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    (measured,) = json.loads((tmp_path / "out.json").read_text())["benchmarks"]
    assert (measured["stats"]["rounds"], measured["extra_info"]["placed"]) == (5, 2000)
    assert measured["extra_info"]["microseconds_per_pod"] > 0
