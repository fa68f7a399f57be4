"""Requests of 5,000 node names to the extender server, beside a server that reads and writes the same and
decides nothing."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from bench.cluster import filled_scheduler, plain_pods

from moorage import Scheduler
from moorage.engine.extenders.extender_wire import ExtenderArgs
from moorage.kube import encode_object
from moorage.live.extender_service import ExtenderServer, ExtenderService

NODES = 5000
VERBS = ("filter", "prioritize")


@pytest.fixture(scope="module")
def nodes() -> Scheduler:
    return filled_scheduler(NODES)


def bare(verb: str, body: bytes) -> tuple[int, bytes]:
    """Read the request, and write an answer of the same form for all nodes."""
    names = msgspec.json.decode(body, type=ExtenderArgs).node_names or []
    if verb == "filter":
        return 200, msgspec.json.encode({"Nodes": None, "NodeNames": names, "FailedNodes": {}, "Error": ""})
    return 200, msgspec.json.encode([{"Host": name, "Score": 0} for name in names])


class Client:
    """Asks one verb over one connection."""

    def __init__(self, port: int, verb: str, body: bytes) -> None:
        self.http = http.client.HTTPConnection("127.0.0.1", port)
        self.verb, self.body = verb, body

    def __call__(self) -> bytes:
        self.http.request("POST", f"/{self.verb}", self.body)
        return self.http.getresponse().read()


@pytest.fixture(params=("decides", "bare"))
def server(request: Any, nodes: Scheduler) -> Iterator[ExtenderServer]:
    answer = ExtenderService(nodes).answer if request.param == "decides" else bare
    server = ExtenderServer(("127.0.0.1", 0), answer)
    yield server
    server.close()


@pytest.mark.parametrize("verb", VERBS)
def test_names(benchmark: Any, server: ExtenderServer, nodes: Scheduler, verb: str) -> None:
    names = nodes.context.view_order()
    body = json.dumps(
        {"Pod": json.loads(encode_object(plain_pods(1)[0])), "Nodes": None, "NodeNames": names}
    ).encode()
    client = Client(server.port, verb, body)
    assert len(json.loads(client())) in (4, 5, NODES)
    benchmark(client)
    client.http.close()
