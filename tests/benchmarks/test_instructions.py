"""The gate of instruction counts: what it reads, compares and says; its paths without valgrind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.instructions import __main__ as gate
from bench.instructions.hot_paths import PATHS

DUMP = """\
# callgrind format
desc: Trigger: Client Request: place_plain

positions: line
events: Ir
summary: 1000

ob=(1) /x/python/moorage/_core/libmoorage_kernels.so
fl=(1) ???
fn=(1) mr_scan
0 100
cob=(2) /x/libpython3.11.so.1.0
cfn=(2) PyDict_GetItem
calls=3 0
0 500
+3 20

ob=(2)
fn=(2)
0 300

ob=(1)
fn=(1)
* 7
"""


def test_the_core_s_own_instructions_are_counted(tmp_path: Path) -> None:
    dump = tmp_path / "dump"
    dump.write_text(DUMP)
    assert gate.of_dump(dump) == ("place_plain", 127)


@pytest.mark.parametrize(("now", "is_wrong"), [(980, False), (1020, False), (979, True), (1021, True)])
def test_two_percent_are_tolerated(now: int, is_wrong: bool) -> None:
    assert bool(gate.compare({"queue": now}, {"queue": 1000})) is is_wrong


def figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: str) -> None:
    monkeypatch.setattr(gate, "FIGURES", tmp_path / "figures.json")
    gate.FIGURES.write_text(json.dumps({"environment": environment, "instructions": {"queue": 1000}}))
    monkeypatch.setattr(gate, "counted", lambda: {"queue": 1100})
    monkeypatch.setattr(gate, "missing", str)
    monkeypatch.setattr(gate, "environment", lambda: "cc 12")
    monkeypatch.setattr("sys.argv", ["instructions"])


def test_more_instructions_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figures(tmp_path, monkeypatch, "cc 12")
    assert gate.main() == 1
    assert capsys.readouterr().err.startswith("queue: 1,100 instructions, 1,000 expected (+10.0%)\n")


def test_figures_of_another_compiler_are_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figures(tmp_path, monkeypatch, "cc 13")
    assert gate.main() == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line == "instructions: not compared; the figures are of cc 13, and this is cc 12"


def test_each_path_has_a_figure() -> None:
    assert list(json.loads(gate.FIGURES.read_text())["instructions"]) == [path.__name__ for path in PATHS]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.__name__)
def test_each_hot_path_runs(path: Callable[[], Callable[[], object]]) -> None:
    path()()
