"""The status of pod groups as the scheduler writes it. A failed write is only logged."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from moorage.objects.model.meta import Condition, with_condition
from moorage.objects.model.pod_group import PodGroup
from moorage.objects.read.write import plain
from moorage.store import ApiError, NotFoundError, ObjectClient, ObjectStore

logger = logging.getLogger("moorage.scheduler")

POD_GROUP_SCHEDULED = "PodGroupScheduled"
SCHEDULED, PENDING = "Scheduled", "Pending"
IS_SCHEDULED = Condition(type=POD_GROUP_SCHEDULED, status="True", reason=SCHEDULED)


def patch_groups(
    client: ObjectClient, groups: Sequence[PodGroup], message: str = "", is_error: bool = False
) -> None:
    """Write the result of one attempt of each of several groups, if that changes the status of the group.

    A Kubernetes group has the condition PodGroupScheduled, a Gödel group has a phase. Once either says that
    the group is scheduled, it stays.

    Parameters
    ----------
    client : ObjectClient
    groups : sequence of PodGroup
        No two of one name.
    message : str, optional
        Why the attempts failed; "" where they succeeded.
    is_error : bool, optional
        Whether they failed with an error.
    """
    condition = IS_SCHEDULED
    if message:
        reason = "SchedulerError" if is_error else "Unschedulable"
        condition = Condition(type=POD_GROUP_SCHEDULED, status="False", reason=reason, message=message)
    elif isinstance(client, ObjectStore):
        godel = [group for group in groups if group.is_godel]
        rest = [group for group in groups if not group.is_godel] if godel else groups
        client.set_condition(rest, condition)
        groups = godel
    for group in groups:
        _patch(client, group, condition)


def _patch(client: ObjectClient, group: PodGroup, condition: Condition) -> None:
    """Write the result of an attempt of one group."""
    try:
        current = client.get(PodGroup, group.name, group.namespace)
        change = _phase(current, condition) if current.is_godel else _conditions(current, condition)
        if change:
            client.patch(PodGroup, group.name, group.namespace, {"status": change}, subresource="status")
    except NotFoundError:
        return
    except ApiError as error:
        logger.error("Error updating pod group %s: %s", group.key, error)


def _phase(group: PodGroup, condition: Condition) -> dict[str, Any]:
    """Return the change of the phase of a Gödel group; empty for none."""
    phase = SCHEDULED if condition is IS_SCHEDULED else PENDING
    done = group.status.phase not in ("", "Unknown", "Pending", "PreScheduling")
    return {} if done or phase == group.status.phase else {"phase": phase}


def _conditions(group: PodGroup, condition: Condition) -> dict[str, Any]:
    """Return the change of the conditions of a Kubernetes group; empty for none."""
    latest = next((one for one in group.status.conditions if one.type == POD_GROUP_SCHEDULED), None)
    conditions = with_condition(group.status.conditions, condition)
    stays = condition is not IS_SCHEDULED and latest is not None and latest.status == "True"
    return {} if stays or conditions == group.status.conditions else {"conditions": plain(conditions)}
