"""Admits the new pods of a cluster that is read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from moorage.errors import InputError
from moorage.objects.model.cluster import Cluster, RefusedPod
from moorage.objects.model.meta import Object
from moorage.objects.model.pod import Pod
from moorage.objects.model.storage import PersistentVolumeClaim
from moorage.objects.workloads.naming import stable_uid
from moorage.objects.workloads.ownership import has_made_up_uid

from .admission import Admission, RefusedError
from .siblings import Siblings


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

    def warnings(self, cluster: Cluster) -> Iterator[str]:
        """Yield sentences about what admission adds to new pods, or a distribution would add.

        Parameters
        ----------
        cluster : Cluster
            With the new pods.
        """
        return self._admission.additions.warnings(cluster.pods, cluster.nodes)

    def _of_namespace(self, namespace: str) -> Iterable[Pod]:
        if self._existing is None:
            self._existing = defaultdict(list)
            for pod in (*self._pods, *self._finished):
                if not is_new(pod):
                    self._existing[pod.namespace].append(pod)
        return self._existing[namespace]

    def _objects_of(self, namespace: str) -> Iterable[Object]:
        return [obj for obj in self._others if obj.namespace == namespace and not _is_new_object(obj)]

    def follow(self, siblings: Siblings) -> None:
        """Make pods of workloads differ from their templates as running pods do."""
        self._admission.siblings = siblings

    def admit_objects(self, others: list[Object], pods: list[Pod]) -> tuple[list[Object], list[Pod]]:
        """Admit the new ones among objects that are no pods.

        Parameters
        ----------
        pods : list of Pod
            Those that workloads have made.

        Returns
        -------
        list of Object
            All but the refused ones, and what they would control.
        list of Pod
            All but those that lack their controller or their claim.

        Raises
        ------
        InputError
            An object of a file is refused: by a quota, or a limit range.
        """
        admitted, lost = list[Object](), set[tuple[str, str, str]]()
        listed = {(obj.kind, obj.key) for obj in self._others}
        for obj in others:
            owner = obj.metadata.controller()
            try:
                if owner is not None and (owner.kind, obj.namespace, owner.name) in lost:
                    raise RefusedError("")
                if _is_new_object(obj):
                    self._admission.admit_object(obj)
                admitted.append(obj)
            except RefusedError as error:
                lost.add((obj.kind, obj.namespace, obj.name))
                if (obj.kind, obj.key) in listed:  # else its controller is refused again, and tells
                    raise InputError(str(error), obj=f"{obj.kind} {obj.key}") from None
        return admitted, [pod for pod in pods if lost.isdisjoint(_needs(pod))] if lost else pods

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

    def without_claims_of_refused(self, objects: list[Object]) -> list[Object]:
        """Leave out the claims that were made for refused pods."""
        uids = {one.pod.metadata.uid for one in self.refused}
        if not uids:
            return objects
        return [
            obj
            for obj in objects
            if not (isinstance(obj, PersistentVolumeClaim) and _controller_uid(obj) in uids)
        ]


def _is_new_object(obj: Object) -> bool:
    """Whether an object with defaults is to be created, and has not come from an API server."""
    return has_made_up_uid(obj) and not obj.metadata.resource_version


def _needs(pod: Pod) -> Iterable[tuple[str, str, str]]:
    """Kind, namespace and name of the controller of a pod, and of the claims that it is created after."""
    owner = pod.metadata.controller()
    if owner is not None:
        yield owner.kind, pod.namespace, owner.name
        if owner.kind == "StatefulSet":
            for key in pod.claim_keys():
                namespace, _, name = key.partition("/")
                yield "PersistentVolumeClaim", namespace, name


def _controller_uid(obj: Object) -> str:
    controller = obj.metadata.controller()
    return "" if controller is None else controller.uid
