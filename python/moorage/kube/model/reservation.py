"""Gödel's reservations: placeholders of deleted pods, and the pods that replace them."""

from __future__ import annotations

from msgspec.structs import replace

from .godel import ASSUMED_NODE, QOS_LEVEL, Reservation
from .meta import Object, ObjectMeta
from .pod import Pod

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

    Parameters
    ----------
    reservation : Reservation
        The reservation.

    Returns
    -------
    bool
        True if it has a node and is neither matched nor timed out.
    """
    return bool(reservation.spec.node_name) and reservation.status.phase not in _OVER
