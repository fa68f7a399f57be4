"""A control plane for the live tests: one for a run, a namespace for each test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.live.control_plane import ADMIN, ControlPlane

from moorage.store.api import ApiClient, connect


@pytest.fixture(scope="session")
def binaries() -> Path:
    folder = os.environ.get("MOORAGE_SERVERS")
    if not folder:
        pytest.fail("MOORAGE_SERVERS names no folder of binaries; `make test-live` builds them")
    return Path(folder)


@pytest.fixture
def cluster(binaries: Path, tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane of the test's own: it starts in about three seconds."""
    plane = ControlPlane(binaries, tmp_path)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


@pytest.fixture
def connected(cluster: ControlPlane) -> Iterator[Callable[..., ApiClient]]:
    """Makes clients that are closed after the test."""
    clients: list[ApiClient] = []

    def make(user: str = ADMIN, *, certificate: bool = False) -> ApiClient:
        clients.append(connect(cluster.kubeconfig(user, certificate=certificate)))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def planes(binaries: Path, tmp_path: Path) -> Iterator[Callable[[], ControlPlane]]:
    """Makes control planes."""
    made: list[ControlPlane] = []

    def make() -> ControlPlane:
        folder = tmp_path / f"plane{len(made)}"
        folder.mkdir()
        made.append(ControlPlane(binaries, folder))
        made[-1].start()
        return made[-1]

    yield make
    for one in made:
        one.stop()
