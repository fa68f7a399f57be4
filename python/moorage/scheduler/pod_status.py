"""What the scheduler writes to a pod's status: the condition PodScheduled and the nominated node.

kube-scheduler v1.36, schedule_one.go updatePod. A failure to write is only logged.
"""

from __future__ import annotations

import logging
from typing import Any

from moorage.framework.interface import NominatingInfo
from moorage.objects.meta import Condition
from moorage.objects.pod import Pod, PodStatus
from moorage.store import ApiError, NotFoundError, ObjectClient

logger = logging.getLogger("moorage.scheduler")

POD_SCHEDULED = "PodScheduled"


def not_scheduled(reason: str, message: str) -> Condition:
    """The condition of a pod that was not scheduled."""
    return Condition(type=POD_SCHEDULED, status="False", reason=reason, message=message)


def patch_pod(
    client: ObjectClient, pod: Pod, condition: Condition | None, nominating: NominatingInfo | None
) -> None:
    """Write a condition and a nomination (None, or `noop`, leaves it), if that changes something. A pod that
    is not in the store, or is another one by now, is left alone."""
    try:
        current = client.get(Pod, pod.name, pod.namespace)
        if current.metadata.uid != pod.metadata.uid:
            return
        changes = _changes(current.status, condition, nominating)
        if changes:
            patch = {"metadata": {"uid": pod.metadata.uid}, "status": changes}
            client.patch(Pod, pod.name, pod.namespace, patch, type="strategic", subresource="status")
    except NotFoundError:
        return
    except ApiError as error:
        logger.error("Error updating pod %s: %s", pod.key, error)


def _changes(
    status: PodStatus, condition: Condition | None, nominating: NominatingInfo | None
) -> dict[str, Any]:
    """The patch of a status. The time of the condition's last transition is kept where its own status does
    not change; there is no clock to give another one."""
    changes: dict[str, Any] = {}
    if nominating is not None and not nominating.noop:
        node = nominating.nominated_node_name
        if node != status.nominated_node_name:
            changes["nominatedNodeName"] = node
    if condition is not None:
        held = next((one for one in status.conditions if one.type == condition.type), Condition())
        new = {name: getattr(condition, name) for name in ("type", "status", "reason", "message")}
        if any(getattr(held, name) != value for name, value in new.items()):
            transition = {} if held.status == condition.status else {"lastTransitionTime": None}
            changes["conditions"] = [new | transition]
    return changes
