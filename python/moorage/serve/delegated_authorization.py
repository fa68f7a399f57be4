"""Asks an API server who sends a request and whether he may, as kube-scheduler does."""

from __future__ import annotations

from typing import Any

import msgspec

from moorage.store import ApiError
from moorage.store.api import Connection
from moorage.store.api.server_errors import read_answer


class _Review(msgspec.Struct):
    status: dict[str, Any] = {}


_REVIEW = msgspec.json.Decoder(_Review)
_ANONYMOUS = {"username": "system:anonymous", "groups": ["system:unauthenticated"]}


class DelegatedAuthorization:
    """Decides on requests to paths by TokenReview and SubjectAccessReview.

    Parameters
    ----------
    authentication, authorization : Connection or None
        Without the first every request is anonymous, without the second all are forbidden.
    """

    def __init__(self, authentication: Connection | None, authorization: Connection | None) -> None:
        self._authentication, self._authorization = authentication, authorization

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
        try:
            user: dict[str, Any] | None = _ANONYMOUS
            if token and self._authentication is not None:
                user = self._user(self._authentication, token)
                if user is None:
                    return 401, "Unauthorized"
            if self._authorization is not None and self._may(self._authorization, user, path, verb):
                return 200, ""
        except ApiError as error:
            return 500, f"Internal Server Error: {path!r}: {error}"
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
