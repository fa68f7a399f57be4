"""PodNominator: which pods are expected on which node (kube-scheduler v1.36, backend/queue/nominator.go)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from moorage.objects import Pod

from .interface import NominatingInfo

CHANGES_LIMIT = 1 << 14


class PodNominator:
    """Nominated pods by UID, per node in the order in which they were nominated. Thread-safe.

    Parameters
    ----------
    is_current : callable, optional
        False for a pod that is deleted or bound, and so cannot be nominated.

    Attributes
    ----------
    lock : RLock
        To be held by callers that read or change several nominations at once.
    nodes : dict of str to str
        Node by UID; "" where a nomination was taken away.
    changes : list of str
        Nodes whose nominated pods have changed, or were added to the cache or removed from it. The core
        appends to it, too.
    epoch : int
        Grows where `changes` is not complete.
    """

    def __init__(self, is_current: Callable[[Pod], bool] = lambda pod: True) -> None:
        self._is_current = is_current
        self.lock = threading.RLock()
        self._pods: dict[str, dict[str, Pod]] = {}
        self.nodes: dict[str, str] = {}
        self.changes: list[str] = []
        self.epoch = 0

    def add_nominated_pod(self, pod: Pod, info: NominatingInfo | None = None) -> None:
        """Nominate a pod; an earlier nomination ends in any case.

        Parameters
        ----------
        pod : Pod
        info : NominatingInfo, optional
            The node. Without it, or where it is `noop`, the node of the pod's own status, if that has one.
        """
        with self.lock:
            if info is None or info.noop:
                node, is_put = pod.status.nominated_node_name, bool(pod.status.nominated_node_name)
            else:
                node, is_put = info.nominated_node_name, True
            is_put = is_put and self._is_current(pod)
            if is_put and node and self._replace(pod, node):
                return
            self.delete_nominated_pod_if_exists(pod)
            if is_put:
                self.put(pod, node)

    def _replace(self, pod: Pod, node: str) -> bool:
        """Replace the pod that was nominated last to a node by a later state, if no filter tells them apart.

        Returns whether it was replaced.
        """
        uid = pod.metadata.uid
        if self.nodes.get(uid) != node:
            return False
        pods = self._pods[node]
        before, meta = pods[uid].metadata, pod.metadata
        is_last = next(reversed(pods)) == uid
        if not is_last or pods[uid].spec is not pod.spec or before.labels != meta.labels:
            return False
        if before.deletion_timestamp != meta.deletion_timestamp:
            return False
        pods[uid] = pod
        return True

    def put(self, pod: Pod, node: str) -> None:
        """Nominate a pod that has no nomination, without asking `is_current`.

        Parameters
        ----------
        pod : Pod
        node : str
            "" records that the nomination of the pod's status was taken away.
        """
        with self.lock:
            self.nodes[pod.metadata.uid] = node
            if node:
                self._pods.setdefault(node, {})[pod.metadata.uid] = pod
                self._note(node)

    def _note(self, node: str) -> None:
        """Record a change of a node."""
        if len(self.changes) >= CHANGES_LIMIT:
            self._begin_epoch()
        self.changes.append(node)

    def _begin_epoch(self) -> None:
        """Record that any node may have changed."""
        self.changes.clear()
        self.epoch += 1

    def delete_nominated_pod_if_exists(self, pod: Pod) -> None:
        """End a nomination, if there is one.

        Parameters
        ----------
        pod : Pod
        """
        with self.lock:
            node = self.nodes.pop(pod.metadata.uid, None)
            if node:
                del self._pods[node][pod.metadata.uid]
                if not self._pods[node]:
                    del self._pods[node]
                self._note(node)

    def rebuild(self) -> None:
        """Make the state consistent after an exception, such as an interrupt, within an operation: drop
        nominations that are recorded in part."""
        with self.lock:
            consistent = {
                node: {uid: pod for uid, pod in pods.items() if self.nodes.get(uid) == node}
                for node, pods in self._pods.items()
            }
            self._pods = {node: pods for node, pods in consistent.items() if pods}
            nominated = {uid for pods in self._pods.values() for uid in pods}
            for uid in [uid for uid, node in self.nodes.items() if node and uid not in nominated]:
                del self.nodes[uid]
            self._begin_epoch()

    def update_nominated_pod(self, old: Pod, new: Pod) -> None:
        """Follow a change of a pod, which moves to the end of its node's list.

        A nomination that no status shows stays; else the new status decides.

        Parameters
        ----------
        old, new : Pod
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
        """Parameters
        ----------
        node_name : str

        Returns
        -------
        list of Pod
            In the order in which they were nominated.
        """
        with self.lock:
            return list(self._pods.get(node_name, {}).values())

    def nominated_nodes(self) -> list[str]:
        """The nodes that pods are nominated to."""
        with self.lock:
            return list(self._pods)

    def nominated_node(self, pod: Pod) -> str | None:
        """Parameters
        ----------
        pod : Pod

        Returns
        -------
        str or None
            None for a pod without a nomination here; "" where the nomination of its status was taken away.
        """
        with self.lock:
            return self.nodes.get(pod.metadata.uid)

    def nominated_before(self, pod: Pod) -> dict[str, list[Pod]]:
        """The nominated pods that are counted when a pod is filtered: others of at least its priority.

        Parameters
        ----------
        pod : Pod

        Returns
        -------
        dict of str to list of Pod
            By node.
        """
        with self.lock:
            if not self._pods:
                return {}
            found = {node: going_before(pod, pods.values()) for node, pods in self._pods.items()}
        return {node: pods for node, pods in found.items() if pods}

    def save(self) -> tuple[dict[str, str], dict[str, dict[str, Pod]]]:
        """All nominations, for `undo`."""
        with self.lock:
            return self.nodes.copy(), {node: pods.copy() for node, pods in self._pods.items()}

    def undo(self, saved: tuple[dict[str, str], dict[str, dict[str, Pod]]]) -> None:
        """Restore the nominations of `save`."""
        nodes, pods = saved
        with self.lock:
            self.nodes.clear()  # in place, as the core has a reference to it
            self.nodes.update(nodes)
            self._pods = pods
            self._begin_epoch()

    def __bool__(self) -> bool:
        """True where some pod is nominated to a node."""
        return bool(self._pods)


def going_before(pod: Pod, others: Iterable[Pod]) -> list[Pod]:
    """The nominated pods that are counted when a pod is filtered: others of at least its priority.

    Parameters
    ----------
    pod : Pod
    others : iterable of Pod
        Pods nominated to one node.

    Returns
    -------
    list of Pod
    """
    priority, uid = pod.spec.priority or 0, pod.metadata.uid
    return [other for other in others if (other.spec.priority or 0) >= priority and other.metadata.uid != uid]
