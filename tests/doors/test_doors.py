"""Tests know the inside of the rooms through `tests/doors` alone."""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from tests.house.source import ROOT

DOORS = ROOT / "tests/doors"
ROOM_NAMES = {
    *("kube", "store", "engine", "controllers", "cluster", "autoscalers"),
    *("queues", "answers", "sim", "live", "cli", "compat"),
}
IMPORTS = ast.Import | ast.ImportFrom
IMPORT = re.compile(
    r"^ *(?:from (?:moorage|tests\.doors)[\w.]* import (?:\([^)]*\)|[\w., ]+)|import moorage[\w., ]*)",
    re.MULTILINE,
)
ALL = [path for path in sorted((ROOT / "tests").rglob("*.py")) if DOORS not in path.parents]


@cache
def import_statements(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """Those of a file from the product and from doors, in functions and in programs of strings as well."""
    found = IMPORT.findall(path.read_text())
    return [node for text in found for node in ast.parse(text.strip()).body if isinstance(node, IMPORTS)]


def imports(path: Path) -> list[ast.ImportFrom]:
    return [node for node in import_statements(path) if isinstance(node, ast.ImportFrom) and not node.level]


def is_deep(node: ast.Import | ast.ImportFrom) -> bool:
    """Whether a statement imports from below a part of a room, or a module of such a package."""
    if isinstance(node, ast.Import):
        names = [each.name for each in node.names if each.name.startswith("moorage.")]
        return any(name.count(".") > 1 and not is_public(name) for name in names)
    module = node.module or ""
    if node.level or module.split(".")[0] != "moorage" or module == "moorage":
        return False
    values = [value_of(module, each.name) for each in node.names]
    return not is_public(module) or any(
        isinstance(value, ModuleType) and not is_public(value.__name__) for value in values
    )


def value_of(module: str, name: str) -> object:
    """What a module has under a name, or its submodule of this name."""
    held = import_module(module)
    return getattr(held, name) if hasattr(held, name) else import_module(f"{module}.{name}")


def is_public(module: str) -> bool:
    """Whether users may import from a module: a room, a part of one, or a module beside the rooms."""
    parts = module.split(".")
    if parts[1].startswith("_core") or len(parts) > 3:
        return False
    return len(parts) == 2 or any(hasattr(import_module(module), sign) for sign in ("__path__", "__all__"))


def test_tests_import_nothing_from_inside_a_room() -> None:
    maybe = [path for path in ALL if any(map(is_deep, import_statements(path)))]
    deep = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in maybe
        for node in ast.walk(ast.parse(path.read_text()))  # not the programs in its strings
        if isinstance(node, IMPORTS) and is_deep(node)
    ]
    assert deep == [], "import from the door of the room, and say there why tests need the name"


def test_a_door_forwards_the_names_of_its_room_and_has_no_logic() -> None:
    doors = {path.stem: ast.parse(path.read_text()).body for path in DOORS.glob("*.py")}
    assert doors.keys() - {"__init__", "test_doors", "test_private_uses"} == ROOM_NAMES
    for room in ROOM_NAMES:
        assert all(isinstance(node, ast.Expr | ast.ImportFrom | ast.Assign) for node in doors[room]), room
        assigned = [ast.unparse(node.targets[0]) for node in doors[room] if isinstance(node, ast.Assign)]
        assert assigned in ([], ["__all__"]), room


def test_a_door_says_why_tests_need_what_it_forwards() -> None:
    for room in ROOM_NAMES:
        _, *blocks = (DOORS / f"{room}.py").read_text().split("\n\n")
        assert [block for block in blocks if not block.startswith("# ")] == [], room


def test_a_door_has_no_name_that_no_test_needs() -> None:
    needed = {(node.module, each.name) for path in ALL for node in imports(path) for each in node.names}
    for room in ROOM_NAMES:
        forwarded = {each.asname for node in imports(DOORS / f"{room}.py") for each in node.names}
        assert {name for name in forwarded if (f"tests.doors.{room}", name) not in needed} == set()
