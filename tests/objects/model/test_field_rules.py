"""Rules and parsers of fields."""

from __future__ import annotations

import pytest
from tests.doors.kube import whole_number


@pytest.mark.parametrize(
    ("text", "bits", "number"),
    [
        *(("0", 32, 0), ("12", 32, 12), ("007", 32, 7), ("0" * 5000 + "1", 32, 1)),
        *(("2147483647", 32, 2**31 - 1), ("2147483648", 32, None), ("2147483648", 64, 2**31)),
        *(("9223372036854775807", 64, 2**63 - 1), ("9223372036854775808", 64, None), ("9" * 5000, 64, None)),
        *(
            ("", 32, None),
            ("-1", 32, None),
            ("+1", 32, None),
            (" 1", 32, None),
            ("1.0", 32, None),
            ("1_0", 32, None),
        ),
        *(("²", 32, None), ("٣", 32, None)),
    ],
)
def test_whole_numbers_are_read_up_to_their_number_of_bits(text: str, bits: int, number: int | None) -> None:
    assert whole_number(text, bits) == number
