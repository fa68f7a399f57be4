"""A twin that cannot read its cluster still answers, with the age of what it knows, and is not ready."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from tests.live.kit.certificates import Authority
from tests.live.kit.cluster_workload import PATHS, create, node, pod, send
from tests.live.kit.control_plane import ControlPlane, answers, await_all
from tests.live.kit.cutting_proxy import CuttingProxy
from tests.live.kit.fault_proxy import Fault, FaultProxy
from tests.live.kit.twin_process import ask, following

from moorage.live.client import ApiClient, connect

pytestmark = pytest.mark.live
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
FOLLOWER, READER = {"name": "follower"}, {"name": "reader"}
READS = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["list", "watch"]}


def pause() -> None:
    time.sleep(0.2)


def nodes(url: str) -> int:
    """How many the twin knows now; without any there is nothing to answer."""
    status, answer, _ = ask(f"{url}/v1/nodes?max-age=0")
    return len(answer["items"]) if status == 200 else 0


def answers_through(
    url: str, plane: ControlPlane, begin: Callable[[], object], end: Callable[[], object]
) -> None:
    """Ask before a fault, through it and after it."""
    with connect(plane.kubeconfig()) as admin:
        create(admin, [node("n0"), pod("p")])
    await_all([lambda: nodes(url) == 1], pause)
    assert float(ask(f"{url}/v1/nodes")[2]["Moorage-Staleness"]) < 35
    begin()
    await_all([lambda: "Node" in ask(f"{url}/v1/state")[1]["unreadable"]], pause)
    await_all([lambda: not answers(f"{url}/readyz", "")], pause)
    assert answers(f"{url}/livez", "")  # a new process could not answer
    status, answer, headers = ask(f"{url}/v1/nodes")
    assert (status, len(answer["items"])) == (200, 1)
    assert "Node" in headers["Moorage-Unreadable"]
    assert float(headers["Moorage-Staleness"]) > 60.0
    end()
    with connect(plane.kubeconfig()) as admin:
        create(admin, [node("n1")])
    await_all([lambda: nodes(url) == 2], pause)
    await_all([lambda: answers(f"{url}/readyz", "")], pause)
    await_all([lambda: not ask(f"{url}/v1/state")[1]["unreadable"]], pause)


def test_an_outage(planes: Callable[[], ControlPlane]) -> None:
    plane = planes()
    with following(plane, plane.kubeconfig()) as url:
        answers_through(url, plane, lambda: plane.end("kube-apiserver"), plane.start_apiserver)


def test_a_server_that_accepts_and_does_not_answer(cluster: ControlPlane, proxy: FaultProxy) -> None:
    through = CuttingProxy(proxy.port)

    def hang() -> None:
        proxy.faults = [Fault("", ".", seconds=1e6)]
        through.silence()

    with following(cluster, cluster.kubeconfig(port=through.port)) as url:
        answers_through(url, cluster, hang, proxy.end_faults)
    through.close()


def test_rights_that_are_taken_away(cluster: ControlPlane, admin: ApiClient) -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": READER}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **READER}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "nobody"}]
    binding = {**role, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": subjects}
    send(admin, "POST", f"{RBAC}/clusterroles", {**role, "rules": [READS]})

    def grant() -> None:
        send(admin, "POST", f"{RBAC}/clusterrolebindings", binding)

    grant()
    with following(cluster, cluster.kubeconfig("nobody")) as url:
        answers_through(
            url, cluster, lambda: send(admin, "DELETE", f"{RBAC}/clusterrolebindings/reader"), grant
        )
    send(admin, "DELETE", f"{RBAC}/clusterrolebindings/reader")
    send(admin, "DELETE", f"{RBAC}/clusterroles/reader")


def test_a_token_that_is_revoked(cluster: ControlPlane, admin: ApiClient) -> None:
    """Another one comes into the file."""
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": FOLLOWER}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subjects = [{"kind": "ServiceAccount", "namespace": "default", **FOLLOWER}]
    send(admin, "POST", f"{RBAC}/clusterrolebindings", {**role, "roleRef": reference, "subjects": subjects})
    file = cluster.folder / "follower.token"

    def issue() -> None:
        send(admin, "POST", ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": FOLLOWER})
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        file.write_text(send(admin, "POST", f"{ACCOUNTS}/follower/token", request)["status"]["token"])

    issue()
    user = "follower", f"tokenFile: {file}"
    with following(cluster, cluster.write_kubeconfig(cluster.folder / "follower.kubeconfig", *user)) as url:
        answers_through(url, cluster, lambda: send(admin, "DELETE", f"{ACCOUNTS}/follower"), issue)
    send(admin, "DELETE", f"{ACCOUNTS}/follower")
    send(admin, "DELETE", f"{RBAC}/clusterrolebindings/follower")


def test_an_authority_that_is_replaced(planes: Callable[[], ControlPlane]) -> None:
    """The file of the kubeconfig has the new one later."""
    plane = planes()
    file, kubeconfig = plane.folder / "followed.crt", Path(plane.kubeconfig())
    file.write_bytes((plane.folder / "ca.crt").read_bytes())
    own = plane.folder / "follower.kubeconfig"
    own.write_text(kubeconfig.read_text().replace(f"{plane.folder}/ca.crt", str(file)))

    def replace() -> None:
        plane.end("kube-apiserver")
        Authority(plane.folder).issue("server", "kube-apiserver", serves=True)
        plane.start_apiserver()

    with following(plane, str(own)) as url:
        answers_through(url, plane, replace, lambda: file.write_bytes((plane.folder / "ca.crt").read_bytes()))


def test_a_history_that_is_lost(planes: Callable[[], ControlPlane]) -> None:
    """The server has compacted what the twin has not seen: it lists again, and tells nothing of the kind."""
    plane = planes()
    proxy = FaultProxy(plane)
    through = CuttingProxy(proxy.port)
    with following(plane, plane.kubeconfig(port=through.port)) as url:
        twin = plane.commands[-1]
        with connect(plane.kubeconfig()) as admin:
            create(admin, [node("n0")])
            await_all([lambda: nodes(url) == 1], pause)
            twin.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, twin.pid, os.WSTOPPED)
            through.cut()
            send(admin, "DELETE", f"{PATHS['Node']}/n0")
            create(admin, [node("n1"), node("n2")])
            at = send(admin, "GET", PATHS["Node"])["metadata"]["resourceVersion"]
        compaction = json.dumps({"revision": at, "physical": True}).encode()
        with urlopen(Request(f"http://127.0.0.1:{plane.etcd_port}/v3/kv/compaction", compaction)):
            plane.end("kube-apiserver")
        plane.start_apiserver()

        def lists() -> int:
            """A server that has just begun may want to be asked without a watch."""
            paths = [one.path for one in proxy.requests if one.path.startswith(PATHS["Node"])]
            return sum("Initial" in one or "watch" not in one for one in paths)

        before = lists()
        twin.send_signal(signal.SIGCONT)
        await_all([lambda: nodes(url) == 2], pause)
        assert answers(f"{url}/readyz", "")
        await_all([lambda: not ask(f"{url}/v1/state")[1]["unreadable"]], pause)
        assert lists() > before, proxy.requests
    through.close()
    proxy.close()
