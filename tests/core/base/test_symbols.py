"""The values of symbols as integers."""

from __future__ import annotations

import pytest
from tests.core.inside import inside
from tests.doors.engine import Symbols


def number(text: str) -> int | None:
    """What the table of numbers says of a string."""
    symbols = Symbols()
    symbol = symbols.intern(text)
    parts = inside(symbols)
    value = int(parts["numbers"].array("i8", symbol + 1)[symbol])
    return value if parts["are_numbers"].array("u1", symbol + 1)[symbol] else None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("007", 7),
        ("0" * 80 + "5", 5),
        ("-5", -5),
        ("+5", 5),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", None),
        ("-9223372036854775809", None),
        ("0" * 62 + "7", 7),
        ("", None),
        ("-", None),
        ("1_0", None),
        (" 1", None),
        ("1\n", None),
        ("1.0", None),
        ("0x1", None),
        ("٣", None),
        ("9" * 5000, None),
    ],
)
def test_numbers_as_go_parses_them(text: str, value: int | None) -> None:
    assert number(text) == value
