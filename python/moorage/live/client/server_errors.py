"""The answers of an API server that are no success, as exceptions of the store."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from moorage.kube.read.decode import UNREADABLE
from moorage.store.errors import (
    AlreadyExistsError,
    ApiError,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    InvalidObjectError,
    NotFoundError,
    ResourceExpiredError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
)

T = TypeVar("T")

_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: ResourceExpiredError,
    422: InvalidObjectError,
    429: TooManyRequestsError,
}


class StatusAnswer(msgspec.Struct):
    """What is read of a ``Status`` (meta/v1)."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0


def status_of(body: bytes, code: int = 0) -> StatusAnswer:
    """Read the body of an answer that is no success.

    Parameters
    ----------
    code : int, optional
        The status code of HTTP.

    Returns
    -------
    StatusAnswer
        Where the body is no Status, as of a proxy, its text is the message.
    """
    try:
        status = msgspec.json.decode(body, type=StatusAnswer)
    except UNREADABLE:
        status = StatusAnswer()
    if status.kind != "Status":
        text = body[:200].decode(errors="replace").strip()
        return StatusAnswer(message=text or f"HTTP status {code}", code=code)
    return status if status.code else msgspec.structs.replace(status, code=code)


def read_answer(decoder: msgspec.json.Decoder[T], body: bytes | msgspec.Raw, what: str = "an answer") -> T:
    """Decode an answer that is no object of a kind, or a part of one.

    Raises
    ------
    ServerError
        It is of another form, as of a proxy.
    """
    try:
        return decoder.decode(body)
    except UNREADABLE as error:
        raise ServerError(f"{what} of the API server cannot be read: {error}") from None


def error_of(status: StatusAnswer) -> ApiError:
    """Return the exception of a Status.

    Returns
    -------
    ApiError
        Of the subclass that the code and the reason name.
    """
    kind = _BY_CODE.get(status.code, ServerError if status.code >= 500 else ApiError)
    if status.reason == "AlreadyExists":
        kind = AlreadyExistsError
    return kind(status.message or f"HTTP status {status.code}")
