"""ExtenderServer: a scheduler extender over HTTP or mutual TLS."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from .web_server import TEXT, Check, Reply, Request, WebServer, server_context

logger = logging.getLogger("moorage.serve")

MAX_BODY = 128 << 20
"""Bytes of a body at most: enough for thousands of whole nodes."""
REQUEST_TIMEOUT = 30.0
"""Seconds for the head of a request to arrive, and for its body."""
IDLE_TIMEOUT = 120.0
"""Seconds that a connection is kept between two requests: longer than Go's client keeps it, so that no
request meets a connection that is being closed."""
_JSON = "application/json"
Answer = Callable[[str, bytes], tuple[int, bytes]]


class ExtenderServer(WebServer):
    """Answers the requests of kube-scheduler until it is closed.

    Parameters
    ----------
    address : (str, int)
        See `WebServer`.
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
        Seconds for the head of a request to arrive, and for its body.
    health, ready, metrics : optional
        See `WebServer`, whose `alive` is `health`. They need no certificate.

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
        self._answer = answer
        self.prefix = f"/{prefix.strip('/')}/" if prefix.strip("/") else "/"
        self.ready, self.alive, self.metrics = ready or {}, health or {}, metrics or bytes
        self.asks_certificates = client_authorities is not None
        super().__init__(address, context, max_body=max_body, patience=timeout, idle=IDLE_TIMEOUT)

    async def refusal(self, request: Request) -> Reply | None:
        if request.asks_state:
            return None
        if self.asks_certificates and not request.has_certificate:
            return Reply(403, b"a client certificate is needed\n")
        if request.method != "POST":
            text = f"method {request.method}: verbs of extenders are requested by POST\n"
            return Reply(405, text.encode(), headers=[("allow", "POST")])
        if not request.path.startswith(self.prefix):
            return Reply(404, f"no such path: the verbs are below {self.prefix}\n".encode())
        return None

    def answer(self, request: Request) -> Reply:
        if request.asks_state:
            return self.state(request)
        try:
            status, body = self._answer(request.path.removeprefix(self.prefix), request.body)
        except Exception:
            logger.exception("%s was not answered", request.path)
            status, body = 500, b"internal error\n"
        return Reply(status, body, _JSON if status == 200 else TEXT)
