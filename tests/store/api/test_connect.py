"""What `connect` makes of a kubeconfig: commands, protocol and timeouts."""

from __future__ import annotations

import socket
import ssl
import sys
from pathlib import Path
from threading import Thread

import httpx2
import pytest
from tests.doors.live import Session, kubeconfig
from tests.live.kit.certificates import Authority
from tests.store.api.wire_server import LIMIT, Handler, WireServer

from moorage.kube import Pod
from moorage.live.client import ApiClient, Connection, connect

KUBECONFIG = """apiVersion: v1
kind: Config
current-context: c
clusters: [{{name: c, cluster: {{server: "{url}"{more}}}}}]
users: [{{name: u, user: {user}}}]
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
"""
COMMAND = """
import json, os
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
assert info["kind"] == "ExecCredential"
words = [info["apiVersion"].rpartition("/")[2], info["spec"]["cluster"]["server"], os.environ["OWN"]]
status = {{"token": "|".join(words)}}
print(json.dumps({{"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": status}}))
"""


def client_of(tmp_path: Path, url: str, user: str = "{}", more: str = "") -> ApiClient:
    path = tmp_path / "config"
    path.write_text(KUBECONFIG.format(url=url, user=user, more=more))
    return connect(str(path))


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_commands_tell_credentials(tmp_path: Path, server: WireServer, version: str) -> None:
    """The command learns of the version and, where it asks to, of the cluster."""
    group = "client.authentication.k8s.io"
    script = tmp_path / "credentials.py"
    script.write_text(COMMAND.format())
    own = "env: [{name: OWN, value: mine}]"
    command = f'command: "{sys.executable}", args: ["{script}"], {own}'
    modes = "interactiveMode: Never, provideClusterInfo: true"
    user = f"{{exec: {{apiVersion: {group}/{version}, {modes}, {command}}}}}"
    told: list[tuple[str, str]] = []

    def note(handler: Handler) -> bool:
        told.append((handler.headers["Authorization"], handler.headers["User-Agent"]))
        return False

    server.faults.append(note)
    with client_of(tmp_path, server.url, user) as client:
        assert client.list(Pod)[0] == []
    assert set(told) == {(f"Bearer {version}|{server.url}|mine", kubeconfig.USER_AGENT)}


def test_the_protocol_is_http_1(tmp_path: Path) -> None:
    """A server that would rather speak HTTP/2 is not offered it."""
    Authority(tmp_path).issue("server", "localhost", serves=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    context.set_alpn_protocols(["h2", "http/1.1"])
    chosen: list[str | None] = []

    def answer(listener: socket.socket) -> None:
        with context.wrap_socket(listener.accept()[0], server_side=True) as one:
            chosen.append(one.selected_alpn_protocol())
            one.recv(1 << 16)
            one.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=answer, args=(listener,), daemon=True)
        thread.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        with client_of(tmp_path, url, more=f", certificate-authority: {tmp_path}/ca.crt") as client:
            assert client.connection.request("GET", "/version") == b"{}"
        thread.join(LIMIT)
    assert chosen == ["http/1.1"]


def test_a_stream_has_a_longer_timeout_than_a_request(tmp_path: Path) -> None:
    """A stream may be silent until the server ends it."""
    asked: list[tuple[str, float]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append((request.url.path, request.extensions["timeout"]["read"]))
        return httpx2.Response(200, content=b"{}\n")

    with client_of(tmp_path, "http://127.0.0.1:1") as client, client.connection._sessions.use() as session:
        timeout = session.timeout
    http = Session("http://x", lambda: httpx2.MockTransport(answer), timeout=timeout)
    connection = Connection(http)
    connection.request("GET", "/request")
    with connection.stream("/stream", {}) as stream:
        list(stream)
    connection.close()
    # A watch ends after 30 s at most; a pod is bound 45 s after the network fell silent.
    assert asked == [("/request", 30.0), ("/stream", 35.0)]


def test_a_peer_that_is_silent_is_given_up(tmp_path: Path) -> None:
    """The kernel asks the peer of an idle connection, and does not wait for ever for an acknowledgement."""
    found: list[int] = []

    def answer(listener: socket.socket) -> None:
        with listener.accept()[0] as one:
            one.recv(1 << 16)
            one.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=answer, args=(listener,), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with client_of(tmp_path, url) as client, client.connection.stream("/", {}) as stream:
            raw = stream._response.extensions["network_stream"].get_extra_info("socket")
            names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
            found = [raw.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in names]
            assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        thread.join(LIMIT)
    assert found == [15, 5, 3, 30_000]
