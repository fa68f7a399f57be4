"""A kubelet that runs the containers of pods as processes of this machine, without images."""

from __future__ import annotations

import base64
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.live.kit.cluster_workload import AT_ONCE, create, node, send
from tests.live.kit.control_plane import ControlPlane, answers

from moorage.live.client import ApiClient
from moorage.store import ConflictError, NotFoundError, UnreachableError

PERIOD = 0.5
"""Seconds between two looks at the pods. A real kubelet updates mounted files within a minute or two."""


@dataclass
class Container:
    """The process of a pod's only container.

    Parameters
    ----------
    address : str
        Of the pod, on loopback.
    folder : Path
        Of its mounts and its log.
    process : Popen
    port : int
        Of its probes.
    status : dict, optional
        As it was last written.
    """

    address: str
    folder: Path
    process: subprocess.Popen[bytes]
    port: int
    status: dict[str, Any] = field(default_factory=dict)


class ProcessKubelet:
    """The kubelet of all nodes, for the pods of one namespace, in a thread.

    It mounts ConfigMaps, Secrets and the service account, writes the files again when they change, asks
    whether containers are ready, serves their logs, and ends those of deleted pods. In place of an image it
    runs `moorage` of this checkout, and in place of a network each pod has an address of loopback.

    Parameters
    ----------
    plane : ControlPlane
    client : ApiClient
        Of an administrator.
    namespace : str
    nodes : list of str
        Names of the nodes, which are created.
    """

    def __init__(self, plane: ControlPlane, client: ApiClient, namespace: str, nodes: list[str]) -> None:
        self.plane, self.client, self.namespace = plane, client, namespace
        self.containers: dict[str, Container] = {}  # by name of the pod
        self.made = 0
        self._logs = _LogServer(plane, self.containers)
        for name in nodes:
            value = node(name)
            value["status"]["addresses"] = [{"type": "InternalIP", "address": "127.0.0.1"}]
            value["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": self._logs.port}}
            create(client, [value])
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="kubelet", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()
        for one in self.containers.values():
            one.process.kill()
            one.process.wait()
        self._logs.close()

    def _work(self) -> None:
        while not self._is_over.wait(PERIOD):
            # What is gone or has changed since it was read is looked at the next time.
            with suppress(NotFoundError, ConflictError, UnreachableError):
                self.step()

    def step(self) -> None:
        """Do what there is to do now."""
        found = send(self.client, "GET", f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        pods = {one["metadata"]["name"]: one for one in found if one["spec"].get("nodeName")}
        for name in self.containers.keys() - pods.keys():
            self._end(name)
        for name, value in pods.items():
            if "deletionTimestamp" in value["metadata"]:
                self._delete(name)
                continue
            if name not in self.containers:
                self.containers[name] = self._start(name, value)
            self._mount(value, self.containers[name].folder)
            self._report(name, value)

    def _start(self, name: str, value: dict[str, Any]) -> Container:
        self.made += 1
        address, folder = f"127.0.1.{self.made}", self.plane.folder / "pods" / name
        self._mount(value, folder)
        (container,) = value["spec"]["containers"]
        mounted = "|".join(re.escape(mount["mountPath"]) for mount in container["volumeMounts"])
        arguments = [re.sub(f"=({mounted})/", rf"={folder}\1/", one) for one in container["args"]]
        arguments.append(f"--bind-address={address}")
        command = [sys.executable, "-m", "tests.live.kit.in_pod", f"{folder}/account", str(self.plane.port)]
        with (folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [*command, *arguments], stdout=log, stderr=log, env=os.environ | {"HOSTNAME": name}
            )
        return Container(address, folder, process, container["ports"][0]["containerPort"])

    def _mount(self, value: dict[str, Any], folder: Path) -> None:
        """Write the files of volumes, of the longest path last, and those of the service account."""
        (container,) = value["spec"]["containers"]
        sources = {one["name"]: one for one in value["spec"]["volumes"]}
        core = f"/api/v1/namespaces/{self.namespace}"
        for mount in container["volumeMounts"]:
            source, target = sources[mount["name"]], folder / mount["mountPath"].lstrip("/")
            if "emptyDir" in source:
                target.mkdir(parents=True, exist_ok=True)
                continue
            if "configMap" in source:
                found = send(self.client, "GET", f"{core}/configmaps/{source['configMap']['name']}")["data"]
                files = {name: text.encode() for name, text in found.items()}
            else:
                found = send(self.client, "GET", f"{core}/secrets/{source['secret']['secretName']}")["data"]
                files = {name: base64.b64decode(text) for name, text in found.items()}
            for name, content in files.items():
                _write(target / name, content)
        if not (folder / "account").exists():
            path = f"{core}/serviceaccounts/{value['spec']['serviceAccountName']}/token"
            request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
            token = send(self.client, "POST", path, request)["status"]["token"]
            _write(folder / "account/token", token.encode())
            _write(folder / "account/ca.crt", (self.plane.folder / "ca.crt").read_bytes())

    def _report(self, name: str, value: dict[str, Any]) -> None:
        """Write the pod's status where it has changed."""
        one = self.containers[name]
        is_ready = answers(f"https://{one.address}:{one.port}/readyz", "")
        ready = "True" if is_ready else "False"
        (container,) = value["spec"]["containers"]
        runs = {"running": {"startedAt": value["metadata"]["creationTimestamp"]}}
        state = {"name": container["name"], "ready": is_ready, "started": True, "restartCount": 0}
        images = {"image": container["image"], "imageID": container["image"]}
        status = {
            "phase": "Running",
            "podIP": one.address,
            "podIPs": [{"ip": one.address}],
            "conditions": [{"type": kind, "status": ready} for kind in ("Ready", "ContainersReady")],
            "containerStatuses": [state | images | {"state": runs}],
        }
        if status != one.status:
            send(self.client, "PATCH", f"{self._path(name)}/status", {"status": status})
            one.status = status

    def _end(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        one = self.containers.pop(name)
        one.process.send_signal(how)
        one.process.wait()

    def _delete(self, name: str) -> None:
        """End a pod that is being deleted, and let it go."""
        if name in self.containers:
            self._end(name, signal.SIGTERM)
        send(self.client, "DELETE", self._path(name), AT_ONCE)

    def _path(self, name: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{name}"


class _LogServer:
    """Serves the logs of containers to the API server."""

    def __init__(self, plane: ControlPlane, containers: dict[str, Container]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = self.path.partition("?")[0].split("/")  # /containerLogs/NAMESPACE/POD/CONTAINER
                one = containers.get(parts[3]) if parts[1] == "containerLogs" else None
                self.send_response(200 if one else 404)
                self.end_headers()
                if one:
                    self.wfile.write((one.folder / "log").read_bytes())

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{plane.folder}/server.crt", f"{plane.folder}/server.key")
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._http.socket = context.wrap_socket(
            self._http.socket, server_side=True, do_handshake_on_connect=False
        )
        self.port: int = self._http.server_port
        threading.Thread(target=self._http.serve_forever, args=(0.1,), daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


def _write(path: Path, content: bytes) -> None:
    """Replace a file that differs, at once."""
    if path.exists() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(content)
    new.replace(path)
