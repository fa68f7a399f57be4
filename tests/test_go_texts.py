"""Durations as Go reads and prints them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doors.kube import format_nanoseconds
from tests.doors.kube import go_texts_parse_duration as parse_duration

SECOND = 10**9


@pytest.mark.parametrize(
    ("text", "nanoseconds", "printed"),
    [
        ("0", 0, "0s"),
        ("-0", 0, "0s"),
        ("3s", 3 * SECOND, "3s"),
        ("+1.5h", 5400 * SECOND, "1h30m0s"),
        ("1h0.5s", 3600 * SECOND + SECOND // 2, "1h0m0.5s"),
        ("-1m30s", -90 * SECOND, "-1m30s"),
        (".5ms", 500_000, "500µs"),
        ("1.s", SECOND, "1s"),
        ("1us2µs3μs", 6_000, "6µs"),
        ("100ns", 100, "100ns"),
        ("1.0005ms", 1_000_500, "1.0005ms"),
        ("0.3333333333333333333333h", 1_200 * SECOND, "20m0s"),
        ("-9223372036854775808ns", -(2**63), "-2562047h47m16.854775808s"),
    ],
)
def test_a_duration_is_read_and_printed_as_go_does(text: str, nanoseconds: int, printed: str) -> None:
    assert parse_duration(text) == nanoseconds
    assert format_nanoseconds(nanoseconds) == printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        (".s", 'time: invalid duration ".s"'),
        ("s", 'time: invalid duration "s"'),
        ("1", 'time: missing unit in duration "1"'),
        ("1s2", 'time: missing unit in duration "1s2"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("1 s", 'time: unknown unit " s" in duration "1 s"'),
        ('1"', 'time: unknown unit "\\"" in duration "1\\""'),
        ("üs", 'time: invalid duration "\\xc3\\xbcs"'),
        ("1\tü\x7f", 'time: unknown unit "\\x09\\xc3\\xbc\x7f" in duration "1\\x09\\xc3\\xbc\x7f"'),
        ("9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"'),
        ("9999999999999999999999999h", 'time: invalid duration "9999999999999999999999999h"'),
        ("2562047h47m17s", 'time: invalid duration "2562047h47m17s"'),
    ],
)
def test_a_text_that_is_no_duration_is_refused_with_gos_text(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="time: ") as caught:
        parse_duration(text)
    assert str(caught.value) == message


@given(st.integers(-(2**63), 2**63 - 1))
def test_what_is_printed_reads_back_to_the_same(nanoseconds: int) -> None:
    assert parse_duration(format_nanoseconds(nanoseconds)) == nanoseconds
