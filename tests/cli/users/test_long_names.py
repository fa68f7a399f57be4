"""A name that is too long for a file is no file: the command says so in one line."""

from __future__ import annotations

import pytest

from moorage.cli import main

NODES = ["--synthetic", "nodes=1"]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["compare", "as-is", "drian " + "n" * 300], "drian nnn"),
        (["capacity", "--pod", "n" * 300], "--pod: no such file, and "),
        (["plan", "nodes", "--like", "n" * 300], '--like: there is no Node "nnn'),
    ],
)
def test_a_long_name_is_no_file(
    command: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, *NODES]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"error: {message}")
