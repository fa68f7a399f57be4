"""Volumes in use: by row, by claim, by disk, and attached by CSI drivers.

The counts follow from the pods of the cache and from the informers' claims and volumes, and are updated from
their change logs. A rollback of a transaction appends the restored rows to the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage._core.state.cluster_state import ClusterState
from moorage._core.volumes.volume_counts import VolumeUsers
from moorage.kube import Pod, Volume
from moorage.kube.model.pod import DiskVolumeSource
from moorage.store import InformerFactory

from .attached_volumes import AttachedVolumes

if TYPE_CHECKING:
    from ..framework.plugin.handle import FrameworkHandle

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
