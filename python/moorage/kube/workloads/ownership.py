"""Ownership of pods by workloads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache

from ..model.meta import Object, OwnerReference
from ..model.pod import Pod
from .naming import stable_uid

HASH_LABEL = "pod-template-hash"
FINISHED = frozenset({"Succeeded", "Failed"})
"""Phases in which a pod no longer occupies resources."""
DELETE_DEPENDENTS, ORPHAN_DEPENDENTS = "foregroundDeletion", "orphan"
"""Finalizers by which the garbage collector first deletes the dependents of an object, or lets them stay."""


def is_active(pod: Pod) -> bool:
    """Whether a pod is active for its controller (kubernetes v1.36, IsPodActive)."""
    return pod.status.phase not in FINISHED and pod.metadata.deletion_timestamp is None


def is_healthy(pod: Pod) -> bool:
    """Whether a pod is ready, or bound where the condition Ready is not reported, as there is no kubelet.

    Returns
    -------
    bool
        False for a pod that is being deleted or has finished.
    """
    if pod.metadata.deletion_timestamp is not None:
        return False
    for condition in pod.status.conditions:
        if condition.type == "Ready":
            return condition.status == "True"
    return bool(pod.spec.node_name) and pod.status.phase not in FINISHED


def controller_reference(owner: Object) -> tuple[OwnerReference, ...]:
    """Return the owner references of an object controlled by `owner`.

    Parameters
    ----------
    owner : Object
        The controller.
    """
    reference = OwnerReference(
        api_version=owner.api_version,
        kind=owner.kind,
        name=owner.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
    return (reference,)


def has_made_up_uid(obj: Object) -> bool:
    """Whether the UID of an object was generated because its file had none."""
    return obj.metadata.uid == _made_up_uid(obj.kind, obj.namespace, obj.name)


@lru_cache(maxsize=1 << 12)  # controllers ask several times for each workload that they look at
def _made_up_uid(kind: str, namespace: str, name: str) -> str:
    return stable_uid(kind, namespace, name)


def _group(api_version: str) -> str:
    group = api_version.rpartition("/")[0]
    return "apps" if group == "extensions" else group  # as workloads were once in the latter


def refers_to(reference: OwnerReference | None, obj: Object) -> bool:
    """Whether an owner reference refers to an object.

    Kind, API group and name must be equal, and the UIDs if both have one. A UID that was generated because
    the object had none is not compared, and neither is a group that the reference lacks.

    Parameters
    ----------
    reference : OwnerReference or None
        The owner reference.
    """
    if reference is None or (reference.kind, reference.name) != (obj.kind, obj.name):
        return False
    if reference.api_version and _group(reference.api_version) != _group(obj.api_version):
        return False
    return reference.uid in ("", obj.metadata.uid) or has_made_up_uid(obj)


class PodIndex:
    """Pods by controller."""

    def __init__(self, pods: Iterable[Pod]) -> None:
        self._controlled: defaultdict[tuple[str, str, str], list[Pod]] = defaultdict(list)
        self._hashed: defaultdict[tuple[str, str], list[Pod]] = defaultdict(list)
        for pod in pods:
            controller = pod.metadata.controller()
            if controller is not None:
                self._controlled[pod.namespace, controller.kind, controller.name].append(pod)
                template = pod.metadata.labels.get(HASH_LABEL, "")
                has_hash = controller.kind == "ReplicaSet" and controller.name.endswith(f"-{template}")
                if has_hash and is_active(pod):
                    self._hashed[pod.namespace, controller.name.removesuffix(template)].append(pod)

    def owned(self, obj: Object) -> list[Pod]:
        """Return the pods controlled by an object, in any state.

        Parameters
        ----------
        obj : Object
            The controller.
        """
        pods = self._controlled.get((obj.namespace, obj.kind, obj.name), ())
        return [pod for pod in pods if refers_to(pod.metadata.controller(), obj)]

    def of_template(self, namespace: str, deployment: str) -> list[Pod]:
        """Return the active pods whose controller is named like a ReplicaSet of a Deployment.

        Parameters
        ----------
        namespace : str
            Namespace of the Deployment.
        deployment : str
            Name of the Deployment.
        """
        return self._hashed.get((namespace, f"{deployment}-"), [])
