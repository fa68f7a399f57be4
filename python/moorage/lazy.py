"""What waits for its first use: attributes of objects, types of named tuples, and the names of a room."""

from __future__ import annotations

import re
import sys
from collections import namedtuple
from collections.abc import Callable
from importlib import import_module
from os.path import splitext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property
    from typing import NamedTuple as NamedTuple

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

    class _Maker(type):
        """Makes a named tuple of the annotations and defaults of a class, with its methods."""

        def __new__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, members)
            types = members.get("__annotations__", {})
            defaults = {field: members.pop(field) for field in types if field in members}
            if [*defaults] != [*types][len(types) - len(defaults) :]:  # `namedtuple` takes them for the last
                raise TypeError(f"{name}: a field without a default follows one that has a default")
            tuple_class = namedtuple(name, types, defaults=defaults.values(), module=members["__module__"])
            tuple_class.__bases__ = *tuple_class.__bases__, *[base for base in bases if type(base) is not cls]
            tuple_class.__new__.__annotations__ = types
            for key, member in members.items():
                setattr(tuple_class, key, member)
            return tuple_class

    class NamedTuple(metaclass=_Maker):
        """That of `typing`, without its compiling of each annotation, which is most of what a class costs."""


class _Text:
    """The text of an error, made when it is read: whoever imports a module of a package asks the package for
    the name of the module first, and hints are slow."""

    def __init__(self, tell: Callable[[], str]) -> None:
        self.tell = tell

    def __str__(self) -> str:
        return self.tell()


_IMPORT = re.compile(r"^from (\S+) import \(?\s*(\w+) as ", re.MULTILINE)


def names_at_first_use(
    package: str, file: str
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package that imports its names at first use.

    The stub beside its ``__init__.py`` says them and where each is from: a name per import, with ``as``. A
    module of the package may be one of them, for neighbours; it is not public.

    Parameters
    ----------
    package, file : str
        ``__name__`` and ``__file__`` of the package.
    """
    with open(f"{splitext(file)[0]}.pyi", encoding="utf-8") as stub:  # pathlib is a tenth of a help's time
        imports = _IMPORT.findall(stub.read())
    homes = {name: module for module, name in imports}
    public = [name for name, module in homes.items() if module != "."]
    room = vars(sys.modules[package])

    def import_name(name: str) -> object:
        if name not in homes:

            def tell() -> str:
                from moorage.errors import nearest

                hint = "" if name.startswith("_") else nearest(name, homes)  # tools ask for such names
                return f"module {package!r} has no attribute {name!r}{hint}"

            raise AttributeError(_Text(tell), name=name)
        if homes[name] == ".":  # which the import enters in the package
            return import_module(f".{name}", package)
        value: object = getattr(import_module(homes[name], package), name)
        room[name] = value
        return value

    return import_name, lambda: sorted(room.keys() | homes.keys()), public
