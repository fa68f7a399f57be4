"""HTTPS for health checks and metrics of a scheduler."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .delegated_authorization import DelegatedAuthorization
from .web_server import HEALTH, Check, Reply, Request, WebServer, server_context


class SecureServer(WebServer):
    """Serves the state of a scheduler until it is closed.

    Parameters
    ----------
    address : (str, int)
        See `WebServer`.
    certificate, key : str
        Files in PEM.
    authorization : DelegatedAuthorization
        Decides who may read metrics.
    metrics, ready, alive
        See `WebServer`.
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
        super().__init__(address, server_context(certificate, key))

    async def refusal(self, request: Request) -> Reply | None:
        if request.method in ("GET", "HEAD"):
            return None
        return Reply(
            405, b"health checks and metrics are requested by GET\n", headers=[("allow", "GET, HEAD")]
        )

    def answer(self, request: Request) -> Reply:
        status, text = 200, ""
        if request.path not in HEALTH:
            status, text = self.authorization.status(request.path, "get", request.bearer)
        if status != 200:
            return Reply(status, text.encode())
        return self.state(request) if request.asks_state else Reply(404, b"404 page not found\n")
