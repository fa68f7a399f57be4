"""What an answer is as a document: a Struct whose fields are those of ``-o json``, in their order.

The docstring below a field says what it means. ``make schemas`` makes the JSON schemas from both.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from msgspec import UNSET, Meta, Struct, json

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
        """Return the document of an object, whose attributes are its fields, but for some others.

        A part that has a document of its own is replaced by it. Of fields that an answer may lack, those are
        left out that are None, or an empty text.
        """
        names = [name for name in cls.__struct_fields__ if hasattr(source, name)]
        parts = {name: getattr(source, name) for name in names if name not in others} | others
        defaults = dict(zip(reversed(cls.__struct_fields__), reversed(cls.__struct_defaults__), strict=False))
        lacks = {name for name, part in parts.items() if defaults.get(name) is UNSET and part in (None, "")}
        return cls(**{name: shown(part) for name, part in parts.items() if name not in lacks})

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON value."""
        value: dict[str, Any] = json.decode(json.encode(self))  # to_builtins keeps tuples
        return value


def shown(part: Any) -> Any:
    """Return an attribute, or a list of answers, as documents have it."""
    if hasattr(part, "document"):
        return part.document()
    return [*map(shown, part)] if type(part) in (list, tuple) else part
