"""HTTPS for health checks and metrics of a scheduler."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .delegated_authorization import DelegatedAuthorization
from .http_server import HEALTH, METRICS, Check, Handler, HttpServer, server_context


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
    metrics : callable
        Returns the text of all metrics.
    ready : mapping of str to callable
        Checks of ``/readyz``, by name; each returns whether it passes.
    alive : mapping of str to callable, optional
        Those of ``/livez`` and ``/healthz``.
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

        class Bound(_Handler):
            allow = staticmethod(authorization.status)
            render = staticmethod(metrics)
            checks = {"/readyz": ready, "/livez": alive or {}, "/healthz": alive or {}}

        super().__init__(address, Bound, server_context(certificate, key))


class _Handler(Handler):
    allow: Callable[[str, str, str], tuple[int, str]]
    render: Callable[[], bytes]
    checks: Mapping[str, Mapping[str, Check]]

    def answer(self) -> None:
        path = self.url.path
        if self.command not in ("GET", "HEAD"):
            self.refuse(405, "health checks and metrics are requested by GET", ("Allow", "GET, HEAD"))
            return
        if path in HEALTH:
            self.send_health(self.checks[path])
            return
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        status, text = self.allow(path, "get", token.strip() if scheme.lower() == "bearer" else "")
        if status != 200:
            self.send(status, text)
        elif path == "/metrics":
            self.send(200, self.render(), METRICS)
        else:
            self.send(404, "404 page not found\n")
