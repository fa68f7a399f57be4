"""What an answer is as a document: a Struct whose fields are those of ``-o json``, in their order.

The docstring below a field says what it means. ``make schemas`` makes the JSON schemas from both.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from msgspec import Meta, Struct, json

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Amount = Annotated[float, Meta(ge=0)]


class Document(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """An answer, or a part of one.

    A field that an answer may lack has the type ``… | UnsetType`` and the default ``UNSET``; or its default
    stands for it, in a part with ``omit_defaults``. An answer of its own has ``kw_only`` and begins with
    ``api_version`` and ``kind``, each a `Literal` with its default.
    """

    @classmethod
    def from_object(cls, source: object, **others: Any) -> Self:
        """Return the document of an object, whose attributes are its fields, but for some others."""
        names = [name for name in cls.__struct_fields__ if name not in others and hasattr(source, name)]
        return cls(**{name: getattr(source, name) for name in names}, **others)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON value."""
        value: dict[str, Any] = json.decode(json.encode(self))  # to_builtins keeps tuples
        return value
