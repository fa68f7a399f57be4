"""What comes from files does not reach the terminal as a control character, whatever it says."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from moorage.cli import main
from moorage.errors import printable
from tests.doors.cli import LineFormatter

RED = "\x1b[31mred"


def pod(**spec: object) -> str:
    return json.dumps(
        {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]} | spec}
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain ü 漢 ✓", "plain ü 漢 ✓"),
        (RED, r"\x1b[31mred"),
        ("a\r\n\x7f\x9bb", r"a\r\n\x7f\x9bb"),
        ("\u202eabc\u2066", r"\u202eabc\u2066"),
        ("\ud800", r"\ud800"),
    ],
)
def test_control_characters_are_escaped(text: str, expected: str) -> None:
    assert printable(text) == expected


def test_a_log_quotes_what_others_wrote() -> None:
    """A text of a webhook neither forges a line nor moves the cursor, in a message as in a traceback."""
    forged = f'no\n2026 INFO lease gained: holder="x"\r{RED}'
    record = logging.makeLogRecord({"msg": "pod not bound: pod=%s error=%s", "args": ("shop/web", forged)})
    assert LineFormatter("%(message)s").format(record) == (
        r'pod not bound: pod=shop/web error="no\n2026 INFO lease gained: holder=\"x\"\r\x1b[31mred"'
    )
    try:
        raise ValueError(forged)
    except ValueError:
        failed = logging.makeLogRecord({"msg": "%s failed", "args": ("a b",), "exc_info": sys.exc_info()})
    first, *others = LineFormatter("%(message)s").format(failed).split("\n")
    assert first == "a b failed"
    assert all(line[0] == "\t" and line[1:].isprintable() for line in others)


def test_names_of_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "-f", f"/nowhere/{RED}"]) == 2
    assert capsys.readouterr().err == "error: /nowhere/\\x1b[31mred: no such file\n"


def test_tables_and_explanations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"pods": "9", "cpu": "9"}}}
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": RED}}
    (tmp_path / "f.json").write_text(json.dumps(node) + pod(volumes=[claim]))
    assert main(["simulate", "-f", str(tmp_path / "f.json")]) == 0
    assert main(["explain", "p", "-f", str(tmp_path / "f.json")]) == 1
    printed = capsys.readouterr()
    assert "\x1b" not in printed.out + printed.err
    assert r'"\x1b[31mred" not found' in printed.out


def test_halves_of_surrogate_pairs_are_replaced_as_in_go(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.json"
    head = '{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"KubeSchedulerConfiguration",'
    file.write_text(head + r'"profiles":[{"schedulerName":"a\ud800b\\ud800\ud83d\ude00"}]}')
    assert main(["config", "--effective", "-o", "json", str(file)]) == 0
    shown = json.loads(capsys.readouterr().out)["profiles"][0]["schedulerName"]
    assert shown == "a\ufffdb\\ud800\U0001f600"


@pytest.mark.parametrize("command", ["simulate --synthetic nodes=2,pods=2", "version"])
def test_a_full_disk_is_one_line(command: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "moorage", *command.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (2, b"error: cannot write: No space left on device\n")


@pytest.mark.parametrize("command", ["dump", "check"])
def test_a_closed_output_is_one_line(tmp_path: Path, command: str) -> None:
    file = tmp_path / "node.yaml"
    file.write_text("{kind: Node, apiVersion: v1, metadata: {name: node-1}}")
    closed = f"exec {sys.executable} -m moorage {command} -f {file} >&-"
    done = subprocess.run(["sh", "-c", closed], stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (2, b"error: cannot write: Bad file descriptor\n")


@pytest.mark.parametrize(
    "text", [pod(image="x" * 200_000, hostPort="bad"), "[" * 200_000, '"' + "x" * 1_100_000]
)
@pytest.mark.parametrize("command", ["check -f", "replay"])
def test_a_file_of_one_long_line_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, command: str
) -> None:
    path = tmp_path / "long.json"
    path.write_text(text)
    assert main([*command.split(), str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"error: {path}")
