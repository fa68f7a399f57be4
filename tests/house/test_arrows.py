"""Imports point down the list of rooms only, never up."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.source import ROOT, files, logical_lines, name

LAYERS = [
    {"cli", "gym"},
    {"report", "serve"},
    {"sim"},
    {"planning", "multi"},
    {"scheduler"},
    {"plugins"},  # over its neighbours, as the in-tree registry lives there
    {"compat"},
    {"controllers"},
    {"devices"},  # over its neighbours, as its claims are assumed as volumes are
    {"queue", "preemption", "volume"},
    {"framework"},
    {"cache"},
    {"_core"},
]
USES_STORE = {
    "devices",
    "volume",
    "preemption",
    "controllers",
    "compat",
    "plugins",
    "scheduler",
    "multi",
    "planning",
}
USES_STORE |= {"sim", "report", "serve", "cli", "gym"}
VERBS = "scheduler/planning_verbs.py"
"""The methods of Scheduler that a room above answers."""


def allowed() -> dict[str, set[str]]:
    """Dotted prefixes under ``moorage`` that each room may import."""
    rooms = {"errors": set[str](), "tables": {"_core.base"}, "objects": {"_core.base", "tables"}}
    rooms["store"] = {"objects", "_core.base"}
    for level, layer in enumerate(LAYERS):
        for room in layer:
            rooms[room] = set().union(*LAYERS[level + 1 :])
            if room != "_core":
                rooms[room] |= {"objects", "tables"}
            if room in USES_STORE:
                rooms[room].add("store")
    rooms[VERBS] = rooms["scheduler"] | {"scheduler", "planning"}
    return {room: targets | {room, "errors", "__version__"} for room, targets in rooms.items()}


ALLOWED = allowed()


def python_imports(text: str, package: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            base = parents[: len(parents) - node.level + 1] if node.level else []
            for alias in node.names:
                yield node.lineno, ".".join([*base, *([node.module] if node.module else []), alias.name])


def cython_imports(text: str) -> Iterator[tuple[int, str]]:
    """Imports and cimports of a module of ``moorage._core``."""
    for number, _, line in logical_lines(text):
        if match := re.match(r"\s*from\s+([\w.]+)\s+c?import\s+(.+)", line):
            base = re.sub(r"^\.\.", "moorage.", re.sub(r"^\.(?!\.)", "moorage._core.", match[1]))
            for item in match[2].strip("() ").split(","):
                yield number, f"{base.rstrip('.')}.{item.split()[0]}" if item.strip() else base
        elif match := re.match(r"\s*c?import\s+(.+)", line):
            yield from ((number, item.split()[0]) for item in match[1].split(","))


def upward(room: str, imports: Iterator[tuple[int, str]]) -> list[str]:
    wrong = []
    for number, target in imports:
        top, _, inner = target.partition(".")
        ok = any(f"{inner}.".startswith(f"{prefix}.") for prefix in ALLOWED.get(room, ()))
        if top == "moorage" and not ok:
            wrong.append(f"{number}: {room} imports {target}")
    return wrong


def check(path: Path) -> list[str]:
    text = path.read_text()
    if path.suffix != ".py":
        return upward("_core", cython_imports(text))
    inside = path.relative_to(ROOT / "python").with_suffix("").parts
    if inside[1] in {"__init__", "__main__"}:  # the front door and `python -m moorage`
        return []
    room = VERBS if name(path).endswith(VERBS) else inside[1]
    return upward(room, python_imports(text, ".".join(inside[:-1])))


def test_imports_point_down() -> None:
    sources = files(".py", under="python/moorage") + files(".pyx", ".pxd", under="pyx")
    assert [f"{name(path)}:{line}" for path in sources for line in check(path)] == []


def test_every_room_is_known() -> None:
    rooms = {path.parent for path in files(".py", under="python/moorage")} - {ROOT / "python/moorage"}
    assert {path.relative_to(ROOT / "python/moorage").parts[0] for path in rooms} <= ALLOWED.keys()


@pytest.mark.parametrize(
    ("room", "line", "ok"),
    [
        ("cli", "from moorage.sim import synthetic", True),
        ("sim", "from ..cli import main", False),
        ("cache", "from moorage import framework", False),
        ("framework", "import moorage._core.state.ledger", True),
        ("cache", "from moorage.store import Store", False),
        ("volume", "from moorage.store import Store", True),
        ("plugins", "from ..preemption import Evaluator", True),
        ("preemption", "from ..plugins import registry", False),
        ("queue", "from ..volume import VolumeBinder", False),
        ("objects", "from moorage._core.base.quantity import Quantity", True),
        ("objects", "from moorage._core import ledger", False),
        ("objects", "from .pod import Pod", True),
        ("store", "from moorage.cache import SchedulerCache", False),
        ("store", "from moorage.errors import InputError", True),
        ("sim", "from moorage import Scheduler", False),
        ("cli", "from moorage import __version__", True),
        ("errors", "import moorage.objects", False),
        ("attic", "import moorage.objects", False),
    ],
)
def test_python_arrow(room: str, line: str, ok: bool) -> None:
    assert (upward(room, python_imports(line, f"moorage.{room}")) == []) == ok


@pytest.mark.parametrize(
    ("line", "ok"),
    [
        ("from moorage._core.state.ledger cimport (Ledger,\n    Row)", True),
        ("from .ledger cimport Ledger", True),
        ("from . cimport ledger", True),
        ("from ..errors import InputError", True),
        ("from ..objects.pod import Pod", False),
        ("    import moorage.cache as c", False),
        ("cimport numpy as np, moorage._core.state.view", True),
        ("from libc.stdint cimport int64_t", True),
        ('"""\nfrom moorage.cache import x\n"""', True),
        ("from moorage import objects", False),
    ],
)
def test_cython_arrow(line: str, ok: bool) -> None:
    assert (upward("_core", cython_imports(line)) == []) == ok
