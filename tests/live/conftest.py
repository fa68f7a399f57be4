"""Control planes for the live tests: one for many, and some of their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.live.kit.cluster_workload import clear
from tests.live.kit.control_plane import ADMIN, ControlPlane
from tests.live.kit.cutting_proxy import CuttingProxy
from tests.live.kit.fault_proxy import FaultProxy
from tests.live.kit.live_process import Process

from moorage.live.client import ApiClient, connect


@pytest.fixture(scope="session")
def binaries() -> Path:
    folder = os.environ.get("MOORAGE_SERVERS")
    if not folder:
        pytest.fail("MOORAGE_SERVERS names no folder of binaries; `make test-live` builds them")
    return Path(folder)


@pytest.fixture(scope="session")
def shared(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    plane = ControlPlane(binaries, tmp_path_factory.mktemp("shared"))
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


@pytest.fixture
def cluster(shared: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane that tests share: etcd and kube-apiserver, with none of the objects of `PATHS`."""
    yield shared
    shared.end_commands()
    with connect(shared.kubeconfig()) as client:
        clear(client)


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
def admin(connected: Callable[..., ApiClient]) -> ApiClient:
    """A client of the cluster's administrator."""
    return connected()


@pytest.fixture
def scheduler(cluster: ControlPlane) -> Callable[..., Process]:
    """Starts `Process` for the cluster."""
    return partial(Process, cluster)


@pytest.fixture
def proxy(cluster: ControlPlane) -> Iterator[FaultProxy]:
    """A proxy of the cluster that makes faults."""
    proxy = FaultProxy(cluster)
    yield proxy
    proxy.close()


@pytest.fixture
def cutter(cluster: ControlPlane) -> Iterator[CuttingProxy]:
    """A proxy of the cluster that loses connections."""
    proxy = CuttingProxy(cluster.port)
    yield proxy
    proxy.close()


@pytest.fixture
def planes(binaries: Path, tmp_path: Path) -> Iterator[Callable[[], ControlPlane]]:
    """Makes control planes for a test alone, each in about three seconds."""
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
