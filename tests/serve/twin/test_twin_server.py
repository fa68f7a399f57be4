"""Questions over HTTPS, for which an API server says who may ask."""

from __future__ import annotations

import http.client
import json
import logging
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.doors.live import DelegatedAuthorization, Reply, TwinServer
from tests.serve.test_secure_server import connection, folder, review
from tests.store.api.wire_server import LIMIT

__all__ = ["folder"]
SECRET = b"a secret of the body"


def echo(path: str, query: list[tuple[str, str]], body: bytes) -> Reply:
    if path == "fails":
        raise RuntimeError(body)
    return Reply(200, json.dumps([path, query, len(body)]).encode(), headers=[("Moorage-Repeat", "ü")])


@pytest.fixture
def server(folder: Path) -> Iterator[TwinServer]:
    reviews = connection(review)
    server = TwinServer(
        ("127.0.0.1", 0),
        echo,
        files=(str(folder / "server.crt"), str(folder / "server.key")),
        authorization=DelegatedAuthorization(reviews, reviews),
        page={"/": Reply(200, b"a page", "text/html")},
        alive={},
        ready={"kinds": lambda: False},
        metrics=lambda: b"some_metric 1.0\n",
        max_body=1000,
    )
    yield server
    server.close()


def ask(
    server: TwinServer,
    folder: Path,
    path: str,
    token: str = "",
    method: str = "GET",
    body: bytes | None = None,
) -> tuple[int, bytes]:
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    client = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=LIMIT, context=context)
    client.request(method, path, body, {"Authorization": f"Bearer {token}"} if token else {})
    answer = client.getresponse()
    try:
        return answer.status, answer.read()
    finally:
        client.close()


def test_a_token_is_reviewed_for_each_question(server: TwinServer, folder: Path) -> None:
    path = "/v1/plan/nodes?like=a&like=b&new-only"
    assert ask(server, folder, path)[0] == 403
    assert ask(server, folder, path, "unknown")[0] == 401
    assert ask(server, folder, path, "other-token")[0] == 403
    assert ask(server, folder, "/metrics")[0] == 403
    assert ask(server, folder, path, "scraper-token", "POST", b"x")[0] == 403  # may get, and not post
    status, body = ask(server, folder, path, "scraper-token")
    assert (status, json.loads(body)) == (
        200,
        ["plan/nodes", [["like", "a"], ["like", "b"], ["new-only", ""]], 0],
    )
    assert ask(server, folder, "/metrics", "scraper-token") == (200, b"some_metric 1.0\n")
    assert ask(server, folder, "/livez") == (200, b"ok")
    assert ask(server, folder, "/") == (200, b"a page")
    assert ask(server, folder, "/readyz")[0] == 500
    assert ask(server, folder, "/v1/check", "scraper-token", "DELETE")[0] == 405


def plain(max_body: int = 1000) -> TwinServer:
    return TwinServer(("127.0.0.1", 0), echo, alive={}, ready={}, metrics=bytes, max_body=max_body)


def test_bodies_are_limited_and_never_logged(caplog: pytest.LogCaptureFixture) -> None:
    server = plain()
    caplog.set_level(logging.DEBUG)
    try:
        for path, body, status in (
            ("/v1/check", SECRET, 200),
            ("/v1/fails", SECRET, 500),
            ("/v1/check", SECRET * 100, 413),
        ):
            client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT)
            with suppress(BrokenPipeError):
                client.request("POST", path, body)
            assert client.getresponse().status == status
            client.close()
    finally:
        server.close()
    assert "/v1/fails was not answered: RuntimeError in" in caplog.text
    assert SECRET.decode() not in caplog.text
