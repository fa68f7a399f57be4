"""Admits the new pods of manifests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from moorage.errors import InputError

from ..model.cluster import Cluster, RefusedPod
from ..model.meta import Object
from ..model.pod import Pod
from ..workloads.naming import stable_uid
from ..workloads.ownership import has_made_up_uid
from .admission import Admission, RefusedError


def is_new(pod: Pod) -> bool:
    """Whether a pod with defaults is to be created, and has not come from an API server.

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
        self._others = cluster.others
        self._admission = Admission(
            [*cluster.others, *cluster.namespaces], self._of_namespace, self._objects_of
        )
        self.refused: list[RefusedPod] = []

    def _of_namespace(self, namespace: str) -> Iterable[Pod]:
        if self._existing is None:
            self._existing = defaultdict(list)
            for pod in (*self._pods, *self._finished):
                if not is_new(pod):
                    self._existing[pod.namespace].append(pod)
        return self._existing[namespace]

    def _objects_of(self, namespace: str) -> Iterable[Object]:
        return [obj for obj in self._others if obj.namespace == namespace and not _is_new_object(obj)]

    def refused_objects(self) -> Iterator[tuple[Object, InputError]]:
        """Admit the new ones among objects that are no pods.

        Yields
        ------
        Object, InputError
            One that a quota or a limit range refuses, and why.
        """
        for obj in self._others:
            if _is_new_object(obj):
                try:
                    self._admission.admit_object(obj)
                except RefusedError as error:
                    yield obj, InputError(str(error))

    def admit(self, pods: Iterable[Pod]) -> list[Pod]:
        """Admit the new ones among pods.

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


def _is_new_object(obj: Object) -> bool:
    """Whether an object with defaults is to be created, and has not come from an API server."""
    return has_made_up_uid(obj) and not obj.metadata.resource_version
