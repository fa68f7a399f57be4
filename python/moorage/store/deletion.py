"""Deletion in two steps, and the subresource ``pods/eviction``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from moorage.kube import Object, ObjectMeta, Pod, PodDisruptionBudget
from moorage.kube import workloads as of_workloads
from moorage.kube.go_texts import shifted, timestamp
from moorage.kube.model.meta import Condition, with_condition
from moorage.kube.model.pod import disruption_condition
from moorage.kube.workloads.ownership import FINISHED

from .errors import InvalidObjectError, TooManyRequestsError, conflict, group_kind, invalid
from .protocol import ObjectClient, overwrite

if TYPE_CHECKING:
    from moorage.kube.workloads.disruption import BudgetSelectors


# ---- eviction ----------------------------------------------------------------------------------------------
#
# The subresource ``pods/eviction``: deletes a pod if its disruption budget allows it (kube-apiserver).

_SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
_REFUSED = (
    "Cannot evict pod as it would violate the pod's disruption budget. "
    "The disruption budget {} needs {} healthy pods and has {} currently"
)
_EVICTED = disruption_condition("EvictionByEvictionAPI", "Eviction API: evicting")


def evict_pod(
    client: ObjectClient,
    pod: Pod,
    grace_period_seconds: int | None = None,
    budgets: BudgetSelectors | None = None,
) -> None:
    """Evict a pod: its disruption budget, if it has one, allows one disruption less then.

    Some pods are deleted without regard to budgets (`ignores_budgets`), and some take no disruption of their
    budget as they are not ready (`needs_disruption`).

    Parameters
    ----------
    pod : Pod
        Its name and its namespace count.
    grace_period_seconds : int, optional
        For the deletion.
    budgets : BudgetSelectors, optional
        Over those of its namespace, with any status, where several pods are evicted; by default they are
        listed.

    Raises
    ------
    NotFoundError
        The pod does not exist.
    TooManyRequestsError
        The budget does not allow it now.
    InvalidObjectError
        The pod has several budgets.
    """
    current = client.get(Pod, pod.name, pod.namespace)
    if not of_workloads.disruption.ignores_budgets(current):
        listed = budgets or of_workloads.disruption.BudgetSelectors(
            client.list(PodDisruptionBudget, pod.namespace)[0]
        )
        _use_budget(client, current, listed.of(current))
    tell_why(client, current, _EVICTED)
    uid = current.metadata.uid
    client.delete(Pod, pod.name, pod.namespace, uid=uid, grace_period_seconds=grace_period_seconds)


def tell_why(client: ObjectClient, pod: Pod, why: Condition) -> None:
    """Give a pod that is about to be deleted a condition that says why, unless it goes at once.

    Parameters
    ----------
    why : Condition
        See `disruption_condition`.

    Raises
    ------
    NotFoundError
        The pod does not exist.
    """
    if pod.metadata.finalizers and pod.metadata.deletion_timestamp is None:
        status = replace(pod.status, conditions=with_condition(pod.status.conditions, why))
        overwrite(client, replace(pod, status=status))


def _use_budget(client: ObjectClient, pod: Pod, budgets: Iterable[PodDisruptionBudget]) -> None:
    """Take one disruption from the budget of a pod."""
    current = [client.get(PodDisruptionBudget, budget.name, budget.namespace) for budget in budgets]
    if len(current) > 1:
        raise InvalidObjectError(_SEVERAL)
    for budget in current:
        if not of_workloads.disruption.needs_disruption(pod, budget):
            continue
        status = budget.status
        if status.disruptions_allowed <= 0:
            healthy = status.desired_healthy, status.current_healthy
            raise TooManyRequestsError(_REFUSED.format(budget.name, *healthy))
        left = status.disruptions_allowed - 1
        client.update(replace(budget, status=replace(status, disruptions_allowed=left)))


# ---- deletion ----------------------------------------------------------------------------------------------
#
# apiserver v0.36: registry/rest/delete.go and update.go, registry/generic/registry/store.go.


def check_preconditions(obj: Object, uid: str, version: str) -> None:
    """Check the preconditions of a deletion.

    Parameters
    ----------
    uid, version : str
        The UID and the resource version that the request asks for; "" for any.

    Raises
    ------
    ConflictError
        The object has another UID or another resource version.
    """
    meta = obj.metadata
    why = ""
    if uid and uid != meta.uid:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({meta.uid}). "
            "The object might have been deleted and then recreated"
        )
    elif version and version != meta.resource_version:
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in "
            f"record ({meta.resource_version}). The object might have been modified"
        )
    if why:
        raise conflict(group_kind(type(obj)), meta.name, why)


def grace_period(obj: Object, requested: int | None) -> int:
    """Return the grace period of a deletion in seconds. Only pods that a kubelet may run have one."""
    if requested is None or not isinstance(obj, Pod):
        return 0
    if obj.metadata.deletion_timestamp is None and (not obj.spec.node_name or obj.status.phase in FINISHED):
        return 0
    return requested


def marked(meta: ObjectMeta, now: float, grace: int) -> ObjectMeta:
    """Return metadata with a deletion time.

    A running grace period can only be shortened, and one that has ended stays so.

    Parameters
    ----------
    meta : ObjectMeta
        Of the object to delete.
    now : float
        Seconds since 1970.
    grace : int
        Grace period in seconds; a negative one counts as 1.
    """
    grace = 1 if grace < 0 else grace
    time, current = meta.deletion_timestamp, meta.deletion_grace_period_seconds or 0
    if time is None:
        time = timestamp(int(now) + grace)
    elif grace < current:
        time = shifted(time, grace - current)
    else:
        grace = current
    return replace(meta, deletion_timestamp=time, deletion_grace_period_seconds=grace)


def is_awaited(meta: ObjectMeta) -> bool:
    """Whether finalizers or a grace period delay the removal of an object that is being deleted."""
    return bool(meta.finalizers or meta.deletion_grace_period_seconds)


def check_update(obj: Object, current: ObjectMeta) -> None:
    """Check that an update does not interfere with a deletion. It may omit the fields about the deletion.

    Parameters
    ----------
    current : ObjectMeta
        The metadata of the stored object.

    Raises
    ------
    InvalidObjectError
        The update adds a finalizer to an object that is being deleted, or sets a deletion time or a grace
        period itself.
    """
    meta = obj.metadata
    grace, wrong = meta.deletion_grace_period_seconds, ""
    if current.deletion_timestamp is not None:
        new = ", ".join(f'"{name}"' for name in sorted({*meta.finalizers} - {*current.finalizers}))
        if new:
            wrong = (
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being "
                f"deleted, found new finalizers []string{{{new}}}"
            )
    elif meta.deletion_timestamp is not None:
        time = meta.deletion_timestamp
        wrong = f'metadata.deletionTimestamp: Invalid value: "{time}": field is immutable'
    if not wrong and grace not in (None, current.deletion_grace_period_seconds):
        wrong = f"metadata.deletionGracePeriodSeconds: Invalid value: {grace}: field is immutable"
    if wrong:
        raise invalid(type(obj), meta.name, wrong)


def is_finished(meta: ObjectMeta, current: ObjectMeta) -> bool:
    """Whether an update removes the last finalizer of an object that is being deleted.

    Parameters
    ----------
    meta, current : ObjectMeta
        After the update and before it.
    """
    return bool(current.deletion_timestamp and current.finalizers) and not is_awaited(meta)
