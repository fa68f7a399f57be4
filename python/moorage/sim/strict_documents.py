"""Decodes documents of moorage's own kinds, in which an unknown field is an error."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from moorage.errors import InputError

T = TypeVar("T")


def decode_document(document: Any, struct: type[T], api_version: str, kind: str) -> T:
    """Decode a document of one kind and version.

    Parameters
    ----------
    document : object
        A JSON value.
    struct : type
        The result's type.
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


def decode_part(value: Any, struct: type[T]) -> T:
    """Decode a part of a document.

    Parameters
    ----------
    value : object
        A JSON value.
    struct : type
        The result's type.

    Raises
    ------
    InputError
        A field is unknown or has a wrong type; names it.
    """
    try:
        return msgspec.convert(value, struct)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$.")
        raise InputError(message, path=where.rstrip("`")) from None
