"""TwinServer: questions about a cluster over HTTP."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from moorage.serve.delegated_authorization import DelegatedAuthorization
from moorage.serve.http_server import HEALTH, LOOPBACK, STATE, Check, Handler, HttpServer, server_context

from .forked_answers import place_of

logger = logging.getLogger("moorage.serve")

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
    page : mapping of str to Reply
        What is got by path, by everybody.
    alive, ready, metrics
        See `HttpServer`. Everybody may see the checks.
    """

    def __init__(  # noqa: PLR0913
        self,
        address: tuple[str, int],
        answer: Answer,
        *,
        files: tuple[str, str] | None = None,
        authorization: DelegatedAuthorization | None = None,
        page: Mapping[str, Reply] = MappingProxyType({}),
        alive: Mapping[str, Check],
        ready: Mapping[str, Check],
        metrics: Callable[[], bytes],
        max_body: int = MAX_BODY,
    ) -> None:
        self.answer, self.authorization, self.page = answer, authorization, page
        self.alive, self.ready, self.metrics = alive, ready, metrics
        super().__init__(address, _Handler, None if files is None else server_context(*files), max_body)


class _Handler(Handler):
    server: TwinServer

    def answer(self) -> None:
        path = self.url.path
        if self.command not in ("GET", "HEAD", "POST"):
            self.refuse(405, "questions are asked by GET or POST", ("Allow", "GET, HEAD, POST"))
        elif (file := self.server.page.get(path)) is not None and self.command != "POST":
            self.send(file.status, file.body, file.type, *file.headers)
        elif path not in HEALTH and (why := self._why_not(path)):
            self.refuse(*why)
        elif path in STATE:
            self.send_state()
        elif not path.startswith(QUESTIONS):
            self.refuse(404, f"no such path: questions are below {QUESTIONS}")
        else:
            self._answer_question(path[len(QUESTIONS) :])

    def _why_not(self, path: str) -> tuple[int, str] | None:
        """Return why the request is refused: its token, or on loopback a page of another host, to which a
        browser was led by a name that leads here."""
        if self.server.authorization is None:
            host = self.headers.get("Host", "")
            origin = urlsplit(self.headers.get("Origin") or f"//{host}").netloc
            is_own = origin == host and self.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin")
            if urlsplit(f"//{host}").hostname in LOOPBACK and is_own:
                return None
            return 403, "without a token, questions are asked from this machine, and not from another page"
        verb = "get" if self.command == "HEAD" else self.command.lower()
        status, text = self.server.authorization.status(path, verb, self.bearer())
        return None if status == 200 else (status, text)

    def _answer_question(self, path: str) -> None:
        has_body = "Content-Length" in self.headers or "Transfer-Encoding" in self.headers
        body = self.read_body() if has_body else b""
        if body is None:
            return
        try:
            query = parse_qsl(self.url.query, keep_blank_values=True, max_num_fields=1000)
            reply = self.server.answer(path, query, body)
        except ValueError as error:
            reply = refusal(400, str(error))
        except Exception as error:  # its text may have something of the body
            logger.error("%s%s was not answered: %s", QUESTIONS, path, place_of(error))
            reply = refusal(500, "internal error")
        self.send(reply.status, reply.body, reply.type, *reply.headers)
