"""HTTPS for health checks and metrics of a scheduler."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .delegated_authorization import DelegatedAuthorization
from .http_server import HEALTH, STATE, Check, Handler, HttpServer, server_context


class SecureServer(HttpServer):
    """Serves the state of a scheduler until it is closed.

    Parameters
    ----------
    address : (str, int)
        See `HttpServer`.
    certificate, key : str
        Files in PEM.
    authorization : DelegatedAuthorization
        Decides who may read metrics.
    metrics, ready, alive
        See `HttpServer`.
    """

    def __init__(  # noqa: PLR0913
        self,
        address: tuple[str, int],
        certificate: str,
        key: str,
        authorization: DelegatedAuthorization,
        metrics: Callable[[], bytes],
        ready: Mapping[str, Check],
        alive: Mapping[str, Check] | None = None,
    ) -> None:
        self.authorization = authorization
        self.metrics, self.ready, self.alive = metrics, ready, alive or {}
        super().__init__(address, _Handler, server_context(certificate, key))


class _Handler(Handler):
    server: SecureServer

    def answer(self) -> None:
        path = self.url.path
        if self.command not in ("GET", "HEAD"):
            self.refuse(405, "health checks and metrics are requested by GET", ("Allow", "GET, HEAD"))
            return
        status, text = 200, ""
        if path not in HEALTH:
            status, text = self.server.authorization.status(path, "get", self.bearer())
        if status != 200:
            self.send(status, text)
        elif path in STATE:
            self.send_state()
        else:
            self.send(404, "404 page not found\n")
