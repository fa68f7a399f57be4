"""Writing a pod's status to an API server: by a patch of the fields that change."""

from __future__ import annotations

from typing import Any, Protocol

from moorage.kube import Pod
from moorage.kube.model.meta import Condition
from moorage.kube.model.pod import PodStatus

from .errors import ConflictError, InvalidObjectError
from .protocol import Patch, PatchType
from .store import ObjectStore

_OTHER_UID = "metadata.uid: Invalid value"
"""In what an API server says to a patch of an object that has another UID."""


class PodPatcher(Protocol):
    """The one method of an `ObjectClient` that `patch_pod_status` calls."""

    def patch(
        self,
        kind: type[Pod],
        name: str,
        namespace: str,
        patch: Patch,
        *,
        type: PatchType = "merge",
        subresource: str = "",
    ) -> Pod:
        """Change parts of a pod; see `ObjectClient.patch`.

        Parameters
        ----------
        patch : dict or list of dict
            JSON values with the field names of the API.
        """


def patch_pod_status(client: PodPatcher, current: Pod, status: PodStatus) -> None:
    """Write the nomination and the conditions of a pod, if they change.

    No other field of the status is written, so a kubelet can write its own meanwhile (kube-scheduler v1.36,
    util/utils.go PatchPodStatus). A condition can be added or changed, not removed; at an API server it tells
    the generation of the pod for which it holds.

    Parameters
    ----------
    client : PodPatcher
        The client to write with.
    current : Pod
        The pod as it was last read.
    status : PodStatus
        The status to reach; `nominated_node_name` and `conditions` count.

    Raises
    ------
    NotFoundError
        The pod does not exist.
    ConflictError
        The pod of that name has another UID.
    """
    old = current.status
    node = None if status.nominated_node_name == old.nominated_node_name else status.nominated_node_name
    conditions = [condition for condition in status.conditions if condition not in old.conditions]
    if node is None and not conditions:
        return
    if isinstance(client, ObjectStore):
        client.patch_pod_status(current, node, conditions)
        return
    changes: dict[str, Any] = {} if node is None else {"nominatedNodeName": node}
    if conditions:
        types = dict.fromkeys(condition.type for condition in status.conditions)
        changes["$setElementOrder/conditions"] = [{"type": name} for name in types]
        changes["conditions"] = [
            condition_value(condition, current.metadata.generation) for condition in conditions
        ]
    patch = {"metadata": {"uid": current.metadata.uid}, "status": changes}
    try:
        client.patch(Pod, current.name, current.namespace, patch, type="strategic", subresource="status")
    except InvalidObjectError as error:
        if _OTHER_UID in str(error):
            raise ConflictError(str(error)) from None
        raise


def condition_value(condition: Condition, generation: int) -> dict[str, Any]:
    """Return a condition as an element of a strategic merge patch.

    Parameters
    ----------
    generation : int
        Of the object for which it holds; 0 where that is not known.
    """
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time,
        "observedGeneration": generation or None,
    }
