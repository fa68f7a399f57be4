"""`make check` names the one thing that is missing, in one line."""

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
def test_incomplete_python(word: str, line: str, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(INTERPRETER.format(word=word, python=sys.executable))
    python.chmod(0o755)
    result = make("check", f"PYTHON={python}")
    assert result.returncode == 2
    first, *rest = result.stderr.splitlines()
    assert first.startswith(line.format(python))
    assert [extra for extra in rest if not extra.startswith("make: ***")] == []


@pytest.mark.parametrize("setting", ["PYTHON=no-such-python", "CC=no-such-compiler"])
def test_missing_program(setting: str) -> None:
    result = make("check", setting)
    package = {"PYTHON": "python3", "CC": "build-essential"}[setting.partition("=")[0]]
    assert result.stderr.splitlines()[0].endswith(f": apt-get install {package}")


def test_complete_machine_says_nothing() -> None:
    result = make("check", f"PYTHON={sys.executable}")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
