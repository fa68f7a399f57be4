"""Macros: calls that stand for larger expressions (cel-spec, langdef.md; cel-go, ext/)."""

from __future__ import annotations

from collections.abc import Callable

from ..cel_errors import CompileError, Problem
from ..cel_types import BOOL, INT
from .expressions import Call, Comprehension, Expression, Identifier, ListLiteral, Literal, MapLiteral, Select

RESULT = "@result"
UNUSED = "#unused"
INPUT = "@__sortBy_input__"


def expand(call: Call, text: str) -> Expression:
    """Expand a call if it is one of a macro.

    Parameters
    ----------
    text : str
        The whole expression, for errors.

    Returns
    -------
    Expression
        `call` itself if it is of no macro.

    Raises
    ------
    CompileError
        The arguments are not what the macro needs.
    """
    if call.target is None:
        return _has(call, text) if call.function == "has" and len(call.arguments) == 1 else call
    if isinstance(call.target, Identifier) and call.target.name == "cel":
        if call.function == "bind" and len(call.arguments) == 3:
            return _bind(call, text)
        return call
    macro = _MACROS.get((call.function, len(call.arguments)))
    if macro is None:
        return call
    variables = 2 if (call.function, len(call.arguments)) in _TWO_VARIABLES else 1
    names = [_variable(call.arguments[at], text) for at in range(variables)]
    if variables == 2 and names[0] == names[1]:
        raise CompileError(text, [Problem(call.arguments[1].at, f"duplicate variable name: {names[0]}")])
    return macro(call, names, call.arguments[variables:])


def _variable(argument: Expression, text: str) -> str:
    if not isinstance(argument, Identifier):
        raise CompileError(text, [Problem(argument.at, "argument must be a simple name")])
    return argument.name


def _has(call: Call, text: str) -> Expression:
    (argument,) = call.arguments
    if not isinstance(argument, Select) or argument.is_optional:
        raise CompileError(text, [Problem(argument.at, "invalid argument to has() macro")])
    return Select(call.at, argument.operand, argument.name, tests_presence=True)


def _bind(call: Call, text: str) -> Expression:
    name = _variable(call.arguments[0], text)
    return _bound(call.at, name, call.arguments[1], call.arguments[2])


def _bound(at: int, name: str, value: Expression, result: Expression) -> Expression:
    """`result` with a variable of this value."""
    never = Literal(at, False, BOOL)
    return Comprehension(
        at, UNUSED, "", ListLiteral(at, []), name, value, never, Identifier(at, name), result
    )


def _call(at: int, function: str, *arguments: Expression, target: Expression | None = None) -> Call:
    return Call(at, function, target, list(arguments))


def _result(at: int) -> Expression:
    return Identifier(at, RESULT)


def _fold(
    call: Call, names: list[str], start: Expression, step: Expression, **parts: Expression
) -> Expression:
    assert call.target is not None
    at = call.at
    return Comprehension(
        at,
        names[0],
        names[1] if len(names) > 1 else "",
        call.target,
        RESULT,
        start,
        parts.get("condition", Literal(at, True, BOOL)),
        step,
        parts.get("result", _result(at)),
    )


def _all(call: Call, names: list[str], rest: list[Expression]) -> Expression:
    at = call.at
    return _fold(
        call,
        names,
        Literal(at, True, BOOL),
        _call(at, "_&&_", _result(at), rest[0]),
        condition=_call(at, "@not_strictly_false", _result(at)),
    )


def _exists(call: Call, names: list[str], rest: list[Expression]) -> Expression:
    at = call.at
    return _fold(
        call,
        names,
        Literal(at, False, BOOL),
        _call(at, "_||_", _result(at), rest[0]),
        condition=_call(at, "@not_strictly_false", _call(at, "!_", _result(at))),
    )


def _exists_one(call: Call, names: list[str], rest: list[Expression]) -> Expression:
    at = call.at
    one = Literal(at, 1, INT)
    step = _call(at, "_?_:_", rest[0], _call(at, "_+_", _result(at), one), _result(at))
    start = Literal(at, 0, INT)
    return _fold(call, names, start, step, result=_call(at, "_==_", _result(at), Literal(at, 1, INT)))


def _appended(at: int, element: Expression) -> Expression:
    return _call(at, "_+_", _result(at), ListLiteral(at, [element]))


def _map(call: Call, names: list[str], rest: list[Expression]) -> Expression:
    at = call.at
    step = _appended(at, rest[-1])
    if len(rest) == 2:
        step = _call(at, "_?_:_", rest[0], step, _result(at))
    return _fold(call, names, ListLiteral(at, []), step)


def _filter(call: Call, names: list[str], rest: list[Expression]) -> Expression:
    at = call.at
    step = _call(at, "_?_:_", rest[0], _appended(at, Identifier(at, names[0])), _result(at))
    return _fold(call, names, ListLiteral(at, []), step)


def _transform_map(call: Call, names: list[str], rest: list[Expression]) -> Expression:
    at = call.at
    step: Expression = _call(at, "cel.@mapInsert", _result(at), Identifier(at, names[0]), rest[-1])
    if len(rest) == 2:
        step = _call(at, "_?_:_", rest[0], step, _result(at))
    return _fold(call, names, MapLiteral(at, []), step)


def _transform_entries(call: Call, names: list[str], rest: list[Expression]) -> Expression:
    at = call.at
    step: Expression = _call(at, "cel.@mapInsert", _result(at), rest[-1])
    if len(rest) == 2:
        step = _call(at, "_?_:_", rest[0], step, _result(at))
    return _fold(call, names, MapLiteral(at, []), step)


def _optional_map(call: Call, names: list[str], rest: list[Expression]) -> Expression:
    return _of_optional(call, names[0], rest[0], wraps=True)


def _optional_flat_map(call: Call, names: list[str], rest: list[Expression]) -> Expression:
    return _of_optional(call, names[0], rest[0], wraps=False)


def _of_optional(call: Call, name: str, result: Expression, *, wraps: bool) -> Expression:
    at, target = call.at, call.target
    there = _bound(at, name, _call(at, "value", target=target), result)
    if wraps:
        there = _call(at, "optional.of", there)
    return _call(at, "_?_:_", _call(at, "hasValue", target=target), there, _call(at, "optional.none"))


def _sort_by(call: Call, names: list[str], rest: list[Expression]) -> Expression:
    at = call.at
    assert call.target is not None
    values = Identifier(at, INPUT)
    keys = _map(_call(at, "map", target=values), names, rest)
    return _bound(at, INPUT, call.target, _call(at, "@sortByAssociatedKeys", keys, target=values))


Macro = Callable[[Call, list[str], list[Expression]], Expression]
_TWO_VARIABLES: dict[tuple[str, int], Macro] = {
    ("all", 3): _all,
    ("exists", 3): _exists,
    ("existsOne", 3): _exists_one,
    ("exists_one", 3): _exists_one,
    ("transformList", 3): _map,
    ("transformList", 4): _map,
    ("transformMap", 3): _transform_map,
    ("transformMap", 4): _transform_map,
    ("transformMapEntry", 3): _transform_entries,
    ("transformMapEntry", 4): _transform_entries,
}
_MACROS: dict[tuple[str, int], Macro] = {
    ("all", 2): _all,
    ("exists", 2): _exists,
    ("exists_one", 2): _exists_one,
    ("map", 2): _map,
    ("map", 3): _map,
    ("filter", 2): _filter,
    ("sortBy", 2): _sort_by,
    ("optMap", 2): _optional_map,
    ("optFlatMap", 2): _optional_flat_map,
    **_TWO_VARIABLES,
}
