"""Expressions about a device: what they say, what they may cost, and what is wrong with them."""

from __future__ import annotations

from traceback import walk_tb
from typing import Any

import pytest
from tests.devices.make import DRIVER
from tests.doors.engine import (
    CompiledSelector,
    PublishedSlice,
    SelectorError,
    SliceKinds,
    compile_selector,
    device_value,
)
from tests.doors.kube import CompileError, decode

from moorage.engine.devices import SelectorCache
from moorage.kube import Device, DeviceAttribute, ResourceSlice, ResourceSliceSpec
from moorage.kube.releases import RELEASES

DEVICE = decode(
    {
        "name": "gpu-0",
        "attributes": {
            "model": {"string": "A100"},
            "index": {"int": 3},
            "healthy": {"bool": True},
            "driverVersion": {"version": "1.2.3"},
            "net.example.com/rail": {"string": "r1"},
        },
        "capacity": {"memory": {"value": "40Gi"}},
        "allowMultipleAllocations": True,
    },
    Device,
)
ATTRIBUTES = f'device.attributes["{DRIVER}"]'


def matches(text: str) -> bool:
    selector = compile_selector(text)
    assert isinstance(selector, CompiledSelector), selector
    return selector.matches(device_value(DRIVER, DEVICE))


@pytest.mark.parametrize(
    ("text", "alone"),
    [
        (f'device.driver == "{DRIVER}"', True),
        ('["a"].exists(one, device.driver.startsWith(one)) || device.?driver.orValue("") == "b"', True),
        ("true", True),
        (f'device.driver == "{DRIVER}" && device.allowMultipleAllocations', False),
        (f"has({ATTRIBUTES}.model)", False),
        ('cel.bind(one, device, one.driver == "a")', False),
    ],
)
def test_whether_an_expression_reads_the_driver_alone(text: str, alone: bool) -> None:
    selector = compile_selector(text)
    assert isinstance(selector, CompiledSelector), selector
    assert selector.reads_driver_alone is alone


def test_includes_is_declared_since_1_36() -> None:
    text = '["a"].includes("a")'
    assert isinstance(compile_selector(text), CompiledSelector)
    assert "undeclared reference to 'includes'" in str(compile_selector(text, includes=False))
    includes = {release: found.lists_have_includes for release, found in RELEASES.items()}
    assert includes == {version: version >= "1.36" for version in RELEASES}


def test_a_malformed_version_is_an_error_of_each_device_that_has_it() -> None:
    cache, text = SelectorCache(), f'device.driver == "{DRIVER}"'

    def matches(version: str) -> bool:
        device = Device(name="d", attributes={"driverVersion": DeviceAttribute(version=version)})
        one = PublishedSlice(
            ResourceSlice(spec=ResourceSliceSpec(driver=DRIVER, devices=(device,))), SliceKinds()
        )
        return cache.matches(text, one.device(0))

    assert matches("1.2.3")
    with pytest.raises(SelectorError, match="attribute driverVersion: parse semantic version"):
        matches("1.2")
    assert matches("1.2.4")


EXPECTED = (
    "Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', "
    "'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
NOBODY = "undeclared reference to 'nobody' (in container '')"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("true &&\n\t", f"2:2: {EXPECTED}\n |  \n | .^"),
        ("'\u65e5\u672c' == nobody", f"1:9: {NOBODY}\n | '\u65e5\u672c' == nobody\n | .\uff0e\uff0e.....^"),
        (
            "\u65e5",
            "1:1: Syntax error: token recognition error at: '\u65e5'\n | \u65e5\n | \uff3e",
        ),
    ],
    ids=["tab", "wide", "wide-itself"],
)
def test_where_a_problem_is_is_shown_as_cel_go_shows_it(text: str, shown: str) -> None:
    assert str(compile_selector(text)) == f"compilation failed: ERROR: <input>:{shown}"


def test_a_version_that_is_none_is_an_error_of_the_device() -> None:
    broken = decode({"name": "x", "attributes": {"v": {"version": "one"}}}, Device)
    with pytest.raises(SelectorError, match="attribute v: parse semantic version"):
        device_value(DRIVER, broken)


@pytest.mark.parametrize(
    "given", [{"ints": [1, 2]}, {"bools": [True]}, {"strings": ["a"]}, {"versions": ["1.0.0"]}]
)
def test_lists_are_attributes_where_their_gate_is_on(given: dict[str, Any]) -> None:
    device = decode({"name": "x", "attributes": {"many": given}}, Device)
    selector = compile_selector(f"{ATTRIBUTES}.many.exists(x, true)", list_attributes=True)
    assert isinstance(selector, CompiledSelector)
    assert selector.matches(device_value(DRIVER, device, list_attributes=True))
    with pytest.raises(SelectorError, match=r"^attribute many: unsupported attribute value$"):
        device_value(DRIVER, device)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"{ATTRIBUTES}.many.exists(x, x > 0)",
            "expression of type 'any' cannot be range of a comprehension",
        ),
        (f"dyn({ATTRIBUTES}.healthy)", "must evaluate to bool or the unknown type, not dyn"),
    ],
)
def test_without_the_gate_of_lists(text: str, message: str) -> None:
    found = compile_selector(text)
    assert isinstance(found, CompileError)
    assert message in str(found)
    assert isinstance(compile_selector(text, list_attributes=True), CompiledSelector)


@pytest.mark.parametrize(("length", "wanted", "result"), [(48, 47, True), (48, 48, False), (49, 47, True)])
def test_includes_looks_at_as_many_values_as_an_attribute_may_have(
    length: int, wanted: int, result: bool
) -> None:
    selector = compile_selector(f"{list(range(length))}.includes({wanted})", list_attributes=True)
    assert isinstance(selector, CompiledSelector)
    assert selector.matches(device_value(DRIVER, DEVICE)) is result
    beyond = compile_selector(f"{list(range(49))}.includes(48)", list_attributes=True)
    assert isinstance(beyond, CompiledSelector)
    with pytest.raises(SelectorError, match="cannot be applied to lists longer than 48 values"):
        beyond.matches(device_value(DRIVER, DEVICE))


def traceback_length(error: BaseException) -> int:
    return sum(1 for _ in walk_tb(error.__traceback__))


@pytest.mark.parametrize("text", ["device.driver ==", "1", "device.driver"])
def test_a_refusal_that_is_kept_keeps_nothing_of_its_callers(text: str) -> None:
    """An exception holds the frames that it went through, and these all that was in hand."""
    found = compile_selector(f"{text} // kept")
    assert isinstance(found, CompileError)
    assert (found.__traceback__, found.__context__) == (None, None)


@pytest.mark.parametrize("text", ["device.driver ==", 'device.attributes["x"].none == 1'])
def test_an_error_that_is_raised_again_does_not_grow(text: str) -> None:
    cache, spec = SelectorCache(), ResourceSliceSpec(driver=DRIVER, devices=(Device(name="a"),))
    device = PublishedSlice(ResourceSlice(spec=spec), SliceKinds()).device(0)
    lengths = []
    for _ in range(3):
        with pytest.raises((CompileError, SelectorError)) as caught:
            cache.matches(text, device)
        lengths.append(traceback_length(caught.value))
    assert lengths == [lengths[0]] * 3
