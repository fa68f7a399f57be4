"""Targets for people are few and listed, other names are jobs, and `make check` names what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source import ROOT

# Stands for an interpreter that lacks something: it fails when its code mentions the word.
INTERPRETER = """#!/bin/sh
case "$*" in *{word}*) exit 1;; esac
exec {python} "$@"
"""


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--no-print-directory", *arguments]
    outer = ("MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS")  # these tests may run under make
    environment = {key: value for key, value in os.environ.items() if key not in outer}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("version_info", "moorage needs Python 3.11 or later ({} is not; make PYTHON=... names another)"),
        ("ensurepip", "moorage needs venv with ensurepip: apt-get install python3-venv"),
        ("Python.h", "moorage needs the header Python.h: apt-get install python3-dev"),
    ],
)
def test_what_a_python_lacks_is_named_in_one_line(word: str, line: str, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(INTERPRETER.format(word=word, python=sys.executable))
    python.chmod(0o755)
    result = make("check", f"PYTHON={python}")
    assert result.returncode == 2
    first, *rest = result.stderr.splitlines()
    assert first.startswith(line.format(python))
    assert [extra for extra in rest if not extra.startswith("make: ***")] == []


@pytest.mark.parametrize("setting", ["PYTHON=no-such-python", "CC=no-such-compiler"])
def test_a_missing_program_is_named_with_its_package(setting: str) -> None:
    result = make("check", setting)
    package = {"PYTHON": "python3", "CC": "build-essential"}[setting.partition("=")[0]]
    assert result.stderr.splitlines()[0].endswith(f": apt-get install {package}")


def test_help_lists_the_targets_for_people() -> None:
    result = make("help", "PYTHON=no-such-python")
    listed = [line.split()[1] for line in result.stdout.splitlines() if line.startswith("make ")]
    written = ["schemas", "reference", "docs"]
    assert listed == ["demo", "build", "test", "lint", *written, "bench", "clean", "help"]


def test_jobs_are_listed_with_time_and_needs() -> None:
    result = make("jobs", f"PYTHON={sys.executable}")
    assert result.returncode == 0
    text = " ".join(result.stdout.split())
    assert "* parity Scenarios bred from the vectors" in text
    assert "takes RELEASE, SEED, COUNT, VECTORS; needs go (1.26 or later" in text


def test_a_name_of_neither_target_nor_job_builds_nothing() -> None:
    result = make("no-such-job", f"PYTHON={sys.executable}")
    assert result.returncode == 2
    assert (
        result.stderr.splitlines()[0]
        == "there is no no-such-job: `make help` lists targets, `make jobs` jobs"
    )


def test_a_variable_that_a_job_does_not_take_is_refused() -> None:
    result = make("parity", "SED=2", f"PYTHON={sys.executable}")
    assert result.returncode == 2
    assert (
        result.stderr.splitlines()[0]
        == "parity takes no variable SED; those that it takes: RELEASE, SEED, COUNT, VECTORS"
    )


def test_byte_code_is_kept_below_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$PYTHONPYCACHEPREFIX ${PYTHONDONTWRITEBYTECODE-unset}"\n')
    python.chmod(0o755)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert make("jobs", f"PYTHON={python}").stdout == f"{ROOT / 'build/pycache'} unset\n"


def test_complete_machine_says_nothing() -> None:
    result = make("check", f"PYTHON={sys.executable}")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
