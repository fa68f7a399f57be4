"""Decodes documents of moorage's own kinds, in which an unknown field is an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from moorage.errors import InputError

from .read.files import read_file, source_name
from .read.yaml_reader import read_yaml

T = TypeVar("T")


class Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True, omit_defaults=True):
    """Base of the parts of such a document: an unknown field is an error."""


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


def read_document(path: str | Path, struct: type[T], api_version: str, kind: str) -> T:
    """Read a YAML file of one document, as `decode_document` does; the caller names the file in errors."""
    return decode_document(read_value(path), struct, api_version, kind)


def read_value(path: str | Path) -> Any:
    """Read the value of a YAML file of one document, None of an empty one; the caller names the file in
    errors."""
    documents = list(read_yaml(read_file(str(path)).decode("utf-8", "replace"), source_name(str(path))))
    if len(documents) > 1:
        raise InputError(f"must be one document, not {len(documents)}")
    return documents[0] if documents else None


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
