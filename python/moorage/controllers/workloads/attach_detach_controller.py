"""Attaches the volumes of pods to their nodes, and detaches them.

Source: kubernetes v1.36, pkg/controller/volume/attachdetach and pkg/volume/csi/csi_attacher.go.
"""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256

from moorage.objects import CSINode, ObjectMeta, PersistentVolume, PersistentVolumeClaim, Pod
from moorage.objects.model.storage import (
    CSIDriver,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
)
from moorage.objects.workloads.ownership import FINISHED
from moorage.store import AlreadyExistsError, Indexer, InformerFactory, NotFoundError, ObjectStore

from .claim_protection import CLAIM

_NODE = "node"


class AttachDetachController:
    """Keeps a VolumeAttachment for each volume of a CSI driver that a pod on a node uses.

    Only attachments that count are made: of drivers with a limit on the node. One whose volume no pod of the
    input or of a run has used is left alone. Attaching and detaching take no time.

    Parameters
    ----------
    pods : Indexer
        The informers' copy, with the index `CLAIM`.

    Attributes
    ----------
    changed : dict of (str, str) to None
        Nodes and volumes whose users may have changed.
    """

    def __init__(self, client: ObjectStore, informers: InformerFactory, pods: Indexer[Pod]) -> None:
        self._client = client
        self._pods = pods
        self._claims: Indexer[PersistentVolumeClaim] = informers.informer(PersistentVolumeClaim).indexer
        self._volumes: Indexer[PersistentVolume] = informers.informer(PersistentVolume).indexer
        self._drivers: Indexer[CSIDriver] = informers.informer(CSIDriver).indexer
        self._nodes: Indexer[CSINode] = informers.informer(CSINode).indexer
        self._attachments: Indexer[VolumeAttachment] = informers.informer(VolumeAttachment).indexer
        self._attachments.add_index(_NODE, lambda one: [one.spec.node_name])
        self.changed: dict[tuple[str, str], None] = {}

    @property
    def is_needed(self) -> bool:
        """Whether attachments may count: there are CSINodes, which have the limits."""
        return len(self._nodes) > 0

    def note(self, pod: Pod) -> None:
        """Look at the volumes of a pod that has come to a node, or left it, in the next round.

        Parameters
        ----------
        pod : Pod
            Its state on the node.
        """
        if pod.spec.node_name:
            for claim in filter(None, map(self._claims.get, pod.claim_keys())):
                if claim.spec.volume_name:
                    self.changed[pod.spec.node_name, claim.spec.volume_name] = None

    def note_claim(self, old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> None:
        """Look at the volume of a claim that is bound while pods are on nodes already."""
        if new.spec.volume_name != old.spec.volume_name and self.is_needed:
            for pod in self._pods.by_index(CLAIM, new.key):
                self.note(pod)

    def work(self) -> None:
        """Attach what is used on a node, and detach what no pod there uses any more."""
        changed, self.changed = self.changed, {}
        for node, name in changed:
            attached = [
                attachment
                for attachment in self._attachments.by_index(_NODE, node)
                if attachment.spec.source.persistent_volume_name == name
            ]
            volume = self._volumes.get(name)
            if volume is not None and self._is_used(volume, node):
                if not attached and self._counts(volume, node):
                    with suppress(AlreadyExistsError):  # of another volume with this handle
                        self._client.create(_attachment(volume, node))
            else:
                for one in attached:
                    with suppress(NotFoundError):
                        self._client.delete(VolumeAttachment, one.name)

    def _is_used(self, volume: PersistentVolume, node: str) -> bool:
        """Whether a pod on a node that has not ended uses a volume."""
        claim = volume.spec.claim_ref
        pods = () if claim is None else self._pods.by_index(CLAIM, f"{claim.namespace}/{claim.name}")
        return any(pod.spec.node_name == node and pod.status.phase not in FINISHED for pod in pods)

    def _counts(self, volume: PersistentVolume, node: str) -> bool:
        """Whether the attachment of a volume counts: its driver attaches, and has a limit on the node."""
        if volume.spec.csi is None:
            return False
        driver, csi_node = self._drivers.get(volume.spec.csi.driver), self._nodes.get(node)
        if driver is not None and driver.spec.attach_required is False:
            return False
        return any(
            driver.name == volume.spec.csi.driver
            and driver.allocatable is not None
            and driver.allocatable.count is not None
            for driver in (() if csi_node is None else csi_node.spec.drivers)
        )


def _attachment(volume: PersistentVolume, node: str) -> VolumeAttachment:
    """Return the attachment of a volume to a node, with the name that kube-controller-manager gives it."""
    assert volume.spec.csi is not None
    driver = volume.spec.csi.driver
    digest = sha256(f"{volume.spec.csi.volume_handle}{driver}{node}".encode()).hexdigest()
    source = VolumeAttachmentSource(persistent_volume_name=volume.name)
    spec = VolumeAttachmentSpec(attacher=driver, node_name=node, source=source)
    return VolumeAttachment(metadata=ObjectMeta(name=f"csi-{digest}"), spec=spec)
