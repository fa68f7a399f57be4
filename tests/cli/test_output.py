"""What cases cannot show of output: its forms as values, the progress bar, notes and tables on a terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from threading import Event

import pytest

from moorage.cli import main
from tests.doors.answers import PrintedTable
from tests.doors.cli import Stages, csv_text, markdown_text, print_lines, print_table
from tests.doors.kube import read_yaml
from tests.house.source import ROOT

DEMO = str(ROOT / "examples/demo.yaml")
WIPED = "\r\x1b[K"
"""After this the line of a terminal is empty."""


def shown(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert main(["simulate", "-q", "-f", DEMO, *options]) == 0
    return capsys.readouterr().out


def test_yaml_says_what_json_says_and_reasons_are_whole_by_pod(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(shown(capsys, "-o", "json"))
    assert list(read_yaml(shown(capsys, "-o", "yaml"), "stdout")) == [document]
    whole = next(pod["reason"] for pod in document["pods"] if "preemption" in pod["reason"])
    for form in ("wide", "csv", "table", "markdown"):
        assert (whole in shown(capsys, "-o", form)) is (form in ("wide", "csv"))


def test_a_dump_is_read_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a process, which a file as stdin is enough for; and of one without any."""
    for named in (["-f", "-"], []):
        with Path(DEMO).open() as file:
            command = [sys.executable, "-m", "moorage", "simulate", "-q", *named]
            done = subprocess.run(command, capture_output=True, text=True, check=True, stdin=file)
        assert done.stdout == shown(capsys)
    with Path("/dev/null").open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert main(["simulate", "-f", "-"]) == 2
    assert capsys.readouterr().err == "error: stdin: this file is empty\n"


@pytest.mark.parametrize("command", [["plan", "drain", "--all"], ["check", "--survive", "node"]])
def test_drains_and_losses_are_counted(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = list[tuple[int, int]]()
    monkeypatch.setattr(Stages, "count", lambda stages, total, poll: seen.append((poll(), total)))
    main([*command, "-f", "examples"])
    capsys.readouterr()
    assert [(at, 3) for at in range(3)] == [each for each in seen if each[1] == 3][:3]


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    shown = Event()

    def poll() -> int:
        shown.set()
        return 3

    with Stages("reading", "scheduling") as stage:
        stage()
        stage.count(8, poll)
        assert shown.wait(60)
    out, err = capsys.readouterr()
    assert out == ""
    assert "scheduling 3 of 8 (" in err
    assert err.endswith(WIPED)
    stage.count(2, poll)  # a rollout makes more pods than waited before
    assert stage.text().startswith("scheduling 3 of 3 (")


def test_no_progress_of_a_short_command(capsys: pytest.CaptureFixture[str]) -> None:
    with Stages("reading", "scheduling") as stage:
        stage()
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_stderr_has_the_number_of_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"pods": "9"}}}
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}}
    (file := tmp_path / "dump.json").write_text(json.dumps({"kind": "List", "items": [node, event]}))
    for options, text in (
        ([], "1 note is the same at every command with this input; -v shows it\n"),
        (["-q"], ""),
        (["-v"], "warning: Left out"),
    ):
        assert main(["simulate", "-f", str(file), *options]) == 0
        err = capsys.readouterr().err.rpartition(WIPED)[2]  # a slow machine shows what it does before
        assert err == text or (options == ["-v"] and err.startswith(text))
    assert main(["simulate", "-f", str(file), "-q", "-n", "nowhere"]) == 2
    assert capsys.readouterr().err.startswith('error: --namespace: namespaces "nowhere" not found')


TAINT = "node-role.kubernetes.io/control-plane:NoSchedule"
CELLS = [["ip-10-0-129-220.ec2.internal", "", TAINT, "0/6 nodes are available: too few of them"]]


@pytest.mark.parametrize("width", [1, 30, 40, 60, 80, 100, 120, 200])
def test_no_name_is_cut(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    print_table(("NODE", "ZONE", "TAINT", "REASON"), CELLS)
    out = capsys.readouterr().out
    words = ["NODE", "TAINT", "REASON", *" ".join(CELLS[0]).split()]  # in a block, a heading ends with ":"
    assert sorted(word.removesuffix(":") for word in out.split()) == sorted(
        word.removesuffix(":") for word in words
    )
    assert all(len(line) <= max(width, len(TAINT) + 6) for line in out.splitlines())
    print_lines([f"  it is {TAINT} here", "", "short"])
    assert capsys.readouterr().out.split("\n")[-3:] == ["", "short", ""]


@pytest.mark.parametrize("text", ["=1+1", "+1+1", "-cmd|'/c calc'!a1", "@SUM(A1)", "-3", "+3.5%", "-", "a=b"])
def test_no_cell_of_csv_is_a_formula(text: str) -> None:
    is_formula = text in ("=1+1", "+1+1", "-cmd|'/c calc'!a1", "@SUM(A1)")
    assert csv_text(PrintedTable(["a"], [[text]])).splitlines()[1] == f"{chr(39) * is_formula}{text}"


def test_no_text_of_markdown_is_markup(capsys: pytest.CaptureFixture[str]) -> None:
    print_lines(["1 <script> of ![x](u)"], "markdown")
    assert capsys.readouterr().out == "1 \\<script> of !\\[x](u)\n"
    assert markdown_text(PrintedTable(["A"], [["a|b`<c>"]])).splitlines()[2] == "| a\\|b\\`\\<c> |"
