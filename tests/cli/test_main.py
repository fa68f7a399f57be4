"""The command itself: help, version, and what happens without its extra."""

from __future__ import annotations

import subprocess
import sys

import pytest

from moorage import cli


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    from moorage import __version__

    assert cli.main(["version"]) == 0
    assert capsys.readouterr().out == f"moorage {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 0
    out = capsys.readouterr().out
    assert "simulate" in out
    assert "version" in out


def test_help_does_not_load_the_engine() -> None:
    program = (
        "import sys; from moorage.cli import main; main(['--help']); "
        "sys.exit(bool({'numpy', 'msgspec', 'yaml', 'rich'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_the_extra(
    missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "find_spec", lambda name: None if name == missing else object())
    assert cli.main(["version"]) == 2
    assert capsys.readouterr().err == f"error: {missing} missing: pip install 'moorage[cli]'\n"


def test_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["moor"]) == 2
    assert capsys.readouterr().err == "error: No such command 'moor'.\n"
