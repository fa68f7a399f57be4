"""Computes the status of PodDisruptionBudgets as the disruption controller does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from msgspec.structs import replace

from moorage._core.base.selectors import LabelSelectorMatcher
from moorage.grouped import grouped

from ..model.meta import LabelSelector, Object, OwnerReference, by_label, selected_labels, share
from ..model.pod import Pod
from ..model.policy import ALWAYS_ALLOW, NO_STATUS, PodDisruptionBudget, PodDisruptionBudgetStatus
from ..model.workload import Deployment, ReplicaSet, ReplicationController, StatefulSet
from .ownership import is_active, is_healthy, refers_to

if TYPE_CHECKING:
    from ..model.cluster import Cluster

Scalable: TypeAlias = Deployment | ReplicaSet | ReplicationController | StatefulSet
SCALABLE = (Deployment, ReplicaSet, ReplicationController, StatefulSet)
FindWorkload: TypeAlias = Callable[[str, str, str], Scalable | None]


T = TypeVar("T", bound=Object)


class LabelledObjects(Generic[T]):
    """Objects with an index of labels."""

    def __init__(self, objects: Iterable[T]) -> None:
        self._by_label = grouped((label, obj) for obj in objects for label in by_label(obj))

    def selected(self, namespace: str, selector: LabelSelector | None) -> list[T]:
        """Return the objects of a namespace that a selector matches."""
        matches = LabelSelectorMatcher(selector).matches
        labels = selected_labels(namespace, selector)
        labelled = (obj for label in labels for obj in self._by_label.get(label, ()))
        return [obj for obj in labelled if matches(obj.metadata.labels)]


class BudgetSelectors:
    """Finds the budgets that select a pod."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._by_label = grouped(
            (label, (at, budget, LabelSelectorMatcher(budget.spec.selector)))
            for at, budget in enumerate(budgets)
            for label in selected_labels(budget.namespace, budget.spec.selector)
        )

    def of(self, pod: Pod) -> list[PodDisruptionBudget]:
        """Return the budgets of a pod's namespace whose selector matches it.

        Returns
        -------
        list of PodDisruptionBudget
            In the order in which they were given.
        """
        labels = pod.metadata.labels
        selecting = {
            at: budget
            for label in by_label(pod)
            for at, budget, matcher in self._by_label.get(label, ())
            if matcher.matches(labels)
        }
        return [selecting[at] for at in sorted(selecting)]

    def blocking(self, pod: Pod) -> list[PodDisruptionBudget]:
        """Return the budgets that forbid the eviction of a pod as they are: several of one pod, or one that
        allows no disruption."""
        budgets = [] if ignores_budgets(pod) else self.of(pod)
        if len(budgets) > 1:
            return budgets
        return [
            budget
            for budget in budgets
            if budget.status.disruptions_allowed <= 0 and needs_disruption(pod, budget)
        ]


def ignores_budgets(pod: Pod) -> bool:
    """Whether an eviction asks no budget: the pod has finished, is being deleted, has no node, or is pending
    (kubernetes v1.36, pkg/registry/core/pod/storage/eviction.go).

    A pod on a node is pending if it is reported as not ready as well: a simulated one has no kubelet, which
    would set its phase.
    """
    is_pending = pod.status.phase == "Pending" and not is_healthy(pod)
    return is_pending or not is_active(pod) or not pod.spec.node_name


def needs_disruption(pod: Pod, budget: PodDisruptionBudget) -> bool:
    """Whether an eviction takes one of the disruptions that a budget allows (kubernetes v1.36, eviction.go).

    A pod that is not ready takes none with the policy AlwaysAllow, nor where the budget has as many healthy
    pods as it needs.
    """
    if is_healthy(pod):
        return True
    status = budget.status
    is_whole = status.current_healthy >= status.desired_healthy > 0
    return budget.spec.unhealthy_pod_eviction_policy != ALWAYS_ALLOW and not is_whole


def status_of(
    budget: PodDisruptionBudget, pods: Sequence[Pod], find: FindWorkload
) -> PodDisruptionBudgetStatus | None:
    """Compute the status of a budget from its pods (kubernetes v1.36, pkg/controller/disruption).

    - **expected pods:** with a number as `minAvailable`, the pods that the selector matches; otherwise the
      replicas of the workloads that control them (of a Deployment rather than of its ReplicaSet). Pods
      without a controller are not expected.
    - **current healthy:** the pods that the selector matches and that are ready: the condition Ready is true,
      or, if it is not reported, the pod is bound and has not finished. Pods that are being deleted do not
      count.
    - **desired healthy:** `minAvailable`, or the expected pods less `maxUnavailable`; percentages are of the
      expected pods, rounded up.
    - **disruptions allowed:** the number of healthy pods above the desired number, 0 if no pod is expected.

    Parameters
    ----------
    budget : PodDisruptionBudget
        A valid one; its own status is ignored.
    pods : sequence of Pod
        All pods of its namespace that its selector matches.
    find : callable
        Returns the scalable workload of a kind, a namespace and a name, or None.

    Returns
    -------
    PodDisruptionBudgetStatus or None
        None where replicas are needed and a pod has a controller that is not known, or has no replicas (a
        Job, a DaemonSet): the disruption controller fails then.
    """
    low, high = budget.spec.min_available, budget.spec.max_unavailable
    expected: int | None = 0
    if high is not None or isinstance(low, str):
        expected = _replicas(pods, find)
    elif low is not None:
        expected = len(pods)
    if expected is None:
        return None
    desired = share(low or 0, expected) if high is None else max(0, expected - share(high, expected))
    healthy = sum(map(is_healthy, pods))
    allowed = max(0, healthy - desired) if expected else 0
    return PodDisruptionBudgetStatus(
        disruptions_allowed=allowed, current_healthy=healthy, desired_healthy=desired, expected_pods=expected
    )


def with_statuses(cluster: Cluster) -> list[Object]:
    """Return the `others` of a cluster, in which every disruption budget has a status (see `status_of`), in
    the same order.

    Parameters
    ----------
    cluster : Cluster
        With the pods that were there.
    """
    lacks = [isinstance(obj, PodDisruptionBudget) and obj.status is NO_STATUS for obj in cluster.others]
    if not any(lacks):
        return [*cluster.others]
    pods = LabelledObjects((*cluster.pods, *cluster.finished))
    scales = {(obj.kind, obj.namespace, obj.name): obj for obj in cluster.others if isinstance(obj, SCALABLE)}

    def status(budget: PodDisruptionBudget) -> PodDisruptionBudgetStatus:
        own = pods.selected(budget.namespace, budget.spec.selector)
        return status_of(budget, own, lambda *key: scales.get(key)) or PodDisruptionBudgetStatus()

    return [
        replace(obj, status=status(obj)) if isinstance(obj, PodDisruptionBudget) and lacking else obj
        for obj, lacking in zip(cluster.others, lacks, strict=True)
    ]


def _replicas(pods: Iterable[Pod], find: FindWorkload) -> int | None:
    """Total replicas of the workloads that control the pods; None if one is unknown or has none."""

    def owner_by(reference: OwnerReference | None, namespace: str) -> Scalable | None:
        owner = reference and find(reference.kind, namespace, reference.name)
        return owner if owner and refers_to(reference, owner) else None

    total: dict[str, int] = {}
    references = {(pod.metadata.controller(), pod.namespace) for pod in pods}  # thousands of pods have one
    for reference, namespace in references:
        if reference is None:
            continue
        owner = owner_by(reference, namespace)
        if owner is None:
            return None
        if isinstance(owner, ReplicaSet):
            owner = owner_by(owner.metadata.controller(), namespace) or owner
        total[f"{owner.kind} {owner.name}"] = owner.spec.replicas or 0
    return sum(total.values())
