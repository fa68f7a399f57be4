"""Records what a control plane makes of volumes that are attached to another node.

``MOORAGE_SERVERS=… python -m tests.live.record_attachments FOLDER [NAME…]`` starts etcd, kube-apiserver,
kube-scheduler and kube-controller-manager, plays the scenarios below side by side, and writes a record of
each, as `tests/conformance/clusters` reads them. The attach/detach controller waits 6 minutes for lost nodes,
which no option shortens, so this takes 9 minutes.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from moorage.live.client import ApiClient, connect
from moorage.store import ConflictError, NotFoundError

from .kit.cluster_workload import AT_ONCE, node, send
from .kit.control_plane import ControlPlane
from .kit.volume_kubelet import VolumeKubelet

Json = dict[str, Any]

DRIVER, LOCAL_DRIVER = "disk.example.com", "local.example.com"
EBS, VSPHERE = "ebs.csi.aws.com", "csi.vsphere.vmware.com"
UNREACHABLE, OUT_OF_SERVICE = "node.kubernetes.io/unreachable", "node.kubernetes.io/out-of-service"
QUIET = 8.0
"""Seconds without a change after which a cluster counts as quiet."""
LIMIT = 600.0
CLUSTER_SCOPED = {
    "Node": "/api/v1/nodes",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "CSINode": "/apis/storage.k8s.io/v1/csinodes",
    "CSIDriver": "/apis/storage.k8s.io/v1/csidrivers",
    "VolumeAttachment": "/apis/storage.k8s.io/v1/volumeattachments",
}
NAMESPACED = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "ControllerRevision": "/apis/apps/v1/namespaces/{}/controllerrevisions",
}
FILESYSTEM = {"csi": {"driver": DRIVER, "volumeHandle": "disk"}}


class Stage:
    """The nodes, the namespace and the volume of a scenario, which all have its name.

    Parameters
    ----------
    client : ApiClient
    kubelet : VolumeKubelet
    name, about : str
    """

    def __init__(self, client: ApiClient, kubelet: VolumeKubelet, name: str, about: str) -> None:
        self.client, self.kubelet, self.name, self.about = client, kubelet, name, about
        self.first, self.second = f"{name}-1", f"{name}-2"
        self.changes: list[Json] = []
        self.actions: list[Json] = []
        self.dump: Json = {}
        self.before: set[str] = set()
        self.start = 0.0
        self.is_settled = [False, False]
        self.create("/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": name}})
        for at in (self.first, self.second):
            value = node(at, pool=name)
            value["metadata"]["annotations"] = {
                "volumes.kubernetes.io/controller-managed-attach-detach": "true"
            }
            size = {"cpu": "1", "memory": "8Gi", "pods": "9"}
            value["status"] |= {"capacity": size, "allocatable": size}
            self.create(CLUSTER_SCOPED["Node"], value)
            drivers = [
                {"name": driver, "nodeID": at, "allocatable": {"count": 20}}
                for driver in (DRIVER, LOCAL_DRIVER, EBS, VSPHERE)
            ]
            plugins = "kubernetes.io/aws-ebs,kubernetes.io/vsphere-volume"
            migrated = {"storage.alpha.kubernetes.io/migrated-plugins": plugins}
            meta = {"name": at, "annotations": migrated}
            value = {"kind": "CSINode", "metadata": meta, "spec": {"drivers": drivers}}
            self.create(CLUSTER_SCOPED["CSINode"], value)
            kubelet.alive.add(at)

    # ---- objects -------------------------------------------------------------------------------------------

    def create(self, path: str, value: Json) -> None:
        send(self.client, "POST", path, value)

    def path(self, kind: str, name: str = "") -> str:
        return NAMESPACED[kind].format(self.name) + (f"/{name}" if name else "")

    def volume(self, source: Json, claim: str = "data", **spec: Any) -> None:
        """A volume, and the claim that is bound to it."""
        spec = {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"} | spec
        source = json.loads(json.dumps(source).replace('"disk"', f'"{self.name}"'))
        size, reference = {"storage": "1Gi"}, {"namespace": self.name, "name": claim}
        value = {"capacity": size, "claimRef": reference, "persistentVolumeReclaimPolicy": "Retain"}
        value |= spec | source
        self.create(
            CLUSTER_SCOPED["PersistentVolume"],
            {"kind": "PersistentVolume", "metadata": {"name": f"pv-{self.name}"}, "spec": value},
        )
        wants = {"volumeName": f"pv-{self.name}", "storageClassName": "", "resources": {"requests": size}}
        self.create(
            self.path("PersistentVolumeClaim"),
            {"kind": "PersistentVolumeClaim", "metadata": {"name": claim}, "spec": wants | spec},
        )

    def pod_spec(self, volume: Json | None = None, **more: Any) -> Json:
        """That of a pod with the volume, of which a node has room for one."""
        volume = volume or {"persistentVolumeClaim": {"claimName": "data"}}
        container = {"name": "c", "image": "shop/app:1", "resources": {"requests": {"cpu": "600m"}}}
        own = {"volumes": [{"name": "data", **volume}], "containers": [container]}
        return own | {"nodeSelector": {"pool": self.name}, "terminationGracePeriodSeconds": 30} | more

    def pod(self, name: str, at: str, cpu: str = "200m", **more: Any) -> Json:
        """A pod for one of the nodes."""
        spec = self.pod_spec(**more) | {"nodeSelector": {"kubernetes.io/hostname": at}}
        spec["containers"][0]["resources"]["requests"]["cpu"] = cpu
        meta = {"name": name, "namespace": self.name}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}

    def deployment(self, spec: Json, stop: int = 0, **more: Any) -> None:
        """A Deployment whose first pod runs on the first node."""
        self.workload("Deployment", "web", spec, stop, more)

    def workload(self, kind: str, name: str, spec: Json, stop: int, more: Json) -> None:
        notes = {"annotations": {"fake/stop": str(stop)}} if stop else {}
        template = {"metadata": {"labels": {"app": name}} | notes, "spec": spec}
        selector = {"matchLabels": {"app": name}}
        value = {"kind": kind, "metadata": {"name": name}}
        self.cordon(self.second, True)
        self.create(
            self.path(kind),
            value | {"spec": {"replicas": 1, "selector": selector, "template": template} | more},
        )
        self.await_that(lambda: len(self.running()) == more.get("replicas", 1))
        self.cordon(self.second, False)

    def cordon(self, name: str, is_on: bool) -> None:
        patch = {"spec": {"unschedulable": is_on or None}}
        send(self.client, "PATCH", f"{CLUSTER_SCOPED['Node']}/{name}", patch)

    def pods(self) -> list[Json]:
        pods: list[Json] = send(self.client, "GET", self.path("Pod"))["items"]
        return pods

    def running(self) -> list[Json]:
        return [pod for pod in self.pods() if pod["status"]["phase"] == "Running"]

    # ---- changes -------------------------------------------------------------------------------------------

    def change(self, *words: str) -> None:
        """Make a change that `moorage check` has an option for."""
        self.changes.append({"args": list(words)})
        option, name, rest = words[0], words[1], words[2:]
        self.actions.append({"action": option.lstrip("-"), "rc": 0, "stdout": "", "stderr": ""})
        if option == "--restart":
            again = {"spec": {"template": {"metadata": {"annotations": {"again": "1"}}}}}
            send(self.client, "PATCH", self.path("Deployment", "web"), again)
        elif option == "--scale":
            patch = {"spec": {"replicas": int(name.partition("=")[2])}}
            send(self.client, "PATCH", self.path("Deployment", "web"), patch)
        elif option in ("--cordon", "--drain"):
            self.cordon(name, True)
            for pod in self.pods() if option == "--drain" else ():
                if pod["spec"]["nodeName"] == name:
                    meta = {"name": pod["metadata"]["name"], "namespace": self.name}
                    value = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
                    self.create(f"{self.path('Pod', meta['name'])}/eviction", value)
        elif option == "--taint" and rest[0].startswith(OUT_OF_SERVICE):
            path = f"{CLUSTER_SCOPED['Node']}/{name}"
            taint = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}
            taints = send(self.client, "GET", path)["spec"].get("taints", [])
            send(self.client, "PATCH", path, {"spec": {"taints": [*taints, taint]}})
        elif option == "--taint":  # by the node lifecycle controller
            self.kubelet.alive.discard(name)
            self.await_that(lambda: self.is_unreachable(name))
        elif option == "--remove-nodes":
            self.kubelet.alive.discard(name)
            send(self.client, "DELETE", f"{CLUSTER_SCOPED['Node']}/{name}")
        else:
            raise ValueError(option)

    def is_unreachable(self, name: str) -> bool:
        spec = send(self.client, "GET", f"{CLUSTER_SCOPED['Node']}/{name}")["spec"]
        return any(
            taint["key"] == UNREACHABLE and taint["effect"] == "NoExecute" for taint in spec.get("taints", ())
        )

    def apply(self, value: Json) -> None:
        self.changes.append({"file": [value]})
        self.actions.append({"action": "apply", "rc": 0, "stdout": "", "stderr": ""})
        self.create(self.path(value["kind"]), value)

    def force_delete(self, name: str) -> None:
        """Delete a pod at once, as a person does for a node that is lost; moorage has no such change."""
        send(self.client, "DELETE", self.path("Pod", name), AT_ONCE)

    # ---- time ----------------------------------------------------------------------------------------------

    def await_that(self, holds: Callable[[], bool]) -> None:
        until = time.monotonic() + LIMIT
        while not holds():
            if time.monotonic() > until:
                raise TimeoutError(f"{self.name}: {[pod['status'] for pod in self.pods()]}")
            time.sleep(0.5)

    def await_quiet(self) -> None:
        since = time.monotonic()
        self.await_that(lambda: time.monotonic() - max(since, self.kubelet.last_change(self.name)) > QUIET)

    def begin(self) -> None:
        """Keep the objects as they are when the cluster is quiet."""
        self.await_quiet()
        self.is_settled[0] = True
        self.dump = self.objects()
        self.before = {event["metadata"]["uid"] for event in self.events()}
        self.start = time.monotonic()

    def objects(self) -> Json:
        """What there is of this scenario, as a List."""
        items: list[Json] = []
        for kind, path in (CLUSTER_SCOPED | {kind: self.path(kind) for kind in NAMESPACED}).items():
            values = send(self.client, "GET", path)
            for value in values["items"]:
                value["metadata"].pop("managedFields", None)
                if kind in NAMESPACED or kind == "CSIDriver" or self.name in json.dumps(value):
                    items.append({"apiVersion": values["apiVersion"], "kind": kind} | value)
        name = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}}
        items = [item for item in items if item["kind"] != "ControllerRevision"] + [name]
        return {"apiVersion": "v1", "kind": "List", "items": items}

    def events(self) -> list[Json]:
        events: list[Json] = send(self.client, "GET", f"/api/v1/namespaces/{self.name}/events")["items"]
        return events

    def record(self) -> Json:
        """The record, once the cluster is quiet again."""
        self.await_quiet()
        self.is_settled[1] = True
        events = [
            {
                "type": event["type"],
                "reason": event["reason"],
                "message": event["message"],
                "count": event.get("count") or 1,
                "kind": event["involvedObject"]["kind"],
                "namespace": self.name,
                "name": event["involvedObject"]["name"],
                "last": event["lastTimestamp"] or event["eventTime"],
            }
            for event in self.events()
            if event["metadata"]["uid"] not in self.before
        ]
        history = [
            {"after": round(when - self.start, 1)} | what for when, what in self.kubelet.history[self.name]
        ]
        return {
            "name": self.name,
            "scenario": {"name": self.name, "about": self.about},
            "dump": self.dump,
            "revisions": {"apiVersion": "v1", "items": [], "kind": "List"},
            "before kubectl": [],
            "change": self.changes,
            "kubectl": self.actions,
            "end": self.objects(),
            "events": events,
            "settled": self.is_settled,
            "history": history,
        }


# ---- scenarios ---------------------------------------------------------------------------------------------


def rollout(stage: Stage) -> None:
    """a rollout with a surge: the new pod is placed on another node and waits for ever"""
    stage.volume(FILESYSTEM)
    stage.deployment(stage.pod_spec())
    stage.begin()
    stage.change("--restart", f"deploy/{stage.name}/web")


def recreate(stage: Stage) -> None:
    """a rollout that deletes first, away from a cordoned node; the old pod takes 5 s to stop"""
    stage.volume(FILESYSTEM)
    stage.deployment(stage.pod_spec(), 5, strategy={"type": "Recreate"})
    stage.begin()
    stage.change("--cordon", stage.first)
    stage.change("--restart", f"deploy/{stage.name}/web")


def stateful_drain(stage: Stage) -> None:
    """a drain moves the pod of a StatefulSet, which takes 5 s to stop"""
    stage.volume(FILESYSTEM)
    stage.workload("StatefulSet", "db", stage.pod_spec(), 5, {"serviceName": "db"})
    stage.begin()
    stage.change("--drain", stage.first)


def drain(stage: Stage) -> None:
    """a drain moves the pod of a Deployment; the new one waits 5 s until the old one has stopped"""
    stage.volume(FILESYSTEM)
    stage.deployment(stage.pod_spec(), 5)
    stage.begin()
    stage.change("--drain", stage.first)


def block(stage: Stage) -> None:
    """a raw block volume, and a second replica on another node"""
    stage.volume(FILESYSTEM, volumeMode="Block")
    stage.deployment(stage.pod_spec())
    stage.begin()
    stage.change("--scale", f"deploy/{stage.name}/web=2")


def migrated(stage: Stage) -> None:
    """an in-tree volume of AWS, which its CSI driver attaches, and a second replica on another node"""
    stage.volume({"awsElasticBlockStore": {"volumeID": "aws://a/vol-1", "fsType": "ext4"}})
    stage.deployment(stage.pod_spec())
    stage.begin()
    stage.change("--scale", f"deploy/{stage.name}/web=2")


def vsphere(stage: Stage) -> None:
    """an in-tree volume of vSphere, which its CSI driver attaches, and a second replica on another node"""
    stage.volume({"vsphereVolume": {"volumePath": "[datastore] disk.vmdk", "fsType": "ext4"}})
    stage.deployment(stage.pod_spec())
    stage.begin()
    stage.change("--scale", f"deploy/{stage.name}/web=2")


def iscsi(stage: Stage) -> None:
    """a volume of iSCSI, which has no VolumeAttachment, and a second replica on another node"""
    stage.volume(
        {"iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2026-01.com.example:disk", "lun": 0}}
    )
    stage.deployment(stage.pod_spec())
    stage.begin()
    stage.change("--scale", f"deploy/{stage.name}/web=2")


def inline(stage: Stage) -> None:
    """an in-tree volume of AWS that pods name without a claim, and a second replica on another node"""
    stage.deployment(stage.pod_spec({"awsElasticBlockStore": {"volumeID": "vol-inline"}}))
    stage.begin()
    stage.change("--scale", f"deploy/{stage.name}/web=2")


def many_nodes(stage: Stage) -> None:
    """a volume of many nodes, and a second replica on another node, which runs"""
    stage.volume(FILESYSTEM, accessModes=["ReadWriteOnce", "ReadWriteMany"])
    stage.deployment(stage.pod_spec())
    stage.begin()
    stage.change("--scale", f"deploy/{stage.name}/web=2")


def without_attaching(stage: Stage) -> None:
    """a driver that attaches nothing, and a second replica on another node, which runs"""
    stage.volume({"csi": {"driver": LOCAL_DRIVER, "volumeHandle": "disk"}})
    stage.deployment(stage.pod_spec())
    stage.begin()
    stage.change("--scale", f"deploy/{stage.name}/web=2")


def last_pod(stage: Stage) -> None:
    """a pod waits for two on another node, and runs when both are gone"""
    stage.volume(FILESYSTEM)
    stage.deployment(stage.pod("any", stage.first)["spec"], replicas=2)
    stage.create(stage.path("Pod"), stage.pod("next", stage.second))
    stage.begin()
    stage.change("--scale", f"deploy/{stage.name}/web=1")
    stage.await_quiet()
    stage.change("--scale", f"deploy/{stage.name}/web=0")


def ended(stage: Stage) -> None:
    """a pod that has succeeded keeps no volume, though its object stays"""
    stage.volume(FILESYSTEM)
    once = stage.pod("once", stage.first, restartPolicy="Never")
    once["metadata"]["annotations"] = {"fake/outcome": "Succeeded"}
    stage.create(stage.path("Pod"), once)
    stage.await_that(lambda: stage.pods()[0]["status"]["phase"] == "Succeeded")
    stage.begin()
    stage.apply(stage.pod("next", stage.second))


def _evicted_at_once(stage: Stage) -> Json:
    toleration = {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
    return stage.pod_spec(tolerations=[toleration])


def lost_node(stage: Stage) -> None:
    """a node is lost; its pod is evicted, and deleted by force; the volume comes free 6 minutes later"""
    stage.volume(FILESYSTEM)
    stage.deployment(_evicted_at_once(stage))
    stage.begin()
    stage.change("--taint", stage.first, f"{UNREACHABLE}=:NoExecute")
    stage.await_that(lambda: len(stage.pods()) == 2)
    stage.await_quiet()
    (old,) = (pod for pod in stage.pods() if pod["spec"].get("nodeName") == stage.first)
    stage.force_delete(old["metadata"]["name"])
    stage.await_that(lambda: len(stage.running()) == 1)


def out_of_service(stage: Stage) -> None:
    """a pod waits for the volume of a lost node; the taint of nodes out of service frees it at once"""
    stage.volume(FILESYSTEM)
    stage.deployment(_evicted_at_once(stage))
    stage.kubelet.alive.discard(stage.first)
    stage.await_that(lambda: len(stage.pods()) == 2)
    stage.begin()
    stage.change("--taint", stage.first, f"{OUT_OF_SERVICE}=nodeshutdown:NoExecute")
    stage.await_that(lambda: [pod["spec"]["nodeName"] for pod in stage.running()] == [stage.second])


def deleted_node(stage: Stage) -> None:
    """a node is lost and its object deleted, with its pods; the volume comes free 6 minutes later"""
    stage.volume(FILESYSTEM)
    stage.deployment(_evicted_at_once(stage))
    stage.begin()
    stage.change("--remove-nodes", stage.first)
    stage.await_that(lambda: [pod["spec"].get("nodeName") for pod in stage.running()] == [stage.second])


SCENARIOS = (
    *(rollout, recreate, stateful_drain, drain, block, migrated, vsphere, iscsi, inline, many_nodes),
    *(without_attaching, last_pod, ended, lost_node, out_of_service, deleted_node),
)


def play(client: ApiClient, kubelet: VolumeKubelet, scene: Callable[[Stage], None], folder: Path) -> None:
    """Play one scenario, and write its record."""
    name = f"attach-{scene.__name__.replace('_', '-')}"
    stage = Stage(client, kubelet, name, scene.__doc__ or "")
    scene(stage)
    record = stage.record()
    with gzip.GzipFile(folder / f"{name}.json.gz", "wb", mtime=0) as file:
        file.write(json.dumps(record, sort_keys=True).encode())
    print(f"{name}: {len(record['history'])} changes", flush=True)


def main(folder: Path, names: list[str]) -> None:
    """Play the scenarios with these names, or all."""
    scenes = [scene for scene in SCENARIOS if not names or scene.__name__ in names]
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(len(scenes)) as pool:
        plane = ControlPlane(Path(os.environ["MOORAGE_SERVERS"]), Path(scratch))
        try:
            plane.start()
            plane.start_scheduler()
            plane.start_controllers("*")
            with connect(plane.kubeconfig()) as client:
                for driver in (DRIVER, LOCAL_DRIVER, EBS, VSPHERE):
                    spec = {"attachRequired": driver != LOCAL_DRIVER}
                    value = {"kind": "CSIDriver", "metadata": {"name": driver}, "spec": spec}
                    send(client, "POST", CLUSTER_SCOPED["CSIDriver"], value)
                kubelet = VolumeKubelet(client)
                played = [pool.submit(play, client, kubelet, scene, folder) for scene in scenes]
                while not all(future.done() for future in played):
                    with suppress(NotFoundError, ConflictError):  # of what has changed since it was read
                        kubelet.step()
                    time.sleep(0.3)
            for future in played:
                future.result()
        finally:
            plane.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    main(arguments.folder, arguments.names)
