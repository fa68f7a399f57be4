"""Tests know the inside of the rooms through `tests/doors` alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.doors.rewrite_imports import NO_REASON, ROOMS, is_deep
from tests.house.source import ROOT

DOORS = ROOT / "tests/doors"
ROOM_NAMES = ROOMS
IMPORTS = ast.Import | ast.ImportFrom
ALL = [path for path in sorted((ROOT / "tests").rglob("*.py")) if DOORS not in path.parents]


@cache
def import_statements(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """Those of a file, in functions as well."""
    return [node for node in statements(ast.parse(path.read_text())) if isinstance(node, IMPORTS)]


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements in a node: expressions are many, and hold none."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in held if isinstance(held := getattr(node, field, ()), list) else ():
            yield each
            yield from statements(each)


def imports(path: Path) -> list[ast.ImportFrom]:
    return [node for node in import_statements(path) if isinstance(node, ast.ImportFrom) and not node.level]


def test_tests_import_nothing_from_inside_a_room() -> None:
    deep = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in ALL
        for node in import_statements(path)
        if is_deep(node)
    ]
    assert deep == [], (
        "run `python -m tests.doors.rewrite_imports`, and say in the door why tests need the name"
    )


def test_a_door_forwards_the_names_of_its_room_and_has_no_logic() -> None:
    doors = {path.stem: ast.parse(path.read_text()).body for path in DOORS.glob("*.py")}
    assert doors.keys() - {"__init__", "rewrite_imports", "test_doors", "test_private_uses"} == ROOM_NAMES
    for room in ROOM_NAMES:
        assert all(isinstance(node, ast.Expr | ast.ImportFrom | ast.Assign) for node in doors[room]), room
        assigned = [ast.unparse(node.targets[0]) for node in doors[room] if isinstance(node, ast.Assign)]
        assert assigned in ([], ["__all__"]), room


def test_a_door_says_why_tests_need_what_it_forwards() -> None:
    for room in ROOM_NAMES:
        _, *blocks = (DOORS / f"{room}.py").read_text().split("\n\n")
        assert [block for block in blocks if not block.startswith("# ") or NO_REASON in block] == [], room


def test_a_door_has_no_name_that_no_test_needs() -> None:
    needed = {(node.module, each.name) for path in ALL for node in imports(path) for each in node.names}
    for room in ROOM_NAMES:
        forwarded = {each.asname for node in imports(DOORS / f"{room}.py") for each in node.names}
        assert {name for name in forwarded if (f"tests.doors.{room}", name) not in needed} == set()
