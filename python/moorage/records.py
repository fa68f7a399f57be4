"""`NamedTuple` of `typing`, without its compiling of each field's annotation, the most that a class costs."""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:

    class _Maker(type):
        """Makes a named tuple of the annotations and defaults of a class, with its methods."""

        def __new__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, members)
            types = members.get("__annotations__", {})
            defaults = [members.pop(field) for field in types if field in members]
            tuple_class = namedtuple(name, types, defaults=defaults, module=members["__module__"])
            tuple_class.__bases__ = *tuple_class.__bases__, *[base for base in bases if type(base) is not cls]
            tuple_class.__new__.__annotations__ = types
            for key, member in members.items():
                setattr(tuple_class, key, member)
            return tuple_class

    class NamedTuple(metaclass=_Maker):
        """See `typing.NamedTuple`."""
