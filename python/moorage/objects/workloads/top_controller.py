"""The workload of a pod: the controller at the top of its chain of owners."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from moorage.objects.model.meta import Object
from moorage.objects.model.pod import Pod

from .ownership import HASH_LABEL


class Workload(NamedTuple):
    """The identity of a workload; that of the pod itself where nothing controls it."""

    namespace: str
    kind: str
    name: str

    @property
    def text(self) -> str:
        """As kubectl names it: ``deployment/web``."""
        return f"{self.kind.lower()}/{self.name}"


class Workloads:
    """Finds the workloads of pods.

    Parameters
    ----------
    objects : iterable of Object
        The objects among which owners of owners are looked up, such as ReplicaSets and Jobs. For a ReplicaSet
        that is not among them, the pod's label ``pod-template-hash`` tells the name of the Deployment.
    """

    def __init__(self, objects: Iterable[Object]) -> None:
        self._controllers = {
            Workload(obj.namespace, obj.kind, obj.name): obj.metadata.controller() for obj in objects
        }
        self._of_owner: dict[tuple[str, str, str, str], Workload] = {}

    def of(self, pod: Pod) -> Workload:
        """Return the workload of a pod.

        Parameters
        ----------
        pod : Pod

        Returns
        -------
        Workload
        """
        meta = pod.metadata
        owner = meta.controller()
        if owner is None:
            return Workload(meta.namespace, "Pod", meta.name)
        return self.top(meta.namespace, owner.kind, owner.name, meta.labels.get(HASH_LABEL, ""))

    def top(self, namespace: str, kind: str, name: str, template: str) -> Workload:
        """Return the workload of the pods of a controller.

        Parameters
        ----------
        namespace, kind, name : str
            The controller.
        template : str
            The label ``pod-template-hash`` of the pods.

        Returns
        -------
        Workload
        """
        key = namespace, kind, name, template
        found = self._of_owner.get(key)
        if found is None:
            found = self._of_owner[key] = self._top(*key)
        return found

    def _top(self, namespace: str, kind: str, name: str, template: str) -> Workload:
        """Return the last controller of a chain that begins with the controller of a pod."""
        workload = Workload(namespace, kind, name)
        if workload not in self._controllers and kind == "ReplicaSet" and template:
            deployment = name.removesuffix(f"-{template}")
            return workload if deployment == name else Workload(namespace, "Deployment", deployment)
        seen = {workload}
        while (above := self._controllers.get(workload)) is not None:
            workload = Workload(namespace, above.kind, above.name)
            if workload in seen:  # owners in a circle
                break
            seen.add(workload)
        return workload
