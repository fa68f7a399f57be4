"""HiGHS in a process of its own: what it prints is no part of an answer, and what fails there is told."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from moorage.cli import main
from moorage.errors import MoorageError
from tests.doors.answers import Rows, solve
from tests.doors.cli import AskedTwin
from tests.house.source import ROOT

SHOP = str(ROOT / "examples/shop/cluster.yaml")
QUESTIONS = {"nodes": ("like", "new-a"), "bound": ("pod", "deploy/shop/web=40")}
CHATTY = """
import os, sys
sys.path.remove(os.path.dirname(__file__))
del sys.modules["highspy"]
import highspy
class Highs(highspy.Highs):
    def __init__(self):
        os.write(1, b"Running HiGHS\\n")
        print("it may differ in price", flush=True)
        super().__init__()
highspy.Highs = Highs
"""
ROWS = Rows.of([-np.inf], [1.0], [(0, 0, 1.0)])


def install(folder: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let code be what the name highspy imports."""
    (folder / "highspy.py").write_text(code)
    monkeypatch.syspath_prepend(folder)


@pytest.mark.share(2)
@pytest.mark.parametrize("question", QUESTIONS)
def test_what_highs_prints_is_no_part_of_an_answer(
    question: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Not of a command, nor of a question to a twin or of an agent, which is answered in a child of it."""
    option, value = QUESTIONS[question]
    command = ["plan", question, "-f", SHOP, f"--{option}", value, "-o", "json"]
    assert main(command) == 0
    quiet = capfd.readouterr()
    install(tmp_path, CHATTY, monkeypatch)
    assert main(command) == 0
    assert capfd.readouterr().out == quiet.out
    twin = AskedTwin(None, [SHOP])
    reply = twin.reply(f"plan/{question}", [(option, value)], b"")
    twin.end()
    assert (reply.status, reply.body.decode()) == (200, quiet.out)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("raise ImportError('libhighs.so is missing')", "HiGHS: ImportError: libhighs.so is missing"),
        ("import os\nos._exit(3)", "HiGHS: exit 3"),
        (f"{CHATTY}\nHighs.getModelStatus = lambda self: None", "HiGHS: "),
    ],
)
def test_a_solver_that_fails_is_told(
    code: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, code, monkeypatch)
    with pytest.raises(MoorageError, match=error):
        solve(np.ones(1), np.ones(1), ROWS)


def test_a_solver_needs_nothing_of_the_folder_it_is_asked_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the modules of the caller are found, those of the solver are."""
    (tmp_path / "pickle.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert "" not in sys.path
    found = solve(np.array([2.0]), np.array([3.0]), ROWS)
    assert found is not None
    assert (found.objective, found.values.tolist(), found.prices.tolist()) == (2.0, [1.0], [2.0])
