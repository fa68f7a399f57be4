"""Jobs take the variables that they name, say what they lack, and nightly runs what it can."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from tests.jobs.__main__ import main, overridden
from tests.jobs.job import JOBS, ROOT, Need

Commands = list[list[str]]
ABSENT = Need("a telescope", lambda: False)


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    """What jobs have run, instead of running it; `python -m tests.jobs leaks` fails."""
    calls: Commands = []

    def run(command: list[str], **rest: Any) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        return subprocess.CompletedProcess(command, int(command[-1] == "leaks"), "", "")

    monkeypatch.setattr("subprocess.run", run)
    monkeypatch.setenv("MAKEFLAGS", "")
    for name in ("SEED", "COUNT", "VECTORS"):  # of this process too, under make
        monkeypatch.setenv(name, "")
    return calls


def without(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(JOBS, name, replace(JOBS[name], needs=(ABSENT,)))


def having(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has everything."""
    for name, one in JOBS.items():
        monkeypatch.setitem(JOBS, name, replace(one, needs=()))


def test_a_job_is_built_for_and_gets_its_variables(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    having(monkeypatch)
    assert main(["parity", "RELEASE=1.37", "SEED=2", "COUNT=50"]) == 0
    built, ran = commands
    assert built == ["make", "--no-print-directory", "tools"]
    assert ran == [
        *(".venv/bin/python", "-m", "tests.conformance.upstream"),
        *("--release", "1.37", "--seed", "2", "--count", "50"),
    ]


def test_what_a_job_alone_needs_is_installed_before_it(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    having(monkeypatch)
    assert main(["test-report"]) == 0
    assert commands[1][1:] == [
        *("-m", "building.environment", "test-report"),
        *("--package=selenium>=4.20", "--package=axe-core-python>=0.1"),
    ]


def test_a_job_that_lacks_something_builds_nothing(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without(monkeypatch, "parity")
    assert main(["parity"]) == 1
    assert capsys.readouterr().err == "parity needs a telescope\n"
    assert commands == []


@pytest.mark.parametrize("arguments", [["no-such-job"], ["parity", "2"]])
def test_what_is_no_job_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"there is no {' '.join(arguments)}: ")


def test_nightly_runs_what_it_can_and_names_what_failed(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    having(monkeypatch)
    without(monkeypatch, "test-live")
    assert main(["nightly"]) == 1
    said = capsys.readouterr()
    assert said.err == "failed: leaks\n"
    assert "test-live         left out, needs a telescope\n" in said.out
    assert "machine           ok\n" in said.out
    ran = [command[-1] for command in commands[1:]]
    assert ran == [name for name, one in JOBS.items() if one.is_nightly and name != "test-live"]


def test_each_job_says_what_it_does_in_a_line_and_how_long_it_takes() -> None:
    assert [name for name, one in JOBS.items() if not (one.does and one.time and "\n" not in one.does)] == []


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ("", set()),
        ("rk", set()),
        (" -- SEED=2 COUNT=50", {"SEED", "COUNT"}),
        ("k --no-print-directory -- OPTIONS=--jobs\\ fuzz SEED=1", {"OPTIONS", "SEED"}),
    ],
)
def test_variables_that_make_was_given(flags: str, names: set[str]) -> None:
    assert overridden(flags) == names


def test_who_reads_only_the_head_of_the_listing_gets_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "tests.jobs"], cwd=ROOT, stdout=writing, stderr=subprocess.PIPE
        )
    finally:
        os.close(writing)
    assert (ran.returncode, ran.stderr) == (0, b"")
