"""Documents of moorage's own kinds, in which an unknown field is an error, and the durations in them."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from moorage.errors import InputError, nearest, shorten

from .read.documents import read_yaml
from .read.files import read_file, source_name

T = TypeVar("T")


class Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True, omit_defaults=True):
    """Base of the parts of such a document: an unknown field is an error."""


def decode_document(document: Any, struct: type[T], api_version: str, kind: str) -> T:
    """Decode a document of one kind and version.

    Parameters
    ----------
    api_version, kind : str
        What the document has to say of itself.

    Raises
    ------
    InputError
        It is of another kind or version, or a field is unknown or has a wrong type.
    """
    head = document if isinstance(document, dict) else {}
    for field, expected in (("apiVersion", api_version), ("kind", kind)):
        if head.get(field) != expected:
            raise InputError(f"must be {expected}, not {head.get(field)!r}", path=field)
    return decode_part(document, struct)


def read_document(path: str | Path, struct: type[T], api_version: str, kind: str) -> T:
    """Read a YAML file of one document, as `decode_document` does; the caller names the file in errors."""
    return decode_document(
        read_value(path, f"; expected a {kind} of {api_version}"), struct, api_version, kind
    )


def read_value(path: str | Path, hint: str = "") -> Any:
    """Read the value of a YAML file of one document, None of an empty one; the caller names the file in
    errors, to which a hint is added where there are several."""
    documents = list(read_yaml(read_file(str(path)).decode("utf-8", "replace"), source_name(str(path))))
    if len(documents) > 1:
        raise InputError(f"must be one document, not {len(documents)}{hint}")
    return documents[0] if documents else None


def decode_part(value: Any, struct: type[T]) -> T:
    """Decode a part of a document.

    Raises
    ------
    InputError
        A field is unknown or has a wrong type; names it.
    """
    try:
        return msgspec.convert(value, struct)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$.")
        unknown = re.fullmatch(r"Object contains unknown field `([^`]*)`", message)
        if unknown:
            fields = _fields_at(inspect.type_info(struct), where)
            message += nearest(unknown[1], fields) or f"; there are {', '.join(fields)}"
        raise InputError(message, path=where.rstrip("`")) from None


def _fields_at(kind: inspect.Type, where: str) -> list[str]:
    """Return the fields of the struct at a path, as ``spec.events[0]``."""
    for name, _ in re.findall(r"(\w+)|(\[[^]]*\])", where):
        if isinstance(kind, inspect.StructType):
            kind = next(field.type for field in kind.fields if field.encode_name == name)
        elif isinstance(kind, inspect.DictType):
            kind = kind.value_type
        elif isinstance(kind, inspect.CollectionType):
            kind = kind.item_type
        if isinstance(kind, inspect.UnionType):
            some = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
            kind = next((each for each in some if isinstance(each, inspect.StructType)), some[0])
    return [field.encode_name for field in kind.fields] if isinstance(kind, inspect.StructType) else []


# ---- time spans --------------------------------------------------------------------------------------------
#
# Durations as text: ``90``, ``5m``, ``1h30m``; and moments.

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def parse_duration(value: str | float) -> float:
    """Return a duration in seconds.

    Parameters
    ----------
    value : str or float
        Seconds, or numbers with the units ``ms``, ``s``, ``m``, ``h`` and ``d`` in a row, as ``1h30m``.

    Raises
    ------
    InputError
        The text is no duration, or the number is negative or not finite.
    """
    if isinstance(value, str):
        text = value.strip()
        parts = _PART.findall(text)
        if parts and "".join(number + unit for number, unit in parts) == text:
            return float(sum(float(number) * _UNITS[unit] for number, unit in parts))
        if not _NUMBER.fullmatch(text):
            raise InputError(f'"{text[:40]}" is not a duration such as 90, 5m or 1h30m')
        value = float(text)
    if not 0 <= value < 1e12:
        raise InputError(f"must be between 0 and 1e12 seconds, not {value}")
    return float(value)


def parse_moment(text: str, path: str) -> float:
    """Return a time with its zone, like ``2026-06-01T12:00:00Z``, in seconds since 1970.

    Parameters
    ----------
    path : str
        The field or the argument, for errors.

    Raises
    ------
    InputError
        The text is none.
    """
    with suppress(ValueError):
        time = datetime.fromisoformat(text)
        if time.tzinfo is not None:
            return time.timestamp()
    raise InputError(f'must be a time like 2026-06-01T12:00:00Z, not "{shorten(text, 60)}"', path=path)
