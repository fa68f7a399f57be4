"""Codes and statuses of v1alpha1, and its error."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from moorage.errors import MoorageError


class FrameworkError(MoorageError):
    """What v1alpha1 returned as an error; its text is upstream's."""


class Code(IntEnum):
    """Status codes. The numbers are those of v1alpha1: Wait is 3, where it is 4 today."""

    Success = 0
    Error = 1
    Unschedulable = 2
    Wait = 3


Success = Code.Success
Error = Code.Error
Unschedulable = Code.Unschedulable
Wait = Code.Wait

# Inside Status, `Code` is the method.
_Code = Code


@dataclass(frozen=True, slots=True)
class Status:
    """The result of a plugin: a code, and a message that says why where the code is not Success.

    None in its place is Success. The methods can be asked of None through the class: ``Status.Code(None)``.
    """

    code: _Code = Success
    message: str = ""

    def Code(self: Status | None) -> _Code:
        """The code; Success of None."""
        return Success if self is None else self.code

    def Message(self: Status | None) -> str:
        """The message; "" of None, where upstream crashed."""
        return "" if self is None else self.message

    def IsSuccess(self: Status | None) -> bool:
        """Whether the code is Success."""
        return Status.Code(self) == Success

    def AsError(self: Status | None) -> FrameworkError | None:
        """None of a success, else an error with the message as its text."""
        return None if Status.IsSuccess(self) else FrameworkError(Status.Message(self))


def NewStatus(code: _Code, msg: str) -> Status:
    """A status of this code and message."""
    return Status(code, msg)
