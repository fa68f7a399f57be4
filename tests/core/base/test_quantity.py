"""Quantities: parsing, rounding, formatting and arithmetic, as Kubernetes."""

from __future__ import annotations

import copy
import json
import pickle
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.core.twins.quantity_twin import BINARY, DECIMAL, INT64_MAX, exact, rounded_up

from moorage import Quantity
from moorage.kube import parse_milli, parse_value

FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX = "unable to parse quantity's suffix"
NUMERIC = "unable to parse numeric part of quantity"

UPSTREAM = json.loads(Path(__file__).with_name("quantities.json").read_text())
"""What k8s.io/apimachinery v0.36.2 answers. Read: text, Value, MilliValue, String. Sums: operands, sum and
its Value, difference and its Value."""


@pytest.mark.parametrize(("text", "value", "milli", "shown"), UPSTREAM["read"])
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
    [(2, 2, 2000), (0.5, 1, 500), (1e-7, 1, 1), (1e16, 10**16, 0), (-0.0, 0, 0), (3.0, 3, 3000)],
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


@pytest.mark.parametrize(
    ("left", "right", "total", "total_value", "difference", "difference_value"), UPSTREAM["sums"]
)
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
