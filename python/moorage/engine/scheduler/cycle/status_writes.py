"""What the scheduler writes in the status of pods and pod groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from moorage.engine.framework.handle import AT_ONCE, Writes
from moorage.engine.framework.interface import NominatingInfo
from moorage.kube.model.meta import Condition, with_condition
from moorage.kube.model.pod import Pod
from moorage.kube.model.pod_group import COMPOSITE, AnyGroup, GroupCondition, PodGroup
from moorage.store import ConflictError, NotFoundError, ObjectClient, ObjectStore, patch_pod_status
from moorage.store.pod_status_patch import condition_value

# ---- scheduled condition -----------------------------------------------------------------------------------
# The part of a pod's status that the scheduler writes: the condition PodScheduled and the nominated node.
#
# kube-scheduler v1.36, schedule_one.go updatePod. A failed write is only logged.

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


# ---- group status ------------------------------------------------------------------------------------------
# The status of pod groups as the scheduler writes it. A failed write is only logged.

POD_GROUP_SCHEDULED = "PodGroupInitiallyScheduled"
COMPOSITE_SCHEDULED = "CompositePodGroupInitiallyScheduled"
SCHEDULED, PENDING = "Scheduled", "Pending"
UNSCHEDULABLE, ERROR = "Unschedulable", "SchedulerError"
OF_GROUP = "GroupError"
"""Stands for PodGroupError or CompositePodGroupError."""
_generation: Callable[[AnyGroup], int] = attrgetter("metadata.generation")  # 0 where it is not known
IS_SCHEDULED = GroupCondition(type=POD_GROUP_SCHEDULED, status="True", reason=SCHEDULED)


def patch_groups(
    client: ObjectClient,
    groups: Sequence[AnyGroup],
    message: str = "",
    reason: str = UNSCHEDULABLE,
    *,
    since: str | None = None,
    writes: Writes = AT_ONCE,
) -> None:
    """Have the result of one attempt of each of several groups written, if that changes the group's status.

    A Kubernetes group has the condition PodGroupInitiallyScheduled, with the generation that was tried, a
    Gödel group a phase. Once it says that the group is scheduled, it stays.

    Parameters
    ----------
    groups : sequence of PodGroup or CompositePodGroup
        No two of one name.
    message : str, optional
        Why the attempts failed; "" where they succeeded.
    reason : str, optional
        Of the condition, where they failed: `UNSCHEDULABLE`, `ERROR` or `OF_GROUP`.
    since : str, optional
        The transition time, which an API server wants; a condition whose status stays keeps its own.
    """
    by_kind = groupby(sorted(groups, key=_kind), _kind)
    for (kind, is_godel), of_kind in by_kind:
        type_ = COMPOSITE_SCHEDULED if kind == COMPOSITE else POD_GROUP_SCHEDULED
        condition = replace(IS_SCHEDULED, type=type_, last_transition_time=since)
        if message:
            why = f"{kind.removesuffix('Group')}{reason}" if reason == OF_GROUP else reason
            condition = replace(condition, status="False", reason=why, message=message)
        if isinstance(client, ObjectStore) and not is_godel:
            for generation, alike in groupby(sorted(of_kind, key=_generation), _generation):
                observed = replace(condition, observed_generation=generation or None)
                client.set_condition(list(alike), observed, stays="True" if message else "")
            continue
        for group in of_kind:
            writes.submit("pod_group_status_patch", group, _GroupPatch(client, group, condition))


def patch_outcomes(
    client: ObjectClient,
    outcomes: Iterable[tuple[AnyGroup, str]],
    reason: str = UNSCHEDULABLE,
    *,
    since: str | None = None,
    writes: Writes = AT_ONCE,
) -> None:
    """Have the result of one attempt of the groups of a tree written, as `patch_groups` does.

    Parameters
    ----------
    outcomes : iterable of (PodGroup or CompositePodGroup, str)
        Each group, and why it failed; "" where it succeeded.
    reason, since
        As in `patch_groups`.
    """
    for message, alike in groupby(sorted(outcomes, key=itemgetter(1)), itemgetter(1)):
        groups = [group for group, _ in alike]
        patch_groups(client, groups, message, reason, since=since, writes=writes)


def _kind(group: AnyGroup) -> tuple[str, bool]:
    """The kind of a group, and whether it is Gödel's."""
    return group.kind, isinstance(group, PodGroup) and group.is_godel


class _GroupPatch(Struct, frozen=True):
    """Writes the result of an attempt of one group."""

    client: ObjectClient
    group: AnyGroup
    condition: GroupCondition

    def __call__(self) -> None:
        client, name = self.client, (self.group.name, self.group.namespace)
        try:
            kind = type(self.group)
            current: Any = client.get(kind, *name)
            is_godel = isinstance(current, PodGroup) and current.is_godel
            if change := (_phase if is_godel else _conditions)(current, self.condition):
                client.patch(kind, *name, {"status": change}, type="strategic", subresource="status")
        except NotFoundError:
            return

    def after(self, earlier: _GroupPatch) -> _GroupPatch:
        """Return the later patch: that a group is scheduled stays."""
        return earlier if earlier.condition.status == "True" else self


def _phase(group: Any, condition: GroupCondition) -> dict[str, Any]:
    """Return the change of the phase of a Gödel group; empty for none."""
    phase = SCHEDULED if condition.status == "True" else PENDING
    done = group.status.phase not in ("", "Unknown", "Pending", "PreScheduling")
    return {} if done or phase == group.status.phase else {"phase": phase}


def _conditions(group: AnyGroup, condition: GroupCondition) -> dict[str, Any]:
    """Return the change of the conditions of a Kubernetes group; empty for none."""
    condition = replace(condition, observed_generation=_generation(group) or None)
    latest = next((entry for entry in group.status.conditions if entry.type == condition.type), None)
    conditions = with_condition(group.status.conditions, condition)
    stays = condition.status != "True" and latest is not None and latest.status == "True"
    if stays or conditions == group.status.conditions:
        return {}
    (new,) = [entry for entry in conditions if entry.type == condition.type]
    return {"conditions": [condition_value(new, _generation(group))]}
