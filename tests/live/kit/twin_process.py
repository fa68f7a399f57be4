"""``moorage serve twin`` in a process, and questions to it."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.live.kit.control_plane import ControlPlane, answers, await_all, free_ports
from tests.live.kit.live_process import Command


def ask(url: str, token: str = "", body: bytes | None = None) -> tuple[int, Any, Any]:
    """Ask the twin, whose certificate is that of the API server."""
    request = Request(url, body, {"Authorization": f"Bearer {token}"} if token else {})
    context = ssl._create_unverified_context() if url.startswith("https") else None
    try:
        with urlopen(request, timeout=120, context=context) as answer:
            return answer.status, json.loads(answer.read()), answer.headers
    except HTTPError as error:
        return error.code, error.read(), error.headers


@contextmanager
def running(plane: ControlPlane, url: str, *command: str) -> Iterator[Command]:
    """A twin that is ready, and ends well."""
    twin = Command(plane, "twin", *command)
    try:
        await_all([lambda: answers(f"{url}/readyz", "")], lambda: time.sleep(0.1))
        yield twin
        assert twin.end() == 0, twin.log.read_text()
    finally:
        twin.process.kill()
        twin.process.wait()


@contextmanager
def following(plane: ControlPlane, kubeconfig: str, *options: str) -> Iterator[str]:
    """A twin on loopback; its address."""
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    command = "moorage", "serve", "twin", "--kubeconfig", kubeconfig, "--port", str(port), *options
    with running(plane, url, *command):
        yield url
