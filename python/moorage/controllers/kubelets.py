"""Starts and ends pods as kubelets and the pod garbage collector do, as far as something waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from math import inf

from msgspec.structs import replace

from moorage._core.base.selectors import tolerates
from moorage.kube.admission.request import POD_COLLECTOR, kubelet_of
from moorage.kube.model.meta import with_condition
from moorage.kube.model.node import Node, Taint
from moorage.kube.model.pod import Pod
from moorage.kube.read.object_defaults import GRACE_PERIOD, UNREACHABLE
from moorage.kube.workloads.ownership import (
    DELETE_DEPENDENTS,
    FINISHED,
    ORPHAN_DEPENDENTS,
    is_active,
    is_healthy,
)
from moorage.kube.workloads.readiness import is_starting
from moorage.saved_fields import SavedFields
from moorage.store import Indexer, NotFoundError, ObjectStore
from moorage.store.protocol import overwrite

from .api_server import may_delete, server_of
from .pod_times import TimesOf
from .store_control import BY_COLLECTOR, failed_with

SOON = 1.0
"""Seconds after which a pod is started or ended that was about to when a cluster was read."""
_READY = frozenset({"PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"})
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


class Kubelets(SavedFields):
    """Starts pods that were about to start when a cluster was read, and ends those that are being deleted.

    A pod that is being deleted fails when it has stopped, or at the end of its grace period, and goes unless
    it has finalizers. Pods stay as they are on a node that nobody hears of (condition Ready unknown). Those
    of a node that is gone, and those without a node, are ended at once by the pod garbage collector
    (kubernetes v1.36, pkg/controller/podgc).

    Parameters
    ----------
    nodes : Indexer
        The informer's copy.
    now : callable
        Returns seconds.
    times : callable
        Returns how long a pod takes.

    Attributes
    ----------
    due : dict of str to float
        By ``namespace/name`` the pods that start or end, with the time at which they do.
    """

    fields = ("due",)

    def __init__(
        self, client: ObjectStore, nodes: Indexer[Node], now: Callable[[], float], times: TimesOf
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._now = now
        self._times = times
        self.due: dict[str, float] = {}

    def note(self, pod: Pod, least: float = 0.0) -> None:
        """Remember a pod that is being deleted, or one that its kubelet is about to start, for `work`.

        It ends when it has stopped, or starts, after some seconds at the earliest. Other pods are ignored.

        Parameters
        ----------
        least : float
            The seconds.
        """
        meta = pod.metadata
        grace = meta.deletion_grace_period_seconds or 0
        is_delayed = bool(grace) or pod.status.phase not in FINISHED or not meta.finalizers
        if meta.deletion_timestamp is not None and is_delayed and self._hears_of(pod):
            period = min(self._times(pod).stop, grace)
            self.due.setdefault(pod.key, self._now() + max(period, least))
        elif is_starting(pod):
            self.note_start(pod)

    def note_start(self, pod: Pod) -> None:
        """Remember a pod that its kubelet has begun to start, or whose containers run and will be ready."""
        if self._hears_of(pod):
            times = self._times(pod)
            period = times.ready + (times.start if pod.status.phase == "Pending" else 0)
            self.due.setdefault(pod.key, self._now() + max(period, SOON))

    def grace_of(self, pod: Pod) -> int:
        """Return the grace period with which a pod is deleted: 0 where nothing has to stop."""
        node = self._nodes.get(pod.spec.node_name)
        if node is None or pod.status.phase in FINISHED:
            return 0
        if self.is_out_of_service(node.name):
            return 0  # the garbage collector does not wait for the kubelet
        if self._hears_of(pod) and not self._times(pod).stop:
            return 0
        period = pod.spec.termination_grace_period_seconds
        return GRACE_PERIOD if period is None else period

    def grace_of_eviction(self, pod: Pod) -> int:
        """Return the grace period of an eviction: 0, so that the pod is gone at once, or else that of
        `grace_of` on a node that nobody hears of, where it stays, and for a pod that answers a webhook that
        fails closed, as it does so until it has stopped."""
        is_gone = self._hears_of(pod) and not server_of(self._client).silent_webhooks().ask(pod)
        return 0 if is_gone else self.grace_of(pod)

    @property
    def is_due(self) -> bool:
        """Whether a pod starts or ends now."""
        return self.next_time() <= self._now()

    def next_time(self) -> float:
        """Return the time at which the next pod starts or ends; infinite without one."""
        return min(self.due.values(), default=inf)

    def work(self) -> None:
        """End the noted pods that are being deleted and start the others, those whose time has come."""
        now = self._now()
        ended = [key for key, when in self.due.items() if when <= now]
        for key in ended:
            del self.due[key]
            namespace, _, name = key.partition("/")
            with suppress(NotFoundError):
                pod = self._client.get(Pod, name, namespace)
                if pod.metadata.deletion_timestamp is not None:
                    self._end(pod)
                elif is_active(pod) and not is_healthy(pod):
                    self._start(pod)

    def _start(self, pod: Pod) -> None:
        """Let a pod run and be ready."""
        status = replace(pod.status, phase="Running")
        for condition in pod.status.conditions:
            if condition.type in _READY:
                conditions = with_condition(
                    status.conditions, replace(condition, status="True", reason="", message="")
                )
                status = replace(status, conditions=conditions)
        overwrite(self._client, replace(pod, status=status))

    def _end(self, pod: Pod) -> None:
        """Let a pod fail, and delete it at once, if its kubelet may; the garbage collector deletes what it
        owns later."""
        meta = pod.metadata
        of_collector = DELETE_DEPENDENTS, ORPHAN_DEPENDENTS
        finalizers = tuple(finalizer for finalizer in meta.finalizers if finalizer not in of_collector)
        name = pod.spec.node_name
        has_kubelet = self._nodes.get(name) is not None
        is_allowed = may_delete(self._client, pod, kubelet_of(name) if has_kubelet else POD_COLLECTOR)
        stays = bool(meta.finalizers) or not is_allowed
        if (pod.status.phase not in FINISHED and stays) or finalizers != meta.finalizers:
            is_lost = bool(name) and not has_kubelet
            failed = failed_with(pod, BY_COLLECTOR if is_lost else None)
            overwrite(self._client, failed, finalizers=finalizers)
        if is_allowed:
            with suppress(NotFoundError):
                self._client.delete(Pod, pod.name, pod.namespace, grace_period_seconds=0)

    def _hears_of(self, pod: Pod) -> bool:
        """Whether the kubelet of a pod, or the garbage collector, takes care of it."""
        name = pod.spec.node_name
        return not name or self._nodes.get(name) is None or not self.is_lost(name)

    def is_out_of_service(self, name: str) -> bool:
        """Whether a node has the taint by which its pods and volumes are taken from it at once."""
        node = self._nodes.get(name)
        return node is not None and any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)

    def is_lost(self, name: str) -> bool:
        """Whether a node is gone, or nobody hears of it."""
        node = self._nodes.get(name)
        if node is None or any(taint.key == UNREACHABLE for taint in node.spec.taints):
            return True
        conditions = node.status.conditions
        return any(condition.status == "Unknown" for condition in conditions if condition.type == "Ready")


def tolerated_seconds(pod: Pod, taints: Iterable[Taint]) -> float:
    """Return after which time the taints of its node evict a pod: 0 for at once, infinite for never
    (kubernetes v1.36, pkg/controller/tainteviction getMinTolerationTime)."""
    least = inf
    for taint in taints:
        if taint.effect == "NoExecute":
            toleration = next((each for each in pod.spec.tolerations if tolerates((each,), taint)), None)
            if toleration is None:
                return 0
            if toleration.toleration_seconds is not None:
                least = min(least, max(0, toleration.toleration_seconds))
    return least
