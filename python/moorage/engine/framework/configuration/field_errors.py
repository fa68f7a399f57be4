"""Messages of validation errors (apimachinery v0.36, ``util/validation/field`` and ``util/errors``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from moorage.kube.go_texts import go_json, quote


def invalid(path: str, value: Any, detail: str) -> str:
    """Return the message ``Invalid value``; strings are quoted, other values are JSON.

    Parameters
    ----------
    path : str
        Path of the field, for example ``profiles[0].schedulerName``.
    value : object
        Value of the field.
    detail : str
        Explanation at the end of the message.
    """
    return f"{path}: Invalid value: {quote(value) if isinstance(value, str) else go_json(value)}: {detail}"


def unsupported(path: str, value: str, supported: Sequence[str]) -> str:
    """Return the message ``Unsupported value`` with the supported values.

    Parameters
    ----------
    path : str
        Path of the field.
    value : str
        Value of the field.
    supported : sequence of str
        The supported values.
    """
    known = ", ".join(map(quote, supported))
    return f"{path}: Unsupported value: {go_json(value)}: supported values: {known}"


def required(path: str, detail: str = "") -> str:
    """Return the message ``Required value``.

    Parameters
    ----------
    path : str
        Path of the field.
    detail : str, optional
        Explanation at the end of the message.
    """
    return f"{path}: Required value" + (f": {detail}" if detail else "")


def forbidden(path: str, detail: str) -> str:
    """Return the message ``Forbidden``.

    Parameters
    ----------
    path : str
        Path of the field.
    detail : str
        Explanation at the end of the message.
    """
    return f"{path}: Forbidden: {detail}"


def duplicate(path: str, value: str) -> str:
    """Return the message ``Duplicate value``.

    Parameters
    ----------
    path : str
        Path of the field.
    value : str
        Value of the field.
    """
    return f"{path}: Duplicate value: {quote(value)}"


def aggregate(errors: Iterable[str]) -> str:
    """Join the distinct messages to one; "" for none.

    Parameters
    ----------
    errors : iterable of str
        The messages.
    """
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]" if distinct else ""
