"""Gödel's extensions of Kubernetes: annotations of pods, keys of units, additional kinds, reservations."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from moorage.kube.model.meta import Int64, Object, ObjectMeta, Resources, Struct
from moorage.kube.model.node import Taint
from moorage.kube.model.pod import Pod, PodSpec
from moorage.kube.model.pod_group import group_of

ASSUMED_NODE = "godel.bytedance.com/assumed-node"
NOMINATED_NODE = "godel.bytedance.com/nominated-node"
RESOURCE_TYPE = "godel.bytedance.com/pod-resource-type"
QOS_LEVEL = "katalyst.kubewharf.io/qos_level"
IGNORE_PODS_LIMIT = "godel.bytedance.com/ignore-pods-limit"
SCHEDULER_NAME = "godel.bytedance.com/scheduler-name"
"""Annotation of a node: the scheduler to whose partition the node belongs."""

GUARANTEED, BEST_EFFORT = "guaranteed", "best-effort"
_TYPES = {GUARANTEED: GUARANTEED, BEST_EFFORT: BEST_EFFORT}
_LEVELS = {"dedicated_cores": GUARANTEED, "shared_cores": GUARANTEED, "reclaimed_cores": BEST_EFFORT}

POD_GROUP_UNIT, SINGLE_POD_UNIT = "PodGroupUnit", "SinglePodUnit"


# ---- pods


def resource_type(pod: Pod) -> str | None:
    """Return the QoS of a pod: GUARANTEED (the default) or BEST_EFFORT; None for an unknown value.

    A known QoS level of Katalyst takes precedence over Gödel's annotation.
    """
    annotations = pod.metadata.annotations
    if not annotations:
        return GUARANTEED
    level = _LEVELS.get(annotations.get(QOS_LEVEL, ""))
    return level or _TYPES.get(annotations.get(RESOURCE_TYPE, GUARANTEED))


def ledger_of(pod: Pod) -> int:
    """Return the resource ledger of a pod.

    Returns
    -------
    int
        0 for guaranteed pods and those of unknown QoS, 1 for best-effort pods.
    """
    return int(resource_type(pod) == BEST_EFFORT)


def node_name_of(pod: Pod) -> str:
    """Return the node of a pod.

    Returns
    -------
    str
        `spec.nodeName`, else the assumed node, else the nominated node, else "".
    """
    name = pod.spec.node_name
    if name:
        return name
    annotations = pod.metadata.annotations
    return annotations.get(ASSUMED_NODE) or _nominated(annotations.get(NOMINATED_NODE, ""))


def _nominated(text: str) -> str:
    """The node of a nomination, which is JSON with a field `node`; "" if malformed."""
    if not text:
        return ""
    try:
        read: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return ""
    node = read.get("node") if isinstance(read, dict) else None
    return node if isinstance(node, str) else ""


def pod_group_unit(namespace: str, name: str) -> str:
    """Return the key of the unit of a pod group.

    Parameters
    ----------
    namespace, name : str
        Namespace and name of the group.

    Returns
    -------
    str
        ``PodGroupUnit/namespace/name``.
    """
    return f"{POD_GROUP_UNIT}/{namespace}/{name}"


def unit_key(pod: Pod) -> str:
    """Return the key of a pod's unit: its group, or the pod itself.

    Returns
    -------
    str
        ``PodGroupUnit/namespace/name``, or ``SinglePodUnit/namespace/name``.
    """
    group = group_of(pod)
    if group is not None:
        return pod_group_unit(*group)
    meta = pod.metadata
    return f"{SINGLE_POD_UNIT}/{meta.namespace}/{meta.name}"


# ---- nodes


class NMNodeSpec(Struct, frozen=True):
    """Spec of an `NMNode`."""

    taints: tuple[Taint, ...] = ()


class NMNodeStatus(Struct, frozen=True):
    """Status of an `NMNode`."""

    resource_capacity: Resources = {}
    resource_allocatable: Resources = {}


class NMNode(Object, frozen=True):
    """The state of a node as reported by the node manager, a second agent on the node."""

    kind: str = "NMNode"
    api_version: str = "node.godel.kubewharf.io/v1alpha1"
    spec: NMNodeSpec = NMNodeSpec()
    status: NMNodeStatus = NMNodeStatus()


class CNRStatus(Struct, frozen=True):
    """Status of a `CNR`."""

    best_effort_resource_allocatable: Resources = {}


class CNR(Object, frozen=True):
    """Katalyst's CustomNodeResource: the best-effort resources of a node."""

    kind: str = "CustomNodeResource"
    api_version: str = "node.katalyst.kubewharf.io/v1alpha1"
    status: CNRStatus = CNRStatus()


# ---- reservations


class ReservationTemplate(Struct, frozen=True):
    """Template of a placeholder pod; `spec` has its containers, priority and scheduler name."""

    spec: PodSpec = PodSpec()


class ReservationSpec(Struct, frozen=True):
    """Spec of a `Reservation`."""

    template: ReservationTemplate = ReservationTemplate()
    node_name: str = ""
    time_to_live: Int64 | None = None


class CurrentOwners(Struct, frozen=True):
    """The pod that a `Reservation` is matched with."""

    name: str = ""
    namespace: str = ""
    uid: str = ""


class ReservationStatus(Struct, frozen=True):
    """Status of a `Reservation`."""

    phase: str = ""
    current_owners: CurrentOwners = CurrentOwners()


class Reservation(Object, frozen=True):
    """Resources that stay reserved on a node after their pod was deleted."""

    kind: str = "Reservation"
    api_version: str = "scheduling.godel.kubewharf.io/v1alpha1"
    spec: ReservationSpec = ReservationSpec()
    status: ReservationStatus = ReservationStatus()


# ---- movements


class TaskInfo(Struct, frozen=True):
    """A task that a `Movement` deletes, and its node."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    node: str = ""


class MovementSpec(Struct, frozen=True):
    """Spec of a `Movement`."""

    creator: str = ""
    generation: Int64 = 0
    deleted_tasks: tuple[TaskInfo, ...] = ()


class Movement(Object, frozen=True):
    """A decision to reschedule tasks."""

    kind: str = "Movement"
    api_version: str = "scheduling.godel.kubewharf.io/v1alpha1"
    spec: MovementSpec = MovementSpec()


# ---- reservation -------------------------------------------------------------------------------------------
#
# Gödel's reservations: placeholders of deleted pods, and the pods that replace them.

RESERVATION = "godel.bytedance.com/reservation"
RESERVATION_INDEX = "godel.bytedance.com/reservation-index"
PLACEHOLDER = "godel.bytedance.com/reservation-placeholder"
PLACEHOLDER_UID = "godel.bytedance.com/placeholder-uid"
MATCHED_PLACEHOLDER = "godel.bytedance.com/matched-reservation-placeholder"
POD_STATE = "godel.bytedance.com/pod-state"
SUFFIX = "-placeholder"
"""Suffix of the name and the UID of a placeholder pod."""

_REQUIREMENTS = (RESERVATION, "pod.tce.kubernetes.io/reservation")
_NOT_INHERITED = (
    QOS_LEVEL,
    "katalyst.kubewharf.io/memory_enhancement",
    "katalyst.kubewharf.io/numa_binding",
    "katalyst.kubewharf.io/numa_exclusive",
)
_OVER = frozenset({"TimeOut", "Matched"})


def wants_reservation(obj: Object) -> bool:
    """Whether the resources of a pod, or of a Deployment's pods, stay reserved after deletion."""
    return any(obj.metadata.annotations.get(key) == "true" for key in _REQUIREMENTS)


def deployment_of(pod: Pod) -> str:
    """Return the Deployment that controls a pod through a ReplicaSet.

    Returns
    -------
    str
        ``namespace/name``; "" for other pods.
    """
    owner = pod.metadata.controller()
    name = owner.name.rpartition("-")[0] if owner is not None and owner.kind == "ReplicaSet" else ""
    return name and f"{pod.namespace}/{name}"


def placeholder_of(pod: Pod) -> str:
    """Return the key that a pod shares with its possible replacements.

    Returns
    -------
    str
        The placeholder index, else the StatefulSetExtension, else the Deployment; "" if there is none.
    """
    index = pod.metadata.annotations.get(RESERVATION_INDEX, "")
    if index:
        return index
    owner = pod.metadata.controller()
    if owner is not None and owner.kind == "StatefulSetExtension":
        return owner.name
    return deployment_of(pod).rpartition("/")[2]


def is_placeholder(pod: Pod) -> bool:
    """Whether a pod is a placeholder of a deleted pod."""
    return pod.metadata.annotations.get(PLACEHOLDER) == "true"


def placeholder_key(pod: Pod) -> str:
    """Return ``namespace/name`` of the placeholder that a pod is or replaces; "" for other pods."""
    return pod.key if is_placeholder(pod) else pod.metadata.annotations.get(MATCHED_PLACEHOLDER, "")


def _as_placeholder(pod: Pod, annotations: dict[str, str]) -> Pod:
    meta, marked = pod.metadata, annotations | {PLACEHOLDER: "true"}
    meta = replace(meta, name=meta.name + SUFFIX, uid=meta.uid + SUFFIX, annotations=marked)
    return replace(pod, metadata=meta)


def placeholder_pod(pod: Pod) -> Pod:
    """Return the placeholder of a bound pod that is being deleted.

    Parameters
    ----------
    pod : Pod
        A pod with a node; the placeholder occupies the same node.
    """
    inherited = {key: value for key, value in pod.metadata.annotations.items() if key not in _NOT_INHERITED}
    return _as_placeholder(pod, inherited | {POD_STATE: "assumed", ASSUMED_NODE: pod.spec.node_name})


def reserved_pod(reservation: Reservation) -> Pod:
    """Return the placeholder that a Reservation describes.

    Parameters
    ----------
    reservation : Reservation
        Its template has the requests of the placeholder.
    """
    meta, spec = reservation.metadata, reservation.spec
    uid = meta.annotations.get(PLACEHOLDER_UID, "")
    named = ObjectMeta(name=meta.name, namespace=meta.namespace, uid=uid)
    pod = Pod(metadata=named, spec=replace(spec.template.spec, node_name=spec.node_name))
    return _as_placeholder(pod, meta.annotations)


def occupies(reservation: Reservation) -> bool:
    """Whether a Reservation occupies resources.

    Returns
    -------
    bool
        True if it has a node and is neither matched nor timed out.
    """
    return bool(reservation.spec.node_name) and reservation.status.phase not in _OVER
