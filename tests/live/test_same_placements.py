"""The placements of kube-scheduler and of ``moorage scheduler``, on two API servers with equal objects.

kube-scheduler reads lists as lists: from a streamed list client-go makes a map, so that nodes and pods reach
the scheduler in no certain order, and with them the order of equal nodes and of pods of equal priority. A
list has the order of the keys. With one worker nothing else is left to chance.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Any

import pytest
from tests.live.cluster_workload import create, varied_objects
from tests.live.control_plane import ControlPlane, await_all
from tests.live.live_process import CONFIGURATION, Process, await_bound, volume_controller

from moorage.objects import PersistentVolumeClaim
from moorage.store.api import ApiClient, connect

pytestmark = pytest.mark.live

ORDERED = "--feature-gates=WatchListClient=false"
LIMIT = 600.0
"""Seconds for a run."""


def prepare(client: ApiClient, values: list[dict[str, Any]], pause: Event) -> int:
    """Create objects, and wait until the claims with volumes of their own are bound; return the pods."""
    create(client, values)

    def is_bound() -> bool:
        claims = client.list(PersistentVolumeClaim)[0]
        return all(one.status.phase == "Bound" for one in claims if one.spec.storage_class_name == "csi")

    await_all([is_bound], lambda: pause.wait(0.5))
    return sum(value["kind"] == "Pod" for value in values)


def placements_of(plane: ControlPlane, values: list[dict[str, Any]], *, is_ours: bool) -> dict[str, str]:
    """Create objects, and let one of the two schedulers bind all pods."""
    with (
        connect(plane.kubeconfig()) as admin,
        connect(plane.kubeconfig()) as controllers,
        volume_controller(controllers),
    ):
        count = prepare(admin, values, Event())
        if not is_ours:
            plane.start_scheduler(ORDERED)
            return await_bound(admin, count, LIMIT)
        process = Process(plane, "ours", CONFIGURATION + "parallelism: 1\n")
        found = await_bound(admin, count, LIMIT)
        assert process.end() == 0, process.log.read_text()
        return found


def test_every_pod_is_where_kube_scheduler_puts_it(planes: Callable[[], ControlPlane]) -> None:
    """1,000 nodes and 10,000 pods, which all fit, created before a scheduler starts."""
    values, found = list(varied_objects(1000, 10_000)), []
    for is_ours in (False, True):
        plane = planes()
        found.append(placements_of(plane, values, is_ours=is_ours))
        plane.stop()
    theirs, ours = found
    different = {name: (theirs[name], node) for name, node in ours.items() if theirs[name] != node}
    assert not different
    assert len(ours) == 10_000
