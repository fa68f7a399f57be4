"""Overloads of functions, and the check of types that finds them (cel-go, checker/checker.go)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partialmethod
from math import ceil
from typing import Any

from msgspec import Struct

from .cel_errors import CompileError, Problem
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
    qualified,
)
from .values import (
    ANY,
    BOOL,
    DYN,
    ERROR,
    INT,
    TYPE_NAMES,
    CelType,
    Substitutions,
    are_assignable,
    list_of,
    map_of,
    more_general,
    optional_of,
    size_of,
    substitute,
    type_of,
)

# ---- overloads ---------------------------------------------------------------------------------------------
#
# Overloads of functions: parameters, results, what they do and what they cost.

Apply = Callable[..., Any]
"""Returns the result of a call from its arguments, or raises EvaluationError."""
Cost = Callable[..., int]
"""Returns the cost of a call from its arguments and its result (the last argument)."""


def constant_cost(*values: Any) -> int:
    """Return the cost of calls that take the same time for all arguments."""
    return 1


def no_cost(*values: Any) -> int:
    """Return the cost of calls that are free."""
    return 0


def traversal_cost(*values: Any) -> int:
    """Return the cost of reading the first argument."""
    return ceil(size_of(values[0]) / 10)


def two_traversals_cost(*values: Any) -> int:
    """Return the cost of reading the first argument and writing as much."""
    return ceil(size_of(values[0]) * 2 / 10)


def result_traversals_cost(*values: Any) -> int:
    """Return the cost of writing the result."""
    return ceil(size_of(values[-1]) * 2 / 10)


def both_cost(*values: Any) -> int:
    """Return the cost of reading two arguments."""
    return ceil((size_of(values[0]) + size_of(values[1])) / 10)


def shorter_cost(*values: Any) -> int:
    """Return the cost of comparing two arguments."""
    return ceil(min(size_of(values[0]), size_of(values[1])) / 10)


def product_cost(*values: Any) -> int:
    """Return the cost of finding the second argument in the first."""
    return ceil(size_of(values[0]) / 10) * ceil(size_of(values[1]) / 10)


def pattern_cost(*values: Any) -> int:
    """Return the cost of matching a regular expression."""
    return ceil((1 + size_of(values[0])) / 10) * ceil(size_of(values[1]) / 4)


def second_cost(*values: Any) -> int:
    """Return the cost of looking at each element of the second argument."""
    return size_of(values[1])


def elements_cost(*values: Any) -> int:
    """Return the cost of traversing a list with its elements."""
    value = values[0]
    if not isinstance(value, tuple):
        return ceil(size_of(value) / 10)
    return sum(1 + (ceil(size_of(item) / 10) if isinstance(item, str | bytes) else 0) for item in value)


class Overload(Struct, frozen=True, eq=False):
    """One way to call a function.

    Attributes
    ----------
    parameters : tuple of CelType
        Of member functions, the receiver first.
    apply : callable
        Returns the result from the arguments, or raises EvaluationError.
    """

    function: str
    parameters: tuple[CelType, ...]
    result: CelType
    is_member: bool
    apply: Apply
    cost: Cost = constant_cost


class Library:
    """Overloads by function."""

    def __init__(self) -> None:
        self.functions: dict[str, list[Overload]] = {}

    def function(
        self,
        name: str,
        parameters: Sequence[CelType],
        result: CelType,
        apply: Apply,
        cost: Cost = constant_cost,
        is_member: bool = False,
    ) -> None:
        """Add an overload that is called ``name(a, b)``.

        Parameters
        ----------
        parameters : sequence of CelType
            The type of ``a`` first.
        apply : callable
            Returns the result from the arguments.
        is_member : bool
            Whether it is called ``a.name(b)``.
        """
        overload = Overload(name, tuple(parameters), result, is_member, apply, cost)
        self.functions.setdefault(name, []).append(overload)

    member = partialmethod(function, is_member=True)


# ---- type checker ------------------------------------------------------------------------------------------

Fields = Callable[[str], CelType | None]
"""Returns the type of a field; None for one that is not there."""
Structs = Callable[[str], Fields | None]
"""Returns the fields of a type; None for a type that has none, or is not known."""


def is_one_edit_apart(name: str, other: str) -> bool:
    """Whether two names differ in one letter, which is another one, or missing in one of them."""
    at = next((at for at, pair in enumerate(zip(name, other, strict=False)) if pair[0] != pair[1]), None)
    at = min(len(name), len(other)) if at is None else at
    rests = (name[at + 1 :], other[at + 1 :]), (name[at + 1 :], other[at:]), (name[at:], other[at + 1 :])
    return name != other and any(mine == its for mine, its in rests)


class TypeChecker:
    """Checks one expression.

    Parameters
    ----------
    structs : callable, optional
        Returns the fields of a type by its name; by default no type has fields.
    suggestions : collection of str, optional
        Names that an error may suggest for another one, as CEL does in Kubernetes 1.38; by default it names
        the container, as before.
    """

    def __init__(
        self,
        text: str,
        functions: dict[str, list[Overload]],
        variables: dict[str, CelType],
        structs: Structs = lambda _: None,
        suggestions: Collection[str] | None = None,
    ) -> None:
        self._suggestions = suggestions
        self._text = text
        self._functions = functions
        self._scopes = [variables]
        self._structs = structs
        self._substitutions: Substitutions = {}
        self._problems: list[Problem] = []
        self._parameters = 0

    def check(self, root: Expression) -> CelType:
        """Check an expression and set the types of all its parts.

        Returns
        -------
        CelType
            The type of the result.

        Raises
        ------
        CompileError
            An expression has a wrong type, or a name is unknown.
        """
        self._visit(root)
        if self._problems:
            raise CompileError(self._text, self._problems)
        return substitute(root.type, self._substitutions, final=True)

    def final(self, of: Expression) -> CelType:
        """Return the type of a part, after the check."""
        return substitute(of.type, self._substitutions, final=True)

    def _wrong(self, at: int, message: str) -> CelType:
        self._problems.append(Problem(at, message))
        return ERROR

    def _visit(self, node: Expression) -> CelType:
        match node:
            case Literal():
                node.type = node.literal_type
            case Identifier():
                node.type = self._identifier(node)
            case Select():
                node.type = self._select(node)
            case Call():
                node.type = self._call(node)
            case ListLiteral():
                node.type = self._list(node)
            case MapLiteral():
                node.type = self._map(node)
            case StructLiteral():
                node.type = self._struct(node)
            case Comprehension():
                node.type = self._comprehension(node)
        return node.type

    def _now(self, of: CelType) -> CelType:
        return substitute(of, self._substitutions)

    def _assign(self, given: list[CelType], wanted: list[CelType]) -> bool:
        substitutions = are_assignable(given, wanted, self._substitutions)
        if substitutions is not None:
            self._substitutions = substitutions
        return substitutions is not None

    def _fresh(self) -> CelType:
        self._parameters += 1
        return CelType(f"_var{self._parameters}", is_parameter=True)

    # ---- parts ----------------------------------------------------------------------------------------

    def _identifier(self, node: Identifier) -> CelType:
        for scope in reversed(self._scopes):
            if node.name in scope:
                return scope[node.name]
        if node.name in TYPE_NAMES:
            node.is_type = True
            return type_of(TYPE_NAMES[node.name])
        return self._undeclared(node.at, node.name)

    def _undeclared(self, at: int, name: str) -> CelType:
        text = f"undeclared reference to '{name}'"
        if self._suggestions is None:
            return self._wrong(at, f"{text} (in container '')")
        near = next((known for known in sorted(self._suggestions) if is_one_edit_apart(name, known)), "")
        return self._wrong(at, f"{text} (did you mean '{near}'?)" if near else text)

    def _select(self, node: Select) -> CelType:
        name = qualified(node)
        if name in TYPE_NAMES:
            node.type_name = name
            return type_of(TYPE_NAMES[name])
        operand = self._now(self._visit(node.operand))
        is_optional = node.is_optional
        if operand.name == "optional_type":
            operand, is_optional = self._now(operand.parameters[0]), True
        field_type = self._field(node, operand)
        if node.tests_presence:
            return BOOL
        return optional_of(field_type) if is_optional and field_type != ERROR else field_type

    def _field(self, node: Select, operand: CelType) -> CelType:
        if operand.name == "map":
            return operand.parameters[1]
        fields = self._structs(operand.name)
        if fields is not None:
            return fields(node.name) or self._wrong(node.at, f"undefined field '{node.name}'")
        if operand.is_dynamic or operand.is_parameter:
            return ERROR if operand == ERROR else DYN
        return self._wrong(node.at, f"type '{operand}' does not support field selection")

    def _call(self, node: Call) -> CelType:
        for argument in node.arguments:
            self._visit(argument)
        if node.function in ("_&&_", "_||_"):
            return self._logic(node)
        space = None if node.target is None else qualified(node.target)
        if space is not None and f"{space}.{node.function}" in self._functions:
            node.function, node.target = f"{space}.{node.function}", None
        if node.target is not None:
            self._visit(node.target)
        overloads = self._functions.get(node.function)
        if overloads is None:
            return self._undeclared(node.at, node.function)
        return self._resolve(node, overloads)

    def _logic(self, node: Call) -> CelType:
        given = [self._now(argument.type) for argument in node.arguments]
        if self._assign(given, [BOOL] * len(given)):
            return BOOL
        return self._no_overload(node, given)

    def _resolve(self, node: Call, overloads: list[Overload]) -> CelType:
        operands = node.arguments if node.target is None else [node.target, *node.arguments]
        given = [self._now(operand.type) for operand in operands]
        result: CelType | None = None
        for overload in overloads:
            if overload.is_member != (node.target is not None):
                continue
            names: Substitutions = {}
            wanted = [self._renamed(parameter, names) for parameter in overload.parameters]
            returned = self._renamed(overload.result, names)
            if not self._assign(given, wanted):
                continue
            node.overloads.append(overload)
            returns = self._now(returned)
            if result is None:
                result = returns
            elif result != DYN and returns != result:
                result = DYN
        return self._no_overload(node, given) if result is None else result

    def _renamed(self, of: CelType, names: Substitutions) -> CelType:
        """A type with parameters of its own for each call."""
        if of.is_parameter:
            if of.name not in names:
                names[of.name] = self._fresh()
            return names[of.name]
        if not of.parameters:
            return of
        return CelType(of.name, tuple([self._renamed(parameter, names) for parameter in of.parameters]))

    def _no_overload(self, node: Call, given: list[CelType]) -> CelType:
        if ERROR in given:
            return ERROR
        shown = [str(substitute(given_type, self._substitutions, final=True)) for given_type in given]
        rest = f"({', '.join(shown if node.target is None else shown[1:])})"
        signature = rest if node.target is None else f"{shown[0]}.{rest}"
        text = f"found no matching overload for '{node.function}' applied to '{signature}'"
        return self._wrong(node.at, text)

    def _joined(self, node: Expression, known: CelType | None, is_optional: bool = False) -> CelType:
        """The type of the elements of a literal, after one more of them."""
        joined = self._now(self._visit(node))
        if is_optional:
            wrapped = optional_of(self._fresh())
            if not self._assign([joined], [wrapped]):
                return self._mismatch(node.at, wrapped, joined)
            joined = self._now(wrapped.parameters[0])
        if known is None:
            return joined
        return more_general(known, joined) if self._assign([known], [joined]) else DYN

    def _mismatch(self, at: int, wanted: CelType, actual: CelType) -> CelType:
        if ERROR in (wanted, actual):
            return ERROR
        return self._wrong(at, f"expected type '{wanted}' but found '{actual}'")

    def _list(self, node: ListLiteral) -> CelType:
        known: CelType | None = None
        for at, element in enumerate(node.elements):
            known = self._joined(element, known, at in node.optional)
        return list_of(self._fresh() if known is None else known)

    def _map(self, node: MapLiteral) -> CelType:
        keys: CelType | None = None
        values: CelType | None = None
        for at, (key, value) in enumerate(node.entries):
            keys = self._joined(key, keys)
            values = self._joined(value, values, at in node.optional)
        if keys is None or values is None:
            return map_of(self._fresh(), self._fresh())
        return map_of(keys, values)

    def _struct(self, node: StructLiteral) -> CelType:
        fields = self._structs(node.name)
        if fields is None:
            return self._undeclared(node.at, node.name)
        for at, (name, value) in enumerate(node.fields):
            given, wanted = self._now(self._visit(value)), fields(name)
            if wanted is None:
                self._wrong(value.at, f"undefined field '{name}'")
                continue
            if not self._assign([given], [optional_of(wanted) if at in node.optional else wanted]):
                text = f"expected type of field '{name}' is '{wanted}' but provided type is '{given}'"
                self._wrong(value.at, text)
        return CelType(node.name)

    def _comprehension(self, node: Comprehension) -> CelType:
        over = self._now(self._visit(node.range))
        first, second = self._variables(node, over)
        start = self._visit(node.start)
        self._scopes.append({node.accumulator: start})
        scope = {node.variable: first}
        if node.second:
            scope[node.second] = second
        self._scopes.append(scope)
        self._wanted(node.condition, BOOL)
        self._wanted(node.step, start)
        self._scopes.pop()
        result = self._visit(node.result)
        self._scopes.pop()
        return self._now(result)

    def _wanted(self, node: Expression, wanted: CelType) -> None:
        actual = self._visit(node)
        if not self._assign([self._now(actual)], [self._now(wanted)]):
            self._mismatch(node.at, self._now(wanted), self._now(actual))

    def _variables(self, node: Comprehension, over: CelType) -> tuple[CelType, CelType]:
        if over.name == "list":
            return (INT, over.parameters[0]) if node.second else (over.parameters[0], DYN)
        if over.name == "map":
            return over.parameters[0], over.parameters[1]
        if over == ANY or not (over.is_dynamic or over.is_parameter):
            text = f"expression of type '{over}' cannot be range of a comprehension"
            return self._wrong(node.range.at, f"{text} (must be list, map, or dynamic)"), ERROR
        return DYN, DYN
