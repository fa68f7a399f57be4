"""The commands and the code of docs/measures.md run, and the page has every measure."""

from __future__ import annotations

import inspect
import re
import shlex

import pytest

from moorage.cli import main
from moorage.sim.measures import MEASURES
from tests.house.source import ROOT

PAGE = (ROOT / "docs/measures.md").read_text()
COMMANDS = re.findall(r"^\$ moorage (.*)\n(.*)$", PAGE, re.MULTILINE)


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize(("command", "line"), COMMANDS)
def test_a_command_prints_what_the_page_says(
    command: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(shlex.split(command)) == 0
    assert line in capsys.readouterr().out.splitlines()


def test_the_code_runs() -> None:
    assert len(COMMANDS) == 2
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    code = code.replace(".to_pandas()", ".to_dict()")
    try:
        exec(code, {})
    finally:
        MEASURES.pop("idle_nodes", None)


def test_the_page_has_every_measure_and_option() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\|([^|]*)\|$", PAGE, re.MULTILINE)
    options = {name: list(inspect.signature(one).parameters)[1:] for name, one in MEASURES.items()}
    assert {name: re.findall(r"`(\w+)`", text) for name, text in rows} == options
