"""Volumes in use: by row, by claim, by disk, and attached by CSI drivers.

The counts follow from the pods of the cache and from the informers' claims and volumes, and are updated from
their change logs. A rollback of a transaction appends the restored rows to the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage._core.state.cluster_state import ClusterState
from moorage.objects import Pod, Volume
from moorage.objects.model.pod import DiskVolumeSource
from moorage.store import InformerFactory

from .attached import NO_NODE, AttachedVolumes

if TYPE_CHECKING:
    from moorage.framework.plugin.handle import FrameworkHandle

NEVER = -1

Disk = tuple[str, ...]
"""Identity of a disk that cannot be mounted twice; see `disk_of`."""


class VolumesInUse:
    """The pods that use volumes on the nodes of the cluster; to be read after `refresh`.

    Parameters
    ----------
    state : ClusterState
        State of the cluster in the core.
    informers : InformerFactory
        Informers of claims, volumes, classes, CSINodes and VolumeAttachments.

    Attributes
    ----------
    pods : dict of int to dict of str to Pod
        By row of the node table, its pods with volumes by UID; rows without such pods are omitted. What
        bindings set may be of an earlier state.
    claims : dict of str to int
        By ``namespace/name`` of a claim, the number of times that pods name it, without ephemeral volumes.
    disks : dict
        By disk (`disk_of`), its inline volumes by row.
    attached : AttachedVolumes
        Volumes of CSI drivers, and the limits of nodes.
    released : int
        Grows whenever the last pod that names a claim leaves.
    """

    def __init__(self, state: ClusterState, informers: InformerFactory) -> None:
        self._state = state
        self._cursor = NEVER
        self.released = 0
        self.attached = AttachedVolumes(state.table, informers)
        self._logs = self.attached.logs()
        self._heads = [NEVER] * len(self._logs)
        self._clear()

    @classmethod
    def of(cls, handle: FrameworkHandle) -> VolumesInUse:
        """Make an instance for a handle's cluster; plugins share it through `FrameworkHandle.shared`.

        Parameters
        ----------
        handle : FrameworkHandle
            Handle of the scheduler's framework.

        Returns
        -------
        VolumesInUse
        """
        return cls(handle.cache.state, handle.informers)

    def _clear(self) -> None:
        self.pods: dict[int, dict[str, Pod]] = {}
        self.released += 1
        self.claims: dict[str, int] = {}
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
        for row in rows:
            self._update_row(row)
        self.attached.settle([row for row in rows if row < used])

    def _update_row(self, row: int) -> None:
        table, known = self._state.table, self.pods.get(row)
        if row < table.used and table.is_present(row):
            self.attached.set_node_name(row, table.row_name(row))
            pods = {} if known is None else known
            left, joined = self._state.ledger.follow_volumes(row, pods)
        else:
            self.attached.set_node_name(row, NO_NODE)
            pods, left, joined = {}, [] if known is None else list(known.values()), []
        for pod in left:
            self._count(pod, row, -1)
            self.attached.remove_pod(pod, row)
        for pod in joined:
            self._count(pod, row, 1)
            self.attached.add_pod(pod, row)
        if pods:
            self.pods[row] = pods
        elif known is not None:
            del self.pods[row]

    def _count(self, pod: Pod, row: int, sign: int) -> None:
        """Add (`sign` 1) or subtract (-1) the claims and disks of a pod at a row."""
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is not None:
                key = f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}"
                self.claims[key] = self.claims.get(key, 0) + sign
                if not self.claims[key]:
                    del self.claims[key]
                    self.released += 1
            elif (disk := disk_of(volume)) is not None:
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
