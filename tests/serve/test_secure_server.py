"""Health checks and metrics over HTTPS on loopback."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.cli.options.test_cluster_options import CONFIGURATION, run
from tests.cli.options.test_cluster_options import server as server
from tests.doors.live import DelegatedAuthorization, LiveScheduler, SecureServer, Session, Shares
from tests.live.kit.certificates import Authority
from tests.store.api.wire_server import LIMIT, WireServer

from moorage.live.client import Connection

USERS = {"scraper-token": "scraper", "other-token": "other"}


def review(request: httpx2.Request) -> httpx2.Response:
    """An API server that knows two users, of whom one may get metrics."""
    value = json.loads(request.content)
    spec, status = value["spec"], dict[str, Any]()
    if request.url.path == "/apis/authentication.k8s.io/v1/tokenreviews":
        name = USERS.get(spec["token"])
        if name:
            status = {"authenticated": True, "user": {"username": name, "uid": "1", "groups": ["g"]}}
    else:
        assert request.url.path == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        asked = spec["nonResourceAttributes"]
        status = {"allowed": spec["user"] == "scraper" and asked["verb"] == "get"}
        assert spec["groups"] == (["system:unauthenticated"] if spec["user"] == "system:anonymous" else ["g"])
    return httpx2.Response(201, json={**value, "status": status})


def connection(handler: Any) -> Connection:
    http = Session("http://reviews", lambda: httpx2.MockTransport(handler))
    return Connection(http, sleep=lambda _: None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Authority(tmp_path).issue("server", "localhost", serves=True)
    return tmp_path


@pytest.fixture
def ready() -> dict[str, bool]:
    return {"sched-handler-sync": False}


@pytest.fixture
def secure(folder: Path, ready: dict[str, bool]) -> Iterator[SecureServer]:
    reviews = connection(review)
    authorization = DelegatedAuthorization(reviews, reviews)
    checks = {name: lambda name=name: ready[name] for name in ready}
    files = str(folder / "server.crt"), str(folder / "server.key")
    secure = SecureServer(("127.0.0.1", 0), *files, authorization, lambda: b"some_metric 1.0\n", checks)
    yield secure
    secure.close()


def get(folder: Path, port: int, path: str, token: str = "") -> tuple[int, str]:
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    client = http.client.HTTPSConnection("127.0.0.1", port, timeout=LIMIT, context=context)
    client.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
    answer = client.getresponse()
    found = answer.status, answer.read().decode()
    client.close()
    return found


def test_health_needs_no_token(folder: Path, secure: SecureServer, ready: dict[str, bool]) -> None:
    assert [get(folder, secure.port, path) for path in ("/healthz", "/livez")] == [(200, "ok")] * 2
    status, text = get(folder, secure.port, "/readyz")
    assert (status, "[-]sched-handler-sync failed" in text) == (500, True)
    ready["sched-handler-sync"] = True
    assert get(folder, secure.port, "/readyz") == (200, "ok")
    verbose = "[+]ping ok\n[+]sched-handler-sync ok\nreadyz check passed\n"
    assert get(folder, secure.port, "/readyz?verbose") == (200, verbose)
    assert get(folder, secure.port, "/readyz?exclude=ping")[0] == 400


def test_liveness_fails_with_its_checks(folder: Path) -> None:
    authorization = DelegatedAuthorization(None, None)
    files = str(folder / "server.crt"), str(folder / "server.key")
    alive = {"watches": lambda: False}
    secure = SecureServer(("127.0.0.1", 0), *files, authorization, lambda: b"", {}, alive)
    try:
        for path in ("/livez", "/healthz"):
            status, text = get(folder, secure.port, path)
            assert (status, "[-]watches failed" in text) == (500, True)
        assert get(folder, secure.port, "/readyz") == (200, "ok")
    finally:
        secure.close()


def test_the_head_of_an_answer_alone(folder: Path, secure: SecureServer) -> None:
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    client = http.client.HTTPSConnection("127.0.0.1", secure.port, timeout=LIMIT, context=context)
    for _ in range(2):  # the connection goes on
        client.request("HEAD", "/healthz")
        answer = client.getresponse()
        assert (answer.status, answer.headers["Content-Length"], answer.read()) == (200, "2", b"")
    client.close()


def test_a_certificate_that_changes_is_served_at_once(folder: Path, secure: SecureServer) -> None:
    assert get(folder, secure.port, "/healthz") == (200, "ok")
    Authority(folder)  # the server still has a certificate of the old authority
    with pytest.raises(ssl.SSLCertVerificationError):
        get(folder, secure.port, "/healthz")
    Authority(folder).issue("server", "localhost", serves=True)
    assert get(folder, secure.port, "/healthz") == (200, "ok")


def test_a_client_may_hold_what_is_left_for_others() -> None:
    shares = Shares(12)
    assert not shares.take("a", 7)
    assert shares.take("a", 4)
    assert shares.take("a", 2), "half"
    assert not shares.take("a", 1)
    assert shares.take("b", 3), "half of the rest"
    assert not shares.take("b", 1)
    assert shares.take("c", 1)
    shares.give_back("a", 5)
    assert shares.take("b", 2)
    for client, amount in (("a", 1), ("b", 5), ("c", 1)):
        shares.give_back(client, amount)
    assert shares.take("d", 6)


def test_connections_of_a_client_leave_some_for_others(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 127.0.0.1 and 127.0.0.2 may have one of four, once the first has two."""
    monkeypatch.setattr("moorage.live.web_server.CONNECTIONS", 4)
    files = str(folder / "server.crt"), str(folder / "server.key")
    secure = SecureServer(("127.0.0.1", 0), *files, DelegatedAuthorization(None, None), lambda: b"", {})
    address = "127.0.0.1", secure.port
    try:
        with socket.create_connection(address), socket.create_connection(address):
            with socket.create_connection(address, timeout=LIMIT) as third:
                assert third.recv(1) == b""
            context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
            client = http.client.HTTPSConnection(
                *address, timeout=LIMIT, context=context, source_address=("127.0.0.2", 0)
            )
            client.request("GET", "/healthz")
            assert client.getresponse().status == 200
            client.close()
    finally:
        secure.close()


def test_metrics_need_a_user_who_may(folder: Path, secure: SecureServer) -> None:
    assert get(folder, secure.port, "/metrics", "scraper-token") == (200, "some_metric 1.0\n")
    assert get(folder, secure.port, "/metrics", "unknown") == (401, "Unauthorized")
    forbidden = 'forbidden: User "{}" cannot get path "/metrics"'
    assert get(folder, secure.port, "/metrics", "other-token") == (403, forbidden.format("other"))
    assert get(folder, secure.port, "/metrics") == (403, forbidden.format("system:anonymous"))
    assert get(folder, secure.port, "/none")[0] == 403
    assert get(folder, secure.port, "/none", "scraper-token")[0] == 404


def test_without_servers_to_ask_nobody_may() -> None:
    reviews = connection(review)
    assert DelegatedAuthorization(None, None).status("/metrics", "get", "scraper-token")[0] == 403
    assert DelegatedAuthorization(reviews, None).status("/metrics", "get", "scraper-token")[0] == 403
    status, text = DelegatedAuthorization(None, reviews).status("/metrics", "get", "scraper-token")
    assert (status, "system:anonymous" in text) == (403, True)
    refusing = connection(lambda request: httpx2.Response(500))
    assert DelegatedAuthorization(refusing, refusing).status("/metrics", "get", "x")[0] == 500


def test_who_was_allowed_may_while_the_server_fails() -> None:
    now, requests, fails = [0.0], list[str](), [False]

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request.url.path)
        return httpx2.Response(500) if fails[0] else review(request)

    reviews = connection(answer)
    authorization = DelegatedAuthorization(reviews, reviews, lambda: now[0])

    def status(token: str, path: str = "/metrics") -> int:
        return authorization.status(path, "get", token)[0]

    assert [status("scraper-token"), status("scraper-token"), status("other-token")] == [200, 200, 403]
    assert len(requests) == 4  # the second was remembered
    now[0], fails[0] = 60.0, True
    assert [status("scraper-token"), status("other-token"), status("scraper-token", "/v1/check")] == [
        *(200, 500, 500)
    ]
    requests.clear()
    assert (status("scraper-token"), requests) == (200, [])  # it has just failed
    now[0] = 3700.0
    assert status("scraper-token") == 500
    fails[0] = False
    assert status("scraper-token") == 200
    now[0] += 60.0
    USERS["scraper-token"] = "other"
    try:
        assert status("scraper-token") == 403
        fails[0] = True
        assert status("scraper-token") == 500
    finally:
        USERS["scraper-token"] = "scraper"


def test_a_client_without_tls_delays_no_other(folder: Path, secure: SecureServer) -> None:
    with (
        socket.create_connection(("127.0.0.1", secure.port)),
        socket.create_connection(("127.0.0.1", secure.port)) as other,
    ):
        other.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert get(folder, secure.port, "/healthz") == (200, "ok")


@pytest.fixture
def port() -> Iterator[int]:
    """A port that nobody else is given: it is bound, and not listened to."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def test_the_command_serves(
    server: WireServer,
    folder: Path,
    port: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[Any] = []

    def work(live: LiveScheduler, stop: Any) -> None:
        found.append(get(folder, port, "/readyz")[0])
        live.await_cluster(stop)
        found.extend(get(folder, port, path)[0] for path in ("/readyz", "/metrics"))
        live.run.finish(LIMIT)
        live.recorder.close()

    monkeypatch.setattr(LiveScheduler, "work", work)
    config = folder / "scheduler.yaml"
    config.write_text(CONFIGURATION.format(f"kubeconfig: {folder}/config"))
    command = ["scheduler", "--config", config, "--secure-port", port]
    files = ["--tls-cert-file", folder / "server.crt", "--tls-private-key-file", folder / "server.key"]
    assert run(capsys, *command, *files, "--bind-address", "127.0.0.1")[0] == 0
    assert found == [500, 200, 403]
    for arguments, error in (
        (command, "--secure-port needs --tls-cert-file and --tls-private-key-file"),
        ([*command, *files[:3], folder / "none"], f"--tls-private-key-file {folder}/none: "),
        ([*command[:3], *files], "--tls-cert-file needs --secure-port"),
        ([*command, "--cert-dir", folder], "No such option"),
    ):
        code, _, err = run(capsys, *arguments)
        assert (code, error in err) == (2, True), err
        assert ("release:" in err) == ("none" in err)  # files are read once the server has answered


def test_no_server_is_loaded_before_one_is_needed() -> None:
    """What only schedules, or prints a help, does not wait for it."""
    code = """
import sys
from moorage.cli import main
main(["--help"])
import moorage.cli.commands.serve, moorage.cli.commands.serve, moorage.live.twin_server
assert "uvicorn" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
