"""Checks of the arguments of public functions, by the annotations of their parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from math import isfinite
from operator import index
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_WORDS = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "True or False",
    "None": "None",
    "Mapping[str, str]": "a mapping of strings to strings",
    "Mapping[str, float]": "a mapping of strings to numbers",
}
_TYPES = {"str": str, "bool": bool, "None": type(None)}


def typed(function: Callable[P, R]) -> Callable[P, R]:
    """Check the arguments of a function before it begins.

    An annotation of builtin types, callables, classes of the function's module, and sequences of these is
    checked. Other annotations are left to the function. An iterator is passed on as a list.

    Parameters
    ----------
    function : callable
        In a module with ``from __future__ import annotations``.

    Returns
    -------
    callable
        Raises TypeError with the name of the parameter for a value of another type, and ValueError for a
        number that is not finite. The function checks ranges.
    """
    signature = inspect.signature(function)
    kinds = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if parameter.annotation is not parameter.empty
    }
    several = {
        name for name, parameter in signature.parameters.items() if parameter.kind is parameter.VAR_POSITIONAL
    }

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return function(*args, **kwargs)  # which tells what is missing
        names = function.__globals__
        for name, value in bound.arguments.items():
            if name in several:
                bound.arguments[name] = tuple(argument(name, item, kinds[name], names) for item in value)
            elif name in kinds:
                bound.arguments[name] = argument(name, value, kinds[name], names)
        return function(*bound.args, **bound.kwargs)

    return call


def argument(name: str, value: Any, annotation: str, names: Mapping[str, Any] = {}) -> Any:
    """Check one argument.

    Parameters
    ----------
    annotation : str
        Such as ``int | None`` or ``str | Sequence[str]``.
    names : mapping of str to object, optional
        The classes that the annotation may name.

    Returns
    -------
    object
        The value; an int for one of numpy's whole numbers.

    Raises
    ------
    TypeError
        It is of another type.
    ValueError
        It is a number that is not finite.
    """
    choices = annotation.split(" | ")
    if not all(_is_known(choice, names) for choice in choices):
        return value
    for choice in choices:
        taken, fits = _as(choice, value, names)
        if fits:
            if type(taken) is float and not isfinite(taken):
                raise ValueError(f"{name} must be finite, not {taken}")
            return taken
    wanted = " or ".join(_words(choice, names) for choice in choices)
    raise TypeError(f"{name} must be {wanted}, not {_kind_of(value)}")


def check_fields(of: object, least: float | None = None) -> None:
    """Check the fields of a dataclass that are no defaults by their annotations, as `argument` does.

    Parameters
    ----------
    least : float, optional
        ValueError if one of the numbers is smaller.
    """
    kind = type(of)
    for name, annotation in kind.__annotations__.items():
        if (value := getattr(of, name)) is getattr(kind, name, check_fields):
            continue
        value = argument(name, value, annotation)
        if least is not None and isinstance(value, int | float) and value < least:
            raise ValueError(f"{name} must be at least {least}, not {value}")


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Put the name of a parameter before the text of a TypeError about its value."""
    try:
        yield
    except TypeError as error:
        raise TypeError(f"{name}{' ' if str(error).startswith('must be ') else ': '}{error}") from error


def _is_known(choice: str, names: Mapping[str, Any]) -> bool:
    item = _item(choice)
    return (
        choice in _WORDS
        or choice.startswith("Callable[")
        or isinstance(names.get(choice), type)
        or (item != "" and _is_known(item, names))
    )


def _item(choice: str) -> str:
    """The type of the items of a sequence or an iterable; "" for another type."""
    kind, _, rest = choice.partition("[")
    return rest[:-1] if kind in ("Sequence", "Iterable") else ""


def _words(choice: str, names: Mapping[str, Any]) -> str:
    item = _item(choice)
    fields = ", ".join(getattr(names.get(item), "_fields", ()))
    item += f"({fields})" * bool(fields)
    if choice.startswith("Callable["):
        return "a callable"
    return f"a sequence of {item}" if item else _WORDS.get(choice, f"a {choice}")


def _kind_of(value: Any) -> str:
    """The type of a value, and the types of the items of a list."""
    items = dict.fromkeys(type(item).__name__ for item in value) if isinstance(value, list | tuple) else ()
    return type(value).__name__ + (f" of {', '.join(items)}" if items else "")


def _as(choice: str, value: Any, names: Mapping[str, Any]) -> tuple[Any, bool]:
    """A value as one of a type, and whether it is."""
    if item := _item(choice):
        if isinstance(value, str | bytes | Mapping | set | frozenset):  # a set has no order
            return value, False
        try:
            items = value if hasattr(value, "__getitem__") else list(value)
            return items, all(_as(item, member, names)[1] for member in items)
        except TypeError:
            return value, False
    if choice.startswith("Mapping[str, "):
        of = choice[len("Mapping[str, ") : -1]
        pairs = value.items() if isinstance(value, Mapping) else ((None, None),)
        return value, all(isinstance(key, str) and _as(of, member, names)[1] for key, member in pairs)
    if choice.startswith("Callable["):
        return value, callable(value)
    if choice in ("int", "float"):
        if isinstance(value, bool):
            return value, False
        if choice == "float" and isinstance(value, float):
            return value, True
        try:
            return index(value), True
        except TypeError:
            return value, False
    return value, isinstance(value, _TYPES.get(choice) or names[choice])
