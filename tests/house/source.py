"""The source tree as the house tests read it."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATED = {".git", ".venv", "build", "dist", "__pycache__"}
HIDDEN = {".ci", ".github"}  # hidden folders of the repository; others belong to tools


@cache
def _files(under: str) -> tuple[Path, ...]:
    found = []
    for folder, folders, here in os.walk(ROOT / under):
        folders[:] = [one for one in folders if one not in GENERATED and (one[0] != "." or one in HIDDEN)]
        found += [Path(folder) / one for one in here if one not in GENERATED]  # .git is a file in a worktree
    return tuple(sorted(found))


def files(*suffixes: str, under: str = ".") -> list[Path]:
    """Files of the repository with one of these suffixes (all files without any), in sorted order."""
    return [path for path in _files(under) if not suffixes or path.suffix in suffixes]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def strip_cython(text: str) -> str:
    """Cython source without comments, each line of a string an empty one; lines keep their numbers."""
    token = (
        r'(?s:"""(?:\\.|.)*?"""|\'\'\'(?:\\.|.)*?\'\'\')|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|#[^\n]*'
    )

    def blank(match: re.Match[str]) -> str:
        return "" if match[0][0] == "#" else "''" + "\n''" * match[0].count("\n")

    return re.sub(token, blank, text)


def strip_c(text: str) -> str:
    """C source with comments, strings and preprocessor lines blanked; lines keep their numbers."""
    token = (
        r"(?s:/\*.*?\*/)|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*"
    )
    return re.sub(token, lambda match: " " + "\n" * match[0].count("\n"), text, flags=re.MULTILINE)


def logical_lines(text: str) -> Iterator[tuple[int, int, str]]:
    """(first, last, line) of stripped Cython source, with lines joined while a bracket is open."""
    start, joined, depth = 0, "", 0
    for number, line in enumerate(strip_cython(text).splitlines(), 1):
        if depth == 0:
            start, joined = number, line
        else:
            joined += " " + line.strip()
        depth = max(0, depth + sum(map(line.count, "([{")) - sum(map(line.count, ")]}")))
        if depth == 0 and joined.strip():
            yield start, number, joined


@cache
def _tests_in(path: Path) -> frozenset[str]:
    """The tests of a file; of those in a class, class and test; a machine of hypothesis by its `TestCase`."""
    names = set()
    for each in ast.parse(path.read_text()).body if path.is_file() else []:
        inner = each.body if isinstance(each, ast.ClassDef) else [each]
        prefix = f"{each.name}::" if isinstance(each, ast.ClassDef) else ""
        names |= {prefix + one.name for one in inner if isinstance(one, ast.FunctionDef)}
        if isinstance(each, ast.Assign) and ast.unparse(each.value).endswith(".TestCase"):
            names.add(ast.unparse(each.targets[0]))
    return frozenset(name for name in names if name.rpartition("::")[2].lower().startswith("test"))


def is_test(test: str) -> bool:
    """Whether there is a test of this name, "FILE::FUNCTION" with a file under tests/."""
    file, _, name = test.partition("::")
    return name in _tests_in(ROOT / "tests" / file)
