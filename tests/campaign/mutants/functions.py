"""A mutant of Python in a process that has its module: the code of functions is replaced where they are.

What is carried out when a module is imported (defaults, decorators, constants of modules and classes) cannot
be replaced so. A process whose variable MOORAGE_MUTANT has the mutant as JSON imports the changed module.
"""

from __future__ import annotations

import ast
import gc
import inspect
import json
import os
from collections import defaultdict
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from tests.campaign.mutants.mutant import ROOT, Mutant

Key = tuple[str, str, int]
Functions = dict[Key, list[FunctionType]]


def changed(mutant: Mutant, text: bytes) -> str:
    return (text[: mutant.start] + mutant.new.encode() + text[mutant.end :]).decode()


real = cache(os.path.realpath)


def key(code: CodeType) -> Key:
    return real(code.co_filename), code.co_qualname, code.co_firstlineno


def functions_of(folder: Path) -> Functions:
    """All functions of a folder's modules that the process has."""
    found: Functions = defaultdict(list)
    for one in gc.get_objects():
        if type(one) is FunctionType and real(one.__code__.co_filename).startswith(f"{folder}/"):
            found[key(one.__code__)].append(one)
    return found


def parts(code: CodeType) -> list[CodeType]:
    return [one for one in code.co_consts if isinstance(one, CodeType)]


def own(code: CodeType) -> list[Any]:
    """What a code object does itself, wherever it stands."""
    constants = [repr(one) for one in code.co_consts if not isinstance(one, CodeType)]
    return [code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, constants]


def differences(before: CodeType, after: CodeType) -> list[tuple[CodeType, CodeType]] | None:
    """The functions that differ, and those within them; None if what an import carries out differs."""
    inner = list(zip(parts(before), parts(after), strict=False))
    equal = own(before) == own(after) and len(parts(before)) == len(parts(after))
    if not before.co_flags & inspect.CO_OPTIMIZED:  # a module, or the body of a class
        if not equal:
            return None
        below = [differences(*pair) for pair in inner]
        return None if None in below else [pair for pairs in below if pairs for pair in pairs]
    below = [pair for one in inner for pair in differences(*one) or []]
    return [(before, after), *below] if below or not equal else []


def replace(mutant: Mutant, functions: Functions) -> bool:
    """Make a mutant in this process; false if its module has to be imported anew."""
    path = ROOT / mutant.file
    text = path.read_bytes()
    before, after = compile(text, str(path), "exec"), compile(changed(mutant, text), str(path), "exec")
    pairs = differences(before, after)
    if not pairs or key(pairs[0][0]) not in functions:
        return False
    try:
        for old, new in pairs:
            for function in functions.get(key(old), []):
                function.__code__ = new
    except ValueError:  # the mutant has other free variables
        return False
    return True


def statement_lines(mutants: list[Mutant], text: str) -> list[range]:
    """The lines of the statement that each mutant is in; of a compound statement those of its head."""
    heads = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if isinstance(body, list) else node.end_lineno
            heads.append(range(node.lineno, max(end or 0, node.lineno) + 1))
    heads.sort(key=lambda lines: (-lines.start, len(lines)))
    return [
        next((lines for lines in heads if one.line in lines), range(one.line, one.line + 1))
        for one in mutants
    ]


if "MOORAGE_MUTANT" in os.environ:
    MUTANT = Mutant(*json.loads(os.environ["MOORAGE_MUTANT"]))
    get_code = SourceFileLoader.get_code

    def changed_code(loader: SourceFileLoader, name: str) -> CodeType | None:
        path = Path(loader.path).resolve()
        if path != ROOT / MUTANT.file:
            return get_code(loader, name)
        return compile(changed(MUTANT, path.read_bytes()), str(path), "exec")

    SourceFileLoader.get_code = changed_code  # type: ignore[method-assign, assignment]
