"""The client over a real API server."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.live.kit.cluster_workload import create, node, pod
from tests.live.kit.control_plane import SCHEDULER, ControlPlane, await_all

from moorage import Scheduler
from moorage.kube import Namespace, Node, PersistentVolume, Pod, PodGroup
from moorage.live.client import ApiClient
from moorage.store import ApiError, ForbiddenError, Informer, UnauthorizedError

pytestmark = pytest.mark.live
Connected = Callable[..., ApiClient]


def encoded(value: Any) -> bytes:
    return msgspec.json.encode(value)


def test_users_and_their_rights(connected: Connected) -> None:
    client = connected(certificate=True)
    create(client, [node("n"), pod("a"), pod("b")])
    assert client.get(Node, "n").status.allocatable["cpu"] == "4"
    with pytest.raises(UnauthorizedError):
        connected("stranger").list(Pod)
    with pytest.raises(ForbiddenError, match='pods is forbidden: User "nobody"'):
        connected("nobody").list(Pod)
    assert [one.name for one in connected(SCHEDULER).list(Pod)[0]] == ["a", "b"]
    assert client.list(PodGroup) == ([], "0")  # alpha, so not served


def test_an_update_keeps_the_fields_that_structs_lack(connected: Connected) -> None:
    client = connected()
    source = {"csi": {"driver": "d", "volumeHandle": "h", "fsType": "xfs", "readOnly": True}}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **source}
    value = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": spec}
    client.connection.request("POST", "/api/v1/persistentvolumes", None, encoded(value))
    volume = client.get(PersistentVolume, "v")
    client.update(replace(volume, metadata=replace(volume.metadata, annotations={"a": "b"})))
    stored = client.connection.request("GET", "/api/v1/persistentvolumes/v")
    assert msgspec.json.decode(stored)["spec"]["csi"] == source["csi"]
    assert client.get(PersistentVolume, "v").metadata.annotations == {"a": "b"}


def test_a_watch_survives_the_server_and_an_informer_its_history(
    cluster: ControlPlane, connected: Connected
) -> None:
    client, admin = connected(SCHEDULER), connected()
    create(admin, [pod("a")])
    informer = Informer(client, Pod)
    informer.run_once()
    cluster.end("kube-apiserver", signal.SIGKILL)
    cluster.start_apiserver()
    create(admin, [pod("b")])

    def step() -> None:
        seen = client.arrivals.count
        with suppress(ApiError):  # rules of access are known a moment after the server is ready
            informer.run_once()
        client.arrivals.wait(seen, 0.2)

    await_all([lambda: sorted(one.name for one in informer.indexer.values()) == ["a", "b"]], step)
    with client.connection.stream("/api/v1/pods", {"watch": "true", "resourceVersion": "1"}) as lines:
        (event,) = lines
    assert msgspec.json.decode(event)["object"]["message"].startswith("too old resource version: 1 (")


def test_the_engine_schedules_pods_of_a_real_server(connected: Connected) -> None:
    admin, client = connected(), connected(SCHEDULER)
    create(admin, [node(f"n{at}") for at in range(5)])
    create(admin, [pod(f"p{at}", "500m") for at in range(20)])
    scheduler = Scheduler(client)
    result = scheduler.run()
    assert len(result.placements) == 20
    stored = {one.name: one.spec.node_name for one in admin.list(Pod)[0]}
    assert stored == {key.partition("/")[2]: where for key, where in result.placements.items()}
    assert any(one.name == "default" for one in client.list(Namespace)[0])
