"""The forms of ``-o``, the rows that ``-l`` chooses, standard input, and the progress bar."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from moorage.cli.messages import stages
from moorage.objects.read.yaml_reader import read_yaml
from tests.cli.test_simulate import ITEMS, TABLE, moorage, node, pod, simulate

WIDE = """\
NAMESPACE  POD    NODE OR STATUS  ZONE  CPU  MEMORY  PRIORITY  REASON
default    p1     b               z2    1    1Gi     0
other      p2     a               z1    1    1Gi     0
default    p3     b               z2    1    1Gi     0
default    p4     unschedulable         1    1Gi     0         0/2 nodes are available: 2 Too many pods.
default    gated  skipped               1    1Gi     0         gated
"""


@pytest.fixture
def dump(tmp_path: Path) -> str:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": ITEMS}))
    return str(path)


def test_wide_adds_zone_requests_and_priority(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("-f", dump, "-o", "wide") == 0
    assert capsys.readouterr().out == WIDE + "\n" + TABLE.split("\n\n", 1)[1]


def test_wide_shows_effective_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dump.json"
    items = [node("a", "z1"), pod("p", priority=7, overhead={"cpu": "0.5", "memory": "512Mi"})]
    path.write_text(json.dumps({"kind": "List", "items": items}))
    assert simulate("-f", str(path), "-o", "wide") == 0
    row = capsys.readouterr().out.splitlines()[1]
    assert row.split() == ["default", "p", "a", "z1", "1500m", "1536Mi", "7"]


def test_yaml_says_what_json_says(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    simulate("-f", dump, "-o", "json")
    expected = json.loads(capsys.readouterr().out)
    assert simulate("-f", dump, "-o", "yaml") == 0
    assert list(read_yaml(capsys.readouterr().out, "stdout")) == [expected]


def test_name_is_what_kubectl_prints(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("-f", dump, "-o", "name") == 0
    assert capsys.readouterr().out == "pod/p1\npod/p2\npod/p3\n"
    assert simulate("-f", dump, "-o", "name", "-n", "other") == 0
    assert capsys.readouterr().out == "pod/p2\n"
    assert simulate("-f", dump, "-o", "name", "-n", "nowhere") == 0
    assert capsys.readouterr().out == ""


def test_name_and_summary_contradict(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("-f", dump, "-o", "name", "--summary") == 2
    assert capsys.readouterr().err == "error: -o name has no summary\n"


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("", ["p1", "p2", "p3"]),
        ("app=web", ["p1"]),
        ("app!=web", ["p2", "p3"]),
        ("app in (web, db),tier", ["p2"]),
        ("!app", ["p3"]),
    ],
)
def test_selector_only_chooses_rows(
    selector: str, names: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = {"p1": {"app": "web"}, "p2": {"app": "db", "tier": "1"}, "p3": {}}
    items = [node("a", "z1"), node("b", "z1")]
    for name, own in labels.items():
        items.append(pod(name))
        items[-1]["metadata"]["labels"] = own
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "items": items}))
    assert simulate("-f", str(path), "-l", selector, "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["pod"] for row in document["pods"]] == names
    assert document["summary"]["placed"] == 3


def test_bad_selector(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("-f", "no-such-file", "-l", "a in (") == 2
    assert capsys.readouterr().err == (
        "error: --selector: unable to parse requirement: found '', expected: ',', ')' or identifier\n"
    )


def test_standard_input(dump: str) -> None:
    with Path(dump).open() as file:
        done = moorage("simulate", "-f", "-", stdin=file)
    assert (done.returncode, done.stdout) == (0, TABLE)
    done = moorage("simulate", "-f", "-", stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stderr) == (2, "error: stdin: empty: there is no object in this file\n")


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with stages("reading", "scheduling") as stage:
        stage()
    out, err = capsys.readouterr()
    assert out == ""
    assert "scheduling" in err


def test_no_progress_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with stages("reading", "scheduling") as stage:
        stage()
    assert capsys.readouterr() == ("", "")


def test_the_bar_changes_nothing_on_stdout(
    dump: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert simulate("-f", dump) == 0
    out, err = capsys.readouterr()
    assert out == TABLE
    assert err.rstrip().endswith(" s")
