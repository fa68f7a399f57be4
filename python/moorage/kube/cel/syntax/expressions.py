"""The syntax tree of an expression."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..cel_types import DYN, CelType


@dataclass(slots=True, eq=False)
class Expression:
    """A node of the tree.

    Attributes
    ----------
    at : int
        Offset in the text that errors show.
    type : CelType
        Set by the type checker.
    """

    at: int
    type: CelType = field(default=DYN, init=False)


@dataclass(slots=True, eq=False)
class Literal(Expression):
    """A constant."""

    value: Any
    literal_type: CelType


@dataclass(slots=True, eq=False)
class Identifier(Expression):
    """A variable or the name of a type; the type checker sets `is_type`."""

    name: str
    is_type: bool = field(default=False, init=False)


@dataclass(slots=True, eq=False)
class Select(Expression):
    """A field of a value: ``a.b``, ``has(a.b)`` with `tests_presence`, ``a.?b`` with `is_optional`.

    Or the name of a type; the type checker sets `type_name`.
    """

    operand: Expression
    name: str
    tests_presence: bool = False
    is_optional: bool = False
    type_name: str = field(default="", init=False)


@dataclass(slots=True, eq=False)
class Call(Expression):
    """The call of a function or operator.

    Attributes
    ----------
    overloads : list
        Those whose parameters the arguments fit; set by the type checker.
    """

    function: str
    target: Expression | None
    arguments: list[Expression]
    overloads: list[Any] = field(default_factory=list, init=False)


@dataclass(slots=True, eq=False)
class ListLiteral(Expression):
    """``[a, ?b]``; `optional` has the indices of optional elements."""

    elements: list[Expression]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class MapLiteral(Expression):
    """``{k: v, ?l: w}``; `optional` has the indices of optional entries."""

    entries: list[tuple[Expression, Expression]]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class Comprehension(Expression):
    """A fold over a list or map, to which macros expand.

    `second` is the name of a second variable, or "": then lists give their elements and maps their keys, else
    lists give index and element and maps key and value.
    """

    variable: str
    second: str
    range: Expression
    accumulator: str
    start: Expression
    condition: Expression
    step: Expression
    result: Expression
