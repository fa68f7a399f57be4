"""The status of pod groups as the scheduler writes it. A failed write is only logged."""

from __future__ import annotations

import logging
from typing import Any

from msgspec.structs import replace

from moorage.objects.model.meta import Condition, with_condition
from moorage.objects.model.pod_group import PodGroup
from moorage.objects.read.write import plain
from moorage.store import ApiError, NotFoundError, ObjectClient, ObjectStore

logger = logging.getLogger("moorage.scheduler")

POD_GROUP_SCHEDULED = "PodGroupScheduled"
SCHEDULED, PENDING = "Scheduled", "Pending"
IS_SCHEDULED = Condition(type=POD_GROUP_SCHEDULED, status="True", reason=SCHEDULED)


def patch_group(client: ObjectClient, group: PodGroup, message: str, is_error: bool = False) -> None:
    """Write the result of an attempt, if that changes the status of the group.

    A Kubernetes group has the condition PodGroupScheduled, a Gödel group has a phase. Once either says that
    the group is scheduled, it stays.

    Parameters
    ----------
    client : ObjectClient
    group : PodGroup
    message : str
        Why the attempt failed; "" where it succeeded.
    is_error : bool, optional
        Whether the attempt failed with an error.
    """
    try:
        current = client.get(PodGroup, group.name, group.namespace)
        change = _phase(current, message) if current.is_godel else _condition(current, message, is_error)
        if not change:
            return
        if isinstance(client, ObjectStore):  # the same write without JSON
            client.update(replace(current, status=replace(current.status, **change)))
        else:
            patch = {"status": {field: plain(value) for field, value in change.items()}}
            client.patch(PodGroup, group.name, group.namespace, patch, subresource="status")
    except NotFoundError:
        return
    except ApiError as error:
        logger.error("Error updating pod group %s: %s", group.key, error)


def _phase(group: PodGroup, message: str) -> dict[str, Any]:
    """Return the change of the phase of a Gödel group; empty for none."""
    phase = PENDING if message else SCHEDULED
    done = group.status.phase not in ("", "Unknown", "Pending", "PreScheduling")
    return {} if done or phase == group.status.phase else {"phase": phase}


def _condition(group: PodGroup, message: str, is_error: bool) -> dict[str, Any]:
    """Return the change of the conditions of a Kubernetes group; empty for none."""
    latest = next((one for one in group.status.conditions if one.type == POD_GROUP_SCHEDULED), None)
    if message:
        reason = "SchedulerError" if is_error else "Unschedulable"
        new = Condition(type=POD_GROUP_SCHEDULED, status="False", reason=reason, message=message)
    else:
        new = IS_SCHEDULED
    conditions = with_condition(group.status.conditions, new)
    if conditions == group.status.conditions or (message and latest is not None and latest.status == "True"):
        return {}
    return {"conditions": conditions}
