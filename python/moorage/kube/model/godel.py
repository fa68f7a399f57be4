"""Gödel's extensions of Kubernetes: annotations of pods, keys of units, and additional kinds."""

from __future__ import annotations

from typing import Any

import msgspec

from .meta import Int64, Object, Resources, Struct
from .node import Taint
from .pod import Pod, PodSpec
from .pod_group import group_of

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
