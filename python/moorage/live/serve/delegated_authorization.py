"""Asks an API server who sends a request and whether he may, as kube-scheduler does."""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import msgspec

from moorage.store import ApiError

from ..client import Connection
from ..client.server_errors import read_answer


class _Review(msgspec.Struct):
    status: dict[str, Any] = {}


_REVIEW = msgspec.json.Decoder(_Review)
_ANONYMOUS = {"username": "system:anonymous", "groups": ["system:unauthenticated"]}
FRESH = 10.0
"""Seconds for which who may, may without a new review, and for which a server that fails is not asked again
(apiserver v0.36, pkg/server/options: NewDelegatingAuthenticationOptions, NewDelegatingAuthorizationOptions).
"""
KEPT, MOST = 3600.0, 1000
"""Seconds for which he may while the server cannot be asked; requests that are remembered."""


class DelegatedAuthorization:
    """Decides on requests to paths by TokenReview and SubjectAccessReview. Thread-safe.

    While the server fails, those may whom it has last allowed: what is served is needed then.

    Parameters
    ----------
    authentication, authorization : Connection or None
        Without the first every request is anonymous, without the second all are forbidden.
    clock : callable, optional
        Returns seconds.
    """

    def __init__(
        self,
        authentication: Connection | None,
        authorization: Connection | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._authentication, self._authorization, self._clock = authentication, authorization, clock
        self._allowed: dict[tuple[bytes, str, str], float] = {}  # when; the longest ago is the first
        self._failed = -FRESH

    def status(self, path: str, verb: str, token: str) -> tuple[int, str]:
        """Decide on a request.

        Parameters
        ----------
        path : str
            Such as ``/metrics``.
        verb : str
            Such as ``get``.
        token : str
            Of the bearer; "" for none.

        Returns
        -------
        status : int
            200, 401, 403, or 500 where the server does not answer.
        text : str
            For others than 200.
        """
        key, now = (sha256(token.encode()).digest(), verb, path), self._clock()
        age = now - self._allowed.get(key, now - KEPT)
        if age < (KEPT if now - self._failed < FRESH else FRESH):
            return 200, ""
        try:
            status, text = self._reviewed(path, verb, token)
        except ApiError as error:
            self._failed = self._clock()
            return (200, "") if age < KEPT else (500, f"Internal Server Error: {path!r}: {error}")
        self._allowed.pop(key, None)
        if status == 200:
            self._allowed[key] = now
            for oldest in list(self._allowed)[:-MOST]:
                self._allowed.pop(oldest, None)
        return status, text

    def _reviewed(self, path: str, verb: str, token: str) -> tuple[int, str]:
        user: dict[str, Any] | None = _ANONYMOUS
        if token and self._authentication is not None:
            user = self._user(self._authentication, token)
            if user is None:
                return 401, "Unauthorized"
        if self._authorization is not None and self._may(self._authorization, user, path, verb):
            return 200, ""
        name = user["username"] if user else ""
        return 403, f'forbidden: User "{name}" cannot {verb} path "{path}"'

    def _user(self, connection: Connection, token: str) -> dict[str, Any] | None:
        """Return the user of a token; None for a token that is not valid."""
        status = _review(connection, "authentication.k8s.io", "TokenReview", {"token": token})
        user: dict[str, Any] = status.get("user", {})
        return user if status.get("authenticated") else None

    def _may(self, connection: Connection, user: dict[str, Any] | None, path: str, verb: str) -> bool:
        spec: dict[str, Any] = {"nonResourceAttributes": {"path": path, "verb": verb}}
        names = {"username": "user", "groups": "groups", "uid": "uid", "extra": "extra"}
        spec |= {theirs: user[ours] for ours, theirs in names.items() if user and ours in user}
        status = _review(connection, "authorization.k8s.io", "SubjectAccessReview", spec)
        return status.get("allowed") is True


def _review(connection: Connection, group: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Create a review, and return its status."""
    value = {"apiVersion": f"{group}/v1", "kind": kind, "spec": spec}
    path = f"/apis/{group}/v1/{kind.lower()}s"
    answer = connection.request("POST", path, None, msgspec.json.encode(value))
    return read_answer(_REVIEW, answer).status
