"""Pods that kube-controller-manager makes of workloads, and claims that it makes and binds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.live.kit.cluster_workload import PATHS, create, devices, local_volumes, node, pod, send, workload
from tests.live.kit.control_plane import ControlPlane
from tests.live.kit.fake_kubelet import FakeKubelet
from tests.live.kit.followed_pods import FollowedPods
from tests.live.kit.live_process import Process

from moorage.kube import PersistentVolumeClaim
from moorage.live.client import ApiClient, connect

pytestmark = pytest.mark.live
NODES = 8


def spec(**more: Any) -> dict[str, Any]:
    """That of a pod of one CPU."""
    found: dict[str, Any] = pod("any", "1", **more)["spec"]
    return found


def status(client: ApiClient, kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = send(client, "GET", f"{PATHS[kind]}/{name}")["status"]
    return found


def test_workloads_roll_out_complete_and_get_their_claims(planes: Callable[[], ControlPlane]) -> None:
    """A Deployment whose template changes, a Job, a StatefulSet with local volumes, claims of devices."""
    plane = planes()
    plane.start_controllers()
    with connect(plane.kubeconfig()) as admin:
        names = [f"n{at:04}" for at in range(NODES)]
        create(admin, [*(node(name) for name in names), *list(local_volumes(NODES))[: NODES + 1]])
        create(admin, devices(names))
        followed = FollowedPods(admin)
        kubelet = FakeKubelet(admin, followed)
        process = Process(plane)

        def await_status(kind: str, name: str, **fields: int) -> None:
            def holds() -> bool:
                kubelet.step()
                return fields.items() <= status(admin, kind, name).items()

            followed.await_that(holds)

        create(admin, [workload("Deployment", "web", spec(), replicas=10)])
        await_status("Deployment", "web", availableReplicas=10)
        template = {"spec": {"template": {"metadata": {"annotations": {"again": "1"}}}}}
        send(admin, "PATCH", f"{PATHS['Deployment']}/web", template)
        await_status(
            "Deployment", "web", observedGeneration=2, updatedReplicas=10, availableReplicas=10, replicas=10
        )
        job = spec(restartPolicy="Never")
        create(admin, [workload("Job", "once", job, completions=20, parallelism=5)])
        await_status("Job", "once", succeeded=20)
        claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": "local"}
        wanted = {
            "metadata": {"name": "data"},
            "spec": claim | {"resources": {"requests": {"storage": "1Gi"}}},
        }
        mounted = [{"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]
        sets = {"replicas": 3, "serviceName": "db", "volumeClaimTemplates": [wanted]}
        create(admin, [workload("StatefulSet", "db", spec(containers=mounted), **sets)])
        await_status("StatefulSet", "db", readyReplicas=3)
        claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
        create(admin, [workload("Deployment", "train", spec(resourceClaims=claims), replicas=6)])
        await_status("Deployment", "train", availableReplicas=6)
        assert process.end() == 0, process.log.read_text()
        followed.check()
        found = admin.list(PersistentVolumeClaim)[0]
        assert {one.status.phase for one in found} == {"Bound"}
        where = {one.name: one.spec.node_name for one in followed.pods()}
        assert {one.spec.volume_name: where[one.name.removeprefix("data-")] for one in found} == {
            f"local-{name}": name for name in (where[f"db-{at}"] for at in range(3))
        }
