"""What waits for its first use: attributes of objects, and the names of a room."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
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


def names_at_first_use(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a room that imports names at first use.

    Imports under TYPE_CHECKING say the same to type checkers and readers (PEP 562).

    Parameters
    ----------
    package : str
        ``__name__`` of the room.
    modules : mapping of str to str
        The names that a module has, with spaces between them, by the module: relative to the room with a dot
        in front, as in an import, else absolute.
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}
    room = vars(sys.modules[package])

    def import_name(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)
        value: object = getattr(import_module(homes[name], package), name)
        room[name] = value
        return value

    return import_name, lambda: sorted(room.keys() | homes.keys()), [*homes]
