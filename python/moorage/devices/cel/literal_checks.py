"""Checks of literals after the type check (cel-go, cel/validator.go; Kubernetes' base environment)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from moorage.devices.cel.library.regular_expressions import compiled
from moorage.devices.cel.library.string_functions import clauses
from moorage.devices.cel.library.times import duration_from_text, timestamp_from_text
from moorage.devices.cel.syntax.expressions import (
    Call,
    Comprehension,
    Expression,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
)

from .cel_errors import EvaluationError, Problem
from .cel_types import ANY, CelType

TypeOf = Callable[[Expression], CelType]
_WORDS = {
    "s": ("string", "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"),
    "d": ("integer", "integers"),
    "f": ("fixed-point", "doubles"),
    "e": ("scientific", "doubles"),
    "b": ("binary", "integers and bools"),
    "o": ("octal", "integers"),
    "x": ("hex", "integers, byte buffers, and strings"),
    "X": ("hex", "integers, byte buffers, and strings"),
}


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

    Returns
    -------
    list of Problem
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
        yield from _of_one_type(keys, [type_of(one) for one in keys])
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
            yield Problem(node.at, f"expected type '{types[0]}' but found '{found}'")
            return


def _of_call(node: Call, type_of: TypeOf) -> Iterator[Problem]:
    checks: dict[str, Callable[[str], object]] = {
        "duration": duration_from_text,
        "timestamp": timestamp_from_text,
        "matches": compiled,
    }
    if node.function in checks and node.arguments:
        argument = node.arguments[-1]
        if isinstance(argument, Literal) and isinstance(argument.value, str):
            try:
                checks[node.function](argument.value)
            except EvaluationError:
                yield Problem(argument.at, f"invalid {node.function} argument")
    template = node.target
    if node.function == "format" and isinstance(template, Literal) and isinstance(template.value, str):
        (argument,) = node.arguments
        if isinstance(argument, ListLiteral):
            yield from _of_format(template, argument, type_of)


def _of_format(template: Literal, values: ListLiteral, type_of: TypeOf) -> Iterator[Problem]:
    wanted = clauses(template.value)
    start = "error during formatting: "
    if len(wanted) != len(values.elements):
        if len(wanted) > len(values.elements):
            yield Problem(template.at, f"{start}index {len(values.elements)} out of range")
        else:
            counts = f"expected {len(wanted)}, got {len(values.elements)}"
            text = f"too many arguments supplied to string.format ({counts})"
            yield Problem(values.elements[len(wanted)].at, f"{start}{text}")
        return
    for (_, letter), value in zip(wanted, values.elements, strict=True):
        if letter not in _WORDS:
            yield Problem(template.at, f'{start}unrecognized formatting clause "{letter}"')
        elif type_of(value) == ANY:
            what, allowed = _WORDS[letter]
            text = f"{what} clause can only be used on {allowed}, was given google.protobuf.Any"
            yield Problem(value.at, f"{start}{text}")
