"""The texts of validation errors (apimachinery v0.36, ``util/validation/field`` and ``util/errors``).

`path` is that of the field (``profiles[0].schedulerName``), `value` its value, and `detail` the explanation
at the end of the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

_ESCAPES = dict(zip('\a\b\f\n\r\t\v\\"', ("\\" + letter for letter in 'abfnrtv\\"'), strict=True))
_HTML = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def quote(text: str) -> str:
    """A string as Go's ``%q`` prints it.

    Parameters
    ----------
    text : str

    Returns
    -------
    str
    """
    return f'"{"".join(map(_escape, text))}"'


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def go_json(value: Any) -> str:
    """A value as Go's ``encoding/json`` writes it.

    Parameters
    ----------
    value : object

    Returns
    -------
    str
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_HTML)


def invalid(path: str, value: Any, detail: str) -> str:
    """``Invalid value``: strings are quoted, other values are JSON.

    Parameters
    ----------
    path : str
    value : object
    detail : str

    Returns
    -------
    str
    """
    return f"{path}: Invalid value: {quote(value) if isinstance(value, str) else go_json(value)}: {detail}"


def unsupported(path: str, value: str, supported: Sequence[str]) -> str:
    """``Unsupported value``, with the supported ones.

    Parameters
    ----------
    path : str
    value : str
    supported : sequence of str

    Returns
    -------
    str
    """
    known = ", ".join(map(quote, supported))
    return f"{path}: Unsupported value: {go_json(value)}: supported values: {known}"


def required(path: str, detail: str = "") -> str:
    """``Required value``.

    Parameters
    ----------
    path : str
    detail : str, optional

    Returns
    -------
    str
    """
    return f"{path}: Required value" + (f": {detail}" if detail else "")


def forbidden(path: str, detail: str) -> str:
    """``Forbidden``.

    Parameters
    ----------
    path : str
    detail : str

    Returns
    -------
    str
    """
    return f"{path}: Forbidden: {detail}"


def duplicate(path: str, value: str) -> str:
    """``Duplicate value``.

    Parameters
    ----------
    path : str
    value : str

    Returns
    -------
    str
    """
    return f"{path}: Duplicate value: {quote(value)}"


def aggregate(errors: Iterable[str]) -> str:
    """Join the distinct errors to one text; "" for none.

    Parameters
    ----------
    errors : iterable of str

    Returns
    -------
    str
    """
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]" if distinct else ""
