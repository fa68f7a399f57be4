"""Overloads of functions: parameters, results, what they do and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Any

from msgspec import Struct

from .cel_types import CelType
from .values import size_of

Apply = Callable[..., Any]
"""Returns the result of a call from its arguments, or raises EvaluationError."""
Cost = Callable[..., int]
"""Returns the cost of a call from its arguments and its result (the last argument)."""


def one(*values: Any) -> int:
    """Return the cost of calls that take the same time for all arguments."""
    return 1


def nothing(*values: Any) -> int:
    """Return the cost of calls that are free."""
    return 0


def traversal(*values: Any) -> int:
    """Return the cost of reading the first argument."""
    return ceil(size_of(values[0]) / 10)


def two_traversals(*values: Any) -> int:
    """Return the cost of reading the first argument and writing as much."""
    return ceil(size_of(values[0]) * 2 / 10)


def result_traversals(*values: Any) -> int:
    """Return the cost of writing the result."""
    return ceil(size_of(values[-1]) * 2 / 10)


def both(*values: Any) -> int:
    """Return the cost of reading two arguments."""
    return ceil((size_of(values[0]) + size_of(values[1])) / 10)


def shorter(*values: Any) -> int:
    """Return the cost of comparing two arguments."""
    return ceil(min(size_of(values[0]), size_of(values[1])) / 10)


def product(*values: Any) -> int:
    """Return the cost of finding the second argument in the first."""
    return ceil(size_of(values[0]) / 10) * ceil(size_of(values[1]) / 10)


def pattern(*values: Any) -> int:
    """Return the cost of matching a regular expression."""
    return ceil((1 + size_of(values[0])) / 10) * ceil(size_of(values[1]) / 4)


def second(*values: Any) -> int:
    """Return the cost of looking at each element of the second argument."""
    return size_of(values[1])


def elements(*values: Any) -> int:
    """Return the cost of traversing a list with its elements."""
    value = values[0]
    if not isinstance(value, tuple):
        return ceil(size_of(value) / 10)
    return sum(1 + (ceil(size_of(item) / 10) if isinstance(item, str | bytes) else 0) for item in value)


class Overload(Struct, frozen=True, eq=False):
    """One way to call a function.

    Attributes
    ----------
    function : str
    parameters : tuple of CelType
        Of member functions, the receiver first.
    result : CelType
    is_member : bool
    apply : callable
        Returns the result from the arguments, or raises EvaluationError.
    cost : callable
    """

    function: str
    parameters: tuple[CelType, ...]
    result: CelType
    is_member: bool
    apply: Apply
    cost: Cost = one


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
        cost: Cost = one,
    ) -> None:
        """Add an overload that is called ``name(a, b)``.

        Parameters
        ----------
        apply : callable
            Returns the result from the arguments.
        """
        self._add(Overload(name, tuple(parameters), result, False, apply, cost))

    def member(
        self,
        name: str,
        parameters: Sequence[CelType],
        result: CelType,
        apply: Apply,
        cost: Cost = one,
    ) -> None:
        """Add an overload that is called ``a.name(b)``; parameters as of `function`.

        Parameters
        ----------
        parameters : sequence of CelType
            The type of ``a`` first.
        apply : callable
            Returns the result from the arguments.
        """
        self._add(Overload(name, tuple(parameters), result, True, apply, cost))

    def _add(self, overload: Overload) -> None:
        self.functions.setdefault(overload.function, []).append(overload)
