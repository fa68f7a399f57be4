"""HTTP/1.1 transport of extenders: a persistent connection, with one timeout per request.

Errors have the texts of Go's net/http. Redirects are not followed, and no proxies are used.
"""

from __future__ import annotations

import base64
import http.client
import io
import os
import select
import socket
import ssl
import threading
import time
import weakref
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

from moorage.errors import ExtenderError

PORTS = {"http": 80, "https": 443}
AWAITING = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
READING = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
IN_PATHS = "/?%:@!$&'()*+,;=~"


class Connection:
    """A socket with one deadline for all operations, in the form that `http.client.HTTPResponse` reads.

    Attributes
    ----------
    deadline : float
        Seconds of `time.monotonic`; an operation after it raises TimeoutError.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.deadline = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether no input has arrived since the last response, not even the end of the connection."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return not poll.poll(0)

    def _set_timeout(self) -> None:
        """Set the socket's timeout to the time left."""
        self.sock.settimeout(seconds_until(self.deadline))

    def sendall(self, data: bytes) -> None:
        """Send all bytes before the deadline."""
        rest = memoryview(data)
        while rest:
            self._set_timeout()
            rest = rest[self.sock.send(rest) :]

    def recv_into(self, buffer: Any) -> int:
        """Receive bytes into a buffer.

        Returns
        -------
        int
            Number of bytes; 0 at the end of the stream.
        """
        self._set_timeout()
        return self.sock.recv_into(buffer)

    def close(self) -> None:
        """Close the socket."""
        self.sock.close()

    def makefile(self, mode: str) -> io.BufferedReader:
        """Return the input as a buffered stream.

        Parameters
        ----------
        mode : str
            Unused: reading is the only mode.
        """
        return io.BufferedReader(_Received(self))


class _Received(io.RawIOBase):
    """The input of a connection as a raw stream."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Receive bytes into a buffer; return their number."""
        return self.connection.recv_into(buffer)


def seconds_until(deadline: float) -> float:
    """Return the seconds left until a deadline.

    Parameters
    ----------
    deadline : float
        Seconds of `time.monotonic`.

    Raises
    ------
    TimeoutError
        The deadline has passed.
    """
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class Transport:
    """Posts requests to one server, one at a time.

    Parameters
    ----------
    prefix : str
        The URL up to the verb; user and password in it are for basic authentication.
    tls : SSLContext
        For an https prefix.
    server_name : str
        The name that the server's certificate must have; "" for the URL's.
    timeout : float
        Seconds for a whole request, from connecting to the last byte of the response; a lookup of the host
        name is not interrupted.
    """

    def __init__(self, prefix: str, tls: ssl.SSLContext, server_name: str, timeout: float) -> None:
        self.connection: Connection | None = None
        self._closing: weakref.finalize[..., Transport] | None = None
        self.prefix = prefix.rstrip("/")
        self.tls = tls
        self.server_name = server_name
        self.timeout = timeout
        self.lock = threading.Lock()

    def post(self, verb: str, body: bytes, limit: int) -> bytes:
        """Post a request.

        Parameters
        ----------
        verb : str
            Appended to the prefix.
        body : bytes
            JSON.
        limit : int
            Maximum size of the response in bytes.

        Returns
        -------
        bytes
            The body of the response.

        Raises
        ------
        ExtenderError
            No response, another status than 200, or a response beyond the limit.
        """
        url = f"{self.prefix}/{verb}"
        with self.lock:
            try:
                status, answer = self._post(url, body, limit)
            except BaseException as error:
                self.close()
                if isinstance(error, OSError | http.client.HTTPException):
                    raise ExtenderError(_failed(url, _go_text(error))) from error
                raise
        if status != http.HTTPStatus.OK:
            raise ExtenderError(f"failed {verb} with extender at URL {url}, code {status}")
        return answer

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._closing is not None:
            self._closing()
        self.connection = self._closing = None

    def _post(self, url: str, body: bytes, limit: int) -> tuple[int, bytes]:
        """Send a request; return the status code and the body."""
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").encode("ascii").decode(), parts.port
        except ValueError as error:
            raise ExtenderError(f'parse "{url}": {error}') from error
        if parts.scheme not in PORTS:
            raise ExtenderError(_failed(url, f'unsupported protocol scheme "{parts.scheme}"'))
        if not host:
            raise ExtenderError(_failed(url, "http: no Host in request URL"))
        deadline = time.monotonic() + self.timeout
        connection = self._connect(url, parts.scheme, (host, port or PORTS[parts.scheme]), deadline)
        connection.deadline = deadline
        connection.sendall(_head(parts, len(body)) + body)
        response = http.client.HTTPResponse(connection, method="POST")  # type: ignore[arg-type]
        response.begin()
        answer = _read(response, limit + 1) if response.status == http.HTTPStatus.OK else b""
        if len(answer) > limit:
            raise ExtenderError(f"the answer of {url} has more than {limit} bytes")
        if response.will_close or not response.isclosed():
            self.close()
        return response.status, answer

    def _connect(self, url: str, scheme: str, address: tuple[str, int], deadline: float) -> Connection:
        """Open a connection before the deadline."""
        if self.connection is not None and self.connection.is_idle:
            return self.connection
        self.close()
        host, port = address
        if scheme == "https" and not _is_server_name(self.server_name or host):
            raise ExtenderError(_failed(url, f'tls: not a server name: "{self.server_name or host}"'))
        try:
            sock = socket.create_connection(address, seconds_until(deadline))
        except (socket.gaierror, UnicodeError):  # a label of more than 63 characters
            raise ExtenderError(_failed(url, f"dial tcp: lookup {host}: no such host")) from None
        except TimeoutError:
            raise
        except OSError as error:
            why = os.strerror(error.errno or 0).lower()
            raise ExtenderError(_failed(url, f"dial tcp {host}:{port}: connect: {why}")) from error
        self.connection = Connection(sock)
        self._closing = weakref.finalize(self, self.connection.close)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if scheme == "https":
            sock.settimeout(seconds_until(deadline))
            self.connection.sock = self.tls.wrap_socket(sock, server_hostname=self.server_name or host)
        return self.connection


def _is_server_name(name: str) -> bool:
    """Whether OpenSSL accepts a server name; Go omits invalid ones from the handshake."""
    try:
        name.encode("idna")
    except UnicodeError:
        return False
    return "\0" not in name and not name.startswith(".")


def _read(response: http.client.HTTPResponse, limit: int) -> bytes:
    """Read a body of at most `limit` bytes."""
    try:
        return response.read(limit)
    except TimeoutError:
        raise ExtenderError(READING) from None
    except http.client.IncompleteRead:
        raise ExtenderError("unexpected EOF") from None
    except ValueError:  # a chunk of negative length
        raise ExtenderError("invalid byte in chunk length") from None


def _head(parts: SplitResult, length: int) -> bytes:
    """Return the request line and the headers of a POST."""
    host = parts.netloc.rpartition("@")[2]
    query = f"?{parts.query}" if parts.query else ""
    target = quote(f"{parts.path}{query}", safe=IN_PATHS)
    lines = [
        f"POST {target} HTTP/1.1",
        f"Host: {host}",
        "User-Agent: moorage",
        f"Content-Length: {length}",
        "Content-Type: application/json",
    ]
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        lines.append(f"Authorization: Basic {base64.b64encode(pair).decode()}")
    return "\r\n".join([*lines, "", ""]).encode("ascii")


def _failed(url: str, why: str) -> str:
    """Return the error text for a URL, without its password."""
    password = urlsplit(url).password
    shown = url.replace(f":{password}@", ":***@", 1) if password else url
    return f'Post "{shown}": {why}'


def _go_text(error: BaseException) -> str:
    """Return the text that Go's net/http has for an error."""
    match error:
        case TimeoutError():
            return AWAITING
        case ssl.SSLCertVerificationError():
            return f"tls: failed to verify certificate: {error.verify_message}"
        case ssl.SSLError():
            return f"tls: {error.reason or error}"
        case http.client.RemoteDisconnected():
            return "EOF"
        case OSError():
            return os.strerror(error.errno).lower() if error.errno else str(error)
    return f"net/http: HTTP/1.x transport connection broken: {error}"
