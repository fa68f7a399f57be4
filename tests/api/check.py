"""Checks a document and its entries against each other and against the tests that there are; runs the tests
that an entry names."""

from __future__ import annotations

import ast
import hashlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
REASONS = ("layout", "duplicate", "aside")

Entries = dict[str, Any]


def sha1(line: str) -> str:
    """The first 12 hex digits of a line's SHA-1."""
    return hashlib.sha1(line.encode()).hexdigest()[:12]


def tests_in(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    for each in body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name.startswith("test"):
            yield prefix + each.name
        elif isinstance(each, ast.ClassDef) and each.name.startswith("Test"):
            yield from tests_in(each.body, f"{prefix}{each.name}::")


@cache
def test_ids(path: Path) -> frozenset[str]:
    """What stands after the file's name in the pytest ids of a file; of a parametrised test, its function."""
    return frozenset(tests_in(ast.parse(path.read_text()).body, "")) if path.is_file() else frozenset()


test_ids.__test__ = False  # type: ignore[attr-defined]


def exists(test: str, root: Path = ROOT) -> bool:
    """Whether there is a test with this pytest id."""
    file, _, name = test.partition("::")
    return file.startswith("tests/") and name in test_ids(root / file)


def of_entry(entry: Entries, root: Path) -> Iterator[str]:
    """What is wrong with what an entry says of its line."""
    tests, reason = entry.get("tests"), entry.get("reason")
    if (tests is None) == (reason is None):
        yield "needs either tests or a reason"
    elif reason is not None and reason not in REASONS:
        yield f"unknown reason {reason!r}"
    elif tests is not None and not tests:
        yield "names no test"
    for test in tests or ():
        if not exists(test, root):
            yield f"no test {test}"
    for key in entry.keys() - {"sha1", "tests", "reason"}:
        yield f"unknown key {key!r}"


def problems(text: str, entries: Entries, root: Path = ROOT) -> list[str]:
    """One line for each thing that is wrong."""
    lines = {str(number): line for number, line in enumerate(text.split("\n"), 1) if line.strip()}
    found = [f"line {number}: no entry" for number in lines if number not in entries]
    for number, entry in entries.items():
        if number not in lines:
            found.append(f"line {number}: an entry, but no such line")
            continue
        if entry.get("sha1") != (expected := sha1(lines[number])):
            found.append(f"line {number}: sha1 {entry.get('sha1')} instead of {expected}")
        found += [f"line {number}: {problem}" for problem in of_entry(entry, root)]
    return found


def of_table(entries: Entries, root: Path = ROOT) -> list[str]:
    """One line for each thing that is wrong with entries, as far as it shows without their document."""
    found = []
    for number, entry in entries.items():
        wrong = list(of_entry(entry, root))
        if not re.fullmatch("[0-9a-f]{12}", entry.get("sha1", "")):
            wrong.append("sha1 is not 12 hex digits")
        found += [f"line {number}: {problem}" for problem in wrong]
    return found


def run_tables(entries_in: Path = Path(__file__).parent, root: Path = ROOT) -> int:
    """Check the entries of all documents, say what is wrong or how much is covered; return the exit code."""
    is_wrong = False
    for table in sorted(entries_in.glob("*.toml")):
        entries = tomllib.loads(table.read_text(encoding="utf-8"))
        found = of_table(entries, root)
        for line in found or [covered(entries)]:
            print(f"{table.stem}: {line}")
        is_wrong |= bool(found)
    return int(is_wrong)


def covered(entries: Entries) -> str:
    """How many lines and tests entries name."""
    tests = {test for entry in entries.values() for test in entry.get("tests", ())}
    return f"{len(entries)} lines, {len(tests)} tests"


def run(document: Path, entries_in: Path = Path(__file__).parent, root: Path = ROOT) -> int:
    """Check one document, say what is wrong or how much is covered, and return the exit code."""
    table = entries_in / f"{document.name[:3]}.toml"
    for needed in (document, table):
        if not needed.is_file():
            print(f"{needed}: no such file")
            return 1
    entries = tomllib.loads(table.read_text(encoding="utf-8"))
    found = problems(document.read_text(encoding="utf-8"), entries, root)
    for problem in found:
        print(problem)
    if found:
        return 1
    print(covered(entries))
    return 0


def named_by(line: str, entries_in: Path = Path(__file__).parent) -> list[str] | str:
    """The tests that an entry names, given as document and line, "002:33"; or why there are none."""
    document, _, number = line.partition(":")
    table = entries_in / f"{document}.toml"
    if not table.is_file():
        return f"{table}: no such file"
    entry = tomllib.loads(table.read_text(encoding="utf-8")).get(number)
    if entry is None:
        return f"line {number} of {document}: no entry"
    found: list[str] = entry.get("tests", [])
    return found or f"line {number} of {document}: {entry['reason']}"


def run_tests(line: str, entries_in: Path = Path(__file__).parent, root: Path = ROOT) -> int:
    """Run the tests that an entry names, and return pytest's exit code."""
    tests = named_by(line, entries_in)
    if isinstance(tests, str):
        print(tests)
        return 1
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:benchmark", "-n", "0", *tests]
    return subprocess.run(command, cwd=root, check=False).returncode
