"""Asking a plugin about one event, as the queue does."""

from __future__ import annotations

from typing import Any

from moorage import Scheduler
from moorage.engine.framework import ActionType, ClusterEvent, QueueingHint
from moorage.kube import Node, Pod
from moorage.kube.releases import DEFAULT_GATES
from tests import make as kit
from tests.doors.engine import PodEvents, node_update_events
from tests.make import node as node

Manifest = dict[str, Any]
RESOURCES = {
    kind: f"storage.k8s.io/{kind}"
    for kind in ("StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment")
} | {kind: f"resource.k8s.io/{kind}" for kind in ("ResourceClaim", "ResourceSlice", "DeviceClass")}

POD_EVENTS = PodEvents(DEFAULT_GATES)


def pod(
    name: str = "p", namespace: str = "default", labels: Any = None, status: Any = None, **spec: Any
) -> Pod:
    """A pod from the fields of its spec, camelCase."""
    return kit.pod(f"{namespace}/{name}", labels=labels, status=status or {}, **spec)


def thing(kind: str, name: str = "x", namespace: str = "", **fields: Any) -> Any:
    """An object of another kind; metadata may have more."""
    meta = {"uid": name} | fields.pop("metadata", {})
    return kit.make(kind, f"{namespace}/{name}" if namespace else name, metadata=meta, **fields)


def events_of(old: Any, new: Any) -> list[ClusterEvent]:
    """The events of an addition, an update or a deletion."""
    one = new if old is None else old
    if old is not None and new is not None and isinstance(one, Node | Pod):
        return node_update_events(old, new) if isinstance(one, Node) else POD_EVENTS.of_update(old, new)
    if old is not None and new is not None:
        action = ActionType.UPDATE
    else:
        action = ActionType.ADD if old is None else ActionType.DELETE
    if isinstance(one, Pod):
        return [ClusterEvent("AssignedPod" if one.spec.node_name else "UnschedulablePod", action)]
    kind = type(one).__name__
    resource = "Node" if isinstance(one, Node) else RESOURCES.get(kind, kind)
    return [ClusterEvent(resource, action)]


def ask(scheduler: Scheduler, plugin: str, rejected: Pod, old: Any, new: Any) -> bool | None:
    """Whether what happened makes a pod worth an attempt which the plugin has rejected; None where the plugin
    has not asked to hear of it."""
    registered = scheduler.queue.hints.by_profile["default-scheduler"][plugin]
    asked = [one.hint for event in events_of(old, new) for one in registered if one.event.matches(event)]
    if not asked:
        return None
    answers = [QueueingHint.QUEUE if hint is None else hint(rejected, old, new) for hint in asked]
    return QueueingHint.QUEUE in answers
