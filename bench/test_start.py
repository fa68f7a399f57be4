"""Processor time of commands on a few objects, from the start of Python to the last line.

Most of it is imports. `python -m bench.compare BASE bench/test_start.py` measures another tree in turn.
"""

from __future__ import annotations

import os
import subprocess
import sys
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any

import pytest

COMMANDS = (
    "--help",
    "check --help",
    "check -f examples/shop/cluster.yaml",
    "explain --all-pending -f examples",
    "simulate -f examples --summary",
)


def of_children() -> float:
    """Seconds of processor time of the processes that have ended."""
    use = getrusage(RUSAGE_CHILDREN)
    return use.ru_utime + use.ru_stime


@pytest.mark.benchmark(timer=of_children)
@pytest.mark.parametrize("command", COMMANDS)
def test_start(benchmark: Any, report: Any, command: str) -> None:
    """With the compiled files of Python's modules, which the warm-up writes."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def run() -> int:
        arguments = [sys.executable, "-m", "moorage", *command.split()]
        return subprocess.run(arguments, env=environment, capture_output=True, check=False).returncode

    assert benchmark.pedantic(run, rounds=5, warmup_rounds=1) < 2
    report(f"`moorage {command}`, processor time")
