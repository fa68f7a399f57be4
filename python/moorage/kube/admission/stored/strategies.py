"""What the API server makes of an admitted object before it stores it, kind by kind (kubernetes v1.36,
pkg/registry, PrepareForCreate).

Addresses, ports and times that a server chooses are left out.
"""

from __future__ import annotations

from collections.abc import Callable

from ...field_errors import Json, part
from ...workloads.job_state import OF_JOB, job_labels
from ...workloads.ownership import stable_uid
from ..pod_requests import quality_of_service
from ..pod_security import with_app_armor

_NO_STATUS: dict[str, Json] = {
    "Deployment": {},
    "ReplicaSet": {"replicas": 0},
    "ReplicationController": {"replicas": 0},
    "StatefulSet": {"replicas": 0, "availableReplicas": 0},
    "DaemonSet": dict.fromkeys(
        ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0
    ),
    "Job": {},
    "CronJob": {},
    "PodDisruptionBudget": dict.fromkeys(
        ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"), 0
    ),
    "HorizontalPodAutoscaler": {"desiredReplicas": 0, "currentMetrics": None},
    "ResourceQuota": {},
    "PersistentVolume": {"phase": "Pending"},
    "PersistentVolumeClaim": {"phase": "Pending"},
    "Service": {"loadBalancer": {}},
    "Namespace": {"phase": "Active"},
    "VolumeAttachment": {"attached": False},
    "ResourceClaim": {},
}
"""The status of new objects by kind; that of a manifest does not count."""


def as_stored(value: Json) -> None:
    """Change an admitted object to what is stored.

    Parameters
    ----------
    value : dict
        With the defaults of its version.
    """
    kind = value["kind"]
    if kind in _NO_STATUS:
        value["status"] = dict(_NO_STATUS[kind])
    if (prepare := _STRATEGIES.get(kind)) is not None:
        prepare(value)


# ---- pods --------------------------------------------------------------------------------------------------

_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def _pod(pod: Json) -> None:
    spec, meta = part(pod, "spec"), part(pod, "metadata")
    pod["status"] = {"phase": "Pending", "qosClass": quality_of_service(spec)}
    if spec.get("schedulingGates"):
        pod["status"]["conditions"] = [_GATED]
    pod["spec"] = with_app_armor(part(meta, "annotations"), spec)


# ---- workloads ---------------------------------------------------------------------------------------------


def _job(job: Json) -> None:
    """A Job selects its pods by its UID, unless its selector is its own."""
    spec, meta = part(job, "spec"), part(job, "metadata")
    template = spec.setdefault("template", {})
    if not spec.get("manualSelector"):
        name = meta.get("name", "")
        uid = meta.get("uid") or stable_uid("Job", meta.get("namespace") or "default", name)
        labels = template.setdefault("metadata", {}).setdefault("labels", {})
        labels |= job_labels(uid, name) | labels
        selector = spec["selector"] = spec.get("selector") or {}
        selector.setdefault("matchLabels", {}).setdefault(OF_JOB, uid)
    meta["labels"] = meta.get("labels") or dict(part(part(template, "metadata"), "labels"))


def _daemon_set(daemon_set: Json) -> None:
    """The generation of the template in a field that apps/v1 has not got."""
    annotations = part(daemon_set, "metadata").setdefault("annotations", {})
    annotations["deprecated.daemonset.template.generation"] = "1"


# ---- other kinds -------------------------------------------------------------------------------------------

_CLAIM, _SNAPSHOT = ("PersistentVolumeClaim", ""), ("VolumeSnapshot", "snapshot.storage.k8s.io")


def _claim(claim: Json) -> None:
    """The source of the data has two fields; the older one knows claims and snapshots alone."""
    spec = part(claim, "spec")
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source and (source.get("kind"), source.get("apiGroup") or "") not in (_CLAIM, _SNAPSHOT):
        spec.pop("dataSource")
        source = None
    if source and not reference:
        spec["dataSourceRef"] = dict(source)
    elif reference and not source and not reference.get("namespace"):
        spec["dataSource"] = {name: text for name, text in reference.items() if name != "namespace"}


def _node(node: Json) -> None:
    spec = part(node, "spec")
    if spec.get("podCIDR") and not spec.get("podCIDRs"):
        spec["podCIDRs"] = [spec["podCIDR"]]
    node.setdefault("status", {}).setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})


def _namespace(namespace: Json) -> None:
    meta = part(namespace, "metadata")
    name = meta.get("name", "")
    meta["labels"] = {**part(meta, "labels"), "kubernetes.io/metadata.name": name}
    finalizers = namespace.setdefault("spec", {}).setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")


def _service(service: Json) -> None:
    """The families of addresses in a cluster that has one of them."""
    spec = part(service, "spec")
    if spec.get("type") == "ExternalName":
        return
    is_headless = "None" in (spec.get("clusterIP"), *(spec.get("clusterIPs") or ()))
    if is_headless:
        spec["clusterIP"], spec["clusterIPs"] = "None", ["None"]
    is_free = is_headless and not spec.get("selector")
    if not spec.get("ipFamilyPolicy"):
        spec["ipFamilyPolicy"] = "RequireDualStack" if is_free else "SingleStack"
    if not spec.get("ipFamilies"):
        spec["ipFamilies"] = ["IPv4", "IPv6"] if is_free else ["IPv4"]


_STRATEGIES: dict[str, Callable[[Json], None]] = {
    "Pod": _pod,
    "Job": _job,
    "DaemonSet": _daemon_set,
    "PersistentVolumeClaim": _claim,
    "Node": _node,
    "Namespace": _namespace,
    "Service": _service,
}
