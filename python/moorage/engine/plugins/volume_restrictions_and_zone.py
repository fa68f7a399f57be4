"""VolumeRestrictions: disks that can be mounted only once, and claims with ReadWriteOncePod. VolumeZone:
the zones and regions of a pod's volumes must match those of its node.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Self, cast

import numpy as np
import numpy.typing as npt

from moorage._core.state.cluster_state import ClusterState
from moorage.engine import framework as fwk
from moorage.kube import PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, Volume
from moorage.store.errors import NotFoundError as ObjectNotFoundError

from .. import volume as storage
from ..framework.claim_plugins import Attachment, BoundClaims, ClaimsOfBatch, Mask
from ..framework.events import Key, indexed, of_class, queue_if
from ..framework.node_masks import NodeMasks
from .sleeping_plugins import VolumeRestrictionsFacts, VolumeZoneFacts

# ---- volume restrictions -----------------------------------------------------------------------------------

STATE = "PreFilterVolumeRestrictions"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"
IN_USE = ("a claim with ReadWriteOncePod is in use",)
"""What no node has for a pod, while another pod uses its claim."""
NO_DISK = fwk.Status(fwk.Code.UNSCHEDULABLE, ("node(s) had no available disk",))
CLAIM_IN_USE = fwk.Status(
    fwk.Code.UNSCHEDULABLE,
    (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use "
        "by another pod",
    ),
)


@dataclass(slots=True)
class ClaimsForOnePod:
    """The claims of a pod with access mode ReadWriteOncePod.

    Attributes
    ----------
    names : frozenset of str
        Names in the pod's namespace.
    uses : int
        Number of uses by other pods; initially the number of these claims in use. As upstream, claims with
        these names count in any namespace for pods that a dry run adds or removes.
    """

    names: frozenset[str]
    uses: int

    def clone(self) -> ClaimsForOnePod:
        return replace(self)


class VolumeRestrictions(VolumeRestrictionsFacts):
    """Disks and claims of one pod, or one node."""

    # ---- decisions -----------------------------------------------------------------------------------------

    def pre_filter(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Status | None:
        claims = self.lister(PersistentVolumeClaim)
        keys = {}
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            try:
                claim = claims.get(f"{pod.namespace}/{volume.persistent_volume_claim.claim_name}")
            except ObjectNotFoundError as error:
                return fwk.Status(fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (str(error),))
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                keys[claim.key] = claim.name
        uses = self._uses(keys)
        if not uses and all(storage.volumes_in_use.disk_of(volume) is None for volume in pod.spec.volumes):
            return fwk.SKIP
        state.write(STATE, ClaimsForOnePod(frozenset(keys.values()), uses))
        return None

    def needs_of(
        self, pod: Pod, claims: BoundClaims, nodes: fwk.NodesView, batch: ClaimsOfBatch | None = None
    ) -> tuple[str, ...] | None:
        if any(storage.volumes_in_use.disk_of(volume) is not None for volume in pod.spec.volumes):
            return None
        exclusive = [claim.key for claim, _ in claims if READ_WRITE_ONCE_POD in claim.spec.access_modes]
        if exclusive and batch is None and self._uses(exclusive):
            return None  # if the other pod leaves, any node suits
        if exclusive and batch is not None:
            if self._uses(exclusive):
                batch.is_in_use = True
                return IN_USE
            if not batch.exclusive.isdisjoint(exclusive):
                return None
            batch.exclusive.update(exclusive)
        return ()

    def demand_of(self, needs: Hashable) -> tuple[Mask | None, list[Attachment]]:
        return np.zeros(self.required_handle().cache.state.table.used, dtype=bool), []

    def _uses(self, keys: Collection[str]) -> int:
        """The number of claims that pods in the cache name."""
        if not keys:
            return 0
        handle = self.required_handle()
        if handle.release.replaced_nodes_lose_claims:
            return sum(count > 0 for count in handle.shared(storage.volumes_in_use.LostUses).counts_of(keys))
        in_use = handle.derived(storage.volumes_in_use.VolumesInUse.of)
        in_use.refresh()
        return sum(key in in_use.claims for key in keys)

    def pre_filter_extensions(self) -> Self:
        return self

    def add_pod(
        self, state: fwk.CycleState, pod: Pod, pod_to_add: Pod, node_info: fwk.NodeInfo
    ) -> fwk.Status | None:
        return self._change(state, pod_to_add, 1)

    def remove_pod(
        self, state: fwk.CycleState, pod: Pod, pod_to_remove: Pod, node_info: fwk.NodeInfo
    ) -> fwk.Status | None:
        return self._change(state, pod_to_remove, -1)

    def _change(self, state: fwk.CycleState, other: Pod, sign: int) -> fwk.Status | None:
        try:
            claims: ClaimsForOnePod = state.read(STATE)
        except fwk.NotFoundError as error:
            return _missing_state(error)
        used = (volume.persistent_volume_claim for volume in other.spec.volumes)
        claims.uses += sign * sum(claim is not None and claim.claim_name in claims.names for claim in used)
        return None

    def filter(self, state: fwk.CycleState, pod: Pod, node_info: fwk.NodeInfo) -> fwk.Status | None:
        theirs = [
            volume
            for other in node_info.pods
            for volume in other.spec.volumes
            if storage.volumes_in_use.disk_of(volume)
        ]
        if any(conflict(mine, volume) for mine in pod.spec.volumes for volume in theirs):
            return NO_DISK
        return self._of_claims(state)

    def filter_all(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Answers:
        in_use = self.required_handle().derived(storage.volumes_in_use.VolumesInUse.of)
        in_use.refresh()
        excluded = []
        for mine in pod.spec.volumes:
            disk = storage.volumes_in_use.disk_of(mine)
            there = in_use.disks.get(disk, {}) if disk is not None else {}
            excluded += [row for row, held in there.items() if any(conflict(mine, theirs) for theirs in held)]
        numbers = np.isin(nodes.rows, excluded) if excluded else np.zeros(len(nodes), dtype=bool)
        return fwk.Answers(numbers.view(np.uint8), (self._of_claims(state), NO_DISK))

    def _of_claims(self, state: fwk.CycleState) -> fwk.Status | None:
        """The status of the claims, for all nodes."""
        try:
            claims: ClaimsForOnePod = state.read(STATE)
        except fwk.NotFoundError as error:
            return _missing_state(error)
        return CLAIM_IN_USE if claims.uses > 0 else None

    # ---- the queue -----------------------------------------------------------------------------------------

    def _keys(self, pod: Pod) -> frozenset[Key]:
        """Return the claims and disks that a pod names, with its namespace."""
        disks = [
            disk
            for volume in pod.spec.volumes
            if (disk := storage.volumes_in_use.disk_of(volume)) is not None
        ]
        return frozenset((pod.namespace, named) for named in (*claim_names(pod), *disks))

    @indexed(_keys, lambda plugin, old, new: plugin._keys(old), by_class=False)
    def after_pod_deleted(self, pod: Pod, old: Pod, new: None) -> fwk.QueueingHint:
        """Queue if a deleted pod of the namespace used a disk or a claim of the pod.

        The deleted pod need not have had a node. As upstream, pods of other namespaces do not count.
        """
        if old.namespace != pod.namespace:
            return queue_if(False)
        pairs = [(mine, theirs) for mine in pod.spec.volumes for theirs in old.spec.volumes]
        return queue_if(claim_names(pod) & claim_names(old) or any(conflict(*pair) for pair in pairs))

    @indexed(_keys, lambda plugin, old, new: ((new.namespace, new.name),), by_class=False)
    def after_claim_added(self, pod: Pod, old: None, new: PersistentVolumeClaim) -> fwk.QueueingHint:
        """Queue if a claim was added that the pod names; claims of ephemeral volumes do not count."""
        return queue_if(new.namespace == pod.namespace and new.name in claim_names(pod))


def _missing_state(error: Exception) -> fwk.Status:
    return fwk.Status(fwk.Code.ERROR, (f'reading "{STATE}" from cycleState: {error}',))


def claim_names(pod: Pod) -> set[str]:
    """Return the names of the claims of a pod, without those of ephemeral volumes."""
    claims = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    return {claim.claim_name for claim in claims if claim is not None}


def conflict(mine: Volume, theirs: Volume) -> bool:
    """Whether two volumes cannot be mounted on one node (volume_restrictions.go, isVolumeConflict).

    Parameters
    ----------
    mine, theirs : Volume
        Inline volumes of two pods.

    Returns
    -------
    bool
        True for the same disk, unless both may share it read-only.
    """
    a, b = mine.gce_persistent_disk, theirs.gce_persistent_disk
    if a and b and a.pd_name == b.pd_name and not (a.read_only and b.read_only):
        return True
    a, b = mine.aws_elastic_block_store, theirs.aws_elastic_block_store
    if a and b and a.volume_id == b.volume_id:
        return True
    a, b = mine.iscsi, theirs.iscsi
    if a and b and a.iqn == b.iqn and not (a.read_only and b.read_only):
        return True
    a, b = mine.rbd, theirs.rbd
    if a is None or b is None or (a.read_only and b.read_only):
        return False
    return bool(set(a.monitors) & set(b.monitors)) and (a.pool, a.image) == (b.pool, b.image)


# ---- volume zone -------------------------------------------------------------------------------------------

TOPOLOGY_LABELS = (
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)
DELIMITER = "__"
ZONE_STATE = "PreFilterVolumeZone"
ELSEWHERE = fwk.Status(fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("node(s) had no available volume zone",))
STATUSES = None, ELSEWHERE
NO_CLASS = "PersistentVolumeClaim had no pv name and storageClass name"
NO_MODE = 'VolumeBindingMode not set for StorageClass "{}"'
NO_VOLUME_NAME = "PersistentVolume had no name"
BETA_TO_GA = dict(zip(TOPOLOGY_LABELS[:2], TOPOLOGY_LABELS[2:], strict=True))
Topology = tuple[str, frozenset[str]]
"""A topology label of a volume and its values."""


class VolumeZone(VolumeZoneFacts):
    """Zones of volumes."""

    # ---- decisions -----------------------------------------------------------------------------------------

    def pre_filter(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Status | None:
        topologies = self._topologies(pod)
        if isinstance(topologies, fwk.Status):
            return topologies
        if not topologies:
            return fwk.SKIP
        state.write(ZONE_STATE, topologies)
        return None

    def filter(self, state: fwk.CycleState, pod: Pod, node_info: fwk.NodeInfo) -> fwk.Status | None:
        topologies, node = self._topologies_in(state, pod), node_info.node
        if isinstance(topologies, fwk.Status) or node is None:
            return topologies if isinstance(topologies, fwk.Status) else None
        return STATUSES[_is_elsewhere(node.metadata.labels, topologies)]

    def filter_all(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Answers:
        topologies = self._topologies_in(state, pod)
        if isinstance(topologies, fwk.Status):
            return fwk.Answers(np.zeros(len(nodes), dtype=np.uint8), (topologies,))
        return fwk.Answers(self.mask_elsewhere(topologies).take(nodes.rows).view(np.uint8), STATUSES)

    def _topologies_in(self, state: fwk.CycleState, pod: Pod) -> tuple[Topology, ...] | fwk.Status:
        """The topologies that PreFilter has found, or would find."""
        topologies: tuple[Topology, ...] | None = state.find(ZONE_STATE)
        return self._topologies(pod) if topologies is None else topologies

    def needs_of(
        self, pod: Pod, claims: BoundClaims, nodes: fwk.NodesView, batch: ClaimsOfBatch | None = None
    ) -> tuple[Topology, ...]:
        named = claim_names(pod)
        bound = (topology_of(volume).items() for claim, volume in claims if claim.name in named)
        return tuple(chain.from_iterable(bound))

    def demand_of(self, needs: Hashable) -> tuple[Mask | None, list[Attachment]]:
        return ~self.mask_elsewhere(cast(tuple[Topology, ...], needs)), []

    def _topologies(self, pod: Pod) -> tuple[Topology, ...] | fwk.Status:
        """The zones and regions of the volumes of the pod's claims, or a rejection."""
        claims, volumes = self.lister(PersistentVolumeClaim), self.lister(PersistentVolume)
        topologies: list[Topology] = []
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            name = volume.persistent_volume_claim.claim_name
            if not name:
                return _unresolvable(storage.attached_volumes.NO_NAME)
            try:
                claim = claims.get(f"{pod.namespace}/{name}")
                if not claim.spec.volume_name:
                    why = self._why_unbound(claim)
                    if why:
                        return _unresolvable(why)
                    continue
                topologies += topology_of(volumes.get(claim.spec.volume_name)).items()
            except ObjectNotFoundError as error:
                return _unresolvable(str(error))
        return tuple(topologies)

    def _why_unbound(self, claim: PersistentVolumeClaim) -> str:
        """The reason against a claim without a volume; "" if it is bound with its first consumer."""
        name = storage.claims.claim_class(claim)
        if not name:
            return NO_CLASS
        mode = self.lister(StorageClass).get(name).volume_binding_mode
        if mode is None:
            return NO_MODE.format(name)
        return "" if mode == storage.claims.WAIT_FOR_FIRST_CONSUMER else NO_VOLUME_NAME

    def mask_elsewhere(self, topologies: tuple[Topology, ...]) -> npt.NDArray[np.bool_]:
        """The rows of nodes whose topology labels do not match."""
        handle = self.required_handle()
        make = partial(_rows_elsewhere, handle.cache.state, topologies)
        return handle.derived(NodeMasks.of).find(("elsewhere", topologies), make)

    # ---- the queue -----------------------------------------------------------------------------------------

    @of_class
    def after_class_added(self, pod: Pod, old: None, new: StorageClass) -> fwk.QueueingHint:
        """Queue if a StorageClass was added whose volumes are bound with the first consumer."""
        return queue_if(new.volume_binding_mode == "WaitForFirstConsumer")

    def after_claim_change(
        self, pod: Pod, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim
    ) -> fwk.QueueingHint:
        """Queue if a claim that the pod names was added or updated."""
        return queue_if(new.namespace == pod.namespace and new.name in claim_names(pod))

    @of_class
    def after_volume_change(
        self, pod: Pod, old: PersistentVolume | None, new: PersistentVolume
    ) -> fwk.QueueingHint:
        """Queue if a volume was added or its zones changed."""
        return queue_if(old is None or topology_of(old) != topology_of(new))


def _unresolvable(text: str) -> fwk.Status:
    return fwk.Status(fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))


def _is_elsewhere(labels: Mapping[str, str], topologies: Sequence[Topology]) -> bool:
    """Whether the topology labels of a node do not match; a node without any matches."""
    return not labels.keys().isdisjoint(TOPOLOGY_LABELS) and any(
        labels.get(key, labels.get(BETA_TO_GA.get(key, ""))) not in values for key, values in topologies
    )


def _rows_elsewhere(cluster: ClusterState, topologies: Sequence[Topology]) -> npt.NDArray[np.bool_]:
    columns = {label: cluster.table.label_column(label) for label in TOPOLOGY_LABELS}
    out = np.zeros(cluster.table.used, dtype=bool)
    for key, values in topologies:
        column = columns[key]
        if key in BETA_TO_GA:
            column = np.where(column == 0, columns[BETA_TO_GA[key]], column)
        symbols = [symbol for value in values if (symbol := cluster.symbols.find(value))]
        out |= ~np.isin(column, symbols)
    has_any = np.logical_or.reduce([column != 0 for column in columns.values()])
    elsewhere: npt.NDArray[np.bool_] = out & has_any
    return elsewhere


def topology_of(volume: PersistentVolume) -> dict[str, frozenset[str]]:
    """The zones and regions of a volume; a label whose list contains an empty value is ignored."""
    labels = volume.metadata.labels
    topology = {}
    for key in TOPOLOGY_LABELS:
        if key not in labels:
            continue
        values = frozenset(value.strip() for value in labels[key].split(DELIMITER))
        if "" not in values:
            topology[key] = values
    return topology
