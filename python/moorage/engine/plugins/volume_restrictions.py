"""VolumeRestrictions: disks that can be mounted only once, and claims with ReadWriteOncePod."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Self

import numpy as np

from moorage.engine import framework as fwk
from moorage.kube import PersistentVolumeClaim, Pod, Volume
from moorage.store.errors import NotFoundError as ObjectNotFoundError

from ..framework.plugin.events import (
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    ActionType,
    Key,
    indexed,
    on,
    queue_if,
)
from ..framework.plugin.evidence import Evidence, EvidencePlugin, Fact, FindEvidence, Inquiry, Rows
from ..framework.runtime.in_tree_plugins import Attachment, BoundClaims, Mask, VolumePlugin, VolumesOfBatch
from ..volume.lost_uses import LostUses
from ..volume.volumes_in_use import VolumesInUse, disk_of
from .claim_evidence import missing_claims

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


class VolumeRestrictions(VolumePlugin, EvidencePlugin):
    """Filter of kube-scheduler v1.36, volumerestrictions/."""

    name = "VolumeRestrictions"
    needs_are_described = True

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
        if not uses and all(disk_of(volume) is None for volume in pod.spec.volumes):
            return fwk.SKIP
        state.write(STATE, ClaimsForOnePod(frozenset(keys.values()), uses))
        return None

    def needs_of(
        self, pod: Pod, claims: BoundClaims, nodes: fwk.NodesView, batch: VolumesOfBatch | None = None
    ) -> tuple[str, ...] | None:
        if any(disk_of(volume) is not None for volume in pod.spec.volumes):
            return None
        exclusive = [claim.key for claim, _ in claims if READ_WRITE_ONCE_POD in claim.spec.access_modes]
        if exclusive and batch is None and self._uses(exclusive):
            return None  # if the other pod leaves, any node suits
        if exclusive and batch is not None:
            if self._uses(exclusive):
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
            return sum(count > 0 for count in handle.shared(LostUses).counts_of(keys))
        in_use = handle.derived(VolumesInUse.of)
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
        theirs = [volume for other in node_info.pods for volume in other.spec.volumes if disk_of(volume)]
        if any(conflict(mine, volume) for mine in pod.spec.volumes for volume in theirs):
            return NO_DISK
        return self._of_claims(state)

    def filter_all(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Answers:
        in_use = self.required_handle().derived(VolumesInUse.of)
        in_use.refresh()
        excluded = []
        for mine in pod.spec.volumes:
            disk = disk_of(mine)
            there = in_use.disks.get(disk, {}) if disk is not None else {}
            excluded += [row for row, held in there.items() if any(conflict(mine, theirs) for theirs in held)]
        numbers = np.isin(nodes.rows, excluded) if excluded else np.zeros(len(nodes), dtype=bool)
        return fwk.Answers(numbers.view(np.uint8), (self._of_claims(state), NO_DISK))

    def evidence(self, inquiry: Inquiry) -> FindEvidence:
        def find(rows: Rows, status: fwk.Status) -> Iterator[Evidence]:
            if status.reasons == CLAIM_IN_USE.reasons:
                yield from self._users(inquiry, len(rows))
                return
            if status.reasons != NO_DISK.reasons:
                for claim in missing_claims(inquiry.pod, self.lister(PersistentVolumeClaim)):
                    yield replace(claim, nodes=len(rows))
                return
            for row in rows.tolist():
                for other in (*inquiry.pods_on(row), *inquiry.nominated_on(row)):
                    pairs = product(inquiry.pod.spec.volumes, other.spec.volumes)
                    if any(conflict(mine, theirs) for mine, theirs in pairs):
                        yield Fact("pod", other.key, "uses the same disk")

        return find

    def _users(self, inquiry: Inquiry, nodes: int) -> Iterator[Fact]:
        """Yield the pods on nodes that use a claim of the pod."""
        names, namespace = inquiry.state.read(STATE).names, inquiry.pod.namespace
        for other in inquiry.search.state.pods():
            if other.namespace == namespace and other.spec.volumes:
                for name in sorted(names & claim_names(other)):
                    yield Fact("pod", other.key, f"uses claim {name}", values={"claim": name}, nodes=nodes)

    def _of_claims(self, state: fwk.CycleState) -> fwk.Status | None:
        """The status of the claims, for all nodes."""
        try:
            claims: ClaimsForOnePod = state.read(STATE)
        except fwk.NotFoundError as error:
            return _missing_state(error)
        return CLAIM_IN_USE if claims.uses > 0 else None

    # ---- the queue -----------------------------------------------------------------------------------------

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        return [
            on(POD, ActionType.DELETE, self.after_pod_deleted),
            on(NODE, ActionType.ADD),
            on(PERSISTENT_VOLUME_CLAIM, ActionType.ADD, self.after_claim_added),
        ]

    def _keys(self, pod: Pod) -> frozenset[Key]:
        """Return the claims and disks that a pod names, with its namespace."""
        disks = [disk for volume in pod.spec.volumes if (disk := disk_of(volume)) is not None]
        return frozenset((pod.namespace, named) for named in (*claim_names(pod), *disks))

    def _keys_of_deleted(self, old: Pod, new: None) -> frozenset[Key]:
        return self._keys(old)

    def _keys_of_claim(self, old: None, new: PersistentVolumeClaim) -> tuple[Key, ...]:
        return ((new.namespace, new.name),)

    @indexed(_keys, _keys_of_deleted, by_class=False)
    def after_pod_deleted(self, pod: Pod, old: Pod, new: None) -> fwk.QueueingHint:
        """Queue if a deleted pod of the namespace used a disk or a claim of the pod.

        The deleted pod need not have had a node. As upstream, pods of other namespaces do not count.
        """
        if old.namespace != pod.namespace:
            return queue_if(False)
        pairs = [(mine, theirs) for mine in pod.spec.volumes for theirs in old.spec.volumes]
        return queue_if(claim_names(pod) & claim_names(old) or any(conflict(*pair) for pair in pairs))

    @indexed(_keys, _keys_of_claim, by_class=False)
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
