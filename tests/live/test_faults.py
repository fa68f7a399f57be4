"""Faults in the middle of binding cycles: no pod is lost, bound twice or bound beyond what a node has."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from tests.live.cluster_workload import create, local_volumes, node, objects, pod, priority_classes
from tests.live.control_plane import ControlPlane, await_all
from tests.live.cutting_proxy import CuttingProxy
from tests.live.live_process import CONFIGURATION, Process, await_bound, volume_controller

from moorage.objects import PersistentVolume, PersistentVolumeClaim, Pod
from moorage.store import ConflictError, Informer
from moorage.store.api import ApiClient, connect

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


class Bindings:
    """Follows pods by a watch, and notes each change of a node."""

    def __init__(self, client: ApiClient) -> None:
        self.informer = Informer(client, Pod)
        self.informer.add_event_handler(self)
        self.bound: dict[str, list[str]] = {}
        self.informer.run_once()

    def on_add(self, obj: Pod, is_in_initial_list: bool) -> None:
        self._note(obj)

    def on_update(self, old: Pod, new: Pod) -> None:
        self._note(new)

    def on_delete(self, obj: Any) -> None:
        """Nothing to note."""

    def _note(self, one: Pod) -> None:
        nodes = self.bound.setdefault(one.metadata.uid, [])
        if one.spec.node_name and nodes[-1:] != [one.spec.node_name]:
            nodes.append(one.spec.node_name)

    def check(self, capacity: int) -> None:
        """Each pod was bound once at most, and no node has more pods than it has room for."""
        self.informer.run_once()
        assert all(len(nodes) <= 1 for nodes in self.bound.values())
        nodes = Counter(one.spec.node_name for one in self.informer.indexer.values() if one.spec.node_name)
        assert all(count <= capacity for count in nodes.values()), nodes


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
        bindings = Bindings(admin)
        sources = [{"name": "v", "persistentVolumeClaim": {"claimName": f"claim{at}"}} for at in range(4)]
        claimed = [
            pod(f"claimed{at}", "1", priorityClassName="high", volumes=[source])
            for at, source in enumerate(sources)
        ]
        more = [pod(f"high{at}", "1", priorityClassName="high") for at in range(8)]
        first = Process(plane, "first", killed_at=STEPS[step])
        create(admin, claimed + more)
        assert first.process.wait(120) == -signal.SIGKILL, first.log.read_text()
        second = Process(plane, "second")

        def all_bound() -> bool:
            bindings.informer.run_once()
            pods = bindings.informer.indexer.values()
            return all(one.spec.node_name for one in pods if not one.name.startswith("low"))

        await_all([all_bound], lambda: time.sleep(0.2))
        assert second.end() == 0, second.log.read_text()
        bindings.check(4)
        assert {one.name for one in bindings.informer.indexer.values()} > {"claimed0", "high7"}
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
            bindings = Bindings(admin)
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
            bindings.check(110)
            assert taken
    finally:
        proxy.close()


def test_a_leader_that_was_stopped_binds_no_more(planes: Callable[[], ControlPlane]) -> None:
    """A process that stands still for longer than its Lease lasts ends when it goes on."""
    plane = planes()
    election = "{leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 500ms}"
    configuration = CONFIGURATION.replace("{leaderElect: false}", election)
    slow = configuration.replace("qps: 5000, burst: 5000", "qps: 20, burst: 5")
    with connect(plane.kubeconfig()) as admin:
        create(admin, objects(20, 100))
        bindings = Bindings(admin)
        one = Process(plane, "one", slow)
        await_bound(admin, 20)
        two = Process(plane, "two", configuration)
        one.process.send_signal(signal.SIGSTOP)
        await_bound(admin, 100)
        one.process.send_signal(signal.SIGCONT)
        assert one.process.wait(60) == 1
        assert "leaderelection lost" in one.log.read_text()
        assert two.end() == 0, two.log.read_text()
        bindings.check(110)
