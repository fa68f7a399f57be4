"""PodNominator: the nominated pods of each node (kube-scheduler v1.36, backend/queue/nominator.go)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from moorage.kube import Pod

from .nominating_info import NominatingInfo

CHANGES_LIMIT = 1 << 14


class PodNominator:
    """The nominated pods by UID, and per node in the order of their nominations. Thread-safe.

    Parameters
    ----------
    is_current : callable, optional
        Whether a pod may be nominated. False for a pod that is deleted or bound.
    keeps_empty : bool, optional
        Whether a nomination that was withdrawn is kept as "" (`Release.empty_nominations_are_kept`).

    Attributes
    ----------
    is_current : callable
        Whether a pod still exists and has no node, as passed to the constructor.
    lock : RLock
        To be held by callers that read or change several nominations at once.
    nodes : dict of str to str
        UID to the nominated node; "" where the nomination of the pod's status was withdrawn.
    by_node : dict of str to dict of str to Pod
        The pods nominated to each node by UID, in the order of their nominations.
    changes : list of str
        Nodes whose nominated pods changed, or entered or left the cache. The core appends to it, too.
    epoch : int
        Grows whenever `changes` misses a change.
    """

    def __init__(
        self, is_current: Callable[[Pod], bool] = lambda pod: True, keeps_empty: bool = True
    ) -> None:
        self.keeps_empty = keeps_empty
        self.is_current = is_current
        self.lock = threading.RLock()
        self.by_node: dict[str, dict[str, Pod]] = {}
        self.nodes: dict[str, str] = {}
        self.changes: list[str] = []
        self.epoch = 0

    def add_nominated_pod(self, pod: Pod, info: NominatingInfo | None = None) -> None:
        """Nominate a pod. An earlier nomination of the pod ends in any case.

        Parameters
        ----------
        info : NominatingInfo, optional
            The nomination. Without it, or if it is `noop`, the nominated node of the pod's status counts, if
            there is one.
        """
        with self.lock:
            node = _nomination(pod, info)
            self._nominate(pod, node if node is not None and self.is_current(pod) else None)

    def nominate_current(self, pod: Pod, info: NominatingInfo | None = None) -> None:
        """Nominate a pod that exists and has no node; see `add_nominated_pod`."""
        with self.lock:
            self._nominate(pod, _nomination(pod, info))

    def is_changed_by(self, pod: Pod, info: NominatingInfo | None) -> bool:
        """Whether the nomination of a pod is changed, or made again, at the end of an attempt.

        Most pods that fail have none, before or after. Upstream then notes that the pod is nominated to no
        node, but nothing reads that.

        Parameters
        ----------
        info : NominatingInfo or None
            As the attempt gave it.
        """
        with self.lock:
            before = self.nodes.get(pod.metadata.uid) or pod.status.nominated_node_name
            return bool(before or (info is not None and info.nominated_node_name))

    def _nominate(self, pod: Pod, node: str | None) -> None:
        """End the nomination of a pod, and nominate the pod to a node unless that is None."""
        before, node = self.nodes.get(pod.metadata.uid), node if node or self.keeps_empty else None
        if before == node and (not node or self._replace(pod, node)):
            return
        if before is not None:
            self.delete_nominated_pod_if_exists(pod)
        if node is not None:
            self.put(pod, node)

    def _replace(self, pod: Pod, node: str) -> bool:
        """Replace the latest nominated pod of its node by its new state, if no filter distinguishes the two;
        return whether it was replaced."""
        uid, pods = pod.metadata.uid, self.by_node[node]
        before, meta = pods[uid].metadata, pod.metadata
        is_last = next(reversed(pods)) == uid
        if not is_last or pods[uid].spec is not pod.spec or before.labels != meta.labels:
            return False
        if before.deletion_timestamp != meta.deletion_timestamp:
            return False
        pods[uid] = pod
        return True

    def put(self, pod: Pod, node: str) -> None:
        """Nominate a pod without a nomination, without calling `is_current`.

        Parameters
        ----------
        node : str
            Name of the node; "" records that the nomination of the pod's status was withdrawn.
        """
        with self.lock:
            self.nodes[pod.metadata.uid] = node
            if node:
                self.by_node.setdefault(node, {})[pod.metadata.uid] = pod
                self._note(node)

    def _note(self, node: str) -> None:
        """Record that the nominated pods of a node changed."""
        if len(self.changes) >= CHANGES_LIMIT:
            self._begin_epoch()
        self.changes.append(node)

    def _begin_epoch(self) -> None:
        """Record that the nominated pods of any node may have changed."""
        self.changes.clear()
        self.epoch += 1

    def delete_nominated_pod_if_exists(self, pod: Pod) -> None:
        """End the nomination of a pod, if there is one."""
        with self.lock:
            node = self.nodes.pop(pod.metadata.uid, None)
            if node:
                del self.by_node[node][pod.metadata.uid]
                if not self.by_node[node]:
                    del self.by_node[node]
                self._note(node)

    def rebuild(self) -> None:
        """Drop incomplete nominations, after an exception that interrupted an operation."""
        with self.lock:
            consistent = {
                node: {uid: pod for uid, pod in pods.items() if self.nodes.get(uid) == node}
                for node, pods in self.by_node.items()
            }
            self.by_node = {node: pods for node, pods in consistent.items() if pods}
            nominated = {uid for pods in self.by_node.values() for uid in pods}
            for uid in [uid for uid, node in self.nodes.items() if node and uid not in nominated]:
                del self.nodes[uid]
            self._begin_epoch()

    def update_nominated_pod(self, old: Pod, new: Pod) -> None:
        """Replace the state of a nominated pod; the pod moves to the end of its node's list.

        A nomination that the status does not show stays. Otherwise the new status decides.

        Parameters
        ----------
        old, new : Pod
            The states before and after.
        """
        with self.lock:
            nomination = None
            if not old.status.nominated_node_name and not new.status.nominated_node_name:
                node = self.nodes.get(old.metadata.uid)
                nomination = None if node is None else NominatingInfo(node)
            if old.metadata.uid != new.metadata.uid:
                self.delete_nominated_pod_if_exists(old)
            self.add_nominated_pod(new, nomination)

    def nominated_pods_for_node(self, node_name: str) -> list[Pod]:
        """Return the pods nominated to a node.

        Returns
        -------
        list of Pod
            In the order of their nominations.
        """
        with self.lock:
            return list(self.by_node.get(node_name, {}).values())

    def nominated_keys(self, pods: Iterable[Pod]) -> set[str]:
        """Return ``namespace/name`` of those of some pods that are nominated to a node."""
        with self.lock:
            nodes = self.nodes
            return {pod.key for pod in pods if nodes.get(pod.metadata.uid)} if self.by_node else set()

    def is_alone(self, pod: Pod, node_name: str) -> bool:
        """Whether no other pod is nominated to a node."""
        with self.lock:
            pods = self.by_node.get(node_name)
            return not pods or (len(pods) == 1 and pod.metadata.uid in pods)

    def nominated_nodes(self) -> list[str]:
        """Return the names of the nodes that have nominated pods."""
        with self.lock:
            return list(self.by_node)

    def nominated_node(self, pod: Pod) -> str | None:
        """Return the node to which a pod is nominated here.

        Returns
        -------
        str or None
            None without a nomination here; "" where the nomination of the pod's status was withdrawn.
        """
        with self.lock:
            return self.nodes.get(pod.metadata.uid)

    def nominated_before(self, pod: Pod) -> dict[str, list[Pod]]:
        """Return the nominated pods that count when a pod is filtered: other pods of at least its priority.

        Returns
        -------
        dict of str to list of Pod
            By node name.
        """
        with self.lock:
            if not self.by_node:
                return {}
            before = {node: going_before(pod, pods.values()) for node, pods in self.by_node.items()}
        return {node: pods for node, pods in before.items() if pods}

    def save(self) -> tuple[dict[str, str], dict[str, dict[str, Pod]]]:
        """Return all nominations, for `undo`."""
        with self.lock:
            return self.nodes.copy(), {node: pods.copy() for node, pods in self.by_node.items()}

    def undo(self, saved: Any) -> None:
        """Restore saved nominations."""
        nodes, pods = saved
        with self.lock:
            self.nodes.clear()  # in place, as the core has a reference to it
            self.nodes.update(nodes)
            self.by_node = pods
            self._begin_epoch()

    def release(self, saved: object) -> None:
        """Do nothing: saved nominations need no release."""

    def __bool__(self) -> bool:
        """Whether some pod is nominated to a node."""
        return bool(self.by_node)


def _nomination(pod: Pod, info: NominatingInfo | None) -> str | None:
    """Return the node of a nomination, "" for a withdrawn one; without it that of the status, or None."""
    if info is None or info.noop:
        return pod.status.nominated_node_name or None
    return info.nominated_node_name


def going_before(pod: Pod, others: Iterable[Pod]) -> list[Pod]:
    """Select the nominated pods that count when a pod is filtered: other pods of at least its priority
    (kube-scheduler v1.36, runtime/framework.go addGENominatedPods).

    Parameters
    ----------
    pod : Pod
        The pod to filter.
    others : iterable of Pod
        Pods nominated to one node.
    """
    priority, uid = pod.spec.priority or 0, pod.metadata.uid
    return [other for other in others if (other.spec.priority or 0) >= priority and other.metadata.uid != uid]
