"""TwinServer: questions about a cluster over HTTP."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from urllib.parse import parse_qsl

from ..serve.delegated_authorization import DelegatedAuthorization
from ..serve.web_server import HEALTH, Check, Reply, Request, WebServer, is_foreign, server_context
from .forked_answers import place_of

logger = logging.getLogger("moorage.serve")

JSON = "application/json"
MAX_BODY = 16 << 20
QUESTIONS = "/v1/"


def refusal(status: int, text: str) -> Reply:
    """Return the answer to a question that has none."""
    return Reply(status, json.dumps({"error": text}).encode() + b"\n", JSON)


Answer = Callable[[str, list[tuple[str, str]], bytes], Reply]


class TwinServer(WebServer):
    """Answers questions until it is closed.

    Parameters
    ----------
    address : (str, int)
        See `WebServer`.
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
        See `WebServer`. Everybody may see the checks.
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
        self._answer, self.authorization, self.page = answer, authorization, page
        self.alive, self.ready, self.metrics = alive, ready, metrics
        super().__init__(address, None if files is None else server_context(*files), max_body=max_body)

    async def refusal(self, request: Request) -> Reply | None:
        path = request.path
        if request.method not in ("GET", "HEAD", "POST"):
            text = b"questions are asked by GET or POST\n"
            return Reply(405, text, headers=[("allow", "GET, HEAD, POST")])
        if request.method != "POST" and (path in self.page or path in HEALTH):
            return None
        if self.authorization is not None:
            reply = await self.in_thread(self._reviewed, request)
            if reply.status != 200:
                return reply
        elif is_foreign(request):
            text = b"without a token, questions are asked from this machine, and not from another page\n"
            return Reply(403, text)
        if not (path.startswith(QUESTIONS) or request.asks_state):
            return Reply(404, f"no such path: questions are below {QUESTIONS}\n".encode())
        return None

    def _reviewed(self, request: Request) -> Reply:
        """Return whether an API server lets the client ask."""
        assert self.authorization is not None
        verb = "get" if request.method == "HEAD" else request.method.lower()
        status, text = self.authorization.status(request.path, verb, request.bearer)
        return Reply(status, f"{text}\n".encode())

    def answer(self, request: Request) -> Reply:
        if request.asks_state:
            return self.state(request)
        if (file := self.page.get(request.path)) is not None:
            return file
        path = request.path.removeprefix(QUESTIONS)
        try:
            query = parse_qsl(request.query, keep_blank_values=True, max_num_fields=1000)
            return self._answer(path, query, request.body)
        except ValueError as error:
            return refusal(400, str(error))
        except Exception as error:  # its text may have something of the body
            logger.error("%s%s was not answered: %s", QUESTIONS, path, place_of(error))
            return refusal(500, "internal error")
