"""What a struct's fields are in Go: how they are read and written, and what errors call them."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Meta
from msgspec.structs import fields

from moorage.framework.configuration.types import Part
from moorage.framework.runtime.duration import format_nanoseconds

Kind = Literal["string", "bool", "int", "float", "bytes", "duration", "raw", "list", "map", "struct"]

_SCALARS: dict[object, tuple[str, Kind, Any]] = {
    str: ("string", "string", ""),
    bool: ("bool", "bool", False),
    bytes: ("[]uint8", "bytes", b""),
    float: ("float32", "float", 0.0),
    Any: ("runtime.RawExtension", "raw", None),
}


@dataclass(frozen=True, slots=True)
class GoType:
    """A type: its name in Go's error texts, how it is read, and its zero value.

    Attributes
    ----------
    pointer : bool
        Whether it is a pointer to such a value: None then stands for nil.
    bits : int
        Size of an integer.
    item : GoType or None
        Element type of a list.
    struct : type or None
        The struct itself.
    """

    name: str
    kind: Kind
    zero: Any = None
    pointer: bool = False
    bits: int = 0
    item: GoType | None = None
    struct: type[Part] | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct: its attribute, its name on the wire, and its type."""

    attribute: str
    wire: str
    type: GoType


def _go_type(hint: Any, *, pointer: bool = False) -> GoType:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        (inner,) = (argument for argument in arguments if argument is not type(None))
        return _go_type(inner, pointer=True)
    if origin is list:
        item = _go_type(arguments[0])
        return GoType(f"[]{item.name}", "list", item=item)
    if origin is dict:
        item = _go_type(arguments[1])
        return GoType(f"map[string]{item.name}", "map", item=item)
    if origin is Annotated:
        return _annotated(arguments[0], arguments[1], pointer)
    if isinstance(hint, type) and issubclass(hint, Part):
        return GoType(f"{hint.go_package}.{hint.__name__}", "struct", pointer=pointer, struct=hint)
    name, kind, zero = _SCALARS[hint]
    return GoType(name, kind, zero, pointer)


def _annotated(base: type, meta: Meta, pointer: bool) -> GoType:
    if base is not int:
        _, kind, zero = _SCALARS[base]
        return GoType(meta.title or "", kind, zero, pointer)
    if meta.title:
        return GoType(meta.title, "duration", 0, pointer)
    bits = 32 if meta.le == 2**31 - 1 else 64
    return GoType(f"int{bits}", "int", 0, pointer, bits)


@cache
def go_fields(struct: type[Part]) -> dict[str, Field]:
    """Wire name to field."""
    hints = get_type_hints(struct, include_extras=True)
    return {
        info.encode_name: Field(info.name, info.encode_name, _go_type(hints[info.name]))
        for info in fields(struct)
    }


def write(part: Part) -> dict[str, Any]:
    """A struct as the JSON value that Go writes for it."""
    value = {}
    for one in go_fields(type(part)).values():
        item = getattr(part, one.attribute)
        if one.attribute in part.always or not _is_empty(item, one.type):
            value[one.wire] = _write(item, one.type)
    return value


def _is_empty(item: Any, type_: GoType) -> bool:
    """Whether Go's ``omitempty`` leaves it out: nil pointers, empty lists, zero scalars; never a struct."""
    if type_.pointer or item is None:
        return item is None
    return type_.kind != "struct" and not item


def _write(item: Any, type_: GoType) -> Any:
    if item is None:
        return None
    match type_.kind:
        case "struct":
            return write(item)
        case "list" if type_.item is not None:
            return [_write(one, type_.item) for one in item]
        case "duration":
            return format_nanoseconds(item)
        case "bytes":
            return base64.b64encode(item).decode()
    return item
