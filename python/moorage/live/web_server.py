"""HTTP for the ports of a live scheduler, the extender, the twin and the tools of agents.

All are served by uvicorn, whose loop has a thread; requests are answered in threads of a pool. What a client
can take up is limited by what it has sent, and never by what it says that it will send.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from io import BytesIO
from threading import Thread
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from moorage.errors import MoorageError, missing
from moorage.lazy import NamedTuple

from .http_common import Reloaded
from .shares import LINGER, TIMEOUT, Shares

if TYPE_CHECKING:
    from .http_connection import HttpConnection, Message, Receive, Send

LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""Addresses that this machine alone reaches."""
_LOOPBACK_HOST = re.compile(r"(127\.0\.0\.1|\[::1\]|localhost)(:\d+)?", re.IGNORECASE)
CONNECTIONS = 256
"""Connections at once, of which one client gets half; further ones are closed."""
HEALTH = ("/healthz", "/livez", "/readyz")
"""Paths that everybody may get."""
STATE = (*HEALTH, "/metrics")
FOREIGN = b"refused: this comes from a page of another site, or asks for a host that is not this machine\n"
TEXT = "text/plain; charset=utf-8"
METRICS = "text/plain; version=0.0.4; charset=utf-8"
Check = Callable[[], bool | str]
"""Returns whether a check passes; a text passes, and is told by ``verbose``."""


class HttpRequest(NamedTuple):
    """A request.

    Attributes
    ----------
    headers : dict of str to str
        By their names in lower case.
    has_certificate : bool
        Whether the client has shown a certificate by one of the authorities.
    body : bytes
        Of a POST, once it was read.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    client: str
    has_certificate: bool
    body: bytes = b""

    @property
    def asks_state(self) -> bool:
        """Whether it gets health checks or metrics."""
        return self.path in STATE and self.method in ("GET", "HEAD")

    @property
    def bearer(self) -> str:
        """The token; "" without one."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""


class Reply(NamedTuple):
    """An answer of HTTP."""

    status: int
    body: bytes
    type: str = TEXT
    headers: Sequence[tuple[str, str]] = ()


class WebServer:
    """Serves in a thread of its own until it is closed. Subclasses say what.

    Parameters
    ----------
    address : (str, int)
        Where to listen; port 0 for any.
    context : Reloaded of ssl.SSLContext or None
        Without one it is plain HTTP.
    max_body : int, optional
        Bytes that the body of a request may have. Requests that are being read or answered take up at most
        twice the bytes of the largest one.
    patience : float, optional
        Seconds for the head of a request to arrive, for its body, and for the client to read a part of the
        answer.
    idle : float, optional
        Seconds for which a connection is kept between two requests.

    Attributes
    ----------
    port : int
        On which it listens.
    connections, memory : Shares
        What clients may hold: connections, and bytes of bodies.
    alive, ready : mapping of str to callable
        The checks of ``/livez`` and ``/healthz``, and those of ``/readyz``, by name.
    metrics : callable
        Returns the text of ``/metrics``.

    Raises
    ------
    OSError
        The address cannot be used.
    """

    alive: Mapping[str, Check] = {}
    ready: Mapping[str, Check] = {}
    metrics: Callable[[], bytes] = bytes
    knows_clients = False
    """Whether it finds out who asks, by a certificate or a token; if not, no page of another site may ask."""
    public: Collection[str] = HEALTH
    """Paths that everybody may get, a page of another site too."""
    linger = LINGER
    """Seconds for which what follows a refused request is dropped."""
    has_lifespan = False
    """Whether it has a method ``__call__`` that is told when the server begins and ends, as ASGI says."""

    def __init__(
        self,
        address: tuple[str, int],
        context: Reloaded[ssl.SSLContext] | None = None,
        *,
        max_body: int = 0,
        patience: float = TIMEOUT,
        idle: float = TIMEOUT,
    ) -> None:
        if find_spec("uvicorn") is None:
            raise MoorageError(missing("uvicorn", "cli"))
        from .http_connection import uvicorn_server

        self.context, self.max_body, self.patience = context, max_body, patience
        self.connections, self.memory = Shares(CONNECTIONS), Shares(2 * max_body)
        self._is_on_loopback = address[0] in LOOPBACK
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        listener = socket.create_server(address, family=family, backlog=CONNECTIONS)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # an answer is two writes
        self.port: int = listener.getsockname()[1]
        self._pool = ThreadPoolExecutor(CONNECTIONS, "http answer")
        self._server = uvicorn_server(self, idle, self.has_lifespan)
        self._thread = Thread(target=self._server.run, args=([listener],), name="http", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no more; wait a moment for requests that are being answered."""
        self._server.should_exit = True
        self._thread.join()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def is_foreign(self, request: HttpRequest) -> bool:
        """Whether a browser may have sent a request for a page that this server does not serve.

        It does so for any page: the name of its host may lead to this machine, and a page of another server
        of this machine is foreign, too. What is no browser sends neither Origin nor Sec-Fetch-Site.
        """
        host = request.headers.get("host", "")
        origin = request.headers.get("origin", f"://{host}").partition("://")[2]
        site = request.headers.get("sec-fetch-site", "none")
        is_here = not self._is_on_loopback or _LOOPBACK_HOST.fullmatch(host)
        return not is_here or origin != host or site not in ("none", "same-origin")

    async def refusal(self, request: HttpRequest) -> Reply | None:
        """Return why a request is refused before its body is read; None if it is not. It may not block."""
        return None

    def answer(self, request: HttpRequest) -> Reply:
        """Answer a request; in a thread of the pool."""
        raise NotImplementedError

    def state(self, request: HttpRequest) -> Reply:
        """Answer a path of `STATE`."""
        if request.path == "/metrics":
            return Reply(200, self.metrics(), METRICS)
        name, query = request.path[1:], parse_qs(request.query, keep_blank_values=True)
        status, text = health_answer(name, self.ready if name == "readyz" else self.alive, query)
        return Reply(status, text.encode())

    async def respond(self, request: HttpRequest, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request whose body was read."""
        reply = await self.in_thread(self.answer, request)
        await send(_start(reply))
        await send({"type": "http.response.body", "body": reply.body})

    async def in_thread(self, work: Callable[[HttpRequest], Reply], request: HttpRequest) -> Reply:
        """Return what a function that may block returns for a request."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, request)

    async def serve(self, connection: HttpConnection, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request; see `http_connection.Served`."""
        try:
            await self._serve(connection, scope, receive, send)
        except asyncio.CancelledError:  # the server ends, and the answer took too long
            connection.give_up()

    async def _serve(self, connection: HttpConnection, scope: Message, receive: Receive, send: Send) -> None:
        request = HttpRequest(
            scope["method"],
            scope["raw_path"].decode(),
            scope["query_string"].decode(),
            {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]},
            scope["client"][0],
            connection.has_certificate,
        )
        held: list[int] = []
        is_public = request.path in self.public and request.method in ("GET", "HEAD")
        try:
            if not (is_public or self.knows_clients) and self.is_foreign(request):
                body: Reply | bytes | None = Reply(403, FOREIGN)
            else:
                body = await self.refusal(request) or await self._read(request, receive, held)
            if isinstance(body, bytes):
                await self.respond(request._replace(body=body), scope, receive, send)
        finally:
            self.memory.give_back(request.client, sum(held))
        if isinstance(body, Reply):
            await self._refuse(body, connection, receive, send)

    async def _read(self, request: HttpRequest, receive: Receive, held: list[int]) -> bytes | Reply | None:
        """Return the body, or why it is refused; None if the client has broken off.

        Parameters
        ----------
        held : list of int
            Gets the numbers of bytes that were taken of `memory`.
        """
        length, most = request.headers.get("content-length", "0"), self.max_body * (request.method == "POST")
        if int(length) > most:
            refused = f"the body of the {request.method} request has {length} bytes, more than {most}\n"
            return Reply(413, refused.encode())
        body = BytesIO()
        try:
            async with asyncio.timeout(self.patience):
                while (message := await receive())["type"] == "http.request":
                    piece = message["body"]
                    if not self.memory.take(request.client, len(piece)):
                        text = b"requests of this client take up its share of the memory\n"
                        return Reply(503, text, headers=[("retry-after", "1")])
                    held.append(len(piece))
                    body.write(piece)
                    if not message["more_body"]:
                        return body.getvalue()
        except TimeoutError:
            return Reply(408, b"the body of the request did not come in time\n")
        return None

    async def _refuse(self, reply: Reply, connection: HttpConnection, receive: Receive, send: Send) -> None:
        """Answer without having read the body, so the connection cannot be used again.

        What still comes is dropped for a moment: a connection that is closed over it is reset, and its client
        may lose the answer.
        """
        await send(_start(reply, ("connection", "close")))
        await send({"type": "http.response.body", "body": reply.body, "more_body": True})
        try:
            async with asyncio.timeout(self.linger):
                while connection.has_more_body and (await receive()).get("more_body"):
                    pass
        except TimeoutError:
            pass
        await send({"type": "http.response.body", "body": b""})


def _start(reply: Reply, *headers: tuple[str, str]) -> Message:
    """Return the message of ASGI that begins an answer."""
    own = [("content-type", reply.type), ("content-length", str(len(reply.body)))]
    names = [*own, ("x-content-type-options", "nosniff"), *reply.headers, *headers]
    return {
        "type": "http.response.start",
        "status": reply.status,
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in names],
    }


def server_context(
    certificate: str, key: str, client_authorities: str | None = None
) -> Reloaded[ssl.SSLContext]:
    """Return the TLS of a server. Its files, in PEM, are read again when they change.

    Parameters
    ----------
    client_authorities : str, optional
        A certificate that a client shows has to be by one of these authorities; whether it has shown one, the
        server has to ask.

    Raises
    ------
    OSError
        A file cannot be read.
    """

    def make() -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        if client_authorities is not None:
            context.load_verify_locations(client_authorities)
            context.verify_mode = ssl.CERT_OPTIONAL  # kubelet shows none when it asks for health
        return context

    context = Reloaded(make, [certificate, key, client_authorities or ""])
    context.get()
    return context


def health_answer(name: str, checks: Mapping[str, Check], query: Mapping[str, object]) -> tuple[int, str]:
    """Return status and text of a health check.

    Parameters
    ----------
    query : mapping of str to object
        Of the request: ``verbose`` tells the checks also where all pass.
    """
    if unknown := query.keys() - {"verbose"}:
        return 400, f"not supported: {', '.join(sorted(unknown))}\n"
    results: dict[str, bool | str] = {"ping": True}
    results |= {check: passes() for check, passes in checks.items()}
    lines = "".join(
        f"[+]{check} ok{f': {result}' if isinstance(result, str) else ''}\n"
        if result is not False
        else f"[-]{check} failed: reason withheld\n"
        for check, result in results.items()
    )
    if False in results.values():
        return 500, f"{lines}{name} check failed\n"
    return 200, f"{lines}{name} check passed\n" if "verbose" in query else "ok"
