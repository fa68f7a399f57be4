"""The check of documents against tests, on made-up documents; and the committed entries."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.api.check import ROOT, named_by, of_table, problems, run, run_tables, run_tests, sha1

DOCUMENT = "A tree\n\nhas nodes\u2028and zones\n}"
TESTS = """
import pytest

def plain(): ...

@pytest.mark.parametrize("x", [1, 2])
def test_nodes(x): ...

class TestTree:
    def test_zones(self): ...
"""
NODES, ZONES = "tests/test_tree.py::test_nodes", "tests/test_tree.py::TestTree::test_zones"

Entries = dict[str, Any]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with one file of tests, and a document beside it."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_tree.py").write_text(TESTS)
    (tmp_path / "007_tree.txt").write_text(DOCUMENT)
    return tmp_path


def entries() -> Entries:
    return {
        "1": {"sha1": sha1("A tree"), "tests": [NODES]},
        "3": {"sha1": sha1("has nodes\u2028and zones"), "tests": [NODES, ZONES]},
        "4": {"sha1": sha1("}"), "reason": "layout"},
    }


def write(root: Path, table: Entries) -> None:
    rows = (
        f"{number} = {{ " + ", ".join(f"{key} = {value!r}" for key, value in entry.items()) + " }\n"
        for number, entry in table.items()
    )
    (root / "007.toml").write_text("".join(rows))


def test_a_document_that_is_covered(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(root, entries())
    assert run(root / "007_tree.txt", root, root) == 0
    assert capsys.readouterr().out == "3 lines, 2 tests\n"


def test_sha1_is_that_of_the_line() -> None:
    assert sha1("} \u00e9") == "2ef7906d970b"


@pytest.mark.parametrize(
    ("number", "entry", "expected"),
    [
        ("3", None, "line 3: no entry"),
        ("3", {"sha1": "0" * 12, "tests": [NODES]}, f"line 3: sha1 {'0' * 12} instead of "),
        ("3", {"tests": [NODES]}, "line 3: sha1 None instead of "),
        ("2", {"sha1": sha1(""), "reason": "layout"}, "line 2: an entry, but no such line"),
        ("5", {"sha1": sha1(""), "reason": "layout"}, "line 5: an entry, but no such line"),
        ("4", {"sha1": sha1("}"), "reason": "boring"}, "line 4: unknown reason 'boring'"),
        ("4", {"sha1": sha1("}")}, "line 4: needs either tests or a reason"),
        (
            "4",
            {"sha1": sha1("}"), "reason": "aside", "tests": [NODES]},
            "line 4: needs either tests or a reason",
        ),
        ("4", {"sha1": sha1("}"), "tests": []}, "line 4: names no test"),
        ("4", {"sha1": sha1("}"), "reason": "aside", "note": ""}, "line 4: unknown key 'note'"),
        *[
            ("4", {"sha1": sha1("}"), "tests": [NODES, test]}, f"line 4: no test {test}")
            for test in (
                "tests/test_tree.py::test_none",
                "tests/test_tree.py::plain",
                "tests/test_tree.py::test_zones",
                "tests/test_tree.py::test_nodes[1]",
                "tests/test_tree.py",
                "tests/test_none.py::test_nodes",
            )
        ],
    ],
)
def test_what_is_wrong_is_said(
    root: Path, capsys: pytest.CaptureFixture[str], number: str, entry: Entries | None, expected: str
) -> None:
    table = entries()
    if entry is None:
        del table[number]
    else:
        table[number] = entry
    write(root, table)
    assert run(root / "007_tree.txt", root, root) == 1
    (said,) = capsys.readouterr().out.splitlines()
    assert said.startswith(expected)


def test_each_thing_that_is_wrong_has_a_line() -> None:
    assert problems("a\nb", {"2": {"sha1": "x", "tests": ["y"]}}) == [
        "line 1: no entry",
        f"line 2: sha1 x instead of {sha1('b')}",
        "line 2: no test y",
    ]


@pytest.mark.parametrize("missing", ["007_tree.txt", "007.toml"])
def test_a_file_that_is_missing(root: Path, capsys: pytest.CaptureFixture[str], missing: str) -> None:
    write(root, entries())
    (root / missing).unlink()
    assert run(root / "007_tree.txt", root, root) == 1
    assert capsys.readouterr().out == f"{root / missing}: no such file\n"


def test_the_command(tmp_path: Path) -> None:
    def command(*arguments: str) -> tuple[int, str, str]:
        line = [sys.executable, "-m", "tests.api", *arguments]
        done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    usage = "usage: python -m tests.api [DOCUMENT] | python -m tests.api 002:33 --run\n"
    assert command("--run") == (1, "", usage)
    code, out, error = command()
    assert (code, error) == (0, "")
    assert re.fullmatch(r"(\d{3}: \d+ lines, \d+ tests\n){5}", out)
    (tmp_path / "002_other.txt").write_text("another document")
    code, out, error = command(str(tmp_path / "002_other.txt"))
    assert (code, error) == (1, "")
    assert "line 2: an entry, but no such line\n" in out


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("007:1", [NODES]),
        ("007:3", [NODES, ZONES]),
        ("007:4", "line 4 of 007: layout"),
        ("007:2", "line 2 of 007: no entry"),
        ("007", "line  of 007: no entry"),
    ],
)
def test_the_tests_of_a_line(root: Path, line: str, expected: list[str] | str) -> None:
    write(root, entries())
    assert named_by(line, root) == expected
    assert named_by("008:1", root) == f"{root / '008.toml'}: no such file"


@pytest.mark.parametrize(("body", "code"), [("pass", 0), ("assert False", 1)])
def test_the_tests_of_a_line_are_run(
    root: Path, capfd: pytest.CaptureFixture[str], body: str, code: int
) -> None:
    write(root, entries())
    other = "class TestTree:\n    def test_zones(self): assert False\n"
    (root / "tests/test_tree.py").write_text(f"def test_nodes(): {body}\n{other}")
    assert run_tests("007:1", root, root) == code
    assert ("1 failed" if code else "1 passed") in capfd.readouterr().out
    assert run_tests("007:4", root, root) == 1
    assert capfd.readouterr().out == "line 4 of 007: layout\n"


@pytest.mark.parametrize("table", sorted(Path(__file__).parent.glob("*.toml")), ids=lambda path: path.stem)
def test_committed_entries(table: Path) -> None:
    committed = tomllib.loads(table.read_text())
    assert committed
    assert of_table(committed) == []


def test_entries_without_their_document(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(root, entries())
    assert run_tables(root, root) == 0
    assert capsys.readouterr().out == "007: 3 lines, 2 tests\n"
    write(root, entries() | {"1": {"sha1": sha1("A tree"), "tests": ["tests/test_tree.py::plain"]}})
    assert run_tables(root, root) == 1
    assert capsys.readouterr().out == "007: line 1: no test tests/test_tree.py::plain\n"
    assert of_table({"1": {"reason": "layout"}}, root) == ["line 1: sha1 is not 12 hex digits"]
