"""NodeVolumeLimits: limits the number of volumes of a CSI driver on a node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import TYPE_CHECKING, cast

import numpy as np
from msgspec import Struct

from moorage._core.decide.terms import MAX_DRIVERS
from moorage.engine import framework as fwk
from moorage.kube import CSINode, PersistentVolumeClaim, Pod
from moorage.kube.model.storage import CSIDriver, VolumeAttachment

from .. import volume as storage
from ..framework.claim_plugins import Attachment, BoundClaims, ClaimsOfBatch, Mask
from ..framework.events import is_live, of_class, queue_if
from .sleeping_plugins import NodeVolumeLimitsFacts
from .volume_restrictions_and_zone import claim_names

if TYPE_CHECKING:
    from ..volume.attached_volumes import AttachedVolumes, CSIVolume, Driver


STATE = "NodeVolumeLimits"
EXCEEDED = fwk.Status(fwk.Code.UNSCHEDULABLE, ("node(s) exceed max volume count",))
STATUSES = None, EXCEEDED
MOST_VOLUMES = 64  # of a pod that the core places
Wanted = tuple[frozenset["CSIVolume"], tuple["Driver", ...]]
"""The volumes of a pod, and the drivers that its nodes must have."""
Needs = tuple[tuple[tuple[str, int], ...], tuple["Driver", ...]]
"""The number of volumes by driver with limits, and the drivers that nodes must have."""


class LimitsOfBatch(Struct, frozen=True):
    """What is the same for all pods of a batch.

    Attributes
    ----------
    attached : AttachedVolumes or None
        Up to date; None where nobody needs to know the volumes.
    installed : frozenset of str
        The drivers whose volumes only go to nodes that have them.
    version : int
        That of `attached`; -1 without it.
    is_unsure : bool
        Whether nominated pods, or volumes that cannot be determined, may count against limits of the nodes.
    """

    attached: AttachedVolumes | None
    version: int = -1
    installed: frozenset[str] = frozenset()
    is_unsure: bool = False


class NodeVolumeLimits(NodeVolumeLimitsFacts):
    """Volumes of a driver, and drivers, on nodes."""

    # ---- decisions -----------------------------------------------------------------------------------------

    def pre_filter(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Status | None:
        return None if _counts(pod) else fwk.SKIP

    def filter(self, state: fwk.CycleState, pod: Pod, node_info: fwk.NodeInfo) -> fwk.Status | None:
        attached = self.attached()
        wanted = self.wanted(state, pod, attached)
        if isinstance(wanted, fwk.Status):
            return wanted
        volumes, required = wanted
        for driver in required:
            if attached.lacks(node_info.name, driver):
                return _not_installed(driver)
        try:
            exceeded = attached.exceeded(node_info.name, node_info.pods, volumes)
        except storage.claims.VolumeError as error:
            return fwk.Status(fwk.Code.ERROR, (str(error),))
        return EXCEEDED if exceeded else None

    def filter_all(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Answers:
        attached, rows = self.attached(), nodes.rows
        wanted = self.wanted(state, pod, attached)
        if isinstance(wanted, fwk.Status):
            return fwk.Answers(np.zeros(len(rows), dtype=np.uint8), (wanted,))
        volumes, required = wanted
        exceeds = attached.rows_over_limit(rows, volumes)
        if not (required or (volumes and attached.errors)):
            return fwk.Answers(exceeds.view(np.uint8), STATUSES)
        numbers, statuses = exceeds.astype(np.int32), [*STATUSES]
        if volumes and attached.errors:
            unknown = np.isin(rows, list(attached.errors)) & attached.is_limited(rows)
            failing = np.flatnonzero(unknown).tolist()
            numbers[failing] = np.arange(len(statuses), len(statuses) + len(failing))
            texts = [next(iter(attached.errors[int(rows[at])].values())) for at in failing]
            statuses += [fwk.Status(fwk.Code.ERROR, (text,)) for text in texts]
        for driver in reversed(required):
            numbers[attached.rows_without(driver).take(rows)] = len(statuses)
            statuses.append(_not_installed(driver))
        return fwk.Answers(numbers, tuple(statuses))

    def needs_of(
        self, pod: Pod, claims: BoundClaims, nodes: fwk.NodesView, batch: ClaimsOfBatch | None = None
    ) -> Needs | tuple[()] | None:
        known = self._look(nodes) if batch is None else self.known_of(batch, nodes)
        attached = known.attached
        if attached is None or not _counts(pod):
            return ()
        if known.is_unsure:
            return None
        try:
            volumes = [volume for volume in attached.volumes_of_new_pod(pod) if volume[0] in attached.room]
        except storage.claims.VolumeError:
            return None
        counts = tuple(sorted(Counter([driver for driver, _ in volumes]).items()))
        required = _required_by(pod, attached, known.installed)
        if len(counts) > MAX_DRIVERS or len(volumes) > MOST_VOLUMES:
            return None
        if batch is not None:
            shared = attached.share(volumes, batch.next_pod, batch.volume_users, batch.exclusive)
            if shared is None:
                return None
            batch.shared_volumes = shared
        return (counts, required) if counts or required else ()

    def known_of(self, batch: ClaimsOfBatch, nodes: fwk.NodesView) -> LimitsOfBatch:
        """Return what is the same for all pods of a batch."""
        known: LimitsOfBatch | None = batch.known.get(self)
        if known is None:
            known = batch.known[self] = self._look(nodes)
        return known

    def _look(self, nodes: fwk.NodesView) -> LimitsOfBatch:
        installed = self._installed()
        if not installed and self.required_handle().informers.lister(CSINode).is_empty:
            return LimitsOfBatch(None)
        attached = self.attached()
        is_unsure = bool(self.required_handle().nominator or attached.errors)
        is_unsure = is_unsure and bool(attached.is_limited(nodes.rows).any())
        return LimitsOfBatch(attached, attached.version, installed, is_unsure)

    def demand_of(self, needs: Hashable) -> tuple[Mask | None, list[Attachment]]:
        attached, (counts, required) = self.attached(), cast(Needs, needs)
        used = self.required_handle().cache.state.table.used
        lacking = [attached.rows_without(driver)[:used] for driver in required]
        reachable = ~np.logical_or.reduce(lacking) if lacking else None
        return reachable, [(attached.room[driver], volumes) for driver, volumes in counts]

    def attached(self) -> AttachedVolumes:
        in_use = self.required_handle().derived(storage.volumes_in_use.VolumesInUse.of)
        in_use.refresh()
        return in_use.attached

    def wanted(self, state: fwk.CycleState, pod: Pod, attached: AttachedVolumes) -> Wanted | fwk.Status:
        """What a pod needs of nodes, or a status for all of them."""
        try:
            wanted: Wanted | fwk.Status = state.read(STATE)
        except fwk.NotFoundError:
            wanted = self._wanted_by(pod, attached)
            state.write(STATE, wanted)
        return wanted

    def _wanted_by(self, pod: Pod, attached: AttachedVolumes) -> Wanted | fwk.Status:
        try:
            volumes = attached.volumes_of_new_pod(pod)
        except storage.attached_volumes.MissingClaimError as error:
            return fwk.Status(fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (str(error),))
        except storage.claims.VolumeError as error:
            return fwk.Status(fwk.Code.ERROR, (str(error),))
        return volumes, _required_by(pod, attached, self._installed())

    def _installed(self) -> frozenset[str]:
        """The drivers whose volumes only go to nodes that have them."""
        handle = self.required_handle()
        if not handle.feature_gates["VolumeLimitScaling"]:
            return frozenset()
        needs_all = handle.release.all_drivers_are_needed
        return frozenset(
            driver.name
            for driver in self.lister(CSIDriver).list()
            if needs_all or driver.spec.prevent_pod_scheduling_if_missing
        )

    # ---- the queue -----------------------------------------------------------------------------------------

    @of_class
    def after_csi_node_change(self, pod: Pod, old: CSINode | None, new: CSINode) -> fwk.QueueingHint:
        """Queue if a CSINode was added, or the limit of a driver on it is higher."""
        if old is None:
            return queue_if(True)
        was = _limits(old)
        return queue_if(any(limit > was.get(driver, 0) for driver, limit in _limits(new).items()))

    @of_class
    def after_pod_deleted(self, pod: Pod, old: Pod, new: None) -> fwk.QueueingHint:
        """Queue if a pod with attachable volumes was deleted."""
        return queue_if(_counts(old) and is_live(old))

    def after_claim_added(self, pod: Pod, old: None, new: PersistentVolumeClaim) -> fwk.QueueingHint:
        """Queue if a claim of the pod was added."""
        return queue_if(is_claim_of(pod, new))

    def after_detached(self, pod: Pod, old: VolumeAttachment, new: None) -> fwk.QueueingHint:
        """Queue if a volume was detached whose driver the pod may use."""
        volumes, driver = pod.spec.volumes, old.spec.attacher
        return queue_if(
            any(
                vol.persistent_volume_claim or storage.volume_topology.migrated_driver(vol) == driver
                for vol in volumes
            )
        )


def _counts(pod: Pod) -> bool:
    """Whether a pod has volumes that may be attached by a CSI driver."""
    return any(
        v.persistent_volume_claim or v.ephemeral or storage.volume_topology.migrated_driver(v)
        for v in pod.spec.volumes
    )


def _required_by(pod: Pod, attached: AttachedVolumes, installed: frozenset[str]) -> tuple[Driver, ...]:
    """The drivers that a node must have for a pod."""
    drivers = attached.drivers_of_new_pod(pod) if installed else ()
    return tuple([driver for driver in drivers if driver[0] in installed])


def _not_installed(driver: Driver) -> fwk.Status:
    return fwk.Status(fwk.Code.UNSCHEDULABLE, (f"{driver[0]} CSI driver is not installed on the node",))


def is_claim_of(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Whether a pod uses a claim.

    Returns
    -------
    bool
        True if the pod names the claim, or the claim has the name of one of the pod's ephemeral volumes.
    """
    ephemeral = {f"{pod.name}-{volume.name}" for volume in pod.spec.volumes if volume.ephemeral is not None}
    return claim.namespace == pod.namespace and claim.name in claim_names(pod) | ephemeral


def _limits(node: CSINode) -> dict[str, int]:
    """Volume limit by driver of a node; 0 for none."""
    return {item.name: (item.allocatable and item.allocatable.count) or 0 for item in node.spec.drivers}
