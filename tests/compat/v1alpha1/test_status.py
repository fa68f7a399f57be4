"""Codes and statuses, None among them."""

from __future__ import annotations

import pytest
from tests.doors.compat import Code, Error, FrameworkError, NewStatus, Status, Success, Unschedulable, Wait


def test_the_numbers_of_codes() -> None:
    assert [int(code) for code in (Success, Error, Unschedulable, Wait)] == [0, 1, 2, 3]
    assert list(Code) == [Success, Error, Unschedulable, Wait]


@pytest.mark.parametrize("code", list(Code))
def test_a_status_is_its_code_and_its_message(code: Code) -> None:
    status = NewStatus(code, "why")
    assert (status.Code(), status.Message(), status.IsSuccess()) == (code, "why", code == Success)


def test_none_is_a_success() -> None:
    assert (Status.Code(None), Status.Message(None)) == (Success, "")
    assert Status.IsSuccess(None)
    assert Status.AsError(None) is None


def test_the_class_is_asked_of_a_status_as_of_none() -> None:
    status: Status | None = NewStatus(Wait, "later")
    assert (Status.Code(status), Status.Message(status), Status.IsSuccess(status)) == (Wait, "later", False)


def test_a_status_of_nothing_is_a_success() -> None:
    assert (Status().Code(), Status().Message()) == (Success, "")


@pytest.mark.parametrize("code", [Error, Unschedulable, Wait])
def test_the_error_of_a_status_has_its_message(code: Code) -> None:
    error = NewStatus(code, "no room: a, b").AsError()
    assert (type(error), str(error)) == (FrameworkError, "no room: a, b")


def test_a_success_is_no_error_whatever_its_message() -> None:
    assert NewStatus(Success, "all well").AsError() is None
