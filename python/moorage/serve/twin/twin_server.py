"""TwinServer: questions about a cluster over HTTP."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from moorage.serve.delegated_authorization import DelegatedAuthorization
from moorage.serve.http_server import HEALTH, METRICS, Check, Handler, HttpServer, server_context

logger = logging.getLogger("moorage.serve")

LOOPBACK = ("127.0.0.1", "::1", "localhost")
JSON = "application/json"
MAX_BODY = 16 << 20
QUESTIONS = "/v1/"


class Reply(NamedTuple):
    """An answer of HTTP."""

    status: int
    body: bytes
    type: str = JSON
    headers: Sequence[tuple[str, str]] = ()


def refusal(status: int, text: str) -> Reply:
    """Return the answer to a question that has none."""
    return Reply(status, json.dumps({"error": text}).encode() + b"\n")


Answer = Callable[[str, list[tuple[str, str]], bytes], Reply]


class TwinServer(HttpServer):
    """Answers questions until it is closed.

    Parameters
    ----------
    address : (str, int)
        See `HttpServer`.
    answer : callable
        Takes the path below ``/v1/``, the query and the body of a question. It is called by several threads
        at once.
    files : (str, str) or None
        Certificate and key, in PEM; without them it is plain HTTP.
    authorization : DelegatedAuthorization or None
        Decides who may ask; None where all who reach it may, which is right on loopback alone.
    alive, ready : mapping of str to callable
        The checks of health, which everybody may see.
    metrics : callable
        Returns the text of ``/metrics``.
    max_body : int, optional
    """

    def __init__(  # noqa: PLR0913
        self,
        address: tuple[str, int],
        answer: Answer,
        *,
        files: tuple[str, str] | None = None,
        authorization: DelegatedAuthorization | None = None,
        alive: Mapping[str, Check],
        ready: Mapping[str, Check],
        metrics: Callable[[], bytes],
        max_body: int = MAX_BODY,
    ) -> None:
        class Bound(_Handler):
            answers = staticmethod(answer)
            allow = None if authorization is None else staticmethod(authorization.status)
            render = staticmethod(metrics)
            checks = {"/readyz": ready, "/livez": alive, "/healthz": alive}
            largest = max_body

        super().__init__(address, Bound, None if files is None else server_context(*files), max_body)


class _Handler(Handler):
    answers: Answer
    allow: Callable[[str, str, str], tuple[int, str]] | None
    render: Callable[[], bytes]
    checks: Mapping[str, Mapping[str, Check]]

    def answer(self) -> None:
        path = self.url.path
        if self.command not in ("GET", "HEAD", "POST"):
            self.refuse(405, "questions are asked by GET or POST", ("Allow", "GET, HEAD, POST"))
        elif path in HEALTH:
            self.send_health(self.checks[path])
        elif why := self._why_not(path):
            self.refuse(*why)
        elif path == "/metrics":
            self.send(200, self.render(), METRICS)
        elif not path.startswith(QUESTIONS):
            self.refuse(404, f"no such path: questions are below {QUESTIONS}")
        else:
            self._answer_question(path[len(QUESTIONS) :])

    def _why_not(self, path: str) -> tuple[int, str] | None:
        """Return why the request is refused: its token, or on loopback a page of another host, to which a
        browser was led by a name that leads here."""
        if self.allow is None:
            host = urlsplit(f"//{self.headers.get('Host', '')}").hostname
            if host in LOOPBACK and not self.headers.get("Origin"):
                return None
            return 403, "without a token, questions are asked from this machine, and not from a page"
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        verb = "get" if self.command == "HEAD" else self.command.lower()
        status, text = self.allow(path, verb, token.strip() if scheme.lower() == "bearer" else "")
        return None if status == 200 else (status, text)

    def _answer_question(self, path: str) -> None:
        has_body = "Content-Length" in self.headers or "Transfer-Encoding" in self.headers
        body = self.read_body() if has_body else b""
        if body is None:
            return
        try:
            query = parse_qsl(self.url.query, keep_blank_values=True, max_num_fields=1000)
            reply = self.answers(path, query, body)
        except ValueError as error:
            reply = refusal(400, str(error))
        except Exception:
            logger.exception("%s%s was not answered", QUESTIONS, path)
            reply = refusal(500, "internal error")
        self.send(reply.status, reply.body, reply.type, *reply.headers)
