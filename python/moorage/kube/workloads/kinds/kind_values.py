"""JSON values of objects, and the groups of pods that follow from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from moorage.errors import InputError

Values = dict[str, Any]
"""An object as a JSON value."""
Find = Callable[[str, str, str], Values | None]
"""Returns a listed object by its kind with its group, its namespace and its name."""


class Group(NamedTuple):
    """Pods of one template that an object asks for.

    Attributes
    ----------
    name : str
        Name of the pods; one that ends in ``-`` is completed at random, and ``{index}`` counts the pods.
    number : int
    template : dict
        Metadata and spec, as a JSON value.
    path : str
        Of the template in the object, for errors.
    first : int
        The first index.
    is_job : bool
        Whether the template is that of a Job.
    """

    name: str
    number: int
    template: Values
    path: str = "spec"
    first: int = 0
    is_job: bool = False


Groups = Iterator[Group]


def map_of(value: Any, *names: str) -> Values:
    """Return a map inside of a map; empty if there is none.

    Parameters
    ----------
    *names : str
        Keys from the outside in.
    """
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def maps_of(value: Any) -> list[Values]:
    """Return the maps in a list; none if it is no list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def number_of(value: Any, default: int, path: str) -> int:
    """Return a number of pods.

    Parameters
    ----------
    value : object
        None is the default.
    default : int
    path : str
        Path of the field, for errors.

    Raises
    ------
    InputError
        It is not a whole number.
    """
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError("not a whole number", path=path)
    return value


def picked(value: Values, *names: str) -> Values:
    """Return those fields of a map that are set."""
    return {name: value[name] for name in names if value.get(name) is not None}


def name_of(obj: Values) -> str:
    """Return the name of an object."""
    return str(map_of(obj, "metadata").get("name", ""))
