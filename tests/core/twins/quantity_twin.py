"""Kubernetes quantities as exact fractions: slow, and written from the documented grammar alone."""

from __future__ import annotations

import math
import re
from fractions import Fraction

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
GRAMMAR = re.compile(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)([a-zA-Z]*|[eE][+-]?[0-9]+)")
INT64_MAX = 2**63 - 1


def exact(text: str) -> Fraction:
    """The amount, rounded away from zero to nano and capped if binary."""
    sign, number, suffix = GRAMMAR.fullmatch(text).groups()
    amount = Fraction(number if not number.startswith(".") else f"0{number}")
    if suffix in BINARY:
        amount = min(amount * 1024 ** BINARY[suffix], Fraction(INT64_MAX))
    elif suffix in DECIMAL:
        amount *= Fraction(10) ** DECIMAL[suffix]
    else:
        amount *= Fraction(10) ** int(suffix[1:])
    amount = Fraction(math.ceil(amount * 10**9), 10**9)
    return -amount if sign == "-" else amount


def rounded_up(amount: Fraction, scale: int) -> int:
    """The amount in units of 10**scale, rounded up."""
    return math.ceil(amount / Fraction(10) ** scale)
