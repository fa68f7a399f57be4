"""Bad input that a case cannot show; the rest is in `tests/cases/cli/*_refused.md`."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from moorage.cli import main


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("simulate -f binary.yaml", "binary.yaml"),
        ("check -f binary.yaml", "binary.yaml"),
        ("compare as-is 'drian %s' --synthetic nodes=1", "drian nnn"),
        ("capacity --pod %s --synthetic nodes=1", "--pod: no such file, and "),
        ("plan nodes --like %s --synthetic nodes=1", '--like: there is no Node "nnn'),
    ],
)
def test_a_binary_file_and_a_name_too_long_for_a_file_are_one_line(
    command: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("binary.yaml").write_bytes(b"\0\1\2")
    assert main(shlex.split(command.replace("%s", "n" * 300))) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"error: {message}")
