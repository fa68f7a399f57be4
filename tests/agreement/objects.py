"""Objects as an API server shows them: complete, with the statuses that controllers write."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from tests.make import written

Object = dict[str, Any]
Key = tuple[str, str, str]

BEGIN = 1_780_000_000
"""When the first object of a cluster was created: seconds of the epoch."""
OF_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "m": 1e-3}


def key_of(obj: Object) -> Key:
    """Kind, namespace and name."""
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def name_of(obj: Object) -> str:
    return obj["metadata"]["name"]


def pod_name(pod: Object) -> str:
    """namespace/name, as answers name pods."""
    return f"{pod['metadata'].get('namespace', 'default')}/{name_of(pod)}"


def text_of(obj: Object) -> str:
    """As the commands name it: kind/namespace/name."""
    kind, namespace, name = key_of(obj)
    return "/".join(filter(None, (kind.lower(), namespace, name)))


def amount(quantity: str | int) -> float:
    """The number that a quantity stands for."""
    text = str(quantity)
    unit = next((unit for unit in UNITS if text.endswith(unit)), "")
    return float(text.removesuffix(unit)) * UNITS.get(unit, 1)


def time_of(second: int) -> str:
    return datetime.fromtimestamp(BEGIN + second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def manifest(obj: Object) -> Object:
    """What a user would apply: without what the server and controllers write."""
    own = copy.deepcopy(obj)
    own.pop("status", None)
    for name in OF_SERVER:
        own["metadata"].pop(name, None)
    return own


def listed(objects: Iterable[Object]) -> Object:
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def replaced(objects: Iterable[Object], new: Object) -> list[Object]:
    """The objects with one in the place of that of its name, or at the end if there is none."""
    before = list(objects)
    after = [new if key_of(obj) == key_of(new) else obj for obj in before]
    return after if any(obj is new for obj in after) else [*after, new]


def controller_of(obj: Object) -> Object | None:
    return next((one for one in obj["metadata"].get("ownerReferences", ()) if one.get("controller")), None)


def owned_by(owner: Object) -> list[Object]:
    """The owner references of an object that this one controls."""
    meta = owner["metadata"]
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
    }
    return [{**reference, "controller": True, "blockOwnerDeletion": True}]


def requests(pod_spec: Object) -> dict[str, float]:
    """What the containers of a pod request."""
    total: dict[str, float] = {}
    for container in pod_spec["containers"]:
        for name, quantity in container.get("resources", {}).get("requests", {}).items():
            total[name] = total.get(name, 0) + amount(quantity)
    return total


def is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def selects(selector: dict[str, str], obj: Object) -> bool:
    labels = obj["metadata"].get("labels", {})
    return all(labels.get(key) == value for key, value in selector.items())


# ---- statuses ----------------------------------------------------------------------------------------------


def with_statuses(objects: Collection[Object]) -> list[Object]:
    """The objects, with the statuses that controllers would write of budgets, quotas and DaemonSets."""
    pods = [obj for obj in objects if obj["kind"] == "Pod"]
    statuses = [_status_of(obj, objects, pods) for obj in objects]
    pairs = zip(objects, statuses, strict=True)
    return [{**obj, "status": status} if status else obj for obj, status in pairs]


def _status_of(obj: Object, objects: Collection[Object], pods: list[Object]) -> Object:
    mine = [pod for pod in pods if pod["metadata"]["namespace"] == obj["metadata"].get("namespace")]
    match obj["kind"]:
        case "PodDisruptionBudget":
            return _budget_status(obj, objects, mine)
        case "ResourceQuota":
            used = {"requests.cpu": f"{sum(requests(pod['spec']).get('cpu', 0) for pod in mine) * 1000:.0f}m"}
            used |= {"pods": str(len(mine))}
            return {"hard": obj["spec"]["hard"], "used": {name: used[name] for name in obj["spec"]["hard"]}}
        case "DaemonSet":
            count = sum(controller_of(pod) in owned_by(obj) for pod in mine)
            numbers = (
                "currentNumberScheduled",
                "desiredNumberScheduled",
                "updatedNumberScheduled",
                "numberReady",
            )
            return dict.fromkeys(numbers, count) | {"numberMisscheduled": 0, "observedGeneration": 1}
    return {}


def _budget_status(budget: Object, objects: Collection[Object], pods: list[Object]) -> Object:
    """As the disruption controller writes it: both kinds of percentages round up."""
    spec, generation = budget["spec"], budget["metadata"]["generation"]
    own = [pod for pod in pods if selects(spec["selector"]["matchLabels"], pod)]
    owners = {(one["kind"], one["name"]) for pod in own if (one := controller_of(pod))}
    namespace = budget["metadata"]["namespace"]
    scale = sum(
        obj["spec"].get("replicas", 0)
        for obj in objects
        if (obj["kind"], name_of(obj)) in owners and obj["metadata"].get("namespace") == namespace
    )

    def number(value: str | int) -> int:
        return math.ceil(int(value[:-1]) * scale / 100) if isinstance(value, str) else value

    if "maxUnavailable" in spec:
        expected, desired = scale, max(scale - number(spec["maxUnavailable"]), 0)
    else:
        least = spec["minAvailable"]
        expected, desired = scale if isinstance(least, str) else len(own), number(least)
    healthy = sum(map(is_ready, own))
    allowed = max(healthy - desired, 0) if expected else 0
    condition = {
        "type": "DisruptionAllowed",
        "status": str(allowed > 0),
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
        "observedGeneration": generation,
        "lastTransitionTime": time_of(0),
    }
    return {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": allowed,
        "expectedPods": expected,
        "observedGeneration": generation,
        "conditions": [condition],
    }


# ---- the kinds ---------------------------------------------------------------------------------------------


def node(name: str, labels: dict[str, str], room: dict[str, str], taints: Iterable[Object] = ()) -> Object:
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    } | labels
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": time_of(0)}
    spec: Object = {"taints": list(taints)} if taints else {}
    status = {"capacity": dict(room), "allocatable": dict(room), "conditions": [ready]}
    return written("v1/Node", {"name": name, "labels": labels}, spec, status=status)


def namespace(name: str) -> Object:
    return written(
        "v1/Namespace",
        {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        {"finalizers": ["kubernetes"]},
        status={"phase": "Active"},
    )


def priority_class(name: str, value: int, policy: str = "PreemptLowerPriority") -> Object:
    return written("scheduling.k8s.io/v1/PriorityClass", name, value=value, preemptionPolicy=policy)


def storage_class(name: str) -> Object:
    return written(
        "storage.k8s.io/v1/StorageClass",
        name,
        provisioner=f"{name}.example.com",
        volumeBindingMode="WaitForFirstConsumer",
    )


def workload(
    kind: str, name: str, namespace: str, spec: Object, labels: dict[str, str] | None = None
) -> Object:
    """A workload; labels are its own, those of its pods are in its template."""
    version = "batch/v1" if kind == "Job" else "apps/v1"
    meta: Object = {"name": name, "namespace": namespace, "labels": labels or {"app": name}}
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}


def budget(name: str, namespace: str, field: str, value: str | int) -> Object:
    """A budget that was applied by kubectl, so that a later file can take its field away."""
    own = written(
        "policy/v1/PodDisruptionBudget",
        {"name": name, "namespace": namespace},
        {"selector": {"matchLabels": {"app": name}}, field: value},
    )
    applied = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(own)}
    return own | {"metadata": {"name": name, "namespace": namespace, "generation": 1, "annotations": applied}}


def autoscaler(target: Object, most: int) -> Object:
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}
    now = target["spec"]["replicas"]
    return written(
        "autoscaling/v2/HorizontalPodAutoscaler",
        {"name": name_of(target), "namespace": target["metadata"]["namespace"]},
        {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": target["kind"], "name": name_of(target)},
            "minReplicas": 1,
            "maxReplicas": most,
            "metrics": [{"type": "Resource", "resource": cpu}],
        },
        status={"currentReplicas": now, "desiredReplicas": now},
    )


def claim_template(name: str) -> Object:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "disk", "volumeMode": "Filesystem"}
    return written("v1/PersistentVolumeClaim", name, {**spec, "resources": {"requests": {"storage": "10Gi"}}})


def bound_claim(template: Object, name: str, namespace: str, zone: str) -> Iterator[Object]:
    """A claim and its volume, which is in a zone."""
    size, modes = {"storage": "10Gi"}, ["ReadWriteOnce"]
    claim = copy.deepcopy(template)
    claim["metadata"] = {
        "name": name,
        "namespace": namespace,
        "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
    }
    claim["spec"]["volumeName"] = f"pv-{namespace}-{name}"
    claim["status"] = {"phase": "Bound", "accessModes": modes, "capacity": size}
    yield claim
    in_zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}
    yield written(
        "v1/PersistentVolume",
        claim["spec"]["volumeName"],
        {
            "capacity": size,
            "accessModes": modes,
            "storageClassName": "disk",
            "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": namespace,
                "name": name,
                "uid": claim["metadata"].get("uid"),
            },
            "csi": {"driver": "disk.example.com", "volumeHandle": claim["spec"]["volumeName"]},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [in_zone]}]}},
        },
        status={"phase": "Bound"},
    )


def node_class(zones: Iterable[str]) -> Object:
    tags = [{"tags": {"a": "b"}}]
    subnets = [{"id": f"subnet-{zone}", "zone": zone, "zoneID": f"id-{zone}"} for zone in zones]
    return written(
        "karpenter.k8s.aws/v1/EC2NodeClass",
        "default",
        {
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "role": "r",
            "subnetSelectorTerms": tags,
            "securityGroupSelectorTerms": tags,
        },
        status={"subnets": subnets, "conditions": [_ready()]},
    )


def node_pool(name: str, requirements: list[Object], limits: Object | None, weight: int) -> Object:
    spec: Object = {
        "weight": weight,
        "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"},
        "template": {
            "spec": {
                "expireAfter": "720h",
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": requirements,
            }
        },
    }
    return written("karpenter.sh/v1/NodePool", name, spec | ({"limits": limits} if limits else {}))


def _ready() -> Object:
    return {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "",
        "lastTransitionTime": time_of(0),
    }
