"""An HTTPS server on loopback that notes who asks, over a proxy as well."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.live.kit.certificates import Authority


class Seen:
    """What one request has told: name of the client certificate, name that was asked for, headers."""

    def __init__(self, handler: Any) -> None:
        subject = (handler.connection.getpeercert() or {}).get("subject", ())
        self.user = dict(pair for part in subject for pair in part).get("commonName", "")
        self.server_name = handler.server.server_names.get(id(handler.connection))
        self.headers = [(name, value) for name, value in handler.headers.items()]
        self.token = handler.headers.get("Authorization", "").removeprefix("Bearer ")


class TlsServer:
    """Answers each GET with ``{}``, or as `answers` says.

    Attributes
    ----------
    authority : Authority
        Of the server and of its clients.
    seen : list of Seen
    answers : callable
        Takes what a request has told, and returns the status of its answer.
    """

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self.authority.issue("server", "localhost", serves=True)
        self.seen: list[Seen] = []
        self.answers: Callable[[Seen], int] = lambda seen: 200
        owner = self

        class Handler(BaseHTTPRequestHandler):
            disable_nagle_algorithm = True  # the body does not wait until the head is acknowledged
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                owner.seen.append(Seen(self))
                code = owner.answers(owner.seen[-1])
                body = json.dumps({} if code == 200 else {"kind": "Status", "code": code, "message": "no"})
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.crt", folder / "server.key")
        context.load_verify_locations(folder / "ca.crt")
        context.verify_mode = ssl.CERT_OPTIONAL

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            server_names: dict[int, str | None] = {}

            def finish_request(self, request: Any, client_address: Any) -> None:
                with context.wrap_socket(request, server_side=True) as secure:
                    Handler(secure, client_address, self)

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A client that breaks off is no error of a test."""

        def note(secure: ssl.SSLSocket | ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
            Server.server_names[id(secure)] = name

        context.sni_callback = note
        self.http = Server(("127.0.0.1", 0), Handler)
        self.port = self.http.server_port
        self.url = f"https://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


class ConnectProxy:
    """A proxy of HTTP that does CONNECT for one connection after another.

    Attributes
    ----------
    targets : list of str
    """

    def __init__(self) -> None:
        self.targets: list[str] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(4096)
            self.targets.append(head.split()[1].decode())
            host, port = self.targets[-1].rsplit(":", 1)
            server = socket.create_connection((host, int(port)))
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        for one in (source, target):
            one.close()

    def close(self) -> None:
        self.listener.close()
