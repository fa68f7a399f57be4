"""Status: what kube-scheduler v1.36's framework says of codes, reasons and errors."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.engine.framework import Code, Status, as_status
from moorage.errors import PluginError

REASONS = ("one", "two")


def test_names_and_numbers_of_codes() -> None:
    names = "Success Error Unschedulable UnschedulableAndUnresolvable Wait Skip Pending"
    assert [str(Code(number)) for number in range(7)] == names.split()
    with pytest.raises(ValueError, match="7 is not a valid Code"):
        Code(7)


def test_none_is_success() -> None:
    assert as_status(None) is None


def test_an_error_comes_first_among_the_reasons() -> None:
    err = ValueError("boom")
    assert Status(Code.ERROR, REASONS).reasons == REASONS
    failed = Status(Code.UNSCHEDULABLE, REASONS, err=err)
    assert (failed.code, failed.reasons) == (Code.UNSCHEDULABLE, ("boom", *REASONS))
    assert failed.message() == str(failed) == "boom, one, two"
    assert failed.append_reason("three").reasons == ("boom", *REASONS, "three")
    assert failed.reasons == ("boom", *REASONS)  # the first is as it was


def test_an_exception_becomes_an_error_with_its_text() -> None:
    err = ValueError("boom")
    made = as_status(err)
    assert made is not None
    assert (made.code, made.reasons, made.err) == (Code.ERROR, ("boom",), err)


@pytest.mark.parametrize("code", [Code.SUCCESS, Code.WAIT, Code.SKIP])
def test_no_error_of_success_wait_and_skip(code: Code) -> None:
    assert Status(code, REASONS, err=ValueError("x")).as_error() is None


def test_as_error_is_the_error_itself_or_the_message() -> None:
    err = ValueError("boom")
    assert Status(Code.ERROR, REASONS, err=err).as_error() is err
    made = Status(Code.PENDING, REASONS).as_error()
    assert isinstance(made, PluginError)
    assert str(made) == "one, two"


def test_each_code_rejects_succeeds_waits_or_skips() -> None:
    rejected = [code for code in Code if Status(code).is_rejected]
    assert rejected == [Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING]
    assert [code for code in Code if Status(code).is_success] == [Code.SUCCESS]
    assert [code for code in Code if Status(code).is_wait] == [Code.WAIT]
    assert [code for code in Code if Status(code).is_skip] == [Code.SKIP]


def test_statuses_are_equal_if_code_reasons_plugin_and_error_are() -> None:
    one = Status(Code.ERROR, REASONS, "p")
    assert one == Status(Code.ERROR, REASONS, "p")
    assert hash(one) == hash(Status(Code.ERROR, REASONS, "p"))
    others = [
        Status(Code.UNSCHEDULABLE, REASONS, "p"),
        Status(Code.ERROR, REASONS[::-1], "p"),
        Status(Code.ERROR, REASONS, "q"),
        Status(Code.ERROR, REASONS, "p", ValueError("x")),
    ]
    assert all(one != other for other in others)
    assert one != "p"


def test_an_error_equals_what_wraps_it() -> None:
    inner, outer = ValueError("x"), RuntimeError("y")
    outer.__cause__ = inner
    assert Status(Code.ERROR, err=inner) == Status(Code.ERROR, err=outer)
    assert Status(Code.ERROR, err=outer) == Status(Code.ERROR, err=inner)
    assert Status(Code.ERROR, err=inner) != Status(Code.ERROR, err=ValueError("x"))


def test_a_status_with_another_plugin_is_another_status() -> None:
    one = Status(Code.ERROR, plugin="p")
    assert one.with_plugin("p") is one
    assert one.with_plugin("q").plugin == "q"


@pytest.mark.parametrize("code", ["Unschedulable", 99, 2, None])
def test_a_code_of_another_type(code: Any) -> None:
    with pytest.raises(TypeError, match=rf"^the code of a Status is a Code, .*, not {code!r}$"):
        Status(code, ("why",))


@pytest.mark.parametrize("texts", [["a"], "text", (1,), None])
def test_texts_of_another_type(texts: Any) -> None:
    with pytest.raises(TypeError, match="the texts of a Status are a tuple of str"):
        Status(Code.UNSCHEDULABLE, texts)
