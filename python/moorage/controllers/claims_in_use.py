"""Volumes and claims that pods use: they are attached and detached, and kept until no pod uses them."""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from typing import cast

from msgspec.structs import replace

from moorage.engine.volume.volume_topology import UNCOUNTED, driver_and_handle, inline_disks, is_inline_disk
from moorage.kube import CSINode, ObjectMeta
from moorage.kube.model.pod import Pod
from moorage.kube.model.pod_group import PodGroup
from moorage.kube.model.storage import (
    CSIDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
)
from moorage.kube.releases import Release
from moorage.kube.workloads.ownership import FINISHED, is_healthy
from moorage.kube.workloads.readiness import as_starting
from moorage.saved_fields import SavedFields
from moorage.store import AlreadyExistsError, Indexer, InformerFactory, NotFoundError, ObjectStore
from moorage.store.protocol import overwrite

from .kubelets import OUT_OF_SERVICE, Kubelets

# ---- claim protection --------------------------------------------------------------------------------------
#
# Keeps claims and pod groups that are deleted until no pod uses them, and volumes until no claim has them.
#
# It follows kubernetes v1.36, pvc_protection_controller.go and pv_protection_controller.go, and v1.37,
# podgroup_protection_controller.go.

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


class ClaimProtection(SavedFields):
    """Keeps claims that are deleted until no pod on a node uses them, volumes while a claim has them, and pod
    groups while they have pods that have not ended.

    The finalizer of what is in use is added when it is deleted, not when it is created.

    Parameters
    ----------
    groups : Indexer, optional
        None where groups are ignored.

    Attributes
    ----------
    changed : dict of str to PersistentVolumeClaim, PersistentVolume or PodGroup
        By kind and name the objects that are being deleted, and whose users may have changed.
    going_groups : set of str
        ``namespace/name`` of the groups that were to be deleted; some may be gone.
    """

    fields = ("changed", "going_groups")

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
            self.changed[obj.full_name] = obj
            if isinstance(obj, PodGroup):
                self.going_groups.add(obj.key)

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
    if any(source is not None and source.claim_name == claim.name for source in named):
        return True
    meta = pod.metadata
    is_shut_down = meta.deletion_timestamp is not None and meta.deletion_grace_period_seconds == 0
    return claim.metadata.is_controlled_by(meta.uid) and not is_shut_down


# ---- attach detach controller ------------------------------------------------------------------------------
#
# Attaches the volumes of pods to their nodes, and detaches them; pods wait for a volume that is elsewhere.
#
# Source: kubernetes v1.36, pkg/controller/volume/attachdetach and pkg/volume/csi/csi_attacher.go.

_NODE, _VOLUME, _DISK = "node", "volume", "disk"
NOT_STARTED = "not-started"
"""What keeps a pod whose volume is attached to another node, in a word."""
COMES_FREE = f"once it has the taint {OUT_OF_SERVICE}, or 6 minutes after its pods are gone"
"""When the volumes of a node that does not report come free (reconciler.go maxWaitForUnmountDuration)."""
_OF_MANY_NODES = frozenset({"ReadWriteMany", "ReadOnlyMany"})


class AttachDetachController(SavedFields):
    """Keeps a VolumeAttachment for each volume of a CSI driver that a pod on a node uses.

    Only attachments that count are made: of drivers with a limit on the node. One whose volume no pod of the
    input or of a run has used is left alone. Attaching and detaching take no time.

    A volume whose access modes allow one node alone is attached to one node at a time. Its pods elsewhere are
    bound, but do not become ready until the last pod on that node is gone.

    Parameters
    ----------
    pods : Indexer
        The informers' copy, with the index `CLAIM`.
    kubelets : Kubelets
        They start the pods that have waited.
    release : Release
        That of the controllers.

    Attributes
    ----------
    changed : dict of (str, str) to None
        Nodes and volumes whose users may have changed.
    holders : dict of str to str
        The node to which a volume is attached that is on one node at a time.
    """

    fields = ("changed", "holders", "_unused", "_lost")

    def __init__(
        self,
        client: ObjectStore,
        informers: InformerFactory,
        pods: Indexer[Pod],
        kubelets: Kubelets,
        release: Release,
    ) -> None:
        self._client, self._pods = client, pods
        self._event = "Waiting for detach" if release.volumes_wait_for_detach else "Multi-Attach error"
        pods.add_index(_DISK, lambda pod: inline_disks(pod.spec.volumes), is_lasting=True)
        self._kubelets = kubelets
        self._claims: Indexer[PersistentVolumeClaim] = informers.informer(PersistentVolumeClaim).indexer
        self._volumes: Indexer[PersistentVolume] = informers.informer(PersistentVolume).indexer
        self._drivers: Indexer[CSIDriver] = informers.informer(CSIDriver).indexer
        self._nodes: Indexer[CSINode] = informers.informer(CSINode).indexer
        self._attachments: Indexer[VolumeAttachment] = informers.informer(VolumeAttachment).indexer
        self._attachments.add_index(_NODE, lambda attached: [attached.spec.node_name])
        self._attachments.add_index(
            _VOLUME, lambda attached: [attached.spec.source.persistent_volume_name or ""]
        )
        self.changed: dict[tuple[str, str], None] = {}
        self.holders: dict[str, str] = {}
        self._unused = set[str]()  # volumes that no pod uses on their holder, which could be heard of
        self._lost: dict[str, str] = {}

    @property
    def is_needed(self) -> bool:
        """Whether attachments may count: there are CSINodes, which have the limits, or volumes."""
        return len(self._nodes) > 0 or len(self._volumes) > 0

    @property
    def lost(self) -> dict[str, str]:
        """Volumes that pods elsewhere need and that come free late, though they count as detached, each with
        the node that held it and does not report, or is gone."""
        return {name: node for name, node in self._lost.items() if not self._kubelets.is_out_of_service(node)}

    def note(self, pod: Pod) -> None:
        """Look at the volumes of a pod that has come to a node, or left it, in the next round.

        Parameters
        ----------
        pod : Pod
            Its state on the node.
        """
        if pod.spec.node_name:
            for name in self._names(pod):
                self.changed[pod.spec.node_name, name] = None

    def note_claim(self, old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> None:
        """Look at the volume of a claim that is bound while pods are on nodes already."""
        if new.spec.volume_name != old.spec.volume_name and self.is_needed:
            for pod in self._pods.by_index(CLAIM, new.key):
                self.note(pod)

    def work(self) -> bool:
        """Attach what is used on a node, and detach what no pod there uses any more; return whether pods have
        to wait for that."""
        changed, self.changed = self.changed, {}
        waits = False
        for node, name in [*changed]:
            if self._is_exclusive(name):
                changed[self.holders.get(name, node), name] = None
                waits |= self._allot(name, node)
                changed[self.holders[name], name] = None
        for node, name in changed:
            attached = [
                attachment
                for attachment in self._attachments.by_index(_NODE, node)
                if attachment.spec.source.persistent_volume_name == name
            ]
            volume = self._volumes.get(name)
            is_used = any(user.spec.node_name == node for user in self._users(name))
            is_alone = self.holders.get(name) == node or not self._is_exclusive(name)
            if volume is not None and is_used and is_alone:
                if not attached and self._counts(volume, node):
                    with suppress(AlreadyExistsError):  # of another volume with this handle
                        self._client.create(_attachment(volume, node))
            else:
                for attachment in attached:  # as its driver deletes it, which then takes its finalizer away
                    with suppress(NotFoundError):
                        if attachment.metadata.finalizers:
                            overwrite(self._client, attachment, finalizers=())
                        self._client.delete(VolumeAttachment, attachment.name)
        return waits

    def multi_attach_error(self, pod: Pod, node: str) -> str:
        """Return why a pod does not start on its node, as its event says; "" if no volume keeps it."""
        for name in self._names(pod):
            holder = self.holders.get(name, node)
            if holder != node and self._is_exclusive(name):
                users = [user.name for user in self._users(name) if user.spec.node_name == holder]
                text = f'{self._event} for volume "{name}" Volume is already used by pod(s)'
                return f"{text} {', '.join(users)} on node {holder}"
        return ""

    def _names(self, pod: Pod) -> list[str]:
        """Return the volumes of a pod that may be attached: those of its claims, and disks that it names."""
        claims = filter(None, map(self._claims.get, pod.claim_keys()))
        names = [claim.spec.volume_name for claim in claims if claim.spec.volume_name]
        return names + inline_disks(pod.spec.volumes)

    def _is_exclusive(self, name: str) -> bool:
        """Whether a volume is attached, to one node at a time."""
        volume = self._volumes.get(name)
        if volume is None:
            return is_inline_disk(name)
        driver = _attacher(volume)
        return bool(driver) and self._attaches(driver) and not _allows_many_nodes(volume)

    def _allot(self, name: str, node: str) -> bool:
        """Let a volume be on one node at a time: when no pod uses it there, it comes to another node.

        Parameters
        ----------
        name, node : str
            A volume, and where its users have changed.

        Returns
        -------
        bool
            Whether pods elsewhere begin to wait.
        """
        users = self._users(name)
        nodes = list(dict.fromkeys(user.spec.node_name for user in users))
        holder = self.holders.get(name, "")
        if not holder:  # where it was attached when the cluster was read
            running = [user for user in users if user.status.phase == "Running" and is_healthy(user)]
            attached = [each.spec.node_name for each in self._attachments.by_index(_VOLUME, name)]
            holder = next(filter(None, [*[user.spec.node_name for user in running], *attached]), node)
        others = [other for other in nodes if other != holder]
        is_lost = self._kubelets.is_lost(holder)
        if holder in nodes:
            self._unused.discard(name)
        elif not is_lost:
            self._unused.add(name)
        if others and is_lost:
            if name not in self._unused:  # else it was detached before
                self._lost[name] = holder
            nodes = others
        if nodes and holder not in nodes:
            holder = node if node in nodes else nodes[0]
        self.holders[name] = holder
        begins = False
        for user in users:
            if user.spec.node_name == holder:
                self._kubelets.note(user)
            elif user.metadata.deletion_timestamp is None:
                self._kubelets.due.pop(user.key, None)
                if is_healthy(user) and user.status.phase != "Running":
                    begins = True
                    self._client.update(as_starting(user))
        return begins

    def _users(self, name: str) -> list[Pod]:
        """Return the pods on nodes that use a volume and have not ended."""
        volume = self._volumes.get(name)
        if volume is None:
            pods = self._pods.by_index(_DISK, name)
        else:
            claim = volume.spec.claim_ref
            pods = [] if claim is None else self._pods.by_index(CLAIM, f"{claim.namespace}/{claim.name}")
        return [pod for pod in pods if pod.spec.node_name and pod.status.phase not in FINISHED]

    def _counts(self, volume: PersistentVolume, node: str) -> bool:
        """Whether the attachment of a volume counts: its driver attaches, and has a limit on the node."""
        if volume.spec.csi is None:
            return False
        csi_node = self._nodes.get(node)
        return self._attaches(volume.spec.csi.driver) and any(
            driver.name == volume.spec.csi.driver
            and driver.allocatable is not None
            and driver.allocatable.count is not None
            for driver in (() if csi_node is None else csi_node.spec.drivers)
        )

    def _attaches(self, driver: str) -> bool:
        """Whether the volumes of a driver are attached. They are, unless it says that they are not, or its
        name is that of a provisioner without CSI, which made a volume in a run."""
        csi_driver = self._drivers.get(driver)
        return "/" not in driver if csi_driver is None else csi_driver.spec.attach_required is not False


def _allows_many_nodes(volume: PersistentVolume) -> bool:
    """Whether access modes let several nodes have a volume (pkg/volume/util IsMultiAttachAllowed); none do. A
    disk of Google's in-tree plugin is on one node unless it is only read (csi-translation-lib, gce_pd.go)."""
    modes = {*volume.spec.access_modes}
    if volume.spec.gce_persistent_disk is not None:
        return modes <= {"ReadOnlyMany"}
    return not modes or not _OF_MANY_NODES.isdisjoint(modes)


def _attacher(volume: PersistentVolume) -> str:
    """Return who attaches a volume, a CSI driver or a part of kube-controller-manager; "" for nobody
    (kubernetes v1.36, cmd/kube-controller-manager/app/plugins.go)."""
    spec = volume.spec
    if spec.vsphere_volume is not None:
        return UNCOUNTED["vsphere_volume"].driver
    if spec.iscsi is not None:
        return "iscsi"
    return "fc" if spec.fc is not None else driver_and_handle(volume)[0]


def _attachment(volume: PersistentVolume, node: str) -> VolumeAttachment:
    """Return the attachment of a volume to a node, with the name that kube-controller-manager gives it."""
    assert volume.spec.csi is not None
    driver = volume.spec.csi.driver
    digest = sha256(f"{volume.spec.csi.volume_handle}{driver}{node}".encode()).hexdigest()
    source = VolumeAttachmentSource(persistent_volume_name=volume.name)
    spec = VolumeAttachmentSpec(attacher=driver, node_name=node, source=source)
    return VolumeAttachment(metadata=ObjectMeta(name=f"csi-{digest}"), spec=spec)
