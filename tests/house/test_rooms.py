"""A newcomer guesses the file from the feature: small folders, no name twice, no circles of imports."""

from __future__ import annotations

import ast
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.house.source import ROOT, files, name
from tests.house.test_arrows import python_imports

FILES = 15
PACKAGE = ROOT / "python"
Graph = dict[str, set[str]]


def crowded(paths: list[Path]) -> dict[str, int]:
    """Folders with more files than one takes in at a glance; the in-tree plugins are a list of their own."""
    sizes = Counter(name(path.parent) for path in paths if path.stem != "__init__")
    return {folder: n for folder, n in sizes.items() if n > FILES and not folder.endswith("/plugins")}


def test_folders_are_small() -> None:
    assert [crowded(files(suffix)) for suffix in (".py", ".pyx", ".c")] == [{}, {}, {}]


def test_a_crowded_folder_is_seen() -> None:
    many = [ROOT / "python/moorage/room" / f"f{at}.py" for at in range(FILES)]
    assert crowded([*many, many[0].with_name("__init__.py")]) == {}
    assert crowded([*many, many[0].with_name("one_more.py")]) == {"python/moorage/room": FILES + 1}


def recurring(paths: list[Path]) -> set[str]:
    """Basenames of several modules; a command in cli/ may be named as the room that it calls."""
    counts = Counter(path.stem for path in paths if path.stem not in {"__init__", "__main__", "errors"})
    return {stem for stem, n in counts.items() if n > 1}


def test_a_name_is_that_of_one_module() -> None:
    assert recurring(files(".py", under="python")) == set()


def test_a_name_that_recurs_is_seen() -> None:
    one, other = PACKAGE / "moorage/queue/units.py", PACKAGE / "moorage/preemption/units.py"
    assert recurring([one, other, one.with_name("errors.py"), other.with_name("errors.py")]) == {"units"}


# ---- circles -----------------------------------------------------------------------------------------------


class AtRunTime(ast.NodeTransformer):
    """Leaves out what is imported for type checkers alone."""

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        if ast.unparse(node.test).endswith("TYPE_CHECKING"):
            return node.orelse
        return self.generic_visit(node)


def imported(text: str, package: str) -> set[str]:
    """What is imported when the code runs, inside of functions as well."""
    return {target for _, target in python_imports(ast.unparse(AtRunTime().visit(ast.parse(text))), package)}


def graph(texts: dict[str, tuple[str, str]]) -> Graph:
    """Module to the modules that it imports; from (text, package) by module."""
    edges: Graph = {}
    for module, (text, package) in texts.items():
        targets = imported(text, package)
        targets |= {target.rpartition(".")[0] for target in targets - texts.keys()}
        edges[module] = (targets & texts.keys()) - {module}
    return edges


def circle(edges: Graph) -> list[str]:
    """Modules that import one another in turn, if there are some."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def module_of(path: Path) -> tuple[str, str]:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    package = ".".join(parts[:-1])
    return (package if parts[-1] == "__init__" else ".".join(parts)), package


def test_no_modules_import_one_another_in_turn() -> None:
    paths = files(".py", under="python/moorage")
    texts = {module: (path.read_text(), package) for path in paths for module, package in [module_of(path)]}
    assert circle(graph(texts)) == []


@pytest.mark.parametrize(
    ("back", "expected"),
    [
        ("import m.a", True),
        ("from . import a", True),
        ("def f():\n    from .a import x", True),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .a import x", False),
        ("from .c import a", False),
    ],
)
def test_a_circle_is_seen(back: str, expected: bool) -> None:
    texts = {"m.a": ("from m import b", "m"), "m.b": (back, "m"), "m.c": ("", "m")}
    assert bool(circle(graph(texts))) == expected
