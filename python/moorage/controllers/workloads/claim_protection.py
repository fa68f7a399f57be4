"""Keeps claims that are deleted until no pod uses them, and volumes until no claim has them.

It follows kubernetes v1.36, pvc_protection_controller.go and pv_protection_controller.go.
"""

from __future__ import annotations

from contextlib import suppress

from msgspec.structs import replace

from moorage.objects.model.pod import Pod
from moorage.objects.model.storage import PersistentVolume, PersistentVolumeClaim
from moorage.store import Indexer, NotFoundError, ObjectStore

PROTECTION = "kubernetes.io/pvc-protection"
_OF_VOLUMES = frozenset(
    {
        "kubernetes.io/pv-protection",
        "kubernetes.io/pv-controller",
        "external-provisioner.volume.kubernetes.io/finalizer",
    }
)
"""Finalizers of simulated controllers, which volumes keep until no claim has them."""
_CLAIM = "claim"


class ClaimProtection:
    """Keeps claims that are deleted until no pod on a node uses them, and volumes while a claim has them.

    The finalizer of claims in use is added when they are deleted, not when they are created.

    Parameters
    ----------
    client : ObjectStore
    pods, claims : Indexer
        The informers' copies.

    Attributes
    ----------
    changed : dict of str to PersistentVolumeClaim or PersistentVolume
        By kind and name the claims and volumes that are being deleted, and whose users may have changed.
    """

    def __init__(
        self, client: ObjectStore, pods: Indexer[Pod], claims: Indexer[PersistentVolumeClaim]
    ) -> None:
        self._client = client
        self._pods = pods
        self._claims = claims
        self.changed: dict[str, PersistentVolumeClaim | PersistentVolume] = {}
        pods.add_index(_CLAIM, Pod.claim_keys, is_lasting=True)

    def note(self, obj: PersistentVolumeClaim | PersistentVolume) -> None:
        """Look at a claim or a volume in the next round, if it is being deleted.

        Parameters
        ----------
        obj : PersistentVolumeClaim or PersistentVolume
        """
        if obj.metadata.deletion_timestamp is not None:
            self.changed[f"{obj.kind} {obj.key}"] = obj

    def note_lost_pod(self, pod: Pod) -> None:
        """Look at the claims of a pod that is gone in the next round.

        Parameters
        ----------
        pod : Pod
        """
        for claim in filter(None, map(self._claims.get, pod.claim_keys())):
            self.note(claim)

    def work(self) -> None:
        """Let the claims go that no pod uses any more, and the volumes that no claim has."""
        changed, self.changed = self.changed, {}
        for obj in changed.values():
            if isinstance(obj, PersistentVolume):
                self._release_volume(obj)
            else:
                self.release(obj)

    def protect(self, claim: PersistentVolumeClaim) -> None:
        """Have a claim that a pod uses outlast its deletion, which comes next.

        Parameters
        ----------
        claim : PersistentVolumeClaim
        """
        meta = claim.metadata
        if PROTECTION not in meta.finalizers and self._is_used(claim):
            finalizers = (*meta.finalizers, PROTECTION)
            self._client.update(replace(claim, metadata=replace(meta, finalizers=finalizers)))

    def release(self, claim: PersistentVolumeClaim) -> None:
        """Let a claim go that is being deleted, unless a pod uses it.

        Parameters
        ----------
        claim : PersistentVolumeClaim
            Its name and namespace count.
        """
        with suppress(NotFoundError):
            current = self._client.get(PersistentVolumeClaim, claim.name, claim.namespace)
            meta = current.metadata
            is_candidate = meta.deletion_timestamp is not None and PROTECTION in meta.finalizers
            if is_candidate and not self._is_used(current):
                finalizers = tuple(one for one in meta.finalizers if one != PROTECTION)
                self._client.update(replace(current, metadata=replace(meta, finalizers=finalizers)))

    def _release_volume(self, volume: PersistentVolume) -> None:
        with suppress(NotFoundError):
            current = self._client.get(PersistentVolume, volume.name)
            meta = current.metadata
            finalizers = tuple(one for one in meta.finalizers if one not in _OF_VOLUMES)
            is_free = meta.deletion_timestamp is not None and current.status.phase != "Bound"
            if is_free and finalizers != meta.finalizers:
                self._client.update(replace(current, metadata=replace(meta, finalizers=finalizers)))

    def _is_used(self, claim: PersistentVolumeClaim) -> bool:
        pods = self._pods.by_index(_CLAIM, claim.key)
        return any(pod.spec.node_name and _uses(pod, claim) for pod in pods)


def _uses(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Whether a pod names a claim, or has it for an ephemeral volume and is not shut down."""
    named = (one.persistent_volume_claim for one in pod.spec.volumes)
    if any(one is not None and one.claim_name == claim.name for one in named):
        return True
    meta = pod.metadata
    is_shut_down = meta.deletion_timestamp is not None and meta.deletion_grace_period_seconds == 0
    return claim.metadata.is_controlled_by(meta.uid) and not is_shut_down
