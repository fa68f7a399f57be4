"""Attributes that are computed at their first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class lazy_attribute(Generic[T]):  # noqa: N801  # a decorator, like property
    """Makes a method the source of an attribute, which is computed once for each object.

    Unlike `functools.cached_property` it leaves the attributes of the object where the interpreter reads them
    fastest: CPython 3.11 and 3.12 read every attribute of an object several times slower once its
    ``__dict__`` has been used.

    Parameters
    ----------
    compute : callable
        Returns the value, from the object.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute = compute
        self.name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, holder: None, owner: type) -> Self: ...

    @overload
    def __get__(self, holder: object, owner: type) -> T: ...

    def __get__(self, holder: object | None, owner: type) -> T | Self:
        """Compute and set the attribute of an object, which hides this descriptor from then on."""
        if holder is None:
            return self
        value = self.compute(holder)
        object.__setattr__(holder, self.name, value)  # frozen dataclasses allow no other way
        return value
