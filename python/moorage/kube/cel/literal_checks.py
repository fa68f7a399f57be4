"""Checks of literals after the type check (cel-go, cel/validator.go; Kubernetes' base environment)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from .cel_errors import EvaluationError, Problem
from .cel_types import ANY, DYN, CelType
from .library.regular_expressions import compiled
from .library.string_format import fill_in, wrong_argument
from .library.times import to_duration, to_timestamp
from .syntax.expressions import Call, Comprehension, Expression, ListLiteral, Literal, MapLiteral, Select

TypeOf = Callable[[Expression], CelType]
_KINDS = {
    "d": ("int", "uint"),
    "f": ("double", "string"),
    "e": ("double", "string"),
    "b": ("int", "uint", "bool"),
    "o": ("int", "uint"),
    "x": ("int", "uint", "string", "bytes"),
    "X": ("int", "uint", "string", "bytes"),
    "s": (
        *("list", "map", "int", "uint", "double", "bool", "string", "bytes", "type", "null_type"),
        *("google.protobuf.Timestamp", "google.protobuf.Duration"),
    ),
}
"""Names of the types that a clause of ``format`` shows."""


def literal_problems(root: Expression, type_of: TypeOf) -> list[Problem]:
    """Return what is wrong with the literals of an expression.

    Durations, timestamps and patterns must be well formed, elements of a list or map of one type, and
    arguments of ``format`` of a type that their clause can show.

    Parameters
    ----------
    root : Expression
        A checked expression.
    type_of : callable
        Returns the type of a part.
    """
    return list(_problems(root, type_of, exempt=False))


def _problems(node: Expression, type_of: TypeOf, *, exempt: bool) -> Iterator[Problem]:
    if isinstance(node, Call):
        yield from _of_call(node, type_of)
        exempt = exempt or node.function == "format"
    elif not exempt and isinstance(node, ListLiteral):
        yield from _of_one_type(node.elements, _types(node.elements, node.optional, type_of))
    elif not exempt and isinstance(node, MapLiteral):
        keys, values = [key for key, _ in node.entries], [value for _, value in node.entries]
        yield from _of_one_type(keys, [type_of(key) for key in keys])
        yield from _of_one_type(values, _types(values, node.optional, type_of))
    for part in parts(node):
        yield from _problems(part, type_of, exempt=exempt)


def _types(nodes: Sequence[Expression], optional: frozenset[int], type_of: TypeOf) -> list[CelType]:
    """The types of elements; of optional ones the type of their values."""
    found = [type_of(node) for node in nodes]
    return [of.parameters[0] if at in optional and of.parameters else of for at, of in enumerate(found)]


def parts(node: Expression) -> Sequence[Expression]:
    """Return the expressions in an expression."""
    match node:
        case Select():
            return (node.operand,)
        case Call():
            return node.arguments if node.target is None else (node.target, *node.arguments)
        case ListLiteral():
            return node.elements
        case MapLiteral():
            return [part for entry in node.entries for part in entry]
        case Comprehension():
            return (node.range, node.start, node.condition, node.step, node.result)
    return ()


def _of_one_type(nodes: Sequence[Expression], types: Sequence[CelType]) -> Iterator[Problem]:
    for node, found in zip(nodes[1:], types[1:], strict=True):
        if found != types[0]:
            wanted = _without_package(types[0])
            yield Problem(node.at, f"expected type '{wanted}' but found '{_without_package(found)}'")
            return


def _without_package(of: CelType) -> str:
    """A type as this check shows it: times by their short names."""
    return re.sub(r"google\.protobuf\.(Timestamp|Duration)", lambda name: name[1].lower(), str(of))


def _of_call(node: Call, type_of: TypeOf) -> Iterator[Problem]:
    checks: dict[str, Callable[..., object]] = {
        "duration": to_duration,
        "timestamp": to_timestamp,
        "matches": compiled,
    }
    if node.function in checks and node.arguments:
        argument = node.arguments[-1]
        if isinstance(argument, Literal):
            try:
                checks[node.function](argument.value)
            except EvaluationError:
                yield Problem(argument.at, f"invalid {node.function} argument")
    template = node.target
    if node.function == "format" and isinstance(template, Literal) and isinstance(template.value, str):
        (argument,) = node.arguments
        if isinstance(argument, ListLiteral):
            yield from _of_format(node.at, template.value, argument.elements, type_of)


def _of_format(at: int, template: str, values: Sequence[Expression], type_of: TypeOf) -> Iterator[Problem]:
    wrong: list[Problem] = []

    def check(letter: str, precision: int, index: int) -> str:
        for node in _shown(letter, values[index]):
            found = type_of(node)
            if found != DYN and found.name not in _KINDS[letter]:
                name = "google.protobuf.Any" if found == ANY else found.name
                wrong.append(Problem(node.at, wrong_argument(letter, name)))
                raise EvaluationError(wrong[0].message)
        return ""

    try:
        used = fill_in(template, len(values), check, is_check=True)[1]
    except EvaluationError as error:
        yield wrong[0] if wrong else Problem(at, str(error))
        return
    if len(values) > used:
        counts = f"expected {used}, got {len(values)}"
        yield Problem(at, f"too many arguments supplied to string.format ({counts})")


def _shown(letter: str, node: Expression) -> Iterator[Expression]:
    """What a clause shows of an argument: with ``%s``, also the parts of a literal."""
    yield node
    if letter == "s" and isinstance(node, ListLiteral | MapLiteral):
        for part in parts(node):
            yield from _shown(letter, part)
