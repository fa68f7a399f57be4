"""The table of tests/data/threads: what resolves each thread stands in the first lines of the output."""

from __future__ import annotations

import re
import shlex

import pytest
from tests.house.source import ROOT

from moorage.cli import main

LINES = 15
PAGE = (ROOT / "tests/data/threads/README.md").read_text()
ROWS = [
    (thread, shlex.split(arguments), fact)
    for thread, arguments, fact in re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)
    if " -f " in arguments
]


@pytest.mark.parametrize(("arguments", "fact"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_the_fact_that_resolves_a_thread_is_told(
    arguments: list[str], fact: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT / "tests/data/threads")
    assert main(["explain", *arguments]) < 2
    lines = capsys.readouterr().out.splitlines()[:LINES]
    assert [line for line in lines if fact in line], "\n".join(lines)


def test_the_table_is_read() -> None:
    assert len(ROWS) >= 30
