"""A server of the wire format, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

import pytest
from tests.doors.live import Session
from tests.store.api.wire_server import WireServer

from moorage.live.client import ApiClient, Connection
from moorage.store import ObjectStore


@pytest.fixture
def store() -> ObjectStore:
    return ObjectStore(lambda: 1000.0)


@pytest.fixture
def server(store: ObjectStore) -> Iterator[WireServer]:
    server = WireServer(store)
    yield server
    server.close()


@pytest.fixture
def slept() -> list[float]:
    """The seconds that the client has waited for, without waiting."""
    return []


@pytest.fixture
def client(server: WireServer, slept: list[float]) -> Iterator[ApiClient]:
    def wait(event: Event, seconds: float) -> bool:
        slept.append(seconds)
        return event.is_set()

    client = ApiClient(Connection(Session(server.url), sleep=slept.append, wait=wait))
    yield client
    client.close()
