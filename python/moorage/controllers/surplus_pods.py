"""Which pods of a workload are deleted if it has too many (kubernetes v1.36, controller_utils.go)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import cmp_to_key
from math import inf, log2
from typing import NamedTuple

from moorage.kube.model.meta import Object, whole_number
from moorage.kube.model.pod import Pod
from moorage.kube.model.workload import Job, ReplicaSet, ReplicationController
from moorage.kube.workloads.ownership import is_active, is_healthy

from .store_control import StoreControl

_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def surplus_pods(control: StoreControl, obj: Object, related: Callable[[Object], Sequence[Pod]]) -> list[Pod]:
    """Return the pods that the controller of a workload of equal replicas deletes, in order.

    Parameters
    ----------
    obj : Object
        With defaults; a workload whose number of replicas is not set keeps its pods.
    related : callable
        Returns the active pods of the same Deployment.
    """
    is_scaled = isinstance(obj, ReplicaSet | ReplicationController) and obj.spec.replicas is not None
    surplus = control.active(obj) - (obj.spec.replicas or 0) if is_scaled else 0  # type: ignore[attr-defined]
    if surplus <= 0:
        return []
    pods = [pod for pod in control.owned(obj) if is_active(pod)]
    return first_to_go(control, obj, pods, related(obj))[:surplus]


def first_to_go(control: StoreControl, obj: Object, pods: Iterable[Pod], related: Sequence[Pod]) -> list[Pod]:
    """Return pods in the order in which the controller of a workload deletes them.

    Pods without a node go first, then those in an earlier phase, those that are not ready, those of lower
    deletion cost, those on nodes with more pods of the same Deployment, those that became ready later, those
    with more restarts, and those created later. Ages are compared by their powers of two, and where these are
    equal the pod of the lower UID goes. Of a Job the cost and the node do not count, and ages are exact.

    Parameters
    ----------
    pods : iterable of Pod
        Active pods of the workload.
    related : sequence of Pod
        The active pods of the same Deployment; of a Job they do not count.
    """
    ordered = sorted(pods, key=lambda pod: pod.name, reverse=True)  # those that are alike go in this order
    if isinstance(obj, Job):
        ranks = {pod.name: _Rank.of(pod, 0, 0, None) for pod in ordered}
    else:
        on, now = Counter(pod.spec.node_name for pod in related), control.client.now()
        ranks = {pod.name: _Rank.of(pod, _cost(pod), -on[pod.spec.node_name], now) for pod in ordered}
    order = cmp_to_key(_Rank.compare)
    ordered.sort(key=lambda pod: order(ranks[pod.name]))
    return ordered


class _Age(NamedTuple):
    """When something was, and its rank: the lower one goes first. What has not been has the lowest."""

    time: float
    rank: float

    @classmethod
    def of(cls, text: str | None, now: float | None) -> _Age:
        if text is None:
            return cls(-inf, -inf)
        try:
            time = datetime.fromisoformat(text).timestamp()
        except ValueError:  # times of conditions are not validated
            return cls(-inf, -inf)
        if now is None:
            return cls(time, -time)
        return cls(time, int(log2((now - time) * 1e9)) if now > time else -1)  # of nanoseconds


class _Rank(NamedTuple):
    """What decides which of two pods goes first."""

    state: tuple[bool, int, bool, int, int]
    ready: _Age
    restarts: tuple[int, int]
    created: _Age
    uid: str

    @classmethod
    def of(cls, pod: Pod, cost: int, near: int, now: float | None) -> _Rank:
        """Without `now` the order of ages is exact."""
        is_ready, since, phase = is_healthy(pod), None, pod.status.phase
        told = next((condition for condition in pod.status.conditions if condition.type == "Ready"), None)
        if is_ready and told is None:
            phase = "Running"  # there is no kubelet to say so
        elif is_ready and told is not None:
            since = told.last_transition_time
        state = bool(pod.spec.node_name), _PHASES.get(phase, 0), is_ready, cost, near
        created = _Age.of(pod.metadata.creation_timestamp, now)
        return cls(state, _Age.of(since, now), _restarts(pod), created, pod.metadata.uid)

    def compare(self, other: _Rank) -> int:
        """Return a negative number if this one goes first, and a positive one if the other one does."""
        if self.state != other.state:
            return -1 if self.state < other.state else 1
        if self.ready.time != other.ready.time:
            return self._by_age(self.ready, other, other.ready)
        if self.restarts != other.restarts:
            return -1 if self.restarts > other.restarts else 1
        if self.created.time != other.created.time:
            return self._by_age(self.created, other, other.created)
        return 0

    def _by_age(self, age: _Age, other: _Rank, its_age: _Age) -> int:
        return -1 if (age.rank, self.uid) < (its_age.rank, other.uid) else 1


def _cost(pod: Pod) -> int:
    """Return the cost of deleting a pod; 0 without a valid one (kubernetes v1.36, pkg/apis/core/helper)."""
    text = pod.metadata.annotations.get(_COST, "")
    cost = whole_number(text.removeprefix("-"))
    if cost is None or (text[0] == "0" and text != "0"):
        return 0
    return -cost if text[0] == "-" else cost


def _restarts(pod: Pod) -> tuple[int, int]:
    """Return the most restarts of a container and of a sidecar."""
    sidecars = {
        container.name for container in pod.spec.init_containers if container.restart_policy == "Always"
    }
    of_sidecars = (
        status.restart_count for status in pod.status.init_container_statuses if status.name in sidecars
    )
    regular = (status.restart_count for status in pod.status.container_statuses)
    return max(regular, default=0), max(of_sidecars, default=0)
