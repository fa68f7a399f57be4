"""ExtenderServer: a scheduler extender over HTTP or mutual TLS, by a thread for each connection."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from .http_server import STATE, TEXT, Check, Handler, HttpServer, server_context

logger = logging.getLogger("moorage.serve")

MAX_BODY = 128 << 20
"""Bytes of a body at most: enough for thousands of whole nodes."""
REQUEST_TIMEOUT = 30.0
"""Maximum number of seconds for a request to arrive."""
IDLE_TIMEOUT = 120.0
"""Seconds that a connection is kept between two requests: longer than Go's client keeps it, so that no
request meets a connection that is being closed."""
_JSON = "application/json"
Answer = Callable[[str, bytes], tuple[int, bytes]]


class ExtenderServer(HttpServer):
    """Answers the requests of kube-scheduler until it is closed.

    Parameters
    ----------
    address : (str, int)
        See `HttpServer`.
    answer : callable
        Takes a verb and the body of a request, returns status and body of the answer. It is called by several
        threads at once.
    certificate, key : str, optional
        Files in PEM; without them it is plain HTTP.
    client_authorities : str, optional
        A file of certificates in PEM. Only clients with a certificate by one of them are served, but for
        health checks.
    prefix : str, optional
        The path of ``urlPrefix``, before the verbs.
    max_body : int, optional
        Bytes of a body at most.
    timeout : float, optional
        Seconds that a request may take to arrive.
    health, ready, metrics : optional
        See `HttpServer`, whose `alive` is `health`. They need no certificate.

    Raises
    ------
    OSError
        A file cannot be read, or the address cannot be used.
    """

    def __init__(  # noqa: PLR0913
        self,
        address: tuple[str, int],
        answer: Answer,
        *,
        certificate: str | None = None,
        key: str | None = None,
        client_authorities: str | None = None,
        prefix: str = "",
        max_body: int = MAX_BODY,
        timeout: float = REQUEST_TIMEOUT,
        health: Mapping[str, Check] | None = None,
        ready: Mapping[str, Check] | None = None,
        metrics: Callable[[], bytes] | None = None,
    ) -> None:
        context = None
        if certificate is not None and key is not None:
            context = server_context(certificate, key, client_authorities)
        self.answer, self.patience = answer, timeout
        self.prefix = f"/{prefix.strip('/')}/" if prefix.strip("/") else "/"
        self.ready, self.alive, self.metrics = ready or {}, health or {}, metrics or bytes
        self.asks_certificates = client_authorities is not None
        super().__init__(address, _Handler, context, max_body)


class _Handler(Handler):
    idle = IDLE_TIMEOUT
    server: ExtenderServer

    def answer(self) -> None:
        if self.command in ("GET", "HEAD") and self.url.path in STATE:
            self.send_state()
        elif self.server.asks_certificates and not self.connection.getpeercert():
            self.refuse(403, "a client certificate is needed")
        elif self.command == "POST":
            self._answer_verb()
        else:
            text = f"method {self.command}: verbs of extenders are requested by POST"
            self.refuse(405, text, ("Allow", "POST"))

    def _answer_verb(self) -> None:
        body = self.read_body()
        if body is None:
            return
        path, prefix = self.url.path, self.server.prefix
        if not path.startswith(prefix):
            self.send(404, f"no such path: the verbs are below {prefix}\n")
            return
        try:
            status, answer = self.server.answer(path[len(prefix) :], body)
        except Exception:
            logger.exception("%s was not answered", path)
            status, answer = 500, b"internal error\n"
        self.send(status, answer, _JSON if status == 200 else TEXT)
