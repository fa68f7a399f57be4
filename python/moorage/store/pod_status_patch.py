"""Writing a pod's status to an API server as a scheduler does: by a patch of what it changes."""

from __future__ import annotations

from typing import Any, Protocol

from moorage.objects.model.pod import Pod, PodStatus

from .protocol import Patch, PatchType
from .store import ObjectStore


class PodPatcher(Protocol):
    """The part of an `ObjectClient` that this needs."""

    def patch(
        self,
        kind: type[Pod],
        name: str,
        namespace: str,
        patch: Patch,
        *,
        type: PatchType = "merge",
        subresource: str = "",
    ) -> Pod: ...


def patch_pod_status(client: PodPatcher, current: Pod, status: PodStatus) -> None:
    """Have nomination and conditions of `current` be those of `status`, if that changes something.

    Nothing else of the status is written, so kubelets may write theirs meanwhile (kube-scheduler v1.36,
    util/utils.go PatchPodStatus). A condition can be added or changed, not removed.

    Raises
    ------
    NotFoundError
    ConflictError
        There is another pod of this name by now.
    """
    held = current.status
    node = None if status.nominated_node_name == held.nominated_node_name else status.nominated_node_name
    conditions = [one for one in status.conditions if one not in held.conditions]
    if node is None and not conditions:
        return
    if isinstance(client, ObjectStore):
        client.patch_pod_status(current, node, conditions)
        return
    changes: dict[str, Any] = {} if node is None else {"nominatedNodeName": node}
    if conditions:
        changes["conditions"] = [
            {
                "type": one.type,
                "status": one.status,
                "reason": one.reason,
                "message": one.message,
                "lastTransitionTime": one.last_transition_time,
            }
            for one in conditions
        ]
    patch = {"metadata": {"uid": current.metadata.uid}, "status": changes}
    client.patch(Pod, current.name, current.namespace, patch, type="strategic", subresource="status")
