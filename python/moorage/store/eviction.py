"""The subresource ``pods/eviction``: deletes a pod if its disruption budget allows it (kube-apiserver)."""

from __future__ import annotations

from msgspec.structs import replace

from moorage.objects import LabelSelectorMatcher, Pod, PodDisruptionBudget

from .errors import InvalidObjectError, TooManyRequestsError
from .protocol import ObjectClient

_FREE = frozenset({"Succeeded", "Failed"})
_SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
_REFUSED = (
    "Cannot evict pod as it would violate the pod's disruption budget. "
    "The disruption budget {} needs {} healthy pods and has {} currently"
)


def evict_pod(client: ObjectClient, pod: Pod) -> None:
    """Evict a pod: its disruption budget, if it has one, allows one disruption less then.

    A pod that has finished, has no node or is being deleted is deleted without regard to budgets.

    Parameters
    ----------
    client : ObjectClient
    pod : Pod
        Its name and its namespace count.

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
    is_free = current.status.phase in _FREE or current.metadata.deletion_timestamp is not None
    if not is_free and current.spec.node_name:
        _use_budget(client, current)
    client.delete(Pod, pod.name, pod.namespace, uid=current.metadata.uid)


def _use_budget(client: ObjectClient, pod: Pod) -> None:
    """Take one disruption from the budget of a pod."""
    labels = pod.metadata.labels
    budgets = [
        budget
        for budget in client.list(PodDisruptionBudget, pod.namespace)[0]
        if LabelSelectorMatcher(budget.spec.selector).matches(labels)
    ]
    if len(budgets) > 1:
        raise InvalidObjectError(_SEVERAL)
    for budget in budgets:
        status = budget.status
        if status.disruptions_allowed <= 0:
            healthy = status.desired_healthy, status.current_healthy
            raise TooManyRequestsError(_REFUSED.format(budget.name, *healthy))
        left = status.disruptions_allowed - 1
        client.update(replace(budget, status=replace(status, disruptions_allowed=left)))
