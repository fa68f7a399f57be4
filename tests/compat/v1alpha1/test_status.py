"""Codes and statuses, None among them."""

from __future__ import annotations

import pytest

from moorage.compat.v1alpha1 import (
    Code,
    Error,
    FrameworkError,
    NewStatus,
    Status,
    Success,
    Unschedulable,
    Wait,
)


def test_the_numbers_of_codes() -> None:
    assert [int(code) for code in (Success, Error, Unschedulable, Wait)] == [0, 1, 2, 3]
    assert list(Code) == [Success, Error, Unschedulable, Wait]


@pytest.mark.parametrize("code", list(Code))
def test_a_status_is_its_code_and_its_message_and_a_success_is_no_error(code: Code) -> None:
    status, is_success = NewStatus(code, "no room: a, b"), code == Success
    assert (status.Code(), status.Message(), status.IsSuccess()) == (code, "no room: a, b", is_success)
    assert (Status.Code(status), Status.Message(status)) == (code, "no room: a, b")
    error = status.AsError()
    assert str(error) == ("None" if is_success else "no room: a, b")
    assert is_success or isinstance(error, FrameworkError)


@pytest.mark.parametrize("status", [None, Status()])
def test_none_and_a_status_of_nothing_are_successes(status: Status | None) -> None:
    assert (Status.Code(status), Status.Message(status)) == (Success, "")
    assert (Status.IsSuccess(status), Status.AsError(status)) == (True, None)
