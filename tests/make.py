"""One way to make each object that tests need, from as little as a test wants to say.

An object is as decoded: nothing is filled in. A field of a pod's spec has its name in Kubernetes or in the
struct, and its value is a struct or a JSON value: ``pod("p", tolerations=[{"operator": "Exists"}])``. A name
may begin with the namespace: ``pod("shop/p")``. `manifest` gives an object as files and API servers have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, TypeVar

import msgspec

from moorage import Scheduler
from moorage.kube import (
    Cluster,
    Container,
    ContainerImage,
    ContainerPort,
    Node,
    NodeSpec,
    NodeStatus,
    Object,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodResourceClaim,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    StorageClass,
    build_cluster,
    decode_object,
    object_to_dict,
)
from tests.doors.engine import in_tree_registry

Json = dict[str, Any]
T = TypeVar("T", bound=msgspec.Struct)
ZONE = "topology.kubernetes.io/zone"
SELECTING = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")


def make(kind: str, name: str, spec: Json | None = None, **fields: Any) -> Any:
    """An object of any kind from JSON values; `metadata` may have more than the name."""
    namespace, _, name = name.rpartition("/")
    meta = {"name": name} | ({"namespace": namespace} if namespace else {}) | fields.pop("metadata", {})
    return decode_object({"kind": kind, "metadata": meta, "spec": spec or {}} | fields)


def manifest(obj: Object) -> Json:
    """An object as files and API servers have it."""
    return object_to_dict(obj)


def written(kind: str, meta: str | Json, spec: Any = None, **fields: Any) -> Json:
    """An object as people write it into a file: ``written("apps/v1/Deployment", "web", spec)``. Metadata is
    its name, or all that there is."""
    version, _, name = kind.rpartition("/")
    head = {
        "apiVersion": version,
        "kind": name,
        "metadata": {"name": meta} if isinstance(meta, str) else meta,
    }
    return head | ({} if spec is None else {"spec": spec}) | fields


def owned(kind: str, name: str, uid: str = "", **metadata: Any) -> Json:
    """Metadata that names a controller."""
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid or name, "controller": True}
    return {"ownerReferences": [owner]} | metadata


def pod(
    name: str = "p",
    on: str = "",
    requests: Json | None = None,
    ports: Iterable[ContainerPort] = (),
    labels: dict[str, str] | None = None,
    owner: str = "",
    **spec: Any,
) -> Pod:
    """A pod whose UID is its name, of a ReplicaSet if it has an owner; `spec` may give other containers, and
    `metadata`, `status`, the node it is `nominated` to, and the names of its `claims` of devices."""
    namespace, _, own = name.rpartition("/")
    meta = {"name": own, "namespace": namespace or "default", "uid": name, "labels": labels or {}}
    meta |= (owned("ReplicaSet", owner) if owner else {}) | spec.pop("metadata", {})
    status = _struct(PodStatus, spec.pop("status", None) or {"nominatedNodeName": spec.pop("nominated", "")})
    containers = (container(requests=requests, ports=tuple(ports)),)
    asked = tuple(PodResourceClaim(name=each, resource_claim_name=each) for each in spec.pop("claims", ()))
    given = {"nodeName": on, "containers": containers, "resourceClaims": asked}
    inside = _struct(PodSpec, given | spec)
    return Pod(metadata=_struct(ObjectMeta, meta), spec=inside, status=status)


def container(name: str = "c", requests: Json | None = None, **rest: Any) -> Container:
    """A container; requests of extended resources have equal limits."""
    requests = requests or {}
    limits = {resource: quantity for resource, quantity in requests.items() if "/" in resource}
    return Container(name=name, resources=ResourceRequirements(requests=requests, limits=limits), **rest)


def port(host_port: int, host_ip: str = "", protocol: str = "") -> ContainerPort:
    return ContainerPort(container_port=host_port, host_port=host_port, host_ip=host_ip, protocol=protocol)


def node(
    name: str = "n",
    zone: str = "",
    labels: dict[str, str] | None = None,
    taints: Iterable[Any] = (),
    images: Iterable[tuple[Sequence[str], int]] = (),
    unschedulable: bool = False,
    **allocatable: Any,
) -> Node:
    """A node; an image is ((names), size), and allocatable defaults to 4 cpu, 8Gi and 10 pods. `metadata`,
    `spec` and `status` may have more."""
    meta = {"name": name, "labels": ({ZONE: zone} if zone else {}) | (labels or {})}
    meta |= allocatable.pop("metadata", {})
    spec = {"taints": list(taints), "unschedulable": unschedulable} | allocatable.pop("spec", {})
    more = allocatable.pop("status", {})
    room = {"cpu": "4", "memory": "8Gi", "pods": "10"} | allocatable
    found = tuple(ContainerImage(names=tuple(names), size_bytes=size) for names, size in images)
    status = _struct(NodeStatus, {"allocatable": room, "images": found} | more)
    return Node(metadata=_struct(ObjectMeta, meta), spec=_struct(NodeSpec, spec), status=status)


def claim(
    name: str, storage_class: str | None = None, of: str = "", size: str = "1Gi", **spec: Any
) -> PersistentVolumeClaim:
    """A claim of the namespace default, bound to the volume `of`."""
    inside = {
        "volumeName": of,
        "resources": {"requests": {"storage": size}},
        "accessModes": ["ReadWriteOnce"],
    }
    inside |= {"storageClassName": storage_class} if storage_class is not None else {}
    namespaced = name if "/" in name else f"default/{name}"
    meta, status = spec.pop("metadata", {}), spec.pop("status", {})
    made: PersistentVolumeClaim = make(
        "PersistentVolumeClaim", namespaced, inside | spec, metadata=meta, status=status
    )
    return made


def volume(name: str, storage_class: str = "", size: str = "1Gi", **spec: Any) -> PersistentVolume:
    """A volume."""
    inside: Json = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"]}
    inside["storageClassName"] = storage_class
    meta, status = spec.pop("metadata", {}), spec.pop("status", {})
    made: PersistentVolume = make("PersistentVolume", name, inside | spec, metadata=meta, status=status)
    return made


def storage_class(
    name: str = "disk", provisioner: str = "kubernetes.io/no-provisioner", waits: bool = True, **fields: Any
) -> StorageClass:
    """A class whose claims wait for their pods, or do not."""
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    made: StorageClass = make(
        "StorageClass", name, None, **{"provisioner": provisioner, "volumeBindingMode": mode} | fields
    )
    return made


def template(app: str, requests: Json | None = None, **spec: Any) -> Json:
    """A pod template with the label ``app: APP`` and one container."""
    inside = {"name": "c"} | ({"resources": {"requests": requests}} if requests else {})
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [inside]} | spec}


def workload(
    kind: str, name: str, count: int | None = None, requests: Json | None = None, **spec: Any
) -> Any:
    """A workload as an API server takes it, whose pods have the label ``app: NAME``; `metadata` and `status`
    may be given."""
    meta, status = spec.pop("metadata", {}), spec.pop("status", {})
    number = "parallelism" if kind == "Job" else "replicas"
    inside = (
        {"template": template(name.rpartition("/")[2], requests)}
        | ({} if count is None else {number: count})
        | spec
    )
    return make(kind, name, accepted(kind, inside), metadata=meta, status=status)


def accepted(kind: str, spec: Json) -> Json:
    """The spec of a workload with what an API server requires beside a template."""
    if kind == "Job":
        inside = {"restartPolicy": "Never"} | spec["template"]["spec"]
        return spec | {"template": spec["template"] | {"spec": inside}}
    labels = {"matchLabels": spec["template"].get("metadata", {}).get("labels", {})}
    return {"selector": labels} | spec if kind in SELECTING else spec


def configuration(**fields: Any) -> Json:
    """The configuration of a scheduler: ``configuration(profiles=[…])``."""
    return {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"} | fields


def in_tree(name: str) -> Any:
    """The class of an in-tree plugin, with all of its methods."""
    kind: Any = in_tree_registry()[name]
    return type(kind().awake()) if hasattr(kind, "awake") else kind


def cluster(*objects: Object | Iterable[Object]) -> Cluster:
    """A cluster of objects and lists of them: validated, with defaults."""
    return build_cluster(
        [each for item in objects for each in ([item] if isinstance(item, Object) else item)]
    )


def scheduler(*objects: Object | Iterable[Object], **settings: Any) -> Scheduler:
    """A scheduler over such a cluster."""
    return Scheduler(cluster(*objects), **settings)


@cache
def _names(kind: type[msgspec.Struct]) -> dict[str, str]:
    """The name in JSON of each field of a struct, by both of its names."""
    wire = kind.__struct_encode_fields__
    return dict(zip((*kind.__struct_fields__, *wire), wire * 2, strict=True))


def _struct(kind: type[T], values: Json | T) -> T:
    """A struct from fields whose values are structs or JSON values; KeyError for an unknown field."""
    if isinstance(values, kind):
        return values
    names = _names(kind)
    return msgspec.convert({names[name]: value for name, value in values.items()}, kind)
