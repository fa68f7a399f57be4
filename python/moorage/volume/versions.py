"""Resource versions as volumes compare them: numbers, not text."""

from __future__ import annotations

import re

_DIGITS = re.compile(r"[+-]?[0-9]+")


def parse_int64(text: str) -> int:
    """A decimal number of 64 bits, as Go's ParseInt reads it.

    Raises
    ------
    ValueError
        It is none; the text is Go's.
    """
    if not _DIGITS.fullmatch(text):
        raise ValueError(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    value = int(text)
    if not -(2**63) <= value < 2**63:
        raise ValueError(f'strconv.ParseInt: parsing "{text}": value out of range')
    return value
