"""Symbols: dense ids of strings, and their values as integers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.inside import inside
from tests.doors.engine import Symbols


def test_zero_stands_for_absent() -> None:
    symbols = Symbols()
    assert (symbols.names, len(symbols), symbols.find("a")) == ([None], 1, 0)


@settings(deadline=None)
@given(st.lists(st.text(max_size=3), max_size=30))
def test_ids_are_dense_and_stay(texts: list[str]) -> None:
    symbols = Symbols()
    ids = [symbols.intern(text) for text in texts]
    assert ids == [symbols.find(text) for text in texts] == [symbols.intern(text) for text in texts]
    assert [symbols.names[one] for one in ids] == texts
    assert sorted(set(ids)) == list(range(1, len(set(texts)) + 1))
    assert len(symbols) == len(set(texts)) + 1


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


def test_thousands_of_symbols_keep_their_ids_and_numbers() -> None:
    symbols = Symbols()
    assert [symbols.intern(str(number)) for number in range(3000)] == list(range(1, 3001))
    assert inside(symbols)["numbers"].array("i8", 3001)[1:].tolist() == list(range(3000))
