"""The files that each generated or compiled file is made of.

Needs Cython, which knows what a module cimports.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from Cython.Build.Dependencies import DependencyTree, create_dependency_tree
from Cython.Compiler.Main import Context
from Cython.Compiler.Options import CompilationOptions

from building.flags import INCLUDES

INCLUDED = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)


@cache
def _tree() -> DependencyTree:
    return create_dependency_tree(Context.from_options(CompilationOptions(include_path=["pyx"])))


def of_translation(source: str) -> set[str]:
    """What Cython reads for a .pyx: itself and all that it cimports, in turn.

    Files outside of the repository are left out; the versions of packages stand for them. The .pxd of the
    same name counts even if there is none: it is read as soon as there is.
    """
    found = {path for path in _tree().all_dependencies(source) if not Path(path).is_absolute()}
    return found | {str(Path(source).with_suffix(".pxd"))}


def of_module(source: str) -> set[str]:
    """The headers that the C of a .pyx includes, in turn: those that its declarations name."""
    read = _tree().all_dependencies(source)
    return headers(name for path in read for name in _tree().cimports_externs_incdirs(path)[1])


def of_kernels(source: str) -> set[str]:
    """The headers that a C file of the repository includes, in turn."""
    return headers(INCLUDED.findall(Path(source).read_text()))


def headers(names: Iterable[str]) -> set[str]:
    """The repository's own headers of these names, and what they include in turn."""
    found: set[str] = set()
    open_ = list(names)
    while open_:
        name = open_.pop()
        for path in (f"{folder}/{name}" for folder in INCLUDES):
            if path not in found and Path(path).is_file():
                found.add(path)
                open_ += INCLUDED.findall(Path(path).read_text())
    return found
