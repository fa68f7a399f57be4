"""A newcomer guesses the file from the question: small folders, and names that say what they hold."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.house.source import ROOT, files, name

FILES = 18  # about 15: no file is moved to meet a number
PACKAGE = ROOT / "python"
MODULES = PACKAGE / "moorage"
EMPTY = {"one", "found", "made", "told", "asked"}
"""Names that say nothing of what they hold."""
MAYBE_EMPTY = re.compile(rf"\b(?:{'|'.join(EMPTY)})(?=\s*(?:[,():=]|in\b))")
PROSE = re.compile(r'""".*?"""|(?:(?<=\s)|^)# .*?$', re.DOTALL | re.MULTILINE)
CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
PRIVATE = re.compile(r"^(?:(?:async )?def |class )?(_(?!_)\w+)\b(?=\(|:| =)", re.MULTILINE)
FORMATS = (
    "compat",
    "engine/framework/configuration",
    "engine/extenders/extender_wire",
    "kube/model",
)
"""Where classes are named after those of a format, of upstream or of a seed."""
TWO_MEANINGS = {
    "Event",
    "NotFoundError",
    "_Outline",
    "_Spec",
    "_Table",
    "_Template",
}
"""Class names that still mean several things; there may only be fewer."""


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
    one, other = PACKAGE / "moorage/engine/queue/units.py", PACKAGE / "moorage/engine/preemption/units.py"
    assert recurring([one, other, one.with_name("errors.py"), other.with_name("errors.py")]) == {"units"}


class Module(NamedTuple):
    """What the tests below look for in a module of the package: it is parsed once."""

    empty: list[str]
    classes: list[str]
    unused: list[str]


@cache
def modules() -> dict[str, Module]:
    facts = {}
    for path in sorted(MODULES.rglob("*.py")):
        if "_core" not in path.parts:
            text = path.read_text()
            is_asked = MAYBE_EMPTY.search(PROSE.sub("", text)) is not None
            names = {bound(node) for node in ast.walk(ast.parse(text))} if is_asked else set()
            facts[path.relative_to(MODULES).as_posix()] = Module(
                sorted(names & EMPTY), CLASS.findall(text), unused(text)
            )
    return facts


def bound(node: ast.AST) -> str | None:
    """The name that a node binds, if any."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    if isinstance(node, ast.arg):
        return node.arg
    return node.name if isinstance(node, ast.FunctionDef | ast.ClassDef) else None


def test_a_name_says_what_it_holds() -> None:
    empty = {file: module.empty for file, module in modules().items() if module.empty}
    assert empty == {}, "name what is held"


def test_what_a_node_binds() -> None:
    tree = ast.parse("one = 1\ndef found(made, *, told=2):\n    for asked in made: print(one, asked)")
    names = [bound(node) for node in ast.walk(tree)]
    assert sorted(name for name in names if name in EMPTY) == ["asked", "found", "made", "one", "told"]


def test_a_class_name_means_one_thing() -> None:
    files = defaultdict[str, list[str]](list)
    for file, module in modules().items():
        for label in () if file.startswith(FORMATS) else module.classes:
            files[label].append(file)
    assert {name for name, held in files.items() if len(held) > 1} == TWO_MEANINGS


def unused(text: str) -> list[str]:
    """Private functions, classes and constants of a module that nothing in it names again."""
    private = PRIVATE.findall(text)
    uses = Counter(re.findall(r"\w+", text)) if private else Counter[str]()
    return [label for label in private if uses[label] == 1]


def test_private_names_are_used() -> None:
    assert {file: module.unused for file, module in modules().items() if module.unused} == {}


def test_a_private_name_that_nothing_uses_is_seen() -> None:
    text = "_A = 1\n_B = 2\ndef _f():\n    return _B\nprint(_B)"
    assert unused(text) == ["_A", "_f"]
