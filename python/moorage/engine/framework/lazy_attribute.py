"""Attributes that are computed at their first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property

    lazy_attribute = cached_property
else:

    class lazy_attribute:  # noqa: N801  # a decorator, like property
        """Makes a method the source of an attribute, which is computed once for each object.

        Unlike `functools.cached_property` it leaves the attributes of the object where the interpreter reads
        them fastest: CPython 3.11 and 3.12 read every attribute of an object several times slower once its
        ``__dict__`` has been used.

        Parameters
        ----------
        compute : callable
            Returns the value, from the object.
        """

        def __init__(self, compute: Callable[[Any], Any]) -> None:
            self.compute, self.__doc__ = compute, compute.__doc__

        def __get__(self, holder: object | None, owner: type) -> Any:
            """Compute and set the attribute of an object, which hides this descriptor from then on."""
            if holder is None:
                return self
            value = self.compute(holder)
            object.__setattr__(holder, self.compute.__name__, value)  # frozen dataclasses allow no other way
            return value
