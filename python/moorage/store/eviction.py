"""The subresource ``pods/eviction``: deletes a pod if its disruption budget allows it (kube-apiserver)."""

from __future__ import annotations

from msgspec.structs import replace

from moorage.kube import Pod, PodDisruptionBudget
from moorage.kube.model.meta import Condition, with_condition
from moorage.kube.model.pod import disruption_condition
from moorage.kube.workloads.disruption import BudgetSelectors, ignores_budgets, needs_disruption

from .errors import InvalidObjectError, TooManyRequestsError
from .protocol import ObjectClient

_SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
_REFUSED = (
    "Cannot evict pod as it would violate the pod's disruption budget. "
    "The disruption budget {} needs {} healthy pods and has {} currently"
)
_EVICTED = disruption_condition("EvictionByEvictionAPI", "Eviction API: evicting")


def evict_pod(client: ObjectClient, pod: Pod, grace_period_seconds: int | None = None) -> None:
    """Evict a pod: its disruption budget, if it has one, allows one disruption less then.

    Some pods are deleted without regard to budgets (`ignores_budgets`), and some take no disruption of their
    budget as they are not ready (`needs_disruption`).

    Parameters
    ----------
    pod : Pod
        Its name and its namespace count.
    grace_period_seconds : int, optional
        For the deletion.

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
    if not ignores_budgets(current):
        _use_budget(client, current)
    tell_why(client, current, _EVICTED)
    uid = current.metadata.uid
    client.delete(Pod, pod.name, pod.namespace, uid=uid, grace_period_seconds=grace_period_seconds)


def tell_why(client: ObjectClient, pod: Pod, why: Condition) -> None:
    """Give a pod that is about to be deleted a condition that says why, unless it goes at once.

    Parameters
    ----------
    pod : Pod
        As it is stored.
    why : Condition
        See `disruption_condition`.

    Raises
    ------
    NotFoundError
        The pod does not exist.
    """
    if pod.metadata.finalizers and pod.metadata.deletion_timestamp is None:
        status = replace(pod.status, conditions=with_condition(pod.status.conditions, why))
        client.update(replace(pod, metadata=replace(pod.metadata, resource_version=""), status=status))


def _use_budget(client: ObjectClient, pod: Pod) -> None:
    """Take one disruption from the budget of a pod."""
    budgets = BudgetSelectors(client.list(PodDisruptionBudget, pod.namespace)[0]).of(pod)
    if len(budgets) > 1:
        raise InvalidObjectError(_SEVERAL)
    for budget in budgets:
        if not needs_disruption(pod, budget):
            continue
        status = budget.status
        if status.disruptions_allowed <= 0:
            healthy = status.desired_healthy, status.current_healthy
            raise TooManyRequestsError(_REFUSED.format(budget.name, *healthy))
        left = status.disruptions_allowed - 1
        client.update(replace(budget, status=replace(status, disruptions_allowed=left)))
