"""Faults in the middle of binding cycles: no pod is lost, bound twice or bound beyond what a node has."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest
from tests.live.kit.cluster_workload import create, local_volumes, node, objects, pod, priority_classes
from tests.live.kit.control_plane import ControlPlane, await_all
from tests.live.kit.cutting_proxy import CuttingProxy
from tests.live.kit.fake_kubelet import FakeKubelet
from tests.live.kit.followed_pods import FollowedPods
from tests.live.kit.live_process import CONFIGURATION, Process, await_bound, volume_controller

from moorage.kube import PersistentVolume, PersistentVolumeClaim, Pod
from moorage.live.client import connect
from moorage.store import ConflictError

pytestmark = pytest.mark.live

STEPS = {
    "before the volume is claimed": ("before", "PATCH", "/persistentvolumes/[^/]+", "2"),
    "after the volume is claimed": ("after", "PATCH", "/persistentvolumes/[^/]+", "2"),
    "before the binding": ("before", "POST", "/binding", "4"),
    "after the binding": ("after", "POST", "/binding", "4"),
    "before the event": ("before", "POST", "/events", "3"),
    "after the event": ("after", "POST", "/events", "3"),
    "before the condition of a victim": ("before", "PATCH", "/pods/low[^/]*/status", "1"),
    "before the deletion of a victim": ("before", "DELETE", "/pods/low[^/]*", "1"),
    "after the deletion of a victim": ("after", "DELETE", "/pods/low[^/]*", "1"),
    "after the nomination": ("after", "PATCH", "/pods/high[^/]*/status", "1"),
}
"""What a scheduler is killed at: the request with its number."""


@pytest.mark.parametrize("step", STEPS)
def test_a_scheduler_killed_at_a_step_is_continued(planes: Callable[[], ControlPlane], step: str) -> None:
    """Local volumes and a preemption: four pods of one CPU fill a node."""
    plane = planes()
    with (
        connect(plane.kubeconfig()) as admin,
        connect(plane.kubeconfig()) as controllers,
        volume_controller(controllers),
    ):
        low = [pod(f"low{at}", "1", nodeName=f"n{at // 4:04}") for at in range(8)]
        create(admin, [*priority_classes(), *(node(f"n{at:04}") for at in range(4)), *low])
        create(admin, local_volumes(4))
        followed = FollowedPods(admin)
        sources = [{"name": "v", "persistentVolumeClaim": {"claimName": f"claim{at}"}} for at in range(4)]
        claimed = [
            pod(f"claimed{at}", "1", priorityClassName="high", volumes=[source])
            for at, source in enumerate(sources)
        ]
        more = [pod(f"high{at}", "1", priorityClassName="high") for at in range(8)]
        first = Process(plane, "first", killed_at=STEPS[step])
        create(admin, claimed + more)
        assert first.process.wait(120) == -signal.SIGKILL, first.log.read_text()
        second, kubelet = Process(plane, "second"), FakeKubelet(admin, followed)

        def all_bound() -> bool:
            kubelet.step()  # a deletion whose client was killed may have only marked the victim
            return all(one.spec.node_name for one in followed.pods() if not one.name.startswith("low"))

        await_all([all_bound], lambda: time.sleep(0.2))
        assert second.end() == 0, second.log.read_text()
        followed.check()
        assert {one.name for one in followed.informer.indexer.values()} > {"claimed0", "high7"}
        volumes = {one.name: one for one in admin.list(PersistentVolume)[0]}
        pods = {one.name: one.spec.node_name for one in admin.list(Pod)[0]}
        claims = admin.list(PersistentVolumeClaim)[0]
        assert len({one.spec.volume_name for one in claims}) == 4
        for claim in claims:
            volume = volumes[claim.spec.volume_name]
            assert volume.spec.claim_ref is not None
            assert volume.spec.claim_ref.uid == claim.metadata.uid
            assert volume.name == f"local-{pods[claim.name.replace('claim', 'claimed')]}"


def test_cut_connections_conflicts_and_refusals(planes: Callable[[], ControlPlane]) -> None:
    """Watches and bindings break off, another client binds some of the pods, and the server answers 429."""
    plane = planes()
    plane.end("kube-apiserver")
    plane.start_apiserver("--max-mutating-requests-inflight=2", "--max-requests-inflight=100")
    proxy = CuttingProxy(plane.port)
    try:
        with connect(plane.kubeconfig()) as admin:
            create(admin, objects(20, 300))
            followed = FollowedPods(admin)
            slow = CONFIGURATION.replace("qps: 5000, burst: 5000", "qps: 60, burst: 20")
            process = Process(plane, "ours", slow, port=proxy.port)
            pods = admin.list(Pod)[0]
            taken = 0
            for at in range(6):
                await_bound(admin, 40 * (at + 1))
                proxy.cut()
                for one in pods[299 - 5 * at : 294 - 5 * at : -1]:
                    try:
                        admin.bind(one, f"n{at:04}")
                        taken += 1
                    except ConflictError:
                        assert admin.get(Pod, one.name, "default").spec.node_name
            await_bound(admin, 300)
            assert process.end() == 0, process.log.read_text()
            followed.check()
            assert taken
    finally:
        proxy.close()
