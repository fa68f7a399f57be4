"""What Gödel writes beside Kubernetes' own fields: annotations of pods, keys of units, and its own kinds."""

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
"""Of a node: whose partition it is in."""

GUARANTEED, BEST_EFFORT = "guaranteed", "best-effort"
_TYPES = {GUARANTEED: GUARANTEED, BEST_EFFORT: BEST_EFFORT}
_LEVELS = {"dedicated_cores": GUARANTEED, "shared_cores": GUARANTEED, "reclaimed_cores": BEST_EFFORT}

POD_GROUP_UNIT, SINGLE_POD_UNIT = "PodGroupUnit", "SinglePodUnit"


# ---- pods


def resource_type(pod: Pod) -> str | None:
    """The QoS of a pod: GUARANTEED (also where it says nothing) or BEST_EFFORT; None for any other word.

    A known level of Katalyst counts before Gödel's own annotation.
    """
    annotations = pod.metadata.annotations
    if not annotations:
        return GUARANTEED
    level = _LEVELS.get(annotations.get(QOS_LEVEL, ""))
    return level or _TYPES.get(annotations.get(RESOURCE_TYPE, GUARANTEED))


def ledger_of(pod: Pod) -> int:
    """The ledger that a pod is charged to: 0 guaranteed (also for an unknown QoS), 1 best effort."""
    return int(resource_type(pod) == BEST_EFFORT)


def node_name_of(pod: Pod) -> str:
    """The node that a pod is on or is meant for: `spec.nodeName`, else the assumed node, else the nominated
    one; empty where there is none."""
    name = pod.spec.node_name
    if name:
        return name
    annotations = pod.metadata.annotations
    return annotations.get(ASSUMED_NODE) or _nominated(annotations.get(NOMINATED_NODE, ""))


def _nominated(text: str) -> str:
    """The node of a nomination, JSON with a field `node`; empty where it cannot be read."""
    if not text:
        return ""
    try:
        read: Any = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return ""
    node = read.get("node") if isinstance(read, dict) else None
    return node if isinstance(node, str) else ""


def pod_group_unit(namespace: str, name: str) -> str:
    """The key of the unit that a pod group is."""
    return f"{POD_GROUP_UNIT}/{namespace}/{name}"


def unit_key(pod: Pod) -> str:
    """The key of the unit that a pod is scheduled with: its group, or itself."""
    group = group_of(pod)
    if group is not None:
        return pod_group_unit(*group)
    meta = pod.metadata
    return f"{SINGLE_POD_UNIT}/{meta.namespace}/{meta.name}"


# ---- nodes


class NMNodeSpec(Struct, frozen=True):
    taints: tuple[Taint, ...] = ()


class NMNodeStatus(Struct, frozen=True):
    resource_capacity: Resources = {}
    resource_allocatable: Resources = {}


class NMNode(Object, frozen=True):
    """What a second agent, the node manager, reports of a node."""

    kind: str = "NMNode"
    api_version: str = "node.godel.kubewharf.io/v1alpha1"
    spec: NMNodeSpec = NMNodeSpec()
    status: NMNodeStatus = NMNodeStatus()


class CNRStatus(Struct, frozen=True):
    best_effort_resource_allocatable: Resources = {}


class CNR(Object, frozen=True):
    """Katalyst's CustomNodeResource: what a node has for best-effort pods."""

    kind: str = "CustomNodeResource"
    api_version: str = "node.katalyst.kubewharf.io/v1alpha1"
    status: CNRStatus = CNRStatus()


# ---- reservations


class ReservationTemplate(Struct, frozen=True):
    """`spec` has what a placeholder needs of a pod's: containers, priority, scheduler name."""

    spec: PodSpec = PodSpec()


class ReservationSpec(Struct, frozen=True):
    template: ReservationTemplate = ReservationTemplate()
    node_name: str = ""
    time_to_live: Int64 | None = None


class CurrentOwners(Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class ReservationStatus(Struct, frozen=True):
    phase: str = ""
    current_owners: CurrentOwners = CurrentOwners()


class Reservation(Object, frozen=True):
    """Resources that stay reserved on a node after their pod has gone."""

    kind: str = "Reservation"
    api_version: str = "scheduling.godel.kubewharf.io/v1alpha1"
    spec: ReservationSpec = ReservationSpec()
    status: ReservationStatus = ReservationStatus()


# ---- movements


class TaskInfo(Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    node: str = ""


class MovementSpec(Struct, frozen=True):
    creator: str = ""
    generation: Int64 = 0
    deleted_tasks: tuple[TaskInfo, ...] = ()


class Movement(Object, frozen=True):
    """A decision to reschedule tasks."""

    kind: str = "Movement"
    api_version: str = "scheduling.godel.kubewharf.io/v1alpha1"
    spec: MovementSpec = MovementSpec()
