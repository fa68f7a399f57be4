"""Volumes in use: by row, by claim, by disk, and attached by CSI drivers; and uses that are lost with a node.

The counts follow from the pods of the cache and from the informers' claims and volumes, and are updated from
their change logs. A rollback of a transaction appends the restored rows to the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, TypeVar

from moorage._core.base.buffers import Journal
from moorage._core.state.cluster_state import ClusterState
from moorage._core.volumes.volume_counts import VolumeUsers
from moorage.kube import Pod, Volume
from moorage.kube.model.pod import DiskVolumeSource
from moorage.saved_fields import SavedFields
from moorage.store import InformerFactory

from .attached_volumes import AttachedVolumes

if TYPE_CHECKING:
    from ..framework.handle import FrameworkHandle


NEVER = -1

Disk = tuple[str, ...]
"""Identity of a disk that cannot be mounted twice; see `disk_of`."""


class VolumesInUse(VolumeUsers):
    """The pods that use volumes on the nodes of the cluster; to be read after `refresh`.

    Parameters
    ----------
    state : ClusterState
        State of the cluster in the core.
    informers : InformerFactory
        Informers of claims, volumes, classes, CSINodes and VolumeAttachments.

    Attributes
    ----------
    disks : dict
        By disk (`disk_of`), its inline volumes by row.
    attached : AttachedVolumes
        Volumes of CSI drivers, and the limits of nodes.
    """

    def __init__(self, state: ClusterState, informers: InformerFactory) -> None:
        self._state = state
        self._cursor = NEVER
        self.attached = AttachedVolumes(state.table, informers)
        self._logs = self.attached.logs()
        self._heads = [NEVER] * len(self._logs)
        self._clear()

    @classmethod
    def of(cls, handle: FrameworkHandle) -> VolumesInUse:
        """Make an instance for a handle's cluster; plugins share it through `FrameworkHandle.shared`."""
        return cls(handle.cache.state, handle.informers)

    def _clear(self) -> None:
        self.pods, self.claims = {}, {}
        self.released += 1
        self.disks: dict[Disk, dict[int, list[Volume]]] = {}
        self.attached.clear()

    # ---- updates -----------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Apply all changes since the last call."""
        if [log.head for log in self._logs] != self._heads:
            self._refresh_objects()
        if self._cursor != self._state.log.head:
            self._refresh_rows()

    def _refresh_objects(self) -> None:
        """Apply changes of claims, volumes, classes, CSINodes and VolumeAttachments."""
        # Read before `since`, so that a concurrent change is applied twice rather than lost.
        heads = [log.head for log in self._logs]
        changes = [log.since(head) for log, head in zip(self._logs, self._heads, strict=True)]
        self._heads = heads
        claims, volumes, classes, nodes, attachments = changes
        if classes or None in changes:  # changes of classes are rare
            self._clear()
            self._cursor = NEVER
            return
        self.attached.update_objects(claims or (), volumes or (), nodes or (), attachments or (), self.pods)

    def _refresh_rows(self) -> None:
        """Apply changes of rows."""
        state = self._state
        changed = None if self._cursor == NEVER else state.log.rows_since(self._cursor)
        self._cursor = state.log.head
        used = state.table.used
        self.attached.resize(used)
        rows = sorted({*range(used), *self.pods}) if changed is None else changed
        self.follow_rows(state, self.attached, rows)
        self.attached.settle([row for row in rows if row < used])

    def count_disks(self, pod: Pod, row: int, sign: int) -> None:
        """Add the disks of a pod at a row, or subtract them.

        Parameters
        ----------
        row : int
            Row of the node table.
        sign : int
            1 or -1.
        """
        for volume in pod.spec.volumes:
            if (disk := disk_of(volume)) is not None:
                volumes = self.disks.setdefault(disk, {}).setdefault(row, [])
                if sign > 0:
                    volumes.append(volume)
                else:
                    volumes.remove(volume)
                if not volumes:
                    del self.disks[disk][row]
                if not self.disks[disk]:
                    del self.disks[disk]


def disk_of(volume: Volume) -> Disk | None:
    """Return the identity of an inline volume that can be mounted only once, or once for writing.

    RBD images of equal identity conflict only if they have a monitor in common.

    Parameters
    ----------
    volume : Volume
        An inline volume of a pod.

    Returns
    -------
    Disk or None
        None for all other volumes.
    """
    disk: DiskVolumeSource | None
    if (disk := volume.gce_persistent_disk) is not None:
        return "gce", disk.pd_name
    if (disk := volume.aws_elastic_block_store) is not None:
        return "aws", disk.volume_id
    if (disk := volume.iscsi) is not None:
        return "iscsi", disk.iqn
    if (disk := volume.rbd) is not None:
        return "rbd", disk.pool, disk.image
    return None


# ---- lost uses ---------------------------------------------------------------------------------------------
# Uses of claims that kube-scheduler v1.37 loses count of when a node goes.

V = TypeVar("V")


class LostUses(SavedFields):
    """What upstream counts too little of the uses of claims (v1.37, cache.go, ``pvcRefCountsDelta``).

    A node that goes takes the uses by its pods from the count. If it is back before the next snapshot,
    nothing adds them again. If it is not, each of these pods takes its uses once more when it goes. The count
    is right again with the first snapshot whose nodes are others than those of the one before, or in which a
    claim would be used less than never. Both snapshots list the nodes anew.

    Parameters
    ----------
    handle : FrameworkHandle
        Of the scheduler's framework. The view of its cache asks at each snapshot (`View.claim_counts`).

    Attributes
    ----------
    uses : dict of str to int
        By ``namespace/name`` of the claim, the uses on nodes that have gone since the nodes were listed, and
        on those that were gone then.
    """

    fields = ("uses", "_gone")
    is_copied_whole = True  # by a fork of the scheduler, as nothing can derive it anew

    def __init__(self, handle: FrameworkHandle) -> None:
        self._handle = handle
        self.uses: dict[str, int] = {}
        self._gone: dict[str, None] = {}  # these nodes; some may be back
        handle.cache.state.view.claim_counts = self

    def node_goes(self, name: str) -> None:
        """Note the claims that pods on a node use, before it is removed."""
        uses = self._uses_on(name)
        if uses:
            self._set(uses + Counter(self.uses), dict.fromkeys([*self._gone, name]))

    def counts_of(self, claims: Collection[str]) -> list[int]:
        """Return upstream's count for each of some claims.

        Parameters
        ----------
        claims : collection of str
            As ``namespace/name``.
        """
        in_use = self._handle.derived(VolumesInUse.of)
        in_use.refresh()
        gone = sum(self._uses_on_gone().values(), Counter[str]())
        return [in_use.claims.get(key, 0) + gone[key] - self.uses.get(key, 0) for key in claims]

    def are_negative(self) -> bool:
        """Whether upstream counts a claim as used less than never."""
        return any(count < 0 for count in self.counts_of(self.uses))

    def start_anew(self) -> None:
        """Count anew, as the nodes are listed anew."""
        if self.uses:
            gone = self._uses_on_gone()
            self._set(sum(gone.values(), Counter[str]()), dict.fromkeys(gone))

    def _set(self, uses: Counter[str], gone: dict[str, None]) -> None:
        """Set the state; a rollback restores it before the view asks again."""
        journal = self._handle.cache.state.journal
        _replace(journal, self.uses, uses)
        _replace(journal, self._gone, gone)

    def _uses_on_gone(self) -> dict[str, Counter[str]]:
        """Return the uses by pods on each node that is gone."""
        state = self._handle.cache.state
        gone = [name for name in self._gone if not state.has_node(name)]
        return {name: uses for name in gone if (uses := self._uses_on(name))}

    def _uses_on(self, name: str) -> Counter[str]:
        """Return the uses by pods on a node, which may be gone."""
        state = self._handle.cache.state
        row = state.find_row(name)
        return Counter(
            f"{pod.namespace}/{volume.persistent_volume_claim.claim_name}"
            for pod in (() if row is None else state.pods_of(row))
            for volume in pod.spec.volumes
            if volume.persistent_volume_claim is not None
        )


def _replace(journal: Journal, table: dict[str, V], new: Mapping[str, V]) -> None:
    """Set the content of a table, undoably."""
    for key in table.keys() - new.keys():
        journal.drop(table, key)
    for key, value in new.items():
        journal.put(table, key, value)
