"""Credentials that fail, are missing or run out: scheduling goes on as soon as there are good ones."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.live.kit.cluster_workload import create, node, pod
from tests.live.kit.control_plane import ControlPlane, await_all
from tests.live.kit.cutting_proxy import CuttingProxy
from tests.live.kit.fault_proxy import Fault, FaultProxy
from tests.live.kit.followed_pods import FollowedPods
from tests.live.kit.live_process import Process

from moorage.live.client import ApiClient

pytestmark = pytest.mark.live
Scheduler = Callable[..., Process]

PLUGIN = """#!/bin/sh
[ -e {folder}/away ] && {{ echo "the cloud is away" >&2; exit 1; }}
cat {folder}/{answer}
"""
EXEC = "exec: {{apiVersion: client.authentication.k8s.io/v1, command: {plugin}, interactiveMode: Never}}"
ANSWER = '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": %s}'
REFUSED = Fault("", ".", status=401)


@pytest.fixture
def away(cluster: ControlPlane) -> Iterator[Path]:
    """A file with which `plugin` fails."""
    path = cluster.folder / "away"
    yield path
    path.unlink(missing_ok=True)


def plugin(folder: Path, status: str) -> str:
    """Write a command that tells credentials unless a file `away` is there; return the fields of its user."""
    (folder / "answer").write_text(ANSWER % status)
    path = folder / "plugin.sh"
    path.write_text(PLUGIN.format(folder=folder, answer="answer"))
    path.chmod(0o755)
    return EXEC.format(plugin=path)


@pytest.fixture
def pods(admin: ApiClient) -> FollowedPods:
    """The first five pods, and nodes that have room for more."""
    create(admin, [*(node(f"n{at}") for at in range(4)), *(pod(f"p{at}") for at in range(5))])
    return FollowedPods(admin)


def await_line(process: Process, text: str) -> None:
    await_all([lambda: text in process.log.read_text()], lambda: time.sleep(0.1))


def test_a_command_that_fails_for_a_while_is_asked_again(
    cluster: ControlPlane,
    scheduler: Scheduler,
    proxy: FaultProxy,
    admin: ApiClient,
    pods: FollowedPods,
    away: Path,
) -> None:
    """The server refuses the token meanwhile, so that there is nothing to go on with."""
    through = CuttingProxy(proxy.port)
    url = f"https://127.0.0.1:{through.port}"
    user = plugin(cluster.folder, '{"token": "scheduler-token"}')
    kubeconfig = cluster.write_kubeconfig(cluster.folder / "exec.kubeconfig", "exec", user, url)
    process = scheduler(kubeconfig=kubeconfig)
    pods.await_bound(5)
    away.touch()
    proxy.faults = [REFUSED]
    through.cut()
    create(admin, [pod(f"q{at}") for at in range(5)])
    await_line(process, "the cloud is away")
    away.unlink()
    proxy.faults = []
    create(admin, [pod(f"r{at}") for at in range(5)])
    pods.await_bound(15)
    assert process.end() == 0, process.log.read_text()
    through.close()


def test_a_token_file_that_is_missing_for_a_while_is_read_again(
    cluster: ControlPlane,
    scheduler: Scheduler,
    proxy: FaultProxy,
    admin: ApiClient,
    pods: FollowedPods,
) -> None:
    """The server refuses the token meanwhile."""
    through = CuttingProxy(proxy.port)
    url, token = f"https://127.0.0.1:{through.port}", cluster.folder / "token"
    token.write_text("scheduler-token")
    kubeconfig = cluster.write_kubeconfig(
        cluster.folder / "file.kubeconfig", "file", f"tokenFile: {token}", url
    )
    process = scheduler(kubeconfig=kubeconfig)
    pods.await_bound(5)
    token.unlink()
    proxy.faults = [REFUSED]
    through.cut()
    create(admin, [pod(f"q{at}") for at in range(5)])
    await_line(process, "a fault")
    token.write_text("scheduler-token")
    proxy.faults = []
    pods.await_bound(10)
    assert process.end() == 0, process.log.read_text()
    through.close()


def is_refused(cluster: ControlPlane, file: str) -> bool:
    """Whether a client with a certificate has become anonymous, or cannot even connect."""
    context = ssl.create_default_context(cafile=f"{cluster.folder}/ca.crt")
    context.load_cert_chain(f"{cluster.folder}/{file}.crt", f"{cluster.folder}/{file}.key")
    try:
        with urllib.request.urlopen(f"{cluster.url}/api/v1/nodes", timeout=5, context=context):
            return False
    except OSError:
        return True


def test_a_client_certificate_is_read_again_before_it_runs_out(
    cluster: ControlPlane, scheduler: Scheduler, admin: ApiClient, pods: FollowedPods
) -> None:
    folder, issue = cluster.folder, cluster.authority.issue
    issue("client", "system:kube-scheduler")
    user = f"client-certificate: {folder}/client.crt, client-key: {folder}/client.key"
    process = scheduler(kubeconfig=cluster.write_kubeconfig(folder / "files.kubeconfig", "files", user))
    pods.await_bound(5)
    issue("client", "system:kube-scheduler", seconds=45.0)
    for end in ("crt", "key"):
        shutil.copy(folder / f"client.{end}", folder / f"short.{end}")
    create(admin, [pod(f"q{at}") for at in range(5)])
    pods.await_bound(10)
    issue("client", "system:kube-scheduler")
    await_all([lambda: is_refused(cluster, "short")], lambda: time.sleep(0.5))
    create(admin, [pod(f"r{at}") for at in range(5)])
    pods.await_bound(15)
    assert process.end() == 0, process.log.read_text()


def dump(kubeconfig: str, file: Path) -> subprocess.CompletedProcess[str]:
    """``moorage dump`` from a cluster."""
    command = [sys.executable, "-m", "moorage", "dump", "--kubeconfig", kubeconfig, "-o", str(file)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("user", "more", "error"),
    [
        ("token: admin-token, as: nobody", "", 'User "nobody" cannot list resource'),
        ("token: admin-token", ", tls-server-name: kubernetes.default.svc", ""),
        ("token: admin-token", ", tls-server-name: other.example", "certificate"),
        ("token: admin-token", ", proxy-url: 'http://127.0.0.1:1'", "refused"),
        ("EXEC", "", ""),
    ],
    ids=[
        "another user",
        "name of the server",
        "wrong name of the server",
        "no proxy there",
        "told certificate",
    ],
)
def test_fields_of_a_kubeconfig_are_honoured(cluster: ControlPlane, user: str, more: str, error: str) -> None:
    folder = cluster.folder
    if user == "EXEC":
        told = {
            f"client{name}Data": (folder / f"admin.{end}").read_text()
            for name, end in (("Certificate", "crt"), ("Key", "key"))
        }
        user = plugin(folder, json.dumps(told))
    kubeconfig = cluster.write_kubeconfig(folder / "dump.kubeconfig", "dump", user, cluster=more)
    done = dump(kubeconfig, folder / "dump.json")
    assert (done.returncode == 0) == (not error), done.stderr
    assert error in done.stderr
