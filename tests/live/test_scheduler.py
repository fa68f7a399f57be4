"""``moorage scheduler`` in processes of their own, on a real server."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.live.control_plane import LIMIT, SCHEDULER, ControlPlane, answers
from tests.live.test_client import create, node, pod

from moorage.objects import Pod
from moorage.store import ApiError
from moorage.store.api import ApiClient, connect

pytestmark = pytest.mark.live

CONFIGURATION = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 5000, burst: 5000}
leaderElection: {leaderElect: false}
"""


def objects(nodes: int, pods: int) -> Iterator[dict[str, Any]]:
    """Nodes of three zones, and pods with spread, affinity and requests of several sizes, which all fit."""
    for at in range(nodes):
        yield node(f"n{at:04}", **{"topology.kubernetes.io/zone": f"z{at % 3}", "disk": "ab"[at % 2]})
    for at in range(pods):
        app = f"app{at % 7}"
        labels = {"matchLabels": {"app": app}}
        spec: dict[str, Any] = {}
        if at % 5 == 0:
            key = "topology.kubernetes.io/zone"
            constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
            spec["topologySpreadConstraints"] = [{**constraint, "labelSelector": labels}]
        if at % 7 == 1:
            term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": labels}
            preferred = {"weight": 10, "podAffinityTerm": term}
            kind = "podAntiAffinity" if at % 2 else "podAffinity"
            spec["affinity"] = {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}
        if at % 11 == 3:
            spec["nodeSelector"] = {"disk": "a"}
        value = pod(f"p{at:05}", f"{(1 + at % 4) * 50}m", **spec)
        value["metadata"]["labels"] = {"app": app}
        yield value


def placements(client: ApiClient) -> dict[str, str]:
    return {one.name: one.spec.node_name for one in client.list(Pod)[0]}


def bound(found: dict[str, str]) -> dict[str, str]:
    return {name: node for name, node in found.items() if node}


def await_bound(client: ApiClient, count: int) -> dict[str, str]:
    """Wait until so many pods are bound; return where all are."""
    until = time.monotonic() + LIMIT
    while True:
        try:
            found = placements(client)
        except ApiError:
            found = {}
        if len(bound(found)) >= count:
            return found
        assert time.monotonic() < until, len(bound(found))
        time.sleep(0.2)


class Process:
    """``moorage scheduler`` in a process."""

    def __init__(
        self, plane: ControlPlane, name: str = "ours", configuration: str = CONFIGURATION, *options: str
    ) -> None:
        config = plane.folder / f"{name}.yaml"
        config.write_text(configuration)
        self.log = plane.folder / f"{name}.log"
        command = [sys.executable, "-X", "faulthandler", "-m", "moorage", "scheduler"]
        command += ["--kubeconfig", plane.kubeconfig(SCHEDULER), "--config", str(config), *options]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        try:
            return self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


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


def test_a_killed_scheduler_and_a_killed_server_lose_no_pod(planes: Callable[[], ControlPlane]) -> None:
    """Both are killed while bindings are in flight: the limit of requests stretches the run."""
    plane = planes()
    slow = CONFIGURATION.replace("qps: 5000, burst: 5000", "qps: 40, burst: 20")
    with connect(plane.kubeconfig()) as admin:
        create(admin, objects(20, 200))
        first = Process(plane, "first", slow)
        early = await_bound(admin, 20)
        assert first.end(signal.SIGKILL) == -signal.SIGKILL
        assert len(bound(early)) < 200
        second = Process(plane, "second", slow)
        more = await_bound(admin, 100)
        plane.end("kube-apiserver", signal.SIGKILL)
        assert len(bound(more)) < 200
        plane.start_apiserver()
        late = await_bound(admin, 200)
        assert len(late) == 200
        assert bound(early).items() <= bound(more).items() <= late.items()
        assert second.end() == 0, second.log.read_text()


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
