"""Keeps claims and pod groups that are deleted until no pod uses them, and volumes until no claim has them.

It follows kubernetes v1.36, pvc_protection_controller.go and pv_protection_controller.go, and v1.37,
podgroup_protection_controller.go.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

from msgspec.structs import replace

from moorage.kube.model.pod import Pod
from moorage.kube.model.pod_group import PodGroup
from moorage.kube.model.storage import PersistentVolume, PersistentVolumeClaim
from moorage.kube.workloads.ownership import FINISHED
from moorage.store import Indexer, NotFoundError, ObjectStore

PROTECTION = "kubernetes.io/pvc-protection"
CLAIM, _GROUP = "claim", "pod group"
_FINALIZERS = {
    PersistentVolumeClaim: (PROTECTION,),
    PodGroup: ("scheduling.k8s.io/podgroup-protection",),
    PersistentVolume: (
        "kubernetes.io/pv-protection",
        "kubernetes.io/pv-controller",
        "external-provisioner.volume.kubernetes.io/finalizer",
    ),
}
"""Finalizers of simulated controllers, which objects keep while they are used."""
Used = PersistentVolumeClaim | PodGroup
Protected = Used | PersistentVolume


def _group_keys(pod: Pod) -> list[str]:
    """Return the key of the Kubernetes group that a pod names, if it names one."""
    group = pod.spec.scheduling_group
    return [f"{pod.namespace}/{group.pod_group_name}"] if group and group.pod_group_name else []


class ClaimProtection:
    """Keeps claims that are deleted until no pod on a node uses them, volumes while a claim has them, and pod
    groups while they have pods that have not ended.

    The finalizer of what is in use is added when it is deleted, not when it is created.

    Parameters
    ----------
    pods, claims : Indexer
        The informers' copies.
    groups : Indexer, optional
        None where groups are ignored.

    Attributes
    ----------
    changed : dict of str to PersistentVolumeClaim, PersistentVolume or PodGroup
        By kind and name the objects that are being deleted, and whose users may have changed.
    going_groups : set of str
        ``namespace/name`` of the groups that were to be deleted; some may be gone.
    """

    def __init__(
        self,
        client: ObjectStore,
        pods: Indexer[Pod],
        claims: Indexer[PersistentVolumeClaim],
        groups: Indexer[PodGroup] | None = None,
    ) -> None:
        self._client = client
        self._pods = pods
        self._claims, self._groups = claims, groups
        self.changed: dict[str, Protected] = {}
        self.going_groups: set[str] = set()
        pods.add_index(CLAIM, Pod.claim_keys, is_lasting=True)
        if groups is not None:
            pods.add_index(_GROUP, _group_keys, is_lasting=True)

    def note(self, obj: Protected) -> None:
        """Look at a claim, a volume or a group in the next round, if it is being deleted."""
        if obj.metadata.deletion_timestamp is not None:
            self.changed[f"{obj.kind} {obj.key}"] = obj
            if isinstance(obj, PodGroup):
                self.going_groups.add(obj.key)

    def save(self) -> object:
        """Return the state, for `undo`."""
        return self.changed.copy(), self.going_groups.copy()

    def undo(self, saved: Any) -> None:
        """Restore the state of `save`."""
        changed, going = saved
        self.changed, self.going_groups = changed.copy(), going.copy()

    def note_lost_pod(self, pod: Pod) -> None:
        """Look at the claims and the group of a pod that is gone, or has ended, in the next round."""
        for claim in filter(None, map(self._claims.get, pod.claim_keys())):
            self.note(claim)
        for key in self.going_groups.intersection(_group_keys(pod)) if self.going_groups else ():
            if self._groups is not None and (group := self._groups.get(key)) is not None:
                self.note(group)

    def work(self) -> None:
        """Let the claims and groups go that no pod uses any more, and the volumes that no claim has."""
        changed, self.changed = self.changed, {}
        for obj in changed.values():
            self.release(obj)

    def protect(self, obj: Used) -> None:
        """Have a claim or a group that a pod uses outlast its deletion, which comes next."""
        meta, own = obj.metadata, _FINALIZERS[type(obj)]
        if not set(own).issubset(meta.finalizers) and self._is_used(obj):
            finalizers = (*meta.finalizers, *own)
            self._client.update(replace(obj, metadata=replace(meta, finalizers=finalizers)))

    def release(self, obj: Protected) -> None:
        """Let an object go that is being deleted, unless it is used; its kind, name and namespace count."""
        with suppress(NotFoundError):
            current = cast(Protected, self._client.get(type(obj), obj.name, obj.namespace))
            meta, own = current.metadata, _FINALIZERS[type(obj)]
            finalizers = tuple(finalizer for finalizer in meta.finalizers if finalizer not in own)
            is_candidate = meta.deletion_timestamp is not None and finalizers != meta.finalizers
            if is_candidate and not self._is_used(current):
                self._client.update(replace(current, metadata=replace(meta, finalizers=finalizers)))

    def _is_used(self, obj: Protected) -> bool:
        if isinstance(obj, PersistentVolume):
            return obj.status.phase == "Bound"
        if isinstance(obj, PodGroup):
            pods = () if self._groups is None else self._pods.by_index(_GROUP, obj.key)
            return any(pod.status.phase not in FINISHED for pod in pods)
        pods = self._pods.by_index(CLAIM, obj.key)
        return any(pod.spec.node_name and _uses(pod, obj) for pod in pods)


def _uses(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Whether a pod names a claim, or has it for an ephemeral volume and is not shut down."""
    named = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    if any(one is not None and one.claim_name == claim.name for one in named):
        return True
    meta = pod.metadata
    is_shut_down = meta.deletion_timestamp is not None and meta.deletion_grace_period_seconds == 0
    return claim.metadata.is_controlled_by(meta.uid) and not is_shut_down
