"""``moorage serve twin`` beside a real control plane: its rights, and its predictions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from itertools import islice
from threading import Event
from typing import Any

import pytest
from tests.deploy.test_manifests import DEPLOY, documents, find, find_named, rights
from tests.doors.live import FollowedCluster, PredictedBindings
from tests.live.kit.cluster_workload import create, node, objects, pod, send
from tests.live.kit.control_plane import ControlPlane, answers, await_all, free_ports
from tests.live.kit.twin_process import ask, running
from tests.live.test_rights import COLLECTIONS, NAMESPACE, asked

from moorage import Scheduler
from moorage.live.client import connect

pytestmark = pytest.mark.live
OVERLAY = DEPLOY / "overlays/twin"
ACCOUNT = "moorage-twin"
AUDIT = f"""apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {{level: Metadata, users: ["system:serviceaccount:{NAMESPACE}:{ACCOUNT}"]}}
- {{level: None}}
"""


def deployed(plane: ControlPlane, port: int) -> tuple[str, ...]:
    """Apply the overlay, as far as it needs no kubelet; return the command of its process."""
    with connect(plane.kubeconfig()) as admin:
        namespace = find(DEPLOY / "overlays/beside/namespace.yaml", "Namespace")
        send(admin, "POST", "/api/v1/namespaces", namespace)
        for one in documents(OVERLAY / "rbac.yaml"):
            send(admin, "POST", COLLECTIONS[one["kind"]], one)
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = f"{COLLECTIONS['ServiceAccount']}/{ACCOUNT}/token"
        token = send(admin, "POST", path, request)["status"]["token"]
    account = plane.folder / "account"
    account.mkdir()
    (account / "token").write_text(token)
    (account / "ca.crt").write_bytes((plane.folder / "ca.crt").read_bytes())
    (container,) = find(OVERLAY / "deployment.yaml", "Deployment")["spec"]["template"]["spec"]["containers"]
    places = {
        "/etc/moorage/questions.yaml": str(OVERLAY / "questions.yaml"),
        "/etc/moorage/tls/tls.crt": f"{plane.folder}/server.crt",
        "/etc/moorage/tls/tls.key": f"{plane.folder}/server.key",
        "8899": str(port),
        "0.0.0.0": "0.0.0.0",
    }
    given = [one.partition("=") for one in container["args"]]
    words = [f"{name}{sign}{places.get(value, value)}" for name, sign, value in given]
    module = ("tests.live.kit.in_pod", str(account), str(plane.port))
    return *module, *words


def test_a_deployed_twin_asks_for_its_rights_and_for_nothing_else(planes: Callable[[], ControlPlane]) -> None:
    plane = planes()
    policy, log = plane.folder / "audit.yaml", plane.folder / "audit.log"
    policy.write_text(AUDIT)
    plane.end("kube-apiserver")
    plane.start_apiserver(f"--audit-policy-file={policy}", f"--audit-log-path={log}")
    with connect(plane.kubeconfig()) as admin:
        create(admin, [*(node(f"n{at}") for at in range(3)), pod("waits", "64")])
    (port,) = free_ports(1)
    url = f"https://127.0.0.1:{port}"
    with running(plane, url, *deployed(plane, port)):
        assert ask(f"{url}/v1/check")[0] == 403
        assert ask(f"{url}/v1/check", "nobody-token")[0] == 403
        status, check, headers = ask(f"{url}/v1/check", "admin-token")
        assert (status, check["passed"], headers["Moorage-Exit-Code"]) == (200, False, "1")
        assert "Pod=" in headers["Moorage-Resource-Versions"]
        assert headers["Moorage-Left-Out"] is None
        release = json.dumps(pod("new")).encode()
        assert ask(f"{url}/v1/check?new-only", "admin-token", release)[1]["placed"] == 1
        assert answers(f"{url}/metrics", "admin-token")
        plane.end("kube-apiserver")
        assert ask(f"{url}/v1/check", "admin-token")[0] == 200  # who was allowed before
        assert ask(f"{url}/v1/check", "nobody-token")[0] == 500
    used, refused = asked(log)
    assert refused == []
    role = rights(find_named(OVERLAY / "rbac.yaml", ACCOUNT))
    assert used - role == set()
    unused = {resource for _, resource, _ in role} - {resource for _, resource, _ in used}
    served = {"nodes", "pods", "deployments", "jobs", "priorityclasses", "resourceclaims", "tokenreviews"}
    assert not unused & served
    assert {verb for *_, verb in used} <= {"get", "list", "watch", "create"}


def uneven(nodes: int, pods: int) -> Iterator[dict[str, Any]]:
    """`objects` with nodes of many sizes, some of which are better left alone, so that few are alike."""
    for at, value in enumerate(objects(nodes, pods)):
        if value["kind"] == "Node":
            size = {"cpu": str(24 + at % 17), "memory": f"{64 + at % 29}Gi", "pods": "200"}
            value["status"] |= {"capacity": size, "allocatable": size}
            if at % 5 == 2:
                value["spec"] = {"taints": [{"key": "old", "effect": "PreferNoSchedule"}]}
        yield value


def predicted(
    plane: ControlPlane, values: Iterator[dict[str, Any]], nodes: int, at_once: int
) -> PredictedBindings:
    """Let kube-scheduler bind pods, so many at a time, beside a twin that predicts each binding."""
    with connect(plane.kubeconfig()) as admin, connect(plane.kubeconfig()) as followed:
        create(admin, islice(values, nodes))
        settings: dict[str, Any] = {"percentage_of_nodes_to_score": 100, "kubernetes_version": "1.36"}
        scheduler = Scheduler(followed, clock=time.monotonic, synced=False, **settings)
        bindings = PredictedBindings(scheduler, work=lambda: 0.0)
        cluster = FollowedCluster(followed, bindings)
        assert cluster.await_lists(Event())
        plane.start_scheduler(configuration="percentageOfNodesToScore: 100\n")
        done = 0
        while some := list(islice(values, at_once)):
            create(admin, some)
            done += len(some)
            wanted = done

            def step() -> None:
                followed.arrivals.wait(followed.arrivals.count, 0.05)
                cluster.apply_news()

            await_all([lambda wanted=wanted: bindings.counts.total() + bindings.skipped == wanted], step)
    return bindings


@pytest.mark.parametrize("pods", [200, pytest.param(10_000, marks=pytest.mark.slow)])
def test_each_binding_of_kube_scheduler_is_predicted(planes: Callable[[], ControlPlane], pods: int) -> None:
    """One pod is in flight, and all nodes are looked at."""
    nodes = max(40, pods // 100)
    bindings = predicted(planes(), uneven(nodes, pods), nodes, 1)
    assert list(bindings.differences) == []
    assert bindings.counts["same"] + bindings.counts["tie"] == pods
    assert bindings.counts["same"] > pods // 10


def test_a_burst_leaves_no_binding_that_is_not_explained(planes: Callable[[], ControlPlane]) -> None:
    bindings = predicted(planes(), objects(500, 600), 500, 300)
    assert (bindings.counts["other"], bindings.skipped) == (0, 0), list(bindings.differences)
