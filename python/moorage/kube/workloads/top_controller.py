"""The workload of a pod: the controller at the top of its chain of owners."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from ..model.meta import Object, OwnerReference
from ..model.pod import Pod
from ..read.decode import is_known
from .ownership import HASH_LABEL


class Workload(NamedTuple):
    """The identity of a workload; that of the pod itself where nothing controls it.

    Attributes
    ----------
    namespace, kind, name : str
    group : str
        The API group of a kind that scheduling does not read; "" for the others.
    """

    namespace: str
    kind: str
    name: str
    group: str = ""

    @property
    def text(self) -> str:
        """As kubectl names it: ``deployment/web``, ``raycluster.ray.io/rc``."""
        kind = f"{self.kind}.{self.group}" if self.group else self.kind
        return f"{kind.lower()}/{self.name}"


@cache
def group_to_show(kind: str, api_version: str) -> str:
    """Return the API group that tells a kind from those of one name that scheduling reads; "" for those."""
    return "" if is_known(kind, api_version) else api_version.rpartition("/")[0]


def controller_of(pod: Pod) -> Workload | None:
    """Return the controller of a pod, None if it has none."""
    owner = pod.metadata.controller()
    return None if owner is None else _workload(pod.namespace, owner)


def _workload(namespace: str, owner: OwnerReference) -> Workload:
    return Workload(namespace, owner.kind, owner.name, group_to_show(owner.kind, owner.api_version))


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
        self._of_controller: dict[tuple[Workload, str], Workload] = {}

    def of(self, pod: Pod) -> Workload:
        """Return the workload of a pod."""
        meta = pod.metadata
        controller = controller_of(pod)
        if controller is None:
            return Workload(meta.namespace, "Pod", meta.name)
        return self.top(controller, meta.labels.get(HASH_LABEL, ""))

    def top(self, controller: Workload, template: str) -> Workload:
        """Return the workload of the pods of a controller.

        Parameters
        ----------
        template : str
            The label ``pod-template-hash`` of the pods.
        """
        key = controller, template
        found = self._of_controller.get(key)
        if found is None:
            found = self._of_controller[key] = self._top(*key)
        return found

    def _top(self, workload: Workload, template: str) -> Workload:
        """Return the last controller of a chain that begins with the controller of a pod."""
        namespace, kind, name, _ = workload
        if workload not in self._controllers and kind == "ReplicaSet" and template:
            deployment = name.removesuffix(f"-{template}")
            return workload if deployment == name else Workload(namespace, "Deployment", deployment)
        seen = {workload}
        while (above := self._controllers.get(workload)) is not None:
            workload = _workload(namespace, above)
            if workload in seen:  # owners in a circle
                break
            seen.add(workload)
        return workload
