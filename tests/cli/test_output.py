"""The forms of ``-o``, the rows that ``-l`` chooses, standard input, and the progress bar."""

from __future__ import annotations

import csv
import json
import sys
from io import StringIO
from pathlib import Path
from threading import Event

import pytest

from moorage.cli import main
from tests.cli.test_simulate import FULL, ITEMS, TABLE, moorage, node, pod, simulate
from tests.doors.cli import Stages, Table, csv_text, markdown_text, messages, print_lines, print_table
from tests.doors.kube import read_yaml

HINT = "; if the cluster has it, add `kubectl get namespaces nowhere -o yaml`"
GATED = "waiting for scheduling gates: [wait]"
WIDE = f"""\
3 pods have found a node, 2 have none

NAMESPACE  POD    WORKLOAD   STATUS         NODE  ZONE  CPU  MEMORY  PRIORITY  REASON
default    p1     pod/p1     placed         b     z2    1    1Gi     0
other      p2     pod/p2     placed         a     z1    1    1Gi     0
default    p3     pod/p3     placed         b     z2    1    1Gi     0
default    p4     pod/p4     unschedulable              1    1Gi     0         {FULL}
default    gated  pod/gated  gated                      1    1Gi     0         {GATED}
"""


@pytest.fixture
def dump(tmp_path: Path) -> str:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": ITEMS}))
    return str(path)


def test_wide_adds_zone_requests_and_priority(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("-f", dump, "-o", "wide") == 0
    assert capsys.readouterr().out == WIDE + "\n" + TABLE.split("\n\n", 3)[3]


def test_wide_shows_effective_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dump.json"
    items = [node("a", "z1"), pod("p", priority=7, overhead={"cpu": "0.5", "memory": "512Mi"})]
    items[1]["metadata"]["uid"] = "of-a-server"
    path.write_text(json.dumps({"kind": "List", "items": items}))
    assert simulate("-f", str(path), "-o", "wide") == 0
    row = capsys.readouterr().out.splitlines()[3]
    assert row.split() == ["default", "p", "pod/p", "placed", "a", "z1", "1.5", "1.5Gi", "7"]


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
    assert simulate("-f", dump, "-o", "name", "-n", "other", "-A") == 0
    assert capsys.readouterr().out == "pod/p1\npod/p2\npod/p3\n"


def test_an_unknown_namespace(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("simulate", "check", "explain --all-pending", "compare as-is as-is"):
        assert main([*command.split(), "-f", dump, "-n", "nowhere"]) == 2
        assert capsys.readouterr() == ("", f'error: --namespace: namespaces "nowhere" not found{HINT}\n')


def test_objects_without_a_namespace_are_in_the_one_that_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [node("a", "z1"), pod("named"), pod("p")]
    del items[2]["metadata"]["namespace"]
    (tmp_path / "dump.json").write_text(json.dumps({"kind": "List", "items": items}))
    assert simulate("-f", str(tmp_path / "dump.json"), "-n", "shop", "-o", "csv") == 0
    assert [row["pod"] for row in csv.DictReader(StringIO(capsys.readouterr().out))] == ["p"]


@pytest.mark.parametrize("form", ["name", "csv"])
def test_a_list_and_the_summary_contradict(form: str, dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("-f", dump, "-o", form, "--summary") == 2
    assert capsys.readouterr().err == f"error: --summary does not write -o {form}\n"


def test_csv_has_a_row_per_pod(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("-f", dump, "-o", "csv") == 0
    rows = list(csv.DictReader(StringIO(capsys.readouterr().out)))
    assert [(row["pod"], row["status"], row["node"]) for row in rows] == [
        ("p1", "placed", "b"),
        ("p2", "placed", "a"),
        ("p3", "placed", "b"),
        ("p4", "unschedulable", ""),
        ("gated", "gated", ""),
    ]
    assert rows[3]["reason"] == FULL, "it has a comma"


def test_markdown_has_the_tables(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("-f", dump, "-o", "markdown") == 0
    out = capsys.readouterr().out
    assert out.partition("\n\n")[2].startswith(
        "| NAMESPACE | WORKLOAD | WITH NODE | PLACED ON |\n| --- | --- | --- | --- |\n"
    )
    assert "\n\n| ZONE | NODES |" in out
    assert markdown_text(Table(["A"], [["a|b`<c>"]])).splitlines()[2] == "| a\\|b\\`\\<c> |"


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


def test_a_bad_selector_is_refused_before_a_file_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("-f", "no-such-file", "-l", "a in (") == 2
    assert capsys.readouterr().err == (
        "error: --selector: unable to parse requirement: found '', expected: ',', ')' or identifier\n"
    )


def test_a_dump_is_read_from_standard_input(
    dump: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path(dump).open() as file:
        done = moorage("simulate", "-f", "-", stdin=file)
    assert (done.returncode, done.stdout) == (0, TABLE)
    with Path("/dev/null").open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert simulate("-f", "-") == 2
    assert capsys.readouterr().err == "error: stdin: this file is empty\n"


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(messages, "DELAY", 0.0)
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
    assert err.endswith("\r\x1b[K")
    stage.count(2, poll)  # a rollout makes more pods than waited before
    assert stage.text().startswith("scheduling 3 of 3 (")


def test_no_progress_of_a_short_command(capsys: pytest.CaptureFixture[str]) -> None:
    with Stages("reading", "scheduling") as stage:
        stage()
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_stderr_has_the_number_of_notes(
    dump: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(messages, "DELAY", 60.0)
    items = [*ITEMS, {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}}]
    Path(dump).write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert simulate("-f", dump) == 0
    all_notes = capsys.readouterr().err
    assert all_notes.startswith("warning: Left out")
    for arguments, expected in (([], "1 note; -v shows it\n"), (["-q"], ""), (["-v"], "warning: Left out")):
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        assert simulate("-f", dump, *arguments) == 0
        out, err = capsys.readouterr()
        assert out == TABLE
        assert err == expected or (arguments == ["-v"] and err.startswith(expected))
    assert simulate("-f", dump, "-q", "-n", "nowhere") == 2
    assert capsys.readouterr().err == f'error: --namespace: namespaces "nowhere" not found{HINT}\n'


# ---- tables on a terminal ----------------------------------------------------------------------------------

TAINT = "node-role.kubernetes.io/control-plane:NoSchedule"
HEADINGS = "NODE", "ZONE", "TAINT", "REASON"
CELLS = [["ip-10-0-129-220.ec2.internal", "", TAINT, "0/6 nodes are available: too few of them"]]
FOLDED = f"""\
NODE
    TAINT
    REASON
ip-10-0-129-220.ec2.internal
    {TAINT}
    0/6 nodes are available: too few of
    them

"""


def shown_on(width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What a terminal of a width shows of a table."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    print_table(HEADINGS, CELLS)
    return capsys.readouterr().out


@pytest.mark.parametrize("width", [1, 30, 40, 60, 80, 100, 120, 200])
def test_no_name_is_cut(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = shown_on(width, monkeypatch, capsys)
    assert sorted(shown.split()) == sorted(["NODE", "TAINT", "REASON", *" ".join(CELLS[0]).split()])
    assert {"ip-10-0-129-220.ec2.internal", TAINT} <= set(shown.split())
    assert all(len(line) <= max(width, len(TAINT) + 4) for line in shown.splitlines())


def test_a_long_row_continues_on_lines_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown_on(40, monkeypatch, capsys) == FOLDED
    wide = shown_on(150, monkeypatch, capsys).splitlines()
    assert [line.split("  ")[0] for line in wide] == ["NODE", CELLS[0][0], ""]


def test_a_line_of_prose_folds_at_its_spaces(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "20")
    print_lines([f"  it is {TAINT} here", "", "short"])
    assert capsys.readouterr().out == f"  it is\n    {TAINT}\n    here\n\nshort\n"


@pytest.mark.parametrize("text", ["=1+1", "+1+1", "-cmd|'/c calc'!a1", "@SUM(A1)", "-3", "+3.5%", "-", "a=b"])
def test_no_cell_of_csv_is_a_formula(text: str) -> None:
    is_formula = text in ("=1+1", "+1+1", "-cmd|'/c calc'!a1", "@SUM(A1)")
    assert csv_text(Table(["a"], [[text]])).splitlines()[1] == f"{chr(39) * is_formula}{text}"


def test_no_line_of_markdown_is_markup(capsys: pytest.CaptureFixture[str]) -> None:
    print_lines(["1 <script> of ![x](u)"], "markdown")
    assert capsys.readouterr().out == "1 \\<script> of !\\[x](u)\n"
