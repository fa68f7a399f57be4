"""``moorage scheduler`` in processes of their own, on a real server."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from tests.deploy.test_manifests import DEPLOY
from tests.live.kit.cluster_workload import create, objects, pod
from tests.live.kit.control_plane import SCHEDULER, ControlPlane, answers, await_all
from tests.live.kit.live_process import CONFIGURATION, Process, await_bound

from moorage.live.client import connect

pytestmark = pytest.mark.live


def test_one_of_two_leads(planes: Callable[[], ControlPlane]) -> None:
    plane = planes()
    election = "{leaseDuration: 4s, renewDeadline: 3s, retryPeriod: 500ms}"
    configuration = CONFIGURATION.replace("{leaderElect: false}", election)
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"

    with connect(plane.kubeconfig()) as admin:

        def holder() -> str:
            return str(json.loads(admin.connection.request("GET", lease))["spec"]["holderIdentity"])

        create(admin, objects(5, 10))
        one = Process(plane, "one", configuration)
        await_bound(admin, 10)
        leader = holder()
        two = Process(plane, "two", configuration)
        create(admin, [pod("next")])
        await_bound(admin, 11)
        assert holder() == leader
        assert one.end() == 0, one.log.read_text()
        create(admin, [pod("last")])
        await_bound(admin, 12)
        assert holder() not in ("", leader)
        assert two.end() == 0, two.log.read_text()
        assert holder() == ""


def test_in_place_of_kube_scheduler_whoever_has_the_lease_schedules(
    planes: Callable[[], ControlPlane],
) -> None:
    """With the configuration of the overlay `in-place`: first kube-scheduler leads, then moorage, and then
    kube-scheduler again."""
    plane = planes()
    plane.start_scheduler("--leader-elect=true")
    with connect(plane.kubeconfig()) as admin:
        create(admin, objects(5, 10))
        await_bound(admin, 10)
        ours = Process(plane, "ours", (DEPLOY / "overlays/in-place/scheduler.yaml").read_text())
        await_all([lambda: "cluster listed" in ours.log.read_text()], lambda: time.sleep(0.1))
        create(admin, [pod("theirs")])
        await_bound(admin, 11)
        assert "lease gained" not in ours.log.read_text()
        plane.end("kube-scheduler")
        create(admin, [pod("ours")])
        await_bound(admin, 12)
        assert "lease gained" in ours.log.read_text()
        plane.start_scheduler("--leader-elect=true")
        assert ours.end() == 0, ours.log.read_text()
        create(admin, [pod("again")])
        await_bound(admin, 13)


def test_health_and_metrics(planes: Callable[[], ControlPlane]) -> None:
    plane = planes()
    kubeconfig, folder = plane.kubeconfig(SCHEDULER), plane.folder
    options = [
        *("--secure-port", str(plane.scheduler_port), "--bind-address", "127.0.0.1"),
        *("--tls-cert-file", f"{folder}/server.crt", "--tls-private-key-file", f"{folder}/server.key"),
        *("--authentication-kubeconfig", kubeconfig, "--authorization-kubeconfig", kubeconfig),
    ]
    url = f"https://127.0.0.1:{plane.scheduler_port}"
    with connect(plane.kubeconfig()) as admin:
        create(admin, objects(5, 10))
        process = Process(plane, "ours", CONFIGURATION, *options)
        await_bound(admin, 10)
        assert all(answers(f"{url}/{path}", "") for path in ("healthz", "livez", "readyz"))
        assert answers(f"{url}/metrics", "admin-token")
        for token in ("", "nobody-token", "stranger"):
            assert not answers(f"{url}/metrics", token)
        assert process.end() == 0, process.log.read_text()
