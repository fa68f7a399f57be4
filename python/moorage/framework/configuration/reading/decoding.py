"""Reading a JSON value into a struct as Kubernetes' strict decoder does (sigs.k8s.io/json, UnmarshalStrict).

Fields are told apart by case. Unknown and duplicate fields are gathered; of the values with a wrong type the
first is the error. A duration that is none ends the reading at once.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from operator import itemgetter
from typing import Any, TypeVar

from moorage.framework.configuration.types import Part

from .durations import parse_duration
from .field_errors import quote
from .go_types import GoType, go_fields

P = TypeVar("P", bound=Part)

MAX_STRICT_ERRORS = 100
_SURROGATE = re.compile("[\ud800-\udfff]")


class DecodeError(Exception):
    """A value of a wrong type.

    Attributes
    ----------
    path : str
        The field, where the text does not name it.
    """

    def __init__(self, message: str, path: str = "") -> None:
        self.path = path
        super().__init__(message)


class JsonObject(dict[str, Any]):
    """An object of a JSON text, with its members in order, duplicate ones included."""

    def __init__(self, members: list[tuple[str, Any]]) -> None:
        self.members = members
        super().__init__(members)


class JsonNumber(float):
    """A number of a JSON text that is not written as an integer."""

    text: str

    def __new__(cls, text: str) -> JsonNumber:
        number = super().__new__(cls, text)
        number.text = text
        return number


def members(value: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """The members of an object in the order in which Go meets them: YAML's maps are sorted on their way."""
    if isinstance(value, JsonObject):
        return value.members
    return sorted(((str(key), item) for key, item in value.items()), key=itemgetter(0))


def without_surrogates(text: str) -> str:
    """A text of JSON as Go reads it: half of a surrogate pair, as in ``"\\ud800"``, is U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def kind_of(value: Any) -> str:
    """What Go calls a JSON value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        return "number"
    return "array" if isinstance(value, list) else "object"


def _number_text(value: float) -> str:
    """A number as it stands in the JSON that Go makes of YAML."""
    if isinstance(value, JsonNumber):
        return value.text
    text = repr(value)
    if isinstance(value, int) or "e" not in text:
        return text
    if 1e-6 <= abs(value) < 1e21:
        return f"{Decimal(text):f}"
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent):+d}"


class _Decoder:
    """The state of one reading; `folds`: fields are found whatever their case."""

    def __init__(self, folds: bool = False) -> None:
        self.folds = folds
        self.error = ""
        self.strict: dict[str, None] = {}
        self.struct = ""
        self.fields: list[str] = []
        self.path: list[str] = []

    def mismatch(self, value: str, type_: str) -> None:
        """Remember the first value of a wrong type."""
        self.error = self.error or self.mismatch_text(value, type_)

    def mismatch_text(self, value: str, type_: str) -> str:
        where = f"struct field {self.struct}.{'.'.join(self.fields)}" if self.fields else "value"
        return f"json: cannot unmarshal {value} into Go {where} of type {type_}"

    def complain(self, what: str, name: str) -> None:
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
                return [self.item(index, one, type_.item) for index, one in enumerate(value)]
            case "map" if isinstance(value, Mapping) and type_.item is not None:
                return self.map(value, type_.item)
            case "duration":
                return self.duration(value)
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
        return type_.struct()

    def members(self, value: Mapping[str, Any], struct: type[P]) -> P:
        part = struct()
        known = go_fields(struct)
        seen = set()
        outer, depth = self.struct, len(self.fields)
        for key, item in members(value):
            field = known.get(key)
            if field is None and self.folds:
                field = next((one for wire, one in known.items() if wire.lower() == key.lower()), None)
            if field is None:
                self.complain("unknown field", key)
                continue
            if key in seen:
                self.complain("duplicate field", key)
            seen.add(key)
            self.struct = struct.__name__
            if field.attribute in struct.embedded:
                self.fields.append(struct.embedded[field.attribute])
            self.fields.append(field.wire)
            self.path.append(f".{key}" if self.path else key)
            setattr(part, field.attribute, self.value(item, field.type))
            self.path.pop()
            del self.fields[depth:]
            self.struct = outer
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
                self.complain("duplicate field", key)
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

    def duration(self, value: Any) -> int:
        path = "".join(self.path)
        if value is not None and not isinstance(value, str):
            raise DecodeError(self.mismatch_text(kind_of(value), "string"), path)
        try:
            return parse_duration(value or "")
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
    """Read a JSON value into a struct.

    Returns
    -------
    (struct, list of str)
        With the unknown and the duplicate fields, each as one text of upstream's.

    Raises
    ------
    DecodeError
        If a value has a type that its field does not take; the text is upstream's.
    """
    decoder = _Decoder()
    part = _decoded(decoder, value, GoType(f"v1.{struct.__name__}", "struct", struct=struct))
    return part, list(decoder.strict)


def decode_leniently(value: Any, type_: GoType) -> Any:
    """The same as Go's own decoder reads a value of any type: names of fields in whatever case, unknown and
    duplicate ones passed over."""
    return _decoded(_Decoder(folds=True), value, type_)


def _decoded(decoder: _Decoder, value: Any, type_: GoType) -> Any:
    decoded = decoder.value(value, type_)
    if decoder.error:
        raise DecodeError(decoder.error)
    return decoded
