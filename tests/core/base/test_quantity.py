"""Quantities: parsing, rounding, formatting and arithmetic, as Kubernetes."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.core.twins.quantity_twin import (
    BINARY,
    DECIMAL,
    INT64_MAX,
    exact,
    rounded_up,
)

from moorage import Quantity
from moorage.objects import parse_milli, parse_value

FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX = "unable to parse quantity's suffix"
NUMERIC = "unable to parse numeric part of quantity"

# What k8s.io/apimachinery v0.36.2 answers: text, Value, MilliValue, String.
READ = [
    ("0", 0, 0, "0"),
    ("1", 1, 1000, "1"),
    ("-1", -1, -1000, "-1"),
    ("+1", 1, 1000, "+1"),
    ("1.5", 2, 1500, "1500m"),
    ("-1.5", -2, -1500, "-1500m"),
    ("1.500", 2, 1500, "1.500"),
    (".5", 1, 500, "500m"),
    ("5.", 5, 5000, "5."),
    (".", 0, 0, "0"),
    ("+", 0, 0, "0"),
    ("-", 0, 0, "0"),
    ("0.0", 0, 0, "0"),
    ("00012", 12, 12000, "00012"),
    ("100m", 1, 100, "100m"),
    ("0.1m", 1, 1, "100u"),
    ("-0.1m", -1, -1, "-100u"),
    ("1n", 1, 1, "1n"),
    ("0.1n", 1, 1, "1n"),
    ("-0.1n", 1, 1, "-1n"),
    ("1.0000000001", 2, 1001, "1000000001n"),
    ("-1.0000000001", 0, -999, "-1000000001n"),
    ("12345678901234567890n", 12345678902, 12345678901235, "12345678901234567890n"),
    ("1u", 1, 1, "1u"),
    ("1k", 1000, 1000000, "1k"),
    ("1M", 1000000, 1000000000, "1M"),
    ("1G", 1000000000, 1000000000000, "1G"),
    ("1T", 1000000000000, 1000000000000000, "1T"),
    ("1P", 1000000000000000, 1000000000000000000, "1P"),
    ("1E", 1000000000000000000, 0, "1E"),
    ("1000", 1000, 1000000, "1k"),
    ("1000000", 1000000, 1000000000, "1M"),
    ("123.456k", 123456, 123456000, "123.456k"),
    ("1Ki", 1024, 1024000, "1Ki"),
    ("1.5Ki", 1536, 1536000, "1536"),
    ("0.5Ki", 512, 512000, "512"),
    ("0.0001Ki", 1, 103, "102400u"),
    ("-0.3Ki", -306, -307200, "-307200m"),
    ("1024", 1024, 1024000, "1024"),
    ("1024Ki", 1048576, 1048576000, "1Mi"),
    ("1023Ki", 1047552, 1047552000, "1023Ki"),
    ("1536Mi", 1610612736, 1610612736000, "1536Mi"),
    ("8Ki", 8192, 8192000, "8Ki"),
    ("1.5Gi", 1610612736, 1610612736000, "1536Mi"),
    ("0.1Gi", 107374183, 107374182400, "107374182400m"),
    ("-1.5Gi", -1610612736, -1610612736000, "-1536Mi"),
    ("7Ei", 8070450532247928832, -9223372036854775808, "7Ei"),
    ("8Ei", 9223372036854775807, -1000, "9223372036854775807"),
    ("-8Ei", -9223372036854775807, 1000, "-9223372036854775807"),
    ("9999Ei", 9223372036854775807, -1000, "9223372036854775807"),
    ("99999999999Ki", 102399999998976, 102399999998976000, "99999999999Ki"),
    ("9223372036854775807", 9223372036854775807, -1000, "9223372036854775807"),
    ("9223372036854775808", -9223372036854775808, 0, "9223372036854775808"),
    ("-9223372036854775808", 0, 0, "-9223372036854775808"),
    ("-9223372036854775809", -1, -1000, "-9223372036854775809"),
    ("18446744073709551615", -1, -1000, "18446744073709551615"),
    ("18446744073709551617", 1, 1000, "18446744073709551617"),
    ("9E", 9000000000000000000, 0, "9E"),
    ("10E", 0, 0, "10E"),
    ("9223372036854775807m", 9223372036854776, 9223372036854775807, "9223372036854775807m"),
    ("9223372036854775807k", -1000, -1000000, "9223372036854775807k"),
    ("999999999999999999k", 3875820019684211736, 2003764205205896640, "999999999999999999k"),
    ("9300000000000000M", 2840986850385985536, 188263034714587136, "9300E"),
    ("1e3", 1000, 1000000, "1e3"),
    ("1E3", 1000, 1000000, "1E3"),
    ("1e+3", 1000, 1000000, "1e+3"),
    ("1e-3", 1, 1, "1e-3"),
    ("12e1", 120, 120000, "120"),
    ("1.5e3", 1500, 1500000, "1500"),
    ("1e-9", 1, 1, "1e-9"),
    ("1e-10", 1, 1, "1e-9"),
    ("1e0", 1, 1000, "1e0"),
    ("0e5", 0, 0, "0"),
    ("1e21", 0, 0, "1e21"),
    ("1e4294967296", 1, 1000, "1e4294967296"),
    ("-2m", -1, -2, "-2m"),
    ("-2500u", -1, -3, "-2500u"),
    ("-2n", -1, -1, "-2n"),
    ("Ki", 0, 0, "0"),
    ("n", 0, 0, "0"),
    ("e5", 0, 0, "0"),
]


@pytest.mark.parametrize(("text", "value", "milli", "shown"), READ)
def test_a_text_is_read_as_value_milli_value_and_canonical_text(
    text: str, value: int, milli: int, shown: str
) -> None:
    quantity = Quantity(text)
    assert (quantity.value(), quantity.milli_value(), str(quantity)) == (value, milli, shown)
    assert (parse_value(text), parse_milli(text)) == (value, milli)


@pytest.mark.parametrize(
    ("message", "texts"),
    [
        (
            FORMAT,
            ["", " 1", "1 ", "1_0", "Infinity", "NaN", "0x1", "1.2.3", "1e5.5", "\uff11", "1k1x", "1KI"],
        ),
        (SUFFIX, ["1K", "++1", "1e", "1e+", "1E-", "1i", "1ki", "1mm", "1k5", "1Ei5", "1+5"]),
        (SUFFIX, ["1e9223372036854775808", "1e-9223372036854775809", "1e99999999999999999999"]),
        (NUMERIC, ["Ei", ".Pi", ".e-12", "e-20"]),
        (FORMAT, [True, False, None, [], {}, b"1", float("inf"), float("nan")]),
        (NUMERIC, ["1" * 5000, "1e4001", "1e-2000000000", "0." + "0" * 5000 + "1"]),
    ],
)
def test_what_is_no_quantity_is_refused_with_upstreams_text(message: str, texts: list[object]) -> None:
    parse_value(1)  # the remembered 1 must not answer for True
    for text in texts:
        for read in (Quantity, parse_value, parse_milli):
            with pytest.raises(ValueError) as error:  # noqa: PT011 - the whole text is compared
                read(text)
            assert str(error.value) == message


def test_long_text_is_refused_in_linear_time() -> None:
    with pytest.raises(ValueError, match="regular expression"):
        Quantity("1" * 1_000_000 + "x")
    assert Quantity("0" * 1_000_000 + "7").value() == 7


@pytest.mark.parametrize(
    ("raw", "value", "milli"),
    [
        (2, 2, 2000),
        (0.5, 1, 500),
        (1e-7, 1, 1),
        (1e16, 10**16, 0),
        (-0.0, 0, 0),
        (3.0, 3, 3000),
    ],
)
def test_numbers_are_read_through_their_text(raw: float, value: int, milli: int) -> None:
    assert (Quantity(raw).value(), Quantity(raw).milli_value()) == (value, milli)
    assert (parse_value(raw), parse_milli(raw)) == (value, milli)


def test_a_float_and_the_equal_integer_do_not_answer_for_each_other() -> None:
    number = 2**60
    for _ in range(2):
        assert parse_value(float(number)) == int(repr(float(number))[:-4].replace(".", "")) * 1000
        assert parse_value(number) == number


def test_the_sign_of_a_quantity_is_exact_below_a_unit() -> None:
    assert [Quantity(text).sign() for text in ("-1n", "0Ki", "5m")] == [-1, 0, 1]


# Operands, sum and its Value, difference and its Value, from v0.36.2.
SUMS = [
    ("1", "500m", "1500m", 2, "500m", 1),
    ("1Gi", "1", "1073741825", 1073741825, "1073741823", 1073741823),
    ("0", "1Gi", "1Gi", 1073741824, "-1Gi", -1073741824),
    ("100m", "-100m", "0", 0, "200m", 1),
    ("1k", "1Ki", "2024", 2024, "-24", -24),
    ("0.5m", "0.5m", "1m", 1, "0", 0),
    ("9223372036854775807", "1", "9223372036854775808", -(2**63), "9223372036854775806", 2**63 - 2),
    ("-1Ki", "1.5", "-1022500m", -1023, "-1025500m", -1026),
    ("9E", "9E", "18E", 0, "0", 0),
]


@pytest.mark.parametrize(("left", "right", "total", "total_value", "difference", "difference_value"), SUMS)
def test_add_and_subtract(
    left: str, right: str, total: str, total_value: int, difference: str, difference_value: int
) -> None:
    a, b = Quantity(left), Quantity(right)
    assert (str(a + b), (a + b).value()) == (total, total_value)
    assert (str(a - b), (a - b).value()) == (difference, difference_value)
    assert (a, b) == (Quantity(left), Quantity(right))


def test_a_quantity_is_compared_and_added_with_quantities_alone() -> None:
    assert Quantity("1") != 1
    with pytest.raises(TypeError):
        Quantity("1") + 1
    with pytest.raises(TypeError):
        Quantity("1") < 1  # noqa: B015
    with pytest.raises(AttributeError):
        Quantity("1").unit = "Mi"


def test_beyond_the_suffix_e_nothing_is_lost() -> None:
    assert str(Quantity("1000E")) == "1e21"
    assert str(Quantity("1024Ei") + Quantity("1024Ei") + Quantity("2")) == "16Ei"


def test_copy_pickle_repr() -> None:
    quantity = Quantity("1.5Gi")
    assert repr(quantity) == "Quantity('1536Mi')"
    assert copy.deepcopy(quantity) == quantity
    assert str(pickle.loads(pickle.dumps(quantity))) == "1536Mi"


numbers = st.one_of(
    st.integers(0, 2000).map(str),
    st.integers(0, 10**25).map(str),
    st.decimals(0, 10**12, places=6).map(str),
    st.tuples(st.integers(0, 9), st.integers(0, 10**24)).map(lambda pair: f"{pair[0]}.{pair[1]}"),
    st.integers(0, 999).map(lambda number: f".{number}"),
    st.integers(0, 999).map(lambda number: f"00{number}."),
)
suffixes = st.one_of(
    st.sampled_from([*DECIMAL, *BINARY]),
    st.tuples(st.sampled_from(["e", "E", "e+", "e-", "E-"]), st.integers(0, 25)).map(
        lambda pair: f"{pair[0]}{pair[1]}"
    ),
)
unsigned = st.tuples(numbers, suffixes).map("".join)
texts = st.tuples(st.sampled_from(["", "+", "-"]), unsigned).map("".join)


def nano(amount: Fraction) -> Quantity:
    return Quantity(f"{(amount * 10**9).numerator}n")


@settings(deadline=None)
@given(texts)
def test_twin_amount_sign_and_round_trip(text: str) -> None:
    quantity, amount = Quantity(text), exact(text)
    assert quantity == nano(amount)
    assert hash(quantity) == hash(nano(amount))
    assert quantity.sign() == (amount > 0) - (amount < 0)
    assert Quantity(str(quantity)) == quantity
    assert str(Quantity(str(quantity))) == str(quantity)


@settings(deadline=None)
@given(unsigned)
def test_values_of_any_text_are_those_of_exact_arithmetic(text: str) -> None:
    amount = exact(text)
    assume(amount <= INT64_MAX)
    assert parse_value(text) == Quantity(text).value() == rounded_up(amount, 0)
    assume(amount * 1000 <= INT64_MAX)
    assert parse_milli(text) == Quantity(text).milli_value() == rounded_up(amount, -3)


@settings(deadline=None)
@given(texts, texts)
def test_twin_order_and_arithmetic(left: str, right: str) -> None:
    a, b, x, y = Quantity(left), Quantity(right), exact(left), exact(right)
    assert (a < b, a <= b, a == b, a > b, a >= b) == (x < y, x <= y, x == y, x > y, x >= y)
    assert a + b == nano(x + y)
    assert a - b == nano(x - y)
    total = x + y
    if 0 <= total <= INT64_MAX:
        assert (a + b).value() == rounded_up(total, 0)


@settings(deadline=None)
@given(st.text(alphabet="+-.019eEinumkKMGTP x", max_size=8))
def test_any_text_is_read_or_refused_in_upstreams_words(text: str) -> None:
    try:
        Quantity(text)
    except ValueError as error:
        assert str(error) in (FORMAT, SUFFIX, NUMERIC)  # noqa: PT017
