"""The placements of kube-scheduler and of ``moorage scheduler``, on two API servers with equal objects.

kube-scheduler reads lists as lists: from a streamed list client-go makes a map, so that nodes and pods reach
the scheduler in no certain order, and with them the order of equal nodes and of pods of equal priority. A
list has the order of the keys. With one worker nothing else is left to chance.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from threading import Event
from typing import Any

import pytest
from tests.live.kit.cluster_workload import create, occupied_objects, varied_objects
from tests.live.kit.control_plane import ControlPlane, await_all
from tests.live.kit.live_process import CONFIGURATION, Process, volume_controller

from moorage.kube import PersistentVolumeClaim, Pod
from moorage.live.client import ApiClient, connect
from moorage.store import Informer

pytestmark = pytest.mark.live

ORDERED = "--feature-gates=WatchListClient=false"
LIMIT = 3600.0
"""Seconds for a run: kube-scheduler takes about 20 ms of CPU time for each of these pods."""


def different(theirs: dict[str, str], ours: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Of each pod that is elsewhere, or in one of the clusters alone, their node and ours."""
    names = sorted(theirs.keys() | ours.keys())
    pairs = {name: (theirs.get(name, "deleted"), ours.get(name, "deleted")) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def prepare(client: ApiClient, values: list[dict[str, Any]], pause: Event) -> int:
    """Create objects, and wait until the claims with volumes of their own are bound; return the pods."""
    create(client, values)

    def is_bound() -> bool:
        claims = client.list(PersistentVolumeClaim)[0]
        return all(one.status.phase == "Bound" for one in claims if one.spec.storage_class_name == "csi")

    await_all([is_bound], lambda: pause.wait(0.5))
    return sum(value["kind"] == "Pod" for value in values)


def await_all_bound(client: ApiClient, count: int) -> dict[str, str]:
    """Wait until all pods are bound but those that were evicted."""
    informer, until = Informer(client, Pod), time.monotonic() + LIMIT
    while True:
        informer.run_once()
        found = {one.name: one.spec.node_name for one in informer.indexer.values()}
        if all(found.values()):
            return found
        assert time.monotonic() < until, f"{sum(map(bool, found.values()))} of {count}"
        time.sleep(0.2)


def placements_of(plane: ControlPlane, values: list[dict[str, Any]], *, is_ours: bool) -> dict[str, str]:
    """Create objects, and let one of the two schedulers bind all pods that are not evicted."""
    with (
        connect(plane.kubeconfig()) as admin,
        connect(plane.kubeconfig()) as controllers,
        volume_controller(controllers),
    ):
        count = prepare(admin, values, Event())
        if not is_ours:
            plane.start_scheduler(ORDERED)
            return await_all_bound(admin, count)
        process = Process(plane, "ours", CONFIGURATION + "parallelism: 1\n")
        found = await_all_bound(admin, count)
        assert process.end() == 0, process.log.read_text()
        return found


@pytest.mark.parametrize(
    ("nodes", "pods"), [(200, 1_000), pytest.param(1_000, 10_000, marks=pytest.mark.slow)]
)
def test_every_pod_is_where_kube_scheduler_puts_it(
    planes: Callable[[], ControlPlane], nodes: int, pods: int
) -> None:
    """All fit, and are created before a scheduler starts."""
    values, found = list(varied_objects(nodes, pods)), []
    for is_ours in (False, True):
        plane = planes()
        found.append(placements_of(plane, values, is_ours=is_ours))
        plane.stop()
    theirs, ours = found
    assert not different(theirs, ours)
    assert len(ours) == pods


def test_preemption_evicts_whom_kube_scheduler_evicts(planes: Callable[[], ControlPlane]) -> None:
    """No two victims have equal priority, so that the choice of the node and of the victims is determined.

    kube-scheduler evicts in threads, and each preemptor is tried again when its victims are gone, which is
    left to chance. So two preemptors of one size may have changed places, and nothing else may differ.
    """
    values, found = list(occupied_objects(20)), []
    for is_ours in (False, True):
        plane = planes()
        found.append(placements_of(plane, values, is_ours=is_ours))
        plane.stop()
    theirs, ours = found
    elsewhere = different(theirs, ours)
    assert all(name.startswith("high") for name in elsewhere), elsewhere

    def sizes(side: int) -> Counter[tuple[str, int]]:
        return Counter((pair[side], int(name[4:]) % 3) for name, pair in elsewhere.items())

    assert sizes(0) == sizes(1), elsewhere
    assert 80 + 10 - len(ours) >= 10
