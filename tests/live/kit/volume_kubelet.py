"""Kubelets and a CSI attacher, as far as the attach/detach controller looks at what they write."""

from __future__ import annotations

import time
from collections import defaultdict
from functools import partial
from typing import Any

from tests.live.kit.cluster_workload import AT_ONCE, send

from moorage.live.client import ApiClient

Json = dict[str, Any]

NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/{namespace}/pods/{name}"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
HEARTBEAT = 5.0
"""Seconds between two renewals of a Lease."""


class VolumeKubelet:
    """The kubelets of all nodes that are alive, and the attacher of all drivers. It keeps what it has seen.

    A pod runs once each of its volumes that are attached at all is attached to its node. A pod with the
    annotation ``fake/stop`` takes so many seconds to stop; one with ``fake/outcome`` ends in this phase at
    once.

    Parameters
    ----------
    client : ApiClient
        Of an administrator.

    Attributes
    ----------
    alive : set of str
        The nodes whose kubelets run.
    history : dict of str to list
        By scenario the changes of pods and attachments, each with the time of the monotonic clock.
    """

    def __init__(self, client: ApiClient) -> None:
        self.client = client
        self.alive: set[str] = set()
        self.history: dict[str, list[tuple[float, Json]]] = defaultdict(list)
        self._seen: dict[tuple[str, str, str], Json] = {}
        self._stopping: dict[str, float] = {}
        self._beats: dict[str, float] = {}
        self._in_use: dict[str, list[str]] = {}

    def last_change(self, space: str) -> float:
        """When something has changed in a namespace; now, before the first change."""
        history = self.history[space]
        return history[-1][0] if history else time.monotonic()

    def step(self) -> None:
        """Do what there is to do now."""
        alive = self.alive.copy()  # other threads change it
        for name in alive:
            self._beat(name)
        attachments = self._list(ATTACHMENTS)
        pods = self._list("/api/v1/pods")
        attached = {
            node["metadata"]["name"]: {volume["name"] for volume in node["status"].get("volumesAttached", ())}
            for node in self._list(NODES)
        }
        self._note(pods, attachments, attached)
        for attachment in attachments:
            self._attach(attachment)
        claims = {
            (claim["metadata"]["namespace"], claim["metadata"]["name"]): claim["spec"].get("volumeName", "")
            for claim in self._list("/api/v1/persistentvolumeclaims")
        }
        listed = self._list("/api/v1/persistentvolumes")
        volumes = {volume["metadata"]["name"]: volume["spec"] for volume in listed}
        drivers = self._list("/apis/storage.k8s.io/v1/csidrivers")
        without = {driver["metadata"]["name"] for driver in drivers if not driver["spec"]["attachRequired"]}
        in_use: dict[str, set[str]] = {name: set() for name in alive}
        for pod in pods:
            name, space = pod["spec"].get("nodeName"), pod["metadata"]["namespace"]
            if name not in alive or pod["status"]["phase"] in ("Succeeded", "Failed"):
                continue
            own = pod["spec"].get("volumes", [])
            claimed = (
                claims[space, volume["persistentVolumeClaim"]["claimName"]]
                for volume in own
                if "persistentVolumeClaim" in volume
            )
            sources = [*own, *map(volumes.__getitem__, claimed)]
            needed = {unique for unique in map(partial(_unique_name, without=without), sources) if unique}
            in_use[name] |= needed
            self._run(pod, needed <= attached.get(name, set()))
        for name, names in in_use.items():
            self._report(name, sorted(names))

    def _list(self, path: str) -> list[Json]:
        items: list[Json] = send(self.client, "GET", path)["items"]
        return items

    def _beat(self, name: str) -> None:
        """Renew the Lease of a node."""
        now = time.monotonic()
        if now - self._beats.get(name, -HEARTBEAT) < HEARTBEAT:
            return
        renewed = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": renewed}
        if name in self._beats:
            send(self.client, "PATCH", f"{LEASES}/{name}", {"spec": spec})
        else:
            send(self.client, "POST", LEASES, {"kind": "Lease", "metadata": {"name": name}, "spec": spec})
        self._beats[name] = now

    def _attach(self, attachment: Json) -> None:
        path, meta = f"{ATTACHMENTS}/{attachment['metadata']['name']}", attachment["metadata"]
        finalizer = f"external-attacher/{attachment['spec']['attacher']}"
        if meta.get("deletionTimestamp"):
            send(
                self.client, "PATCH", path, {"metadata": {"$deleteFromPrimitiveList/finalizers": [finalizer]}}
            )
        elif not attachment.get("status", {}).get("attached"):
            send(self.client, "PATCH", path, {"metadata": {"finalizers": [finalizer]}})
            send(self.client, "PATCH", f"{path}/status", {"status": {"attached": True}})

    def _run(self, pod: Json, has_volumes: bool) -> None:
        """Start a pod, or stop it."""
        meta, phase = pod["metadata"], pod["status"]["phase"]
        path, notes = PODS.format_map(meta), meta.get("annotations", {})
        if meta.get("deletionTimestamp"):
            stop = int(notes.get("fake/stop", 0)) if phase == "Running" else 0
            if time.monotonic() >= self._stopping.setdefault(meta["uid"], time.monotonic() + stop):
                send(self.client, "DELETE", path, AT_ONCE)
        elif phase == "Pending" and has_volumes:
            outcome = notes.get("fake/outcome", "Running")
            state = {"running": {"startedAt": meta["creationTimestamp"]}}
            if outcome != "Running":
                state = {"terminated": {"exitCode": 0, "reason": "Completed"}}
            self._write(path, pod, outcome, state, outcome == "Running")
        elif phase == "Pending" and not pod["status"].get("containerStatuses"):
            self._write(path, pod, phase, {"waiting": {"reason": "ContainerCreating"}}, False)

    def _write(self, path: str, pod: Json, phase: str, state: Json, is_ready: bool) -> None:
        image, ready = pod["spec"]["containers"][0]["image"], "True" if is_ready else "False"
        container = {"name": "c", "image": image, "imageID": image, "ready": is_ready, "restartCount": 0}
        kinds = {"Initialized": "True", "Ready": ready, "ContainersReady": ready}
        status = {
            "phase": phase,
            "startTime": pod["metadata"]["creationTimestamp"],
            "conditions": [{"type": kind, "status": value} for kind, value in kinds.items()],
            "containerStatuses": [container | {"started": is_ready, "state": state}],
        }
        send(self.client, "PATCH", f"{path}/status", {"status": status})

    def _report(self, name: str, in_use: list[str]) -> None:
        """Tell which volumes a node uses."""
        if self._in_use.get(name, []) != in_use:
            self._in_use[name] = in_use
            send(self.client, "PATCH", f"{NODES}/{name}/status", {"status": {"volumesInUse": in_use or None}})

    def _note(self, pods: list[Json], attachments: list[Json], attached: dict[str, set[str]]) -> None:
        """Keep what has changed since the last step."""
        now: dict[tuple[str, str, str], Json] = {}
        for pod in pods:
            meta, status = pod["metadata"], pod["status"]
            ready = any(
                condition["type"] == "Ready" and condition["status"] == "True"
                for condition in status.get("conditions", ())
            )
            now[meta["namespace"], "Pod", meta["name"]] = {
                "node": pod["spec"].get("nodeName", ""),
                "phase": status["phase"],
                "ready": ready,
                "terminating": "deletionTimestamp" in meta,
            }
        for attachment in attachments:
            node, meta = attachment["spec"]["nodeName"], attachment["metadata"]
            now[node.rpartition("-")[0], "VolumeAttachment", meta["name"]] = {
                "node": node,
                "volume": _volume_of(attachment),
                "attached": bool(attachment.get("status", {}).get("attached")),
                "terminating": "deletionTimestamp" in meta,
            }
        for node, volumes in attached.items():
            now[node.rpartition("-")[0], "Node", node] = {"attached": sorted(volumes)}
        when = time.monotonic()
        for key in sorted(now.keys() | self._seen.keys()):
            space, kind, name = key
            if now.get(key) != self._seen.get(key):
                value = now.get(key, {"gone": True})
                self.history[space].append((when, {"kind": kind, "name": name} | value))
        self._seen = now


def _volume_of(attachment: Json) -> str:
    """The name of an attachment's volume, or the handle of one without a name."""
    source = attachment["spec"]["source"]
    inline = source.get("inlineVolumeSpec")
    return str(inline["csi"]["volumeHandle"] if inline else source["persistentVolumeName"])


def _unique_name(source: Json, without: set[str]) -> str:
    """What the controller calls a volume, by the fields of its source; "" for one that is not attached, as
    those of the drivers without attaching."""
    if "csi" in source:
        driver, handle = source["csi"]["driver"], source["csi"]["volumeHandle"]
        return "" if driver in without else f"kubernetes.io/csi/{driver}^{handle}"
    if disk := source.get("awsElasticBlockStore"):
        return f"kubernetes.io/csi/ebs.csi.aws.com^{disk['volumeID'].rpartition('/')[2]}"
    if disk := source.get("vsphereVolume"):
        return f"kubernetes.io/csi/csi.vsphere.vmware.com^{disk['volumePath']}"
    if disk := source.get("iscsi"):
        return f"kubernetes.io/iscsi/{disk['targetPortal']}:{disk['iqn']}:{disk['lun']}"
    return ""
