"""A control plane on loopback: etcd, kube-apiserver, kube-scheduler and controllers, without kubelets."""

from __future__ import annotations

import ctypes
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.live.kit.certificates import Authority, write_service_account_keys

LIMIT = 120.0
"""Seconds after which a process that is not ready has failed; the machine may be busy."""
PR_SET_PDEATHSIG = 1

ADMIN, SCHEDULER, CONTROLLERS = "admin", "scheduler", "controllers"
_USERS = (
    ("admin-token", ADMIN, "system:masters"),
    ("scheduler-token", "system:kube-scheduler", ""),
    ("controllers-token", "system:kube-controller-manager", ""),
    ("nobody-token", "nobody", ""),
)
_WITHOUT_EVICTION = "*,-node-lifecycle-controller,-taint-eviction-controller"
_WITHOUT_CONTROLLERS = "ServiceAccount,TaintNodesByCondition"
_CONFIGURATION = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: {parallelism}
clientConnection: {{kubeconfig: {kubeconfig}, qps: 5000, burst: 5000}}
leaderElection: {{leaderElect: false}}
"""
_KUBECONFIG = """apiVersion: v1
kind: Config
current-context: {user}
clusters: [{{name: c, cluster: {{server: "{url}", certificate-authority: {folder}/ca.crt{cluster}}}}}]
users: [{{name: {user}, user: {{{credentials}}}}}]
contexts: [{{name: {user}, context: {{cluster: c, user: {user}}}}}]
"""


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, all found before the first is used."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class ControlPlane:
    """Starts processes from the main thread, and ends each by its id.

    Parameters
    ----------
    binaries, folder : Path
        The binaries; where data, certificates and logs go.
    """

    def __init__(self, binaries: Path, folder: Path) -> None:
        self.binaries, self.folder = binaries, folder
        self.etcd_port, peer, self.port, self.scheduler_port, self.controllers_port = free_ports(5)
        self.peer = f"http://127.0.0.1:{peer}"
        self.url = f"https://127.0.0.1:{self.port}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.commands: list[subprocess.Popen[bytes]] = []  # of moorage, which a test ends itself
        self.authority = authority = Authority(folder)
        authority.issue("server", "kube-apiserver", serves=True)
        authority.issue("admin", "admin", "system:masters")
        write_service_account_keys(folder)
        rows = [f'{token},{user},{user},"{group}"' for token, user, group in _USERS]
        (folder / "tokens.csv").write_text("\n".join(rows) + "\n")

    def kubeconfig(self, user: str = ADMIN, *, certificate: bool = False, port: int = 0) -> str:
        """The path of a kubeconfig with a token, or with the client certificate of the administrator; for the
        port of a proxy, where one is given."""
        credentials = f"token: {user}-token"
        if certificate:
            credentials = f"client-certificate: {self.folder}/admin.crt, client-key: {self.folder}/admin.key"
        path = self.folder / f"{user}{'-certificate' if certificate else ''}{port or ''}.kubeconfig"
        url = f"https://127.0.0.1:{port}" if port else self.url
        return self.write_kubeconfig(path, user, credentials, url)

    def write_kubeconfig(
        self, path: Path, user: str, credentials: str, url: str = "", cluster: str = ""
    ) -> str:
        """Write a kubeconfig with these fields of a user, and more fields of the cluster; return its path."""
        fields = {"user": user, "credentials": credentials, "cluster": cluster, "folder": self.folder}
        path.write_text(_KUBECONFIG.format(url=url or self.url, **fields))
        return str(path)

    def start(self) -> None:
        """Start etcd and kube-apiserver."""
        self.start_etcd()
        self.start_apiserver()

    def start_etcd(self) -> None:
        url = f"http://127.0.0.1:{self.etcd_port}"
        self._spawn(
            "etcd",
            f"--data-dir={self.folder}/etcd",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            f"--listen-peer-urls={self.peer}",
            f"--initial-advertise-peer-urls={self.peer}",
            f"--initial-cluster=default={self.peer}",
            "--log-level=warn",
            "--unsafe-no-fsync",
        )
        self._await("etcd", f"{url}/health", "")

    def start_apiserver(
        self, *options: str, disabled: str = _WITHOUT_CONTROLLERS, authorization: str = "RBAC"
    ) -> None:
        """Start kube-apiserver, by default without the plugins whose objects only controllers make."""
        folder, headers = self.folder, ("username-headers=X-Remote-User", "group-headers=X-Remote-Group")
        self._spawn(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--tls-cert-file={folder}/server.crt",
            f"--tls-private-key-file={folder}/server.key",
            f"--client-ca-file={folder}/ca.crt",
            f"--token-auth-file={folder}/tokens.csv",
            f"--authorization-mode={authorization}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={folder}/sa.pub",
            f"--service-account-signing-key-file={folder}/sa.key",
            "--endpoint-reconciler-type=none",
            "--allow-privileged=true",
            f"--disable-admission-plugins={disabled}",
            f"--requestheader-client-ca-file={folder}/ca.crt",
            "--requestheader-allowed-names=front-proxy",
            *(f"--requestheader-{one}" for one in (*headers, "extra-headers-prefix=X-Remote-Extra-")),
            "--enable-priority-and-fairness=false",
            "--max-requests-inflight=0",
            "--max-mutating-requests-inflight=0",
            *options,
        )
        self._await("kube-apiserver", f"{self.url}/readyz", "admin-token")

    def start_scheduler(
        self, *options: str, parallelism: int = 1, configuration: str = "", port: int = 0
    ) -> None:
        """Start kube-scheduler without leader election, with more fields of its configuration; for the port
        of a proxy, where one is given."""
        kubeconfig = self.kubeconfig(SCHEDULER, port=port)
        path = self.folder / "scheduler.yaml"
        own = _CONFIGURATION.format(kubeconfig=kubeconfig, parallelism=parallelism)
        path.write_text(own + configuration)
        self._spawn(
            "kube-scheduler",
            f"--config={path}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.scheduler_port}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--v=2",
            *options,
        )
        self._await("kube-scheduler", f"https://127.0.0.1:{self.scheduler_port}/healthz", "")

    def start_controllers(self, controllers: str = _WITHOUT_EVICTION) -> None:
        """Start kube-controller-manager, by default without the controllers that evict pods from nodes
        without kubelets. Each controller has the rights of its own service account."""
        kubeconfig = self.kubeconfig(CONTROLLERS)
        self._spawn(
            "kube-controller-manager",
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.controllers_port}",
            "--leader-elect=false",
            f"--service-account-private-key-file={self.folder}/sa.key",
            f"--root-ca-file={self.folder}/ca.crt",
            "--use-service-account-credentials=true",
            f"--controllers={controllers}",
        )
        self._await("kube-controller-manager", f"https://127.0.0.1:{self.controllers_port}/healthz", "")

    def end(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        """End one process."""
        process = self.processes.pop(name, None)
        if process is not None:
            process.send_signal(how)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def end_commands(self) -> None:
        """End the schedulers that a test has left behind because an assertion failed."""
        for command in self.commands:
            command.kill()
            command.wait()
        self.commands.clear()
        self.end("kube-scheduler")

    def stop(self) -> None:
        """End all processes, etcd last, and remove its data, which have 64 MB or more."""
        self.end_commands()
        for name in ("kube-controller-manager", "kube-apiserver", "etcd"):
            self.end(name)
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)

    def _spawn(self, name: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [str(self.binaries / name), *arguments],
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )

    def _await(self, name: str, url: str, token: str) -> None:
        """Wait until a process is ready; show the end of its log if it fails."""
        process, until = self.processes[name], time.monotonic() + LIMIT
        while not answers(url, token):
            if process.poll() is not None or time.monotonic() > until:
                tail = (self.folder / f"{name}.log").read_text()[-3000:]
                self.stop()
                raise RuntimeError(f"{name} is not ready:\n{tail}")
            time.sleep(0.05)


def answers(url: str, token: str) -> bool:
    """Whether a server answers with 200."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    context = ssl._create_unverified_context() if url.startswith("https") else None
    try:
        with urllib.request.urlopen(request, timeout=5, context=context) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def await_all(conditions: Sequence[Callable[[], bool]], step: Callable[[], object]) -> None:
    """Take steps until all conditions hold."""
    until = time.monotonic() + LIMIT
    while not all(condition() for condition in conditions):
        assert time.monotonic() < until, "the conditions do not hold in time"
        step()
