"""Plain scalars of YAML as Kubernetes reads them: booleans of YAML 1.1, Go's integers, no timestamps."""

from __future__ import annotations

import math
import re
from typing import Any

_CONSTANTS: dict[str, bool | None] = {
    word: value
    for value, words in (
        (True, "y Y yes Yes YES true True TRUE on On ON"),
        (False, "n N no No NO false False FALSE off Off OFF"),
        (None, "~ null Null NULL"),
    )
    for word in words.split()
} | {"": None}
_INTEGER = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"\.(nan|NaN|NAN)|[-+]?\.(inf|Inf|INF)")
_MAX_DIGITS = 400
MAX_DEPTH = 200
"""How deep lists and maps may be nested."""


class RefusedError(Exception):
    """An error without its line, which the caller adds."""


def resolve_plain(text: str) -> Any:
    """Return the value of a plain scalar (sigs.k8s.io/yaml, goyaml.v2 ``resolve``).

    A float without fraction is an integer, as in the JSON that Go writes for it.

    Parameters
    ----------
    text : str
        The scalar, without quotes and tag.
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _NOT_FINITE.fullmatch(text):
        raise RefusedError(f"{text} is not a number that JSON knows")
    plain = text.replace("_", "") if text[0] != "." else text
    if len(plain) <= _MAX_DIGITS:
        if _INTEGER.fullmatch(plain):
            digits = plain.lstrip("+-")
            octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
            return int(plain, 8) if octal else int(plain, 0)
        if _FLOAT.fullmatch(plain):
            number = float(plain)
            if math.isfinite(number):
                return int(number) if number.is_integer() and abs(number) < 1e21 else number
    return text


def is_text(plain: str) -> bool:
    """Whether a plain scalar is read as a string.

    Parameters
    ----------
    plain : str
        The scalar.
    """
    try:
        return bool(resolve_plain(plain) == plain)
    except RefusedError:
        return False
