"""``moorage demo``: the tour runs to its end, and its commands can be repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from moorage.cli import main


def test_the_tour_ends_with_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--folder", str(tmp_path / "tour")]) == 0
    shown = capsys.readouterr().out
    assert "PASS: 22 pods have found a node" in shown
    assert "lower the cpu request of container main from 3 to 2900m" in shown
    assert "shop/web  1      14" in shown
    page = (tmp_path / "tour/report.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "search" in page


def test_a_command_of_the_tour_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["demo", "--folder", str(tmp_path)])
    shown = capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    command = next(line for line in shown.splitlines() if line.startswith("$ moorage "))
    assert main(command.split()[2:]) == 0
    assert capsys.readouterr().out in shown


def test_a_folder_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["demo", "--folder", str(tmp_path / "file/tour")]) == 2
    caught = capsys.readouterr()
    assert caught.out == ""
    assert caught.err == f"error: {tmp_path}/file/tour: Not a directory\n"
