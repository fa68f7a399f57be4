"""``moorage serve extender`` behind kube-scheduler, with mutual TLS and the state of the cluster."""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.live.kit.cluster_workload import create, node, pod, priority_classes
from tests.live.kit.control_plane import ADMIN, LIMIT, ControlPlane, await_all
from tests.live.kit.live_process import Command, await_bound

from moorage.kube import Pod
from moorage.live.client import ApiClient, connect

pytestmark = pytest.mark.live

PROFILE = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {score: {disabled: [{name: "*"}], enabled: [{name: NodeAffinity}]}}
  pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: In, values: [a]}]}]
        preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 1
          preference: {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n2]}]}
"""
"""Of the extender alone: nodes with disk a, and of these rather n2."""
AUDIT = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, verbs: [create], resources: [{group: "", resources: [pods/binding]}]}
- {level: None}
"""
MODES = pytest.mark.parametrize("sends_names", [True, False], ids=["names", "nodes"])


def url_of(extender: Command) -> str:
    """Wait until the extender listens, and return its address."""
    found: list[str] = []

    def listens() -> bool:
        assert extender.process.poll() is None, extender.log.read_text()
        found[:] = [line for line in extender.log.read_text().splitlines() if line.startswith("urlPrefix: ")]
        return bool(found)

    await_all([listens], lambda: time.sleep(0.05))
    return found[0].removeprefix("urlPrefix: ")


@contextmanager
def extended(plane: ControlPlane) -> Iterator[tuple[ApiClient, str]]:
    """Start the extender over six nodes, every second with disk a; yield a client and the extender's
    address."""
    folder = plane.folder
    (folder / "audit.yaml").write_text(AUDIT)
    plane.end("kube-apiserver")
    plane.start_apiserver(f"--audit-policy-file={folder}/audit.yaml", f"--audit-log-path={folder}/audit.log")
    plane.authority.issue("asker", "kube-scheduler")
    (folder / "extender.yaml").write_text(PROFILE)
    with connect(plane.kubeconfig()) as admin:
        create(admin, [*priority_classes(), *(node(f"n{at}", disk="ab"[at % 2]) for at in range(6))])
        extender = Command(
            plane,
            "extender",
            *("moorage", "serve", "extender", "--kubeconfig", plane.kubeconfig(ADMIN)),
            *("--config", f"{folder}/extender.yaml", "--port", "0", "--path", "/scheduler"),
            *("--tls-cert-file", f"{folder}/server.crt", "--tls-private-key-file", f"{folder}/server.key"),
            *("--client-ca-file", f"{folder}/ca.crt"),
        )
        yield admin, url_of(extender)
        assert extender.end() == 0, extender.log.read_text()


def extenders(folder: Path, url: str, *, sends_names: bool, has_certificate: bool = True) -> str:
    """The part of kube-scheduler's configuration."""
    verbs = "".join(f"{verb}Verb: {verb}, " for verb in ("filter", "prioritize", "preempt", "bind"))
    mode = f"nodeCacheCapable: {str(sends_names).lower()}"
    own = f", certFile: {folder}/asker.crt, keyFile: {folder}/asker.key" if has_certificate else ""
    return (
        f"extenders:\n- {{urlPrefix: '{url}', {verbs}weight: 100, {mode}, "
        f"enableHTTPS: true, tlsConfig: {{caFile: {folder}/ca.crt{own}}}, httpTimeout: {LIMIT}s}}\n"
    )


@MODES
def test_kube_scheduler_places_pods_as_the_extender_says(
    planes: Callable[[], ControlPlane], sends_names: bool
) -> None:
    """A node takes eight pods. The extender binds as a user of its own."""
    plane = planes()
    with extended(plane) as (admin, url):
        plane.start_scheduler(configuration=extenders(plane.folder, url, sends_names=sends_names))
        create(admin, [pod(f"p{at}", "500m") for at in range(12)])
        found = Counter(await_bound(admin, 12).values())
        assert found.pop("n2") == 8
        assert found.keys() <= {"n0", "n4"}
        plane.end("kube-scheduler")
        events = [json.loads(line) for line in (plane.folder / "audit.log").read_text().splitlines()]
        assert Counter(event["user"]["username"] for event in events) == {ADMIN: 12}


@MODES
def test_kube_scheduler_preempts_where_the_extender_says(
    planes: Callable[[], ControlPlane], sends_names: bool
) -> None:
    """kube-scheduler alone would evict the pods of the lowest priority, on a node that the extender's profile
    does not allow."""
    plane = planes()
    with extended(plane) as (admin, url):
        for at in range(6):
            priority = ("middle", "low")[at % 2]
            create(admin, [pod(f"o{at}", "4", nodeName=f"n{at}", priorityClassName=priority)])
        plane.start_scheduler(configuration=extenders(plane.folder, url, sends_names=sends_names))
        create(admin, [pod("preemptor", "4", priorityClassName="high")])
        await_all(
            [lambda: bool(admin.get(Pod, "preemptor", "default").spec.node_name)], lambda: time.sleep(0.1)
        )
        node_name = admin.get(Pod, "preemptor", "default").spec.node_name
        left = {one.name for one in admin.list(Pod)[0]}
        assert node_name in ("n0", "n2", "n4")
        assert left == {"preemptor", *(f"o{at}" for at in range(6))} - {f"o{node_name[1:]}"}


def test_kube_scheduler_without_a_certificate_is_not_served(planes: Callable[[], ControlPlane]) -> None:
    plane = planes()
    with extended(plane) as (admin, url):
        anonymous = extenders(plane.folder, url, sends_names=True, has_certificate=False)
        plane.start_scheduler(configuration=anonymous)
        create(admin, [pod("p", "500m")])

        def error() -> str:
            conditions = admin.get(Pod, "p", "default").status.conditions
            return "".join(one.message for one in conditions if one.reason == "SchedulerError")

        await_all([lambda: bool(error())], lambda: time.sleep(0.1))
        assert url in error()
        assert "code 403" in error()
        plane.end("kube-scheduler")
        plane.start_scheduler(configuration=extenders(plane.folder, url, sends_names=True))
        assert await_bound(admin, 1) == {"p": "n2"}


def test_bodies_that_are_promised_keep_nobody_from_the_extender(planes: Callable[[], ControlPlane]) -> None:
    """The client that promises them has the certificate and the address of kube-scheduler."""
    plane = planes()
    with extended(plane) as (admin, url), ExitStack() as stack:
        context = ssl.create_default_context(cafile=f"{plane.folder}/ca.crt")
        context.load_cert_chain(f"{plane.folder}/asker.crt", f"{plane.folder}/asker.key")
        for _ in range(20):
            plain = socket.create_connection(("127.0.0.1", int(url.split(":")[2].partition("/")[0])))
            secure = stack.enter_context(context.wrap_socket(plain, server_hostname="127.0.0.1"))
            secure.sendall(b"POST /scheduler/filter HTTP/1.1\r\nContent-Length: 134217728\r\n\r\n")
        plane.start_scheduler(configuration=extenders(plane.folder, url, sends_names=True))
        create(admin, [pod(f"p{at}", "500m") for at in range(12)])
        await_bound(admin, 12)
