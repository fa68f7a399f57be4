"""Clients, caches and listers of the volume binder."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from moorage.errors import MoorageError
from moorage.objects import Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from moorage.objects.model.storage import CSIDriver, CSIStorageCapacity
from moorage.store import InformerFactory, Lister, NotFoundError, ObjectClient

from .assume_cache import PVAssumeCache, PVCAssumeCache
from .claims import VolumeError

logger = logging.getLogger("moorage.volume")

RequirePod = Callable[[Pod], None]
"""Raises VolumeError if a pod no longer exists, which ends the binding of its volumes."""


@dataclass(frozen=True, slots=True)
class VolumeSources:
    """Clients, caches and listers of the volume binder.

    Attributes
    ----------
    client : ObjectClient
        Where bindings are written.
    pv_cache, pvc_cache : PVAssumeCache, PVCAssumeCache
        Volumes and claims.
    class_lister, node_lister : Lister
        Storage classes and nodes.
    require_pod : callable
        Raises if a pod whose volumes are being bound no longer exists.
    csi_driver_lister, csi_storage_capacity_lister : Lister or None
        Without them, there is always enough storage.
    """

    client: ObjectClient
    pv_cache: PVAssumeCache
    pvc_cache: PVCAssumeCache
    class_lister: Lister[StorageClass]
    node_lister: Lister[Node]
    require_pod: RequirePod
    csi_driver_lister: Lister[CSIDriver] | None = None
    csi_storage_capacity_lister: Lister[CSIStorageCapacity] | None = None

    @classmethod
    def over(cls, client: ObjectClient, informers: InformerFactory) -> VolumeSources:
        """Make sources from the informers of a factory, with new assume caches.

        Parameters
        ----------
        client : ObjectClient
            Where bindings are written.
        informers : InformerFactory
            The caller runs them.
        """
        return cls(
            client,
            PVAssumeCache(informers.informer(PersistentVolume)),
            PVCAssumeCache(informers.informer(PersistentVolumeClaim)),
            informers.lister(StorageClass),
            informers.lister(Node),
            listed_pods(informers.lister(Pod)),
            informers.lister(CSIDriver),
            informers.lister(CSIStorageCapacity),
        )


def listed_pods(lister: Lister[Pod]) -> RequirePod:
    """A `RequirePod` that looks pods up in a lister.

    Parameters
    ----------
    lister : Lister of Pod
    """

    def require(pod: Pod) -> None:
        try:
            lister.get(pod.key)
        except NotFoundError as error:
            raise VolumeError(f"pod does not exist any more: {error}") from error
        except MoorageError as error:
            logger.error("Failed to get pod %s from the lister: %s", pod.key, error)

    return require
