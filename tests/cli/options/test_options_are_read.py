"""No option is accepted and ignored: what a command does with its options names each of them."""

from __future__ import annotations

import ast
import inspect
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.house.source import files

from .test_option_groups import CHANGES, LEAVES, options_of

FORWARD = {("mcp",), ("serve", "twin")}
"""Commands that hand their options to each question, whatever they are."""


@cache
def definitions() -> tuple[dict[str, list[ast.FunctionDef]], dict[str, list[ast.stmt]]]:
    """By name, functions of the commands, and the constants and classes with fields that they may mention."""
    functions, values = defaultdict[str, list[ast.FunctionDef]](list), defaultdict[str, list[ast.stmt]](list)
    for folder in ("cli", "answers/runs"):
        for path in files(".py", under=f"python/moorage/{folder}"):
            for each in ast.walk(tree := ast.parse(path.read_text())):
                if isinstance(each, ast.FunctionDef):
                    functions[each.name].append(each)
                elif isinstance(each, ast.ClassDef):
                    values[each.name] += [field for field in each.body if isinstance(field, ast.AnnAssign)]
            for statement in tree.body:
                if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                    values[statement.targets[0].id].append(statement)
    return functions, values


def names_in(function: ast.FunctionDef) -> Iterator[str]:
    """The texts of a function and of constants that it mentions, its parameters, and fields of classes."""
    yield from (argument.arg for argument in (*function.args.args, *function.args.kwonlyargs))
    for each in (inner for statement in function.body for inner in ast.walk(statement)):
        if isinstance(each, ast.Constant):
            yield str(each.value)
        for value in definitions()[1].get(each.id, ()) if isinstance(each, ast.Name) else ():
            if isinstance(value, ast.AnnAssign):
                yield ast.unparse(value.target)
            yield from (str(inner.value) for inner in ast.walk(value) if isinstance(inner, ast.Constant))


def takes_options(call: ast.AST) -> bool:
    return isinstance(call, ast.Call) and any(
        isinstance(each, ast.Name) and each.id == "options"
        for part in (*call.args, *(keyword.value for keyword in call.keywords))
        for each in ast.walk(part)
    )


def names_read(start: ast.FunctionDef) -> set[str]:
    """What a command names, and the functions to which it gives its options."""
    reached, pending = [start], [start]
    while pending:
        for call in filter(takes_options, ast.walk(pending.pop())):
            called = ast.unparse(call.func).rpartition(".")[2] if isinstance(call, ast.Call) else ""
            new = [each for each in definitions()[0].get(called, ()) if each not in reached]
            reached, pending = reached + new, pending + new
    return {name for function in reached for name in names_in(function)}


@pytest.mark.parametrize("path", LEAVES)
def test_a_command_reads_each_option(path: tuple[str, ...]) -> None:
    callback = inspect.unwrap(LEAVES[path].callback or pytest.fail("no command"))
    tree = ast.parse(Path(inspect.getfile(callback)).read_text())
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
    names = names_read(next(each for each in functions if each.name == callback.__name__))
    ignored = [
        option.opts
        for option in options_of(LEAVES[path])
        if option.expose_value and option.callback is None and option.name not in names
        if (heading := getattr(option, "heading", "")) != CHANGES  # these are read where they stand
        if not (path in FORWARD and heading == "New nodes")
    ]
    assert ignored == []
