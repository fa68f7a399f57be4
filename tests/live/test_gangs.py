"""Pod groups of Kubernetes 1.37: the gangs of kube-scheduler and of ``moorage scheduler``, on two servers.

What kube-scheduler leaves to chance does not occur: it tries groups of one priority as their events come, and
of topology domains with one score it draws one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.live.kit.cluster_workload import create, gang_objects, send
from tests.live.kit.control_plane import ControlPlane
from tests.live.kit.followed_pods import FollowedPods
from tests.live.kit.live_process import CONFIGURATION, Process
from tests.live.test_same_placements import ORDERED, different

from moorage.live.client import connect

pytestmark = [pytest.mark.live, pytest.mark.slow]
GATES = "GenericWorkload=true"
RELEASE = ("--kubernetes-version", "1.37")
LIMIT = 300.0


def placements_of(plane: ControlPlane, values: list[dict[str, Any]], *, is_ours: bool) -> dict[str, str]:
    """Create objects, let one of the two schedulers bind the gangs that fit, and return where pods are."""
    plane.end("kube-apiserver")
    plane.start_apiserver(f"--feature-gates={GATES}", "--runtime-config=scheduling.k8s.io/v1beta1=true")
    with connect(plane.kubeconfig()) as admin:
        create(admin, values)
        followed = FollowedPods(admin)
        stuck = sum(value["kind"] == "PodGroup" for value in values) // 10
        if is_ours:
            configuration = CONFIGURATION + "parallelism: 1\n"
            process = Process(plane, "ours", configuration, "--feature-gates", GATES, *RELEASE)
        else:
            plane.start_scheduler(f"{ORDERED},{GATES}")

        def has_tried_all() -> bool:
            """Each group says how its first attempt has ended."""
            groups = send(admin, "GET", "/apis/scheduling.k8s.io/v1beta1/podgroups")["items"]
            return all(one.get("status", {}).get("conditions") for one in groups)

        followed.await_bound(len(followed.pods()) - 10 * stuck, LIMIT)
        followed.await_that(has_tried_all)
        if is_ours:
            assert process.end() == 0, process.log.read_text()
        return {one.name: one.spec.node_name for one in followed.pods()}


def test_gangs_are_where_kube_scheduler_puts_them(planes: Callable[[], ControlPlane]) -> None:
    """1,000 pods in gangs of ten, created before a scheduler starts; a tenth of the gangs fits nowhere."""
    values, found = list(gang_objects(100, 100)), []
    for is_ours in (False, True):
        plane = planes()
        found.append(placements_of(plane, values, is_ours=is_ours))
        plane.stop()
    theirs, ours = found
    assert sum(map(bool, theirs.values())) == 900
    assert not different(theirs, ours)
