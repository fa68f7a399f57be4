"""Admits the new pods of a cluster that is read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from moorage.objects.model.cluster import Cluster, RefusedPod
from moorage.objects.model.meta import Object
from moorage.objects.model.pod import Pod
from moorage.objects.model.storage import PersistentVolumeClaim
from moorage.objects.workloads.naming import stable_uid

from .admission import Admission, RefusedError


def is_new(pod: Pod) -> bool:
    """Whether a pod with defaults is to be created, and has not come from an API server.

    Parameters
    ----------
    pod : Pod

    Returns
    -------
    bool
        True for a pod of a manifest without a node.
    """
    meta = pod.metadata
    return _may_be_new(pod) and meta.uid == stable_uid("Pod", meta.namespace, meta.name)


def _may_be_new(pod: Pod) -> bool:
    """Whether a pod is as a new one, but for its UID."""
    meta = pod.metadata
    if pod.spec.node_name or meta.resource_version or meta.deletion_timestamp is not None:
        return False
    return pod.status.phase == "Pending"


class NewPods:
    """Admits the new pods of a cluster, in their order.

    Parameters
    ----------
    cluster : Cluster
        With defaults. Its existing pods are the usage that quotas begin with.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._existing: dict[str, list[Pod]] | None = None
        self._pods = cluster.pods
        self._finished = cluster.finished
        self._admission = Admission(cluster.others, self._of_namespace)
        self.refused: list[RefusedPod] = []

    def _of_namespace(self, namespace: str) -> Iterable[Pod]:
        if self._existing is None:
            self._existing = defaultdict(list)
            for pod in (*self._pods, *self._finished):
                if not is_new(pod):
                    self._existing[pod.namespace].append(pod)
        return self._existing[namespace]

    def admit(self, pods: Iterable[Pod]) -> list[Pod]:
        """Admit the new ones among pods.

        Parameters
        ----------
        pods : iterable of Pod

        Returns
        -------
        list of Pod
            All but the refused ones, which `refused` gets.
        """
        admitted, admission = [], self._admission
        for pod in pods:
            try:
                concerned = _may_be_new(pod) and admission.concerns(pod) and is_new(pod)
                admitted.append(admission.admit(pod) if concerned else pod)
            except RefusedError as error:
                self.refused.append(RefusedPod(pod, str(error)))
        return admitted

    def without_claims_of_refused(self, objects: list[Object]) -> list[Object]:
        """Leave out the claims that were made for refused pods.

        Parameters
        ----------
        objects : list of Object

        Returns
        -------
        list of Object
        """
        uids = {one.pod.metadata.uid for one in self.refused}
        if not uids:
            return objects
        return [
            obj
            for obj in objects
            if not (isinstance(obj, PersistentVolumeClaim) and _controller_uid(obj) in uids)
        ]


def _controller_uid(obj: Object) -> str:
    controller = obj.metadata.controller()
    return "" if controller is None else controller.uid
