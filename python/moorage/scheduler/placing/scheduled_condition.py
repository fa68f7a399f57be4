"""The part of a pod's status that the scheduler writes: the condition PodScheduled and the nominated node.

kube-scheduler v1.36, schedule_one.go updatePod. A failed write is only logged.
"""

from __future__ import annotations

import logging

from msgspec.structs import replace

from moorage.framework.plugin.interface import NominatingInfo
from moorage.objects.model.meta import Condition, with_condition
from moorage.objects.model.pod import Pod
from moorage.store import (
    ApiError,
    ConflictError,
    NotFoundError,
    ObjectClient,
    ObjectStore,
    patch_pod_status,
)

logger = logging.getLogger("moorage.scheduler")

POD_SCHEDULED = "PodScheduled"


def not_scheduled(reason: str, message: str, since: str | None = None) -> Condition:
    """Return the condition PodScheduled=False of a pod that was not scheduled.

    Parameters
    ----------
    reason : str
        "Unschedulable" or "SchedulerError".
    since : str, optional
        The transition time; a condition whose status stays keeps its own.
    """
    return Condition(
        type=POD_SCHEDULED, status="False", reason=reason, message=message, last_transition_time=since
    )


def patch_pod(
    client: ObjectClient, pod: Pod, condition: Condition | None, nominating: NominatingInfo | None
) -> None:
    """Write the condition and the nomination of a pod, if that changes its status. A pod that is not in the
    store, or has another UID there, is left alone.

    An API server is not asked for the latest status: as kube-scheduler does, the status that the pod had when
    it was tried is compared.

    Parameters
    ----------
    condition : Condition or None
        None leaves the conditions.
    nominating : NominatingInfo or None
        None, or `noop`, leaves the nomination.
    """
    if condition is None and isinstance(client, ObjectStore):
        if nominating is not None and not nominating.noop:
            try:
                client.patch_pod_status(pod, nominating.nominated_node_name, ())
            except (NotFoundError, ConflictError):  # the latter for another UID
                return
        return
    try:
        current = client.get(Pod, pod.name, pod.namespace) if isinstance(client, ObjectStore) else pod
        if current.metadata.uid != pod.metadata.uid:
            return
        status = current.status
        if nominating is not None and not nominating.noop:
            status = replace(status, nominated_node_name=nominating.nominated_node_name)
        if condition is not None:
            status = replace(status, conditions=with_condition(status.conditions, condition))
        patch_pod_status(client, current, status)
    except (NotFoundError, ConflictError):  # the latter for another UID
        return
    except ApiError as error:
        logger.error("Error updating pod %s: %s", pod.key, error)
