"""The part of a pod's status that the scheduler writes: the condition PodScheduled and the nominated node.

kube-scheduler v1.36, schedule_one.go updatePod. A failed write is only logged.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from moorage.engine.framework.plugin.interface import NominatingInfo
from moorage.engine.framework.plugin.writes import AT_ONCE, Writes
from moorage.kube.model.meta import Condition, with_condition
from moorage.kube.model.pod import Pod
from moorage.store import ConflictError, NotFoundError, ObjectClient, ObjectStore, patch_pod_status

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


class StatusPatch(Struct, frozen=True):
    """Writes the condition and the nomination of a pod, if that changes its status. A pod that is not in the
    store, or has another UID there, is left alone.

    An API server is not asked for the latest status: as kube-scheduler does, the status that the pod had when
    it was tried is compared.

    Attributes
    ----------
    condition : Condition or None
        None leaves the conditions.
    nominating : NominatingInfo or None
        None, or `noop`, leaves the nomination.
    """

    client: ObjectClient
    pod: Pod
    condition: Condition | None
    nominating: NominatingInfo | None

    def __call__(self) -> None:
        client, pod, nominating = self.client, self.pod, self.nominating
        store = client if isinstance(client, ObjectStore) else None
        nominates = nominating is not None and not nominating.noop
        node = nominating.nominated_node_name if nominating is not None else ""
        try:
            if self.condition is None and store is not None:
                if nominates:
                    store.patch_pod_status(pod, node, ())
                return
            current = pod if store is None else store.get(Pod, pod.name, pod.namespace)
            if current.metadata.uid != pod.metadata.uid:
                return
            status = replace(current.status, nominated_node_name=node) if nominates else current.status
            if self.condition is not None:
                status = replace(status, conditions=with_condition(status.conditions, self.condition))
            patch_pod_status(client, current, status)
        except (NotFoundError, ConflictError):  # the latter for another UID
            return

    def after(self, earlier: StatusPatch) -> StatusPatch:
        """Return the patch that writes what this one and an earlier one would, which was not sent."""
        keeps = self.nominating is None or self.nominating.noop
        nominating = earlier.nominating if keeps else self.nominating
        return StatusPatch(self.client, self.pod, self.condition or earlier.condition, nominating)


def patch_pod(
    client: ObjectClient,
    pod: Pod,
    condition: Condition | None,
    nominating: NominatingInfo | None,
    writes: Writes = AT_ONCE,
) -> None:
    """Have the condition and the nomination of a pod written; see `StatusPatch`."""
    writes.submit("pod_status_patch", pod, StatusPatch(client, pod, condition, nominating))
