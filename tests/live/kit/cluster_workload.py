"""Objects of the live tests, as JSON values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import groupby
from typing import Any

import msgspec

from moorage.live.client import ApiClient
from moorage.store import NotFoundError

SIZE = {"cpu": "4", "memory": "8Gi", "pods": "110"}
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
WRITERS = 8
"""Connections that create objects."""
_NAMESPACED = "namespaces/default/"
PATHS = {
    "Node": "/api/v1/nodes",
    "Pod": f"/api/v1/{_NAMESPACED}pods",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "PersistentVolumeClaim": f"/api/v1/{_NAMESPACED}persistentvolumeclaims",
    "CSINode": "/apis/storage.k8s.io/v1/csinodes",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "PodGroup": f"/apis/scheduling.k8s.io/v1beta1/{_NAMESPACED}podgroups",
    "PodDisruptionBudget": f"/apis/policy/v1/{_NAMESPACED}poddisruptionbudgets",
    "Deployment": f"/apis/apps/v1/{_NAMESPACED}deployments",
    "StatefulSet": f"/apis/apps/v1/{_NAMESPACED}statefulsets",
    "Job": f"/apis/batch/v1/{_NAMESPACED}jobs",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "ResourceClaimTemplate": f"/apis/resource.k8s.io/v1/{_NAMESPACED}resourceclaimtemplates",
}
"""Collections by kind; objects of namespaces are in the default one."""
AT_ONCE = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


def node(name: str, **labels: str) -> Any:
    ready = [{"type": "Ready", "status": "True"}]
    status = {"capacity": SIZE, "allocatable": SIZE, "conditions": ready}
    return _object("v1", "Node", name, {HOST: name, **labels}) | {"status": status}


def pod(name: str, cpu: str = "100m", **spec: Any) -> Any:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container], **spec}
    value = _object("v1", "Pod", name) | {"spec": spec}
    value["metadata"]["namespace"] = "default"
    return value


def create(client: ApiClient, values: Iterable[Any]) -> None:
    """Create objects from JSON values with all of their fields: kind after kind, each by several threads, so
    in no certain order."""

    def send(value: Any) -> None:
        client.connection.request("POST", PATHS[value["kind"]], None, msgspec.json.encode(value))

    with ThreadPoolExecutor(WRITERS) as pool:
        for _, alike in groupby(values, lambda value: value["kind"]):
            list(pool.map(send, alike))


def send(client: ApiClient, method: Any, path: str, value: Any = None) -> Any:
    """Send a request with a JSON value, and return the answer's."""
    patch = "application/strategic-merge-patch+json" if method == "PATCH" else "application/json"
    body = None if value is None else msgspec.json.encode(value)
    return msgspec.json.decode(client.connection.request(method, path, None, body, patch))


def clear(client: ApiClient) -> None:
    """Delete the objects that `create` makes, and the Lease of the scheduler. Volumes and claims go without
    the controller that lets them go."""
    for kind in ("PersistentVolume", "PersistentVolumeClaim"):
        for one in send(client, "GET", PATHS[kind])["items"]:
            path = f"{PATHS[kind]}/{one['metadata']['name']}"
            send(client, "PATCH", path, {"metadata": {"finalizers": None}})
    for path in (*PATHS.values(), LEASES):
        with suppress(NotFoundError):  # groups, which not every server has
            send(client, "DELETE", path, AT_ONCE)


def objects(nodes: int, pods: int) -> Iterator[dict[str, Any]]:
    """Nodes of three zones, and pods with spread, affinity and requests of several sizes, which all fit."""
    for at in range(nodes):
        yield node(f"n{at:04}", **{ZONE: f"z{at % 3}", "disk": "ab"[at % 2]})
    for at in range(pods):
        app = f"app{at % 7}"
        labels = {"matchLabels": {"app": app}}
        spec: dict[str, Any] = {}
        if at % 5 == 0:
            constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
            spec["topologySpreadConstraints"] = [{**constraint, "labelSelector": labels}]
        if at % 7 == 1:
            term = {"topologyKey": HOST, "labelSelector": labels}
            preferred = {"weight": 10, "podAffinityTerm": term}
            kind = "podAntiAffinity" if at % 2 else "podAffinity"
            spec["affinity"] = {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}
        if at % 11 == 3:
            spec["nodeSelector"] = {"disk": "a"}
        value = pod(f"p{at:05}", f"{(1 + at % 4) * 50}m", **spec)
        value["metadata"]["labels"] = {"app": app}
        yield value


def varied_objects(nodes: int, pods: int) -> Iterator[dict[str, Any]]:
    """`objects` with priorities, and with volumes for some pods: of a CSI driver, bound to claims before and
    limited per node, or local and chosen with the node. All fit."""
    yield from priority_classes()
    for name, mode in (("csi", "Immediate"), ("local", "WaitForFirstConsumer")):
        fields = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": mode}
        yield _object("storage.k8s.io/v1", "StorageClass", name) | fields
    for at in range(nodes):
        driver = {"name": "csi.test", "nodeID": f"n{at:04}", "allocatable": {"count": 2}}
        yield _object("storage.k8s.io/v1", "CSINode", f"n{at:04}") | {"spec": {"drivers": [driver]}}
    for at in range(nodes // 2):
        yield _volume(f"local{at:04}", "local", {"local": {"path": "/d"}}, HOST, f"n{2 * at:04}")
    values: list[dict[str, Any]] = list(objects(nodes, pods))
    csi = values[nodes + 2 :: 20]
    for at, value in enumerate(csi):
        handle: dict[str, Any] = {"csi": {"driver": "csi.test", "volumeHandle": f"h{at}"}}
        volume = _volume(f"csi{at:05}", "csi", handle, ZONE, f"z{at % 3}")
        name = f"csi-{value['metadata']['name']}"
        volume["spec"]["claimRef"] = {"namespace": "default", "name": name}
        yield volume
    local = values[nodes + 9 :: 50]
    for storage_class, users in (("csi", csi), ("local", local)):
        for value in users:
            name = f"{storage_class}-{value['metadata']['name']}"
            yield claim(name, storage_class)
            source = {"name": "v", "persistentVolumeClaim": {"claimName": name}}
            value["spec"]["volumes"] = [*value["spec"].get("volumes", ()), source]
    for at, value in enumerate(values):
        if value["kind"] == "Pod":
            value["spec"]["priorityClassName"] = ("low", "middle", "high")[at % 13 % 3]
        yield value


def gang_objects(nodes: int, groups: int) -> Iterator[dict[str, Any]]:
    """Nodes of three zones, and groups of ten pods, whose pods come in turn. In every tenth group a pod fits
    nowhere. No two groups have equal priority."""
    for at in range(groups):
        yield _object("scheduling.k8s.io/v1", "PriorityClass", f"priority{at}") | {"value": at}
    for at in range(nodes):
        yield node(f"n{at:04}", **{ZONE: f"z{at % 3}"})
    for at in range(groups):
        policy = {"schedulingPolicy": {"gang": {"minCount": 10}}}
        spec: dict[str, Any] = policy | {"priorityClassName": f"priority{at}"}
        yield _object("scheduling.k8s.io/v1beta1", "PodGroup", f"g{at:03}") | {"spec": spec}
    for at in range(10 * groups):
        number, group = divmod(at, groups)
        cpu = "64" if group % 10 == 9 and not number else f"{(1 + at % 4) * 100}m"
        own = {"podGroupName": f"g{group:03}"}
        yield pod(f"p{at:05}", cpu, schedulingGroup=own, priorityClassName=f"priority{group}")


def occupied_objects(nodes: int) -> Iterator[dict[str, Any]]:
    """Nodes that four pods each fill, no two of equal priority, and half as many pods that preempt some."""
    for at in range(4 * nodes):
        yield _object("scheduling.k8s.io/v1", "PriorityClass", f"priority{at}") | {"value": at}
    yield _object("scheduling.k8s.io/v1", "PriorityClass", "highest") | {"value": 10_000}
    for at in range(nodes):
        yield node(f"n{at:04}")
    for at in range(4 * nodes):
        yield pod(f"low{at:04}", "1", nodeName=f"n{at // 4:04}", priorityClassName=f"priority{at}")
    for at in range(nodes // 2):
        yield pod(f"high{at:04}", str(1 + at % 3), priorityClassName="highest")


def devices(nodes: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Two devices of each node, a class that also has the name of an extended resource, and a template of
    claims for one device."""
    group = "resource.k8s.io/v1"
    selects = {"cel": {"expression": 'device.driver == "gpu.example.com"'}}
    spec: dict[str, Any] = {"selectors": [selects], "extendedResourceName": "example.com/gpu"}
    yield _object(group, "DeviceClass", "gpu") | {"spec": spec}
    for name in nodes:
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        found = [{"name": f"gpu{at}"} for at in range(2)]
        spec = {"nodeName": name, "pool": pool, "driver": "gpu.example.com", "devices": found}
        yield _object(group, "ResourceSlice", f"gpus-{name}") | {"spec": spec}
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    template = {"spec": {"devices": {"requests": [request]}}}
    yield _object(group, "ResourceClaimTemplate", "one-gpu") | {"spec": template}


def workload(kind: str, name: str, template: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A Deployment, StatefulSet or Job whose pods have this template's spec."""
    labels = {"app": name}
    spec["template"] = {"metadata": {"labels": labels}, "spec": template}
    if kind != "Job":
        spec["selector"] = {"matchLabels": labels}
    return _object("batch/v1" if kind == "Job" else "apps/v1", kind, name) | {"spec": spec}


def priority_classes() -> Iterator[dict[str, Any]]:
    for at, name in enumerate(("low", "middle", "high")):
        yield _object("scheduling.k8s.io/v1", "PriorityClass", name) | {"value": 100 * at}


def local_volumes(count: int) -> Iterator[dict[str, Any]]:
    """A volume for each node, and as many claims, which are bound with the pods that use them."""
    yield late_class("local", "kubernetes.io/no-provisioner")
    for at in range(count):
        yield _volume(f"local-n{at:04}", "local", {"local": {"path": "/d"}}, HOST, f"n{at:04}")
    for at in range(count):
        yield claim(f"claim{at}", "local")


def late_class(name: str, provisioner: str) -> dict[str, Any]:
    """A class whose claims are bound with the pods that use them."""
    fields = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    return _object("storage.k8s.io/v1", "StorageClass", name) | fields


def claim(name: str, storage_class: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "storageClassName": storage_class}
    spec["resources"] = {"requests": {"storage": "1Gi"}}
    return _object("v1", "PersistentVolumeClaim", name) | {"spec": spec}


def _volume(name: str, storage_class: str, source: dict[str, Any], key: str, value: str) -> dict[str, Any]:
    """A volume for nodes with a label."""
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
    }
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}
    return _object("v1", "PersistentVolume", name) | {"spec": {**spec, **source, **affinity}}


def _object(version: str, kind: str, name: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name} | ({"labels": labels} if labels else {})
    return {"apiVersion": version, "kind": kind, "metadata": meta}
