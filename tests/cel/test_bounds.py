"""Expressions that explode: each ends soon, with one error, and in little memory."""

from __future__ import annotations

import tracemalloc

import pytest
from tests.doors.engine import SelectorError, compile_selector, device_value
from tests.doors.kube import CompileError

from moorage.kube import Device, DeviceAttribute

DEVICE = device_value("d", Device(name="d", attributes={"s": DeviceAttribute(string="a" * 64)}))
TEXT = 'device.attributes["d"].s'
CANCELLED = "operation cancelled: actual cost limit exceeded"
TOO_DEEP = "expression recursion limit exceeded: 250"
MEBIBYTE = 1 << 20


def numbers(count: int) -> str:
    return f"[{','.join(['1'] * count)}]"


def doubled(first: str, step: str, last: str, times: int = 40) -> str:
    """A chain of cel.bind: each value is made of the one before."""
    binds = [f"cel.bind(a0, {first}, "]
    binds += [f"cel.bind(a{at}, {step.format(f'a{at - 1}')}, " for at in range(1, times)]
    return "".join(binds) + last.format(f"a{times - 1}") + ")" * times


EXPLODING = {
    "comprehensions": f"{numbers(200)}.all(a, {numbers(200)}.all(b, {numbers(200)}.all(c, true)))",
    "maps": f"{numbers(500)}.map(a, {numbers(500)}.map(b, {numbers(500)}.map(c, a + b + c))).size() > 0",
    "lists": doubled("[1, 2, 3, 4]", "{0} + {0}", "{}.size() > 0"),
    "texts": doubled(f"{TEXT}", "{0} + {0}", "{}.size() > 0"),
    "nested lists that are compared": doubled("[1, 2]", "[{0}, {0}]", "{0} == {0}"),
    "nested lists that are searched": doubled("[1, 2]", "[{0}, {0}]", "{0} in [{0}]"),
    "nested lists that are shown": doubled("[1, 2]", "[{0}, {0}]", "'%s'.format([{}]) == ''"),
    "replacements": f"'{'a' * 1000}'.replace('a', '{'b' * 4000}').replace('b', '{'c' * 4000}') == ''",
    "joined": f"{numbers(900)}.map(a, '{'b' * 4000}').join('').size() > 0",
    "sets": f"sets.intersects({numbers(1500)}, {numbers(1500)})",
}


@pytest.fixture
def little_work(monkeypatch: pytest.MonkeyPatch) -> int:
    """A lower limit, which shows the same sooner."""
    monkeypatch.setattr("moorage.kube.cel.cel_errors.MAX_WORK", 50_000)
    return 50_000


@pytest.mark.usefixtures("little_work")
@pytest.mark.parametrize("case", EXPLODING)
def test_an_evaluation_is_cancelled(case: str) -> None:
    selector = compile_selector(EXPLODING[case])
    assert not isinstance(selector, CompileError)
    with pytest.raises(SelectorError) as caught:
        selector.matches(DEVICE)
    assert str(caught.value) == CANCELLED


@pytest.mark.parametrize("case", ["lists", "texts", "replacements", "joined"])
def test_values_stay_small(case: str) -> None:
    selector = compile_selector(EXPLODING[case])
    assert not isinstance(selector, CompileError)
    tracemalloc.start()
    try:
        with pytest.raises(SelectorError):
            selector.matches(DEVICE)
        assert tracemalloc.get_traced_memory()[1] < 64 * MEBIBYTE
    finally:
        tracemalloc.stop()


REFUSED = {
    "parentheses": ("(" * 5000 + "true" + ")" * 5000, TOO_DEEP),
    "brackets": ("[" * 5000 + "]" * 5000 + " == []", TOO_DEEP),
    "braces": ("{'a':" * 1500 + "1" + "}" * 1500 + " == {}", TOO_DEEP),
    "additions": ("+".join(["1"] * 4900) + " > 0", TOO_DEEP),
    "selections": ("device" + ".a" * 4900, TOO_DEEP),
    "macros": ("[1].exists(a, " * 500 + "true" + ")" * 500, TOO_DEEP),
    "digits": ("9" * 9000 + " > 0", "invalid int literal"),
    "unsigned digits": ("9" * 9000 + "u > 0u", "invalid uint literal"),
    "hexadecimal digits": ("0x" + "f" * 9000 + " > 0", "invalid int literal"),
    "a repeated expression": (f'{TEXT}.matches("((a{{1000}}){{1000}}){{1000}}")', "invalid matches argument"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_expression_is_refused(case: str) -> None:
    text, expected = REFUSED[case]
    error = compile_selector(text)
    assert isinstance(error, CompileError)
    assert expected in str(error)


def test_regular_expressions_take_linear_time() -> None:
    for text in (f'{TEXT}.matches("^(a+)+$b")', f'"{"a" * 3000}".matches("(a*)*(a*)*(a*)*c")'):
        selector = compile_selector(text)
        assert not isinstance(selector, CompileError)
        assert selector.matches(DEVICE) is False


def test_a_pattern_that_is_made_at_run_time() -> None:
    selector = compile_selector(f'{TEXT}.matches({TEXT}.substring(0, 1) + "(((")')
    assert not isinstance(selector, CompileError)
    with pytest.raises(SelectorError, match=r"^error parsing regexp: missing closing \): `a\(\(\(`$"):
        selector.matches(DEVICE)


@pytest.mark.parametrize(
    "text", ["00000000000000000000000000000000000000001 == 1", "0x" + "0" * 60 + "1u == 1u"]
)
def test_leading_zeros_are_no_digits(text: str) -> None:
    selector = compile_selector(text)
    assert not isinstance(selector, CompileError)
    assert selector.matches(DEVICE)


def test_each_evaluation_has_its_own_work(little_work: int) -> None:
    """A comparison that visits a third of what is allowed; four evaluations of it."""
    depth = (little_work // 3).bit_length() - 2
    selector = compile_selector(doubled("[1, 2]", "[{0}, {0}]", "{0} == {0}", depth))
    assert not isinstance(selector, CompileError)
    assert all(selector.matches(DEVICE) for _ in range(4))
