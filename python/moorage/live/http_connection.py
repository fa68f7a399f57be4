"""A connection of a client, as uvicorn and h11 serve it, with what a client may hold and for how long.

uvicorn parses (by h11), keeps connections alive, reads what nobody has read, and ends in order. It has no
limit for the handshake, a head that drips, an answer that nobody reads, and the connections of one client.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from .http_common import Reloaded
from .shares import LINGER, TIMEOUT, Shares

HEAD = 1 << 16
"""Bytes that the head of a request may have."""
SLOWEST = 1 << 16
"""Bytes of an answer that a client has to read within `Served.patience`."""
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Served(Protocol):
    """What is served: how its connections are limited, and what answers.

    Attributes
    ----------
    context : Reloaded of ssl.SSLContext or None
        Without one it is plain HTTP.
    patience : float
        Seconds that a client has for a head, and for reading some of an answer.
    """

    context: Reloaded[ssl.SSLContext] | None
    connections: Shares
    patience: float

    async def serve(self, connection: HttpConnection, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request, as an application of ASGI."""


def uvicorn_server(served: Served, idle: float, lifespan: bool) -> uvicorn.Server:
    """Return a server of connections of this kind.

    Parameters
    ----------
    idle : float
        Seconds for which a connection is kept between two requests.
    lifespan : bool
        Whether what is served is told, as an application of ASGI, when the server begins and ends.
    """
    config = uvicorn.Config(
        cast(Any, served),
        http=HttpConnection,
        loop="asyncio",
        interface="asgi3",
        lifespan="on" if lifespan else "off",
        ws="none",
        log_config=None,
        log_level="error",  # a request that cannot be read is no news
        access_log=False,
        proxy_headers=False,  # whoever connects could name himself
        server_header=False,
        timeout_keep_alive=cast(int, idle),
        timeout_graceful_shutdown=cast(int, LINGER),
    )
    return uvicorn.Server(config)


class _LengthParser(h11.Connection):
    """Refuses bodies in chunks at their head: to read many small ones would take longer than to send them."""

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request) and any(name == b"transfer-encoding" for name, _ in event.headers):
            raise h11.RemoteProtocolError("a body needs Content-Length", error_status_hint=411)
        return event


class HttpConnection(H11Protocol):
    """A connection; a protocol of asyncio."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._served = cast(Served, config.app)
        self.app = cast(Any, partial(self._served.serve, self))
        self.conn = _LengthParser(h11.SERVER, HEAD)
        self._client_address = ""
        self._is_begun = self._is_half_closed = False
        self._early = b""
        self._handshake: asyncio.Task[None] | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    @property
    def has_certificate(self) -> bool:
        """Whether the client has shown a certificate, which the context has verified."""
        return bool(self.transport.get_extra_info("peercert"))

    @property
    def has_more_body(self) -> bool:
        """Whether a part of the body of the request has not come yet."""
        return self.conn.their_state is h11.SEND_BODY

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, after a handshake where there is TLS; one connection too many is closed."""
        address = transport.get_extra_info("peername")[0]
        if not self._served.connections.take(address, 1):
            transport.abort()
            return
        self._client_address = address
        if self._served.context is None:
            self._begin(transport)
        else:
            transport.pause_reading()
            self._handshake = self.loop.create_task(self._secure(transport, self._served.context.get()))

    async def _secure(self, transport: asyncio.Transport, context: ssl.SSLContext) -> None:
        try:
            secure = await self.loop.start_tls(
                transport,
                self,
                context,
                server_side=True,
                ssl_handshake_timeout=TIMEOUT,
                ssl_shutdown_timeout=LINGER,
            )
        except OSError:  # it was no handshake, or came too late
            transport.abort()
            return
        if secure is not None and not secure.is_closing():
            self._begin(secure)
            if self._early:
                self.data_received(self._early)

    def _begin(self, transport: asyncio.Transport) -> None:
        self._is_begun = True
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(TIMEOUT, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._client_address:
            self._served.connections.give_back(self._client_address, 1)
            self._client_address = ""
        for timer in (self._head_timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        if self._is_begun:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._is_begun:  # it came with the end of the handshake
            self._early += data
            return
        super().data_received(data)
        self._watch_head()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Return whether the connection stays open: a whole request is being answered, and TLS allows it."""
        self._is_half_closed = True
        return self._answers_whole() and self.scheme == "http"

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_half_closed and not self._answers_whole():
            self._end()
        self._watch_head()

    def timeout_keep_alive_handler(self) -> None:
        self._end()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reader(self.transport.get_write_buffer_size())

    def _await_reader(self, left: int) -> None:
        """End the connection if its client reads too little of an answer, of which some bytes are left."""

        def look() -> None:
            still = self.transport.get_write_buffer_size()
            if still > left - SLOWEST:
                self.transport.abort()
            else:
                self._await_reader(still)

        self._write_timer = self.loop.call_later(self._served.patience, look)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()

    def _answers_whole(self) -> bool:
        """Whether a request is being answered of which all has come."""
        is_answering = self._is_begun and self.cycle is not None and not self.cycle.response_complete
        return is_answering and not self.has_more_body

    def _watch_head(self) -> None:
        """Begin the time of a head of which a part has come, or end it."""
        is_coming = self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])
        if self._head_timer is not None and not is_coming:
            self._head_timer.cancel()
            self._head_timer = None
        elif self._head_timer is None and is_coming:
            self._head_timer = self.loop.call_later(self._served.patience, self._end)

    def give_up(self) -> None:
        """Close the connection without the answer, as the server ends."""
        if self.cycle is not None:
            self.cycle.disconnected = True  # or uvicorn would log what is missing
        self.transport.abort()

    def _end(self) -> None:
        """Close the connection, however slow the client is."""
        self.transport.close()
        self.loop.call_later(LINGER, self.transport.abort)
