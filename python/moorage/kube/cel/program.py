"""Evaluates checked expressions, and counts what that costs (cel-go, interpreter/)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from .cel_errors import COST_LIMIT, LIMIT_EXCEEDED, CostError, EvaluationError, Problem
from .parser import (
    Call,
    Comprehension,
    Expression,
    Identifier,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    StructLiteral,
)
from .standard_functions import compiled, index, index_optional
from .string_functions import fill_in, wrong_argument
from .times import to_duration, to_timestamp
from .type_checker import Overload
from .values import (
    ANY,
    DYN,
    NO_OVERLOAD,
    TYPE_NAMES,
    CelType,
    Duration,
    MapValue,
    Optional,
    StructValue,
    Timestamp,
    Uint,
    are_known_equal,
    check_hashable,
    has_type,
    type_of_value,
)

_LIST_COST, _MAP_COST, _STRUCT_COST = 10, 30, 40
_CONVERSIONS = frozenset(
    ("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint")
)
_PATTERNS = frozenset(("matches", "find", "findAll"))


class Evaluation:
    """One evaluation: the values of variables, and what it has cost so far."""

    __slots__ = ("cost", "variables")

    def __init__(self, variables: dict[str, Any]) -> None:
        self.variables = variables
        self.cost = 0

    def add(self, cost: int) -> None:
        """Count a cost.

        Raises
        ------
        CostError
            The limit of 1,000,000 is exceeded.
        """
        self.cost += cost
        if self.cost > COST_LIMIT:
            raise CostError(LIMIT_EXCEEDED)


Evaluate = Callable[[Evaluation], Any]


def compile_expression(node: Expression) -> Evaluate:
    """Return a function that evaluates a checked expression."""
    evaluate = _compiled(node)
    if _is_constant(node):
        value = evaluate(Evaluation({}))
        return lambda run: value
    return evaluate


def _compiled(node: Expression) -> Evaluate:
    match node:
        case Literal():
            return lambda run: node.value
        case Identifier():
            return _identifier(node)
        case Select():
            return _select(node)
        case Call():
            return _call(node)
        case ListLiteral():
            return _list(node)
        case MapLiteral():
            return _map(node)
        case StructLiteral():
            return _struct(node)
        case Comprehension():
            return _comprehension(node)
    raise AssertionError(node)


def _identifier(node: Identifier) -> Evaluate:
    name = node.name
    constant = CelType(TYPE_NAMES[name].name) if node.is_type else None

    def evaluate(run: Evaluation) -> Any:
        run.add(1)
        return run.variables[name] if constant is None else constant

    return evaluate


def _select(node: Select) -> Evaluate:
    if node.type_name:
        constant = CelType(node.type_name)
        return lambda run: constant
    operand, name = compile_expression(node.operand), node.name
    if node.tests_presence:
        return lambda run: index_optional(operand(run), name).is_there
    is_optional = node.is_optional

    def evaluate(run: Evaluation) -> Any:
        value = operand(run)
        if is_optional:
            return index_optional(value, name)
        run.add(1)
        return (index_optional if type(value) is Optional else index)(value, name)

    return evaluate


def _list(node: ListLiteral) -> Evaluate:
    elements = [compile_expression(element) for element in node.elements]
    optional = node.optional

    def evaluate(run: Evaluation) -> tuple[Any, ...]:
        if optional:
            values = [value for _, value in _present(((0, read(run)) for read in elements), optional)]
        else:
            values = [read(run) for read in elements]
        run.add(_LIST_COST)
        return tuple(values)

    return evaluate


def _present(entries: Iterable[tuple[Any, Any]], optional: frozenset[int]) -> Iterator[tuple[Any, Any]]:
    """Yield the entries of a literal, without the optional ones that have no value."""
    for at, (key, value) in enumerate(entries):
        if at not in optional:
            yield key, value
        elif type(value) is not Optional:
            raise EvaluationError(NO_OVERLOAD)
        elif value.is_there:
            yield key, value.value


def _map(node: MapLiteral) -> Evaluate:
    entries = [(compile_expression(key), compile_expression(value)) for key, value in node.entries]
    optional = node.optional

    def evaluate(run: Evaluation) -> MapValue:
        items = [*_present(((key(run), value(run)) for key, value in entries), optional)]
        run.add(_MAP_COST)
        return MapValue(items)

    return evaluate


def _struct(node: StructLiteral) -> Evaluate:
    fields = [(name, compile_expression(value)) for name, value in node.fields]
    of, optional = CelType(node.name), node.optional

    def evaluate(run: Evaluation) -> StructValue:
        items = [*_present(((name, value(run)) for name, value in fields), optional)]
        run.add(_STRUCT_COST)
        return StructValue(of, MapValue(items))

    return evaluate


def _comprehension(node: Comprehension) -> Evaluate:
    over, start = compile_expression(node.range), compile_expression(node.start)
    condition, step = compile_expression(node.condition), compile_expression(node.step)
    result = compile_expression(node.result)
    first, second, accumulator = node.variable, node.second, node.accumulator

    def evaluate(run: Evaluation) -> Any:
        values = over(run)
        outer = run.variables
        inner = run.variables = {**outer, accumulator: start(run)}
        try:
            for item, other in _pairs(values, bool(second)):
                inner[first] = item
                if second:
                    inner[second] = other
                if not condition(run):
                    break
                try:
                    inner[accumulator] = step(run)
                except EvaluationError as error:
                    inner[accumulator] = error
            return _value(result(run))
        finally:
            run.variables = outer

    return evaluate


def _pairs(values: Any, two: bool) -> Any:
    if type(values) is MapValue:
        return values.items()
    if type(values) is not tuple:
        raise EvaluationError(f"got '{type_of_value(values)}', expected iterable type")
    return enumerate(values) if two else zip(values, values, strict=True)


# ---- calls -------------------------------------------------------------------------------------------


def _call(node: Call) -> Evaluate:
    operands = [compile_expression(argument) for argument in node.arguments]
    if node.function in ("_&&_", "_||_"):
        return _logic(operands, node.function == "_||_")
    if node.function == "_?_:_":
        return _conditional(*operands)
    if node.function == "@not_strictly_false":
        return _not_strictly_false(*operands)
    if node.function in ("_[_]", "_[?_]"):
        return _index(*operands, is_optional=node.function == "_[?_]")
    if (
        node.function == "@in"
        and isinstance(node.arguments[1], ListLiteral)
        and _is_constant(node.arguments[1])
    ):
        return _membership(*operands)
    if node.target is not None:
        operands.insert(0, compile_expression(node.target))
    if node.function in ("or", "orValue"):
        return _optional_or(*operands, unwraps=node.function == "orValue")
    if node.function in _PATTERNS:
        at = 1 if node.target is None else 0
        pattern = node.arguments[at] if at < len(node.arguments) else None
        if isinstance(pattern, Literal) and isinstance(pattern.value, str):
            compiled(pattern.value)
    return _overloads(operands, node.overloads)


def _is_constant(node: Expression) -> bool:
    """Whether a value is calculated once, before any evaluation, and costs nothing then."""
    match node:
        case Literal():
            return True
        case Identifier():
            return node.is_type
        case Select():
            return bool(node.type_name)
        case ListLiteral():
            return not node.optional and all(map(_is_constant, node.elements))
        case MapLiteral():
            return not node.optional and all(_is_constant(part) for entry in node.entries for part in entry)
        case Call():
            is_conversion = node.function in _CONVERSIONS and node.target is None
            return is_conversion and len(node.arguments) == 1 and _is_constant(node.arguments[0])
    return False


def _value(value: Any) -> Any:
    """A value, or the error that stands for it in an accumulator."""
    if isinstance(value, EvaluationError):
        raise value
    return value


def _logic(operands: list[Evaluate], decides: bool) -> Evaluate:
    """``||`` or ``&&``: the first operand that decides, whatever errors the others have."""

    def evaluate(run: Evaluation) -> bool:
        failure: EvaluationError | None = None
        for operand in operands:
            try:
                value = _value(operand(run))
            except EvaluationError as error:
                failure = failure or error
                continue
            if value is decides:
                return bool(value)
            if type(value) is not bool:
                failure = failure or EvaluationError(NO_OVERLOAD)
        if failure is not None:
            raise failure
        return not decides

    return evaluate


def _conditional(condition: Evaluate, then: Evaluate, otherwise: Evaluate) -> Evaluate:
    def evaluate(run: Evaluation) -> Any:
        value = condition(run)
        if type(value) is not bool:
            raise EvaluationError(NO_OVERLOAD)
        return _value(then(run) if value else otherwise(run))

    return evaluate


def _not_strictly_false(operand: Evaluate) -> Evaluate:
    def evaluate(run: Evaluation) -> bool:
        run.add(1)
        try:
            return bool(_value(operand(run)) is not False)
        except EvaluationError:
            return True

    return evaluate


def _index(operand: Evaluate, key: Evaluate, *, is_optional: bool) -> Evaluate:
    def evaluate(run: Evaluation) -> Any:
        values, at = operand(run), key(run)
        run.add(1)
        if is_optional or type(values) is Optional:
            return index_optional(values, at)
        return index(values, at)

    return evaluate


def _membership(element: Evaluate, values: Evaluate) -> Evaluate:
    """Whether a constant list has an element, which costs nothing."""

    def evaluate(run: Evaluation) -> bool:
        value, constants = _value(element(run)), values(run)
        if all(isinstance(constant, bool | int | float | str) for constant in constants):
            check_hashable(value)  # upstream makes a Go map of such constants
        return any(are_known_equal(value, constant) for constant in constants)

    return evaluate


def _overloads(operands: list[Evaluate], overloads: list[Overload]) -> Evaluate:
    def evaluate(run: Evaluation) -> Any:
        values = [_value(operand(run)) for operand in operands]
        for overload in overloads:
            if all(map(has_type, values, overload.parameters)):
                result = overload.apply(*values)
                run.add(overload.cost(*values, result))
                return result
        raise _no_overload(overloads[0].function, values)

    return evaluate


def _optional_or(operand: Evaluate, otherwise: Evaluate, *, unwraps: bool) -> Evaluate:
    """``or`` or ``orValue``: the second operand is evaluated if the first has no value."""

    def evaluate(run: Evaluation) -> Any:
        run.add(1)
        value = _value(operand(run))
        if type(value) is not Optional:
            return value
        if value.is_there:
            return value.value if unwraps else value
        return _value(otherwise(run))

    return evaluate


_NUMERIC = frozenset((int, Uint, float))
_MULTIPLIED = dict.fromkeys(("_*_", "_/_"), _NUMERIC)
_COMPARED = dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _NUMERIC | {bool, bytes, str, Duration, Timestamp})
_OPERANDS: dict[str, frozenset[type]] = {
    "_+_": _NUMERIC | {bytes, str, tuple, Duration, Timestamp},
    "_-_": _NUMERIC | {str, Duration, Timestamp},
    "_%_": _NUMERIC - {float} | {str, Duration, Timestamp},
    "-_": _NUMERIC - {Uint} | {bool, str, Duration, Timestamp},
    "size": frozenset((str, bytes, tuple, MapValue, Duration, Timestamp)),
    **{name: kinds | {str, Duration, Timestamp} for name, kinds in (_MULTIPLIED | _COMPARED).items()},
}
"""Classes of first operands that take a function, or refuse it in their own words (traits of cel-go)."""
_SINGLE = frozenset(("startsWith", "endsWith", "contains", "matches", "!_", "@in", "_[_]", "_==_", "_!=_"))
"""Functions with one implementation for all overloads: it refuses arguments without naming the function."""


def _no_overload(function: str, values: list[Any]) -> EvaluationError:
    if function in _OPERANDS:
        accepts = type(values[0]) in _OPERANDS[function]
        return EvaluationError(NO_OVERLOAD if accepts else f"{NO_OVERLOAD}: {function}")
    if function in ("sort", "@sortByAssociatedKeys"):
        is_list = type(values[-1]) is tuple
        return EvaluationError(
            "list elements must be comparable" if is_list else f"{NO_OVERLOAD}: {function}"
        )
    if function in _SINGLE or function.startswith(("_", "@")):
        return EvaluationError(NO_OVERLOAD)
    shown = ", ".join([type_of_value(value).name for value in values])
    return EvaluationError(f"{NO_OVERLOAD}: {function}({shown})")


# ---- literal checks ----------------------------------------------------------------------------------------
#
# Checks of literals after the type check (cel-go, cel/validator.go; Kubernetes' base environment).

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
    types = [type_of(node) for node in nodes]
    return [of.parameters[0] if at in optional and of.parameters else of for at, of in enumerate(types)]


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
        case StructLiteral():
            return [value for _, value in node.fields]
        case Comprehension():
            return (node.range, node.start, node.condition, node.step, node.result)
    return ()


def _of_one_type(nodes: Sequence[Expression], types: Sequence[CelType]) -> Iterator[Problem]:
    for node, other_type in zip(nodes[1:], types[1:], strict=True):
        if other_type != types[0]:
            wanted = _without_package(types[0])
            yield Problem(node.at, f"expected type '{wanted}' but found '{_without_package(other_type)}'")
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
            given = type_of(node)
            if given != DYN and given.name not in _KINDS[letter]:
                name = "google.protobuf.Any" if given == ANY else given.name
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
