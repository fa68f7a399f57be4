"""Decisions about volumes by pod and node (Kubernetes v1.14, scheduler_binder_cache.go)."""

from __future__ import annotations

from collections.abc import Mapping
from threading import RLock
from typing import NamedTuple, TypeAlias

from moorage.objects import PersistentVolumeClaim, Pod
from moorage.volume.binding.metrics import VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE
from moorage.volume.binding.pod_volumes import BindingInfo


class NodeDecision(NamedTuple):
    """Bindings and provisionings of a pod on one node."""

    bindings: list[BindingInfo] | None
    provisionings: list[PersistentVolumeClaim] | None


NodeDecisions: TypeAlias = Mapping[str, NodeDecision]
"""Node name to the decision for it."""


class PodBindingCache:
    """Decisions by pod and node. Every method may be called from any thread.

    A pod's decisions are to be deleted when it is deleted or can no longer be scheduled.
    """

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, NodeDecision]] = {}
        self._assumed: dict[str, str] = {}
        self._lock = RLock()

    def update_bindings(
        self,
        pod: Pod,
        node: str,
        bindings: list[BindingInfo] | None,
        provisionings: list[PersistentVolumeClaim] | None,
    ) -> None:
        """Store the decision for a pod and a node; the lists are not copied.

        Parameters
        ----------
        pod : Pod
        node : str
        bindings : list of BindingInfo, or None
            Claims and their volumes.
        provisionings : list of PersistentVolumeClaim, or None
            Claims to provision.
        """
        with self._lock:
            nodes = self._pods.setdefault(pod.key, {})
            if node not in nodes:
                VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE.inc("add")
            nodes[node] = NodeDecision(bindings, provisionings)

    def clear_bindings(self, pod: Pod, node: str) -> None:
        """Delete the decision for a pod and a node. The pod's entry remains.

        Parameters
        ----------
        pod : Pod
        node : str
        """
        with self._lock:
            self._pods.get(pod.key, {}).pop(node, None)
            if self._assumed.get(pod.key) == node:
                del self._assumed[pod.key]

    def get_bindings(self, pod: Pod, node: str) -> list[BindingInfo] | None:
        """The bindings for a pod and a node: None without a decision, an empty list if there are none.

        Parameters
        ----------
        pod : Pod
        node : str
        """
        decision = self._decision(pod, node)
        return None if decision is None else decision.bindings

    def get_provisioned_pvcs(self, pod: Pod, node: str) -> list[PersistentVolumeClaim] | None:
        """The claims to provision; None and the empty list as for `get_bindings`.

        Parameters
        ----------
        pod : Pod
        node : str
        """
        decision = self._decision(pod, node)
        return None if decision is None else decision.provisionings

    def get_decisions(self, pod: Pod) -> NodeDecisions | None:
        """All decisions for a pod; None for an unknown pod.

        Parameters
        ----------
        pod : Pod
        """
        with self._lock:
            nodes = self._pods.get(pod.key)
            return None if nodes is None else nodes.copy()

    def delete_bindings(self, pod: Pod) -> None:
        """Delete all decisions for a pod, and its entry.

        Parameters
        ----------
        pod : Pod
        """
        with self._lock:
            self._assumed.pop(pod.key, None)
            if self._pods.pop(pod.key, None) is not None:
                VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE.inc("delete")

    def assume_node(self, pod: Pod, node: str) -> None:
        """Record the node for which a pod's volumes are assumed.

        Parameters
        ----------
        pod : Pod
        node : str
        """
        with self._lock:
            self._assumed[pod.key] = node

    def assumed_node(self, pod: Pod) -> str:
        """The node for which a pod's volumes were assumed last; "" if that decision was deleted.

        Parameters
        ----------
        pod : Pod
        """
        with self._lock:
            return self._assumed.get(pod.key, "")

    def _decision(self, pod: Pod, node: str) -> NodeDecision | None:
        with self._lock:
            return self._pods.get(pod.key, {}).get(node)


new_pod_binding_cache = PodBindingCache
