"""Decodes and encodes structs from JSON as Go does, with Go's error messages.

Structs are decoded as by the strict decoder of Kubernetes (sigs.k8s.io/json, UnmarshalStrict). Field names
are case-sensitive. Unknown and duplicate fields are collected. Of several values with a wrong type the first
is the error. A malformed duration, quantity or time ends the decoding. The structs of Kubernetes' kinds are
those of field_names.json, with the types of field_types.txt; others are classes.
"""

from __future__ import annotations

import base64
import binascii
import json
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from functools import cache
from operator import itemgetter
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from msgspec import Meta, Struct
from msgspec.structs import fields

from moorage._core.base.quantity import parse as parse_quantity

from ..field_errors import Fault, Json
from ..go_texts import format_nanoseconds, parse_duration, quote

Kind = Literal[
    "string", "bool", "int", "float", "bytes", "raw", "list", "map", "struct", "duration", "intOrString",
    "quantity", "time",
]  # fmt: skip


class Part(Struct, rename="camel", kw_only=True):
    """A struct of Go, such as a part of a configuration."""

    go_package: ClassVar[str] = "v1"
    always: ClassVar[tuple[str, ...]] = ()
    """Attributes without ``omitempty``: they are written even if they are zero."""
    embedded: ClassVar[dict[str, str]] = {}
    """Attribute to the embedded Go struct that has it; error texts have its name."""


_HOLDERS: dict[str, Kind] = {"[]": "list", "map[string]": "map"}
_SCALARS: dict[object, tuple[str, Kind, Any]] = {
    str: ("string", "string", ""),
    bool: ("bool", "bool", False),
    bytes: ("[]uint8", "bytes", b""),
    float: ("float32", "float", 0.0),
    Any: ("runtime.RawExtension", "raw", None),
}


class GoType(Struct, frozen=True):
    """A Go type.

    Attributes
    ----------
    pointer : bool
        Whether the type is a pointer; None is nil.
    bits : int
        Size of an integer type.
    item : GoType or None
        Element type of a list.
    struct : type, str or None
        Class of a struct type; of the structs of Kubernetes' kinds the name, and values are JSON.
    """

    name: str
    kind: Kind
    zero: Any = None
    pointer: bool = False
    bits: int = 0
    item: GoType | None = None
    struct: type[Part] | str | None = None


_INT32, _RAW = GoType("int32", "int", bits=32), GoType("", "raw")


class Field(Struct, frozen=True):
    """A field of a struct: attribute, JSON name, and type."""

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
    if get_origin(base) is dict and meta.title:
        return _of_kinds(meta.title, pointer)
    if base is not int:
        _, kind, zero = _SCALARS[base]
        return GoType(meta.title or "", kind, zero, pointer)
    if meta.title:
        return GoType(meta.title, "duration", 0, pointer)
    bits = 32 if meta.le == 2**31 - 1 else 64
    return GoType(f"int{bits}", "int", 0, pointer, bits)


@cache
def go_fields(struct: type[Part]) -> dict[str, Field]:
    """Return the fields of a struct by JSON name."""
    hints = get_type_hints(struct, include_extras=True)
    return {
        info.encode_name: Field(info.name, info.encode_name, _go_type(hints[info.name]))
        for info in fields(struct)
    }


def _of_kinds(struct: str, pointer: bool = False) -> GoType:
    """The type of a struct of Kubernetes' kinds."""
    return GoType(f"v1.{struct.rpartition('.')[2]}", "struct", pointer=pointer, struct=struct)


@cache
def _types() -> dict[str, GoType]:
    """The types of fields without structs, by name or by struct and name."""
    types, current = dict[str, GoType](), GoType("", "raw")
    for line in pathlib.Path(__file__).with_name("field_types.txt").read_text().splitlines():
        if line.startswith(" "):
            types |= dict.fromkeys(line.split(), current)
        elif line and not line.startswith("#"):
            current = _named(*line.split())
    return types


def _named(text: str, name: str = "") -> GoType:
    """The type of a text such as ``[]int32``, and what Go calls it."""
    for prefix, kind in _HOLDERS.items():
        if text.startswith(prefix):
            return GoType(text, kind, item=_named(text.removeprefix(prefix)))
    bits = int(text.removeprefix("int")) if text in ("int32", "int64") else 0
    return GoType(name or text, "int" if bits else cast("Kind", text), bits=bits)


@cache
def _fields_of_kinds(struct: str) -> dict[str, Field]:
    """The fields of a struct of Kubernetes' kinds whose types are known."""
    from .unknown_fields import LISTS, MAPS, fields_of  # most configurations have none of these

    short, types, known = struct.rpartition(".")[2], _types(), {}
    for name, target in fields_of(struct).items():
        held = target.rstrip(LISTS + MAPS)
        type_ = _of_kinds(held) if held else types.get(f"{short}.{name}") or types.get(name, _RAW)
        for form, (prefix, kind) in zip((LISTS, MAPS), _HOLDERS.items(), strict=True):
            if target.endswith(form):
                type_ = GoType(prefix + type_.name, kind, item=type_)
        known[name] = Field(name, name, type_)
    return known


def write(part: Part) -> dict[str, Any]:
    """Return the JSON value that Go encodes for a struct."""
    value = {}
    for field in go_fields(type(part)).values():
        item = getattr(part, field.attribute)
        if field.attribute in part.always or not _is_empty(item, field.type):
            value[field.wire] = _write(item, field.type)
    return value


def _is_empty(item: Any, type_: GoType) -> bool:
    """Whether Go's ``omitempty`` omits a field: nil pointers, empty lists, zero scalars; never structs."""
    if type_.pointer or item is None:
        return item is None
    return type_.kind != "struct" and not item


def _write(item: Any, type_: GoType) -> Any:
    if item is None:
        return None
    match type_.kind:
        case "struct" if isinstance(item, Part):
            return write(item)
        case "list" if type_.item is not None:
            return [_write(element, type_.item) for element in item]
        case "duration":
            return format_nanoseconds(item)
        case "bytes":
            return base64.b64encode(item).decode()
    return item


P = TypeVar("P", bound=Part)

MAX_STRICT_ERRORS = 100
_SURROGATE = re.compile("[\ud800-\udfff]")


class DecodeError(Exception):
    """A JSON text is malformed, or a value has a wrong type; the message is Go's.

    Attributes
    ----------
    path : str
        Path of the field, where the message does not name it.
    """

    def __init__(self, message: str, path: str = "") -> None:
        self.path = path
        super().__init__(message)


class JsonObject(dict[str, Any]):
    """A JSON object with all members in order, duplicate ones included."""

    def __init__(self, members: list[tuple[str, Any]]) -> None:
        self.members = members
        super().__init__(members)


class JsonNumber(float):
    """A JSON number with a fraction or exponent, and its text."""

    text: str

    def __new__(cls, text: str) -> JsonNumber:
        number = super().__new__(cls, text)
        number.text = text
        return number


def members(value: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Return the members of an object in Go's order.

    Maps from YAML are sorted, as by the conversion to JSON.

    Returns
    -------
    iterable of (str, object)
        Name and value of each member.
    """
    if isinstance(value, JsonObject):
        return value.members
    return sorted(((str(key), item) for key, item in value.items()), key=itemgetter(0))


def without_surrogates(text: str) -> str:
    """Decode a JSON string as Go: an unpaired surrogate such as ``"\\ud800"`` becomes U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def kind_of(value: Any) -> str:
    """Return Go's name of the type of a JSON value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        return "number"
    return "array" if isinstance(value, list) else "object"


def _number_text(value: float) -> str:
    """The text of a number in the JSON that Go makes of YAML."""
    if isinstance(value, JsonNumber):
        return value.text
    text = repr(value)
    if isinstance(value, int) or "e" not in text:
        return text
    if 1e-6 <= abs(value) < 1e21:
        return f"{Decimal(text):f}"
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent):+d}"


_NO_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_QUANTITY = re.compile(r"([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)")
_TIME = "2006-01-02T15:04:05Z07:00"


def _quantity(value: Any) -> Any:
    if isinstance(value, bool | list | dict):
        raise ValueError(_NO_QUANTITY)
    text = str(value)
    try:
        parse_quantity(text)
    except ValueError:
        has_number = _QUANTITY.fullmatch(text) is not None
        raise ValueError("unable to parse quantity's suffix" if has_number else _NO_QUANTITY) from None
    return value


def _time(value: str) -> str:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(f'parsing time "{value}" as "{_TIME}": cannot parse "{value}" as "2006"') from None
    return value


_READERS: dict[str, Callable[[Any], Any]] = {
    "duration": parse_duration,
    "quantity": _quantity,
    "time": _time,
}


class _Decoder:
    """Decodes one value; `folds` makes field names case-insensitive."""

    def __init__(self, folds: bool = False) -> None:
        self.folds = folds
        self.error = ""
        self.strict: dict[str, None] = {}
        self.struct = ""
        self.fields: list[str] = []
        self.path: list[str] = []

    def mismatch(self, value: str, type_: str) -> None:
        """Record a value of a wrong type; the first one is the error."""
        self.error = self.error or self.mismatch_text(value, type_)

    def mismatch_text(self, value: str, type_: str) -> str:
        where = f"struct field {self.struct}.{'.'.join(self.fields)}" if self.fields else "value"
        return f"json: cannot unmarshal {value} into Go {where} of type {type_}"

    def strict_error(self, what: str, name: str) -> None:
        if len(self.strict) < MAX_STRICT_ERRORS:
            path = "".join(self.path)
            self.strict[f"{what} {quote(f'{path}.{name}' if path else name)}"] = None

    def value(self, value: Any, type_: GoType) -> Any:
        if type_.kind == "raw":
            return value
        if value is None and (type_.pointer or type_.kind != "duration"):
            return self.null(type_)
        match type_.kind:
            case "struct" if isinstance(value, Mapping) and type_.struct is not None:
                return self.members(value, type_.struct)
            case "list" if isinstance(value, list) and type_.item is not None:
                return [self.item(index, element, type_.item) for index, element in enumerate(value)]
            case "map" if isinstance(value, Mapping) and type_.item is not None:
                return self.map(value, type_.item)
            case "duration" | "quantity" | "time" as kind:
                return self.text(value, kind)
            case "intOrString":
                return value if isinstance(value, str) else self.value(value, _INT32)
            case "int" | "float" if kind_of(value) == "number":
                return self.number(value, type_)
            case "bytes" if isinstance(value, str):
                return self.bytes(value)
            case "string" if isinstance(value, str):
                return without_surrogates(value)
            case "bool" if isinstance(value, bool):
                return value
        self.mismatch(kind_of(value), type_.name)
        return self.null(type_)

    @staticmethod
    def null(type_: GoType) -> Any:
        if type_.pointer or type_.struct is None:
            return None if type_.pointer else type_.zero
        return {} if isinstance(type_.struct, str) else type_.struct()

    def members(self, value: Mapping[str, Any], struct: type[Part] | str) -> Part | Json:
        part: Part | Json = {} if isinstance(struct, str) else struct()
        name = struct.rpartition(".")[2] if isinstance(struct, str) else struct.__name__
        fields = _fields_of_kinds(struct) if isinstance(struct, str) else go_fields(struct)
        embedded = {} if isinstance(struct, str) else struct.embedded
        keys = set()
        outer, depth = self.struct, len(self.fields)
        for key, item in members(value):
            field = fields.get(key)
            if field is None and self.folds:
                field = next((entry for wire, entry in fields.items() if wire.lower() == key.lower()), None)
            if field is None:
                self.strict_error("unknown field", key)
                continue
            if key in keys:
                self.strict_error("duplicate field", key)
            keys.add(key)
            if type(item) is str and field.type.kind == "string" and item.isascii():
                read = item  # most fields
            else:
                self.struct = name
                self.fields += filter(None, (embedded.get(field.attribute), field.wire))
                self.path.append(f".{key}" if self.path else key)
                read = self.value(item, field.type)
                self.path.pop()
                del self.fields[depth:]
                self.struct = outer
            if item is None and not field.type.pointer:
                pass  # null leaves such fields unchanged
            elif isinstance(part, dict):
                part[key] = read
            else:
                setattr(part, field.attribute, read)
        return part

    def item(self, index: int, value: Any, type_: GoType) -> Any:
        self.path.append(f"[{index}]")
        result = self.value(value, type_)
        self.path.pop()
        return result

    def map(self, value: Mapping[str, Any], type_: GoType) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, item in members(value):
            if key in result:
                self.strict_error("duplicate field", key)
            result[without_surrogates(key)] = self.value(item, type_)
        return result

    def number(self, value: float, type_: GoType) -> float:
        if type_.kind == "float":
            if abs(value) < 2.0**128:
                return float(value)
        elif isinstance(value, int) or (value.is_integer() and not isinstance(value, JsonNumber)):
            whole = int(value)
            if -(2 ** (type_.bits - 1)) <= whole < 2 ** (type_.bits - 1):
                return whole
        self.mismatch(f"number {_number_text(value)}", type_.name)
        return 0

    def text(self, value: Any, kind: Kind) -> Any:
        """Read what a type reads itself: its error ends the decoding."""
        path = "".join(self.path)
        if kind != "quantity" and value is not None and not isinstance(value, str):
            raise DecodeError(self.mismatch_text(kind_of(value), "string"), path)
        try:
            return _READERS[kind]("" if value is None else value)
        except ValueError as error:
            raise DecodeError(str(error), path) from None

    def bytes(self, value: str) -> bytes:
        text = value.replace("\r", "").replace("\n", "")
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            wrong = len(re.match(r"[A-Za-z0-9+/]*=*", text)[0])  # type: ignore[index]
            self.error = self.error or f"illegal base64 data at input byte {wrong}"
            return b""


def decode(value: Any, struct: type[P]) -> tuple[P, list[str]]:
    """Decode a JSON value into a struct.

    Returns
    -------
    errors : list of str
        Upstream's texts for unknown and duplicate fields.

    Raises
    ------
    DecodeError
        A value has a wrong type.
    """
    decoder = _Decoder()
    part = _decoded(decoder, value, GoType(f"v1.{struct.__name__}", "struct", struct=struct))
    return part, list(decoder.strict)


def decoding_fault(value: Json, struct: str) -> Fault | None:
    """Return why an API server cannot decode a manifest; None for nothing.

    Parameters
    ----------
    struct : str
        That of its kind; see `struct_of`.
    """
    try:
        _decoded(_Decoder(), value, _of_kinds(struct))
    except DecodeError as error:
        kind, version = value.get("kind"), str(value.get("apiVersion")).rpartition("/")[2]
        return Fault("", f'{kind} in version "{version}" cannot be handled as a {kind}: {error}')
    return None


def decode_leniently(value: Any, type_: GoType) -> Any:
    """Decode a JSON value as Go's encoding/json.

    Field names are case-insensitive; unknown and duplicate fields are ignored.

    Parameters
    ----------
    type_ : GoType
        The Go type to decode into.

    Raises
    ------
    DecodeError
        A value has a wrong type.
    """
    return _decoded(_Decoder(folds=True), value, type_)


def _decoded(decoder: _Decoder, value: Any, type_: GoType) -> Any:
    decoded = decoder.value(value, type_)
    if decoder.error:
        raise DecodeError(decoder.error)
    return decoded


_GO_WORDS = {
    "Expecting property name": "looking for beginning of object key string",
    "Expecting value": "looking for beginning of value",
    "Expecting ':'": "after object key",
    "Expecting ','": "after object key:value pair",
    "Extra data": "after top-level value",
}


def _refuse(name: str) -> Any:
    raise ValueError(f"invalid character {name[0]!r} looking for beginning of value")


# A surrogate pair, an unpaired surrogate, or another escape.
_ESCAPE = re.compile(r"\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|\\u[dD][89a-fA-F]\w\w|\\.")
_DECODER = json.JSONDecoder(object_pairs_hook=JsonObject, parse_float=JsonNumber, parse_constant=_refuse)


def parse(text: str) -> Any:
    """Parse a JSON text (json.Unmarshal).

    Raises
    ------
    DecodeError
        The text is malformed.
    """
    return _parsed(_DECODER.decode, text, "unexpected end of JSON input")


def parse_first(text: str) -> Any:
    """Parse the first JSON value of a text, whatever follows it (json.Decoder).

    Parameters
    ----------
    text : str
        A text that starts with a JSON value.

    Raises
    ------
    DecodeError
        The text is malformed.
    """
    text = text.lstrip(" \t\r\n")
    return _parsed(_DECODER.raw_decode, text, "unexpected EOF" if text else "EOF", 0)[0]


def _parsed(decode: Callable[..., Any], text: str, at_end: str, *arguments: int) -> Any:
    # encoding/json replaces an unpaired surrogate by U+FFFD.
    text = _ESCAPE.sub(lambda match: r"\ufffd" if len(match[0]) == 6 else match[0], text)
    try:
        return decode(text, *arguments)
    except (ValueError, RecursionError) as error:
        raise DecodeError(_syntax(error, at_end)) from None


def _syntax(error: Exception, at_end: str) -> str:
    """Go's message for a syntax error; in lists it is the one for objects, too."""
    if isinstance(error, RecursionError):
        return "exceeded max depth"
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    if error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string"):
        return at_end
    where = next((words for start, words in _GO_WORDS.items() if error.msg.startswith(start)), "")
    return f"invalid character {error.doc[error.pos]!r} {where or error.msg}"
