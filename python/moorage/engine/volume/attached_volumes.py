"""CSI volumes in use by node, and the volume limits of nodes (kube-scheduler v1.36, nodevolumelimits/csi.go).

For each claim its volume is counted, or, while it has none, one volume of its class's provisioner. Other
volumes named by VolumeAttachments are counted, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import count

import numpy as np
import numpy.typing as npt

from moorage._core.state.node_table import NodeTable
from moorage._core.volumes.volume_counts import VolumeCounts
from moorage.grouped import grouped
from moorage.kube import CSINode, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from moorage.kube.model.storage import VolumeAttachment
from moorage.store import InformerFactory
from moorage.store.indexer import KeyLog

from .claims import VolumeError, check_owner, claim_class
from .volume_topology import (
    MIGRATED_PROVISIONERS,
    UNCOUNTED_PROVISIONERS,
    driver_and_handle,
    inline_driver_and_handle,
)

CSIVolume = tuple[str, str]
"""CSI driver and volume handle."""
Driver = tuple[str, bool]
"""CSI driver, and whether it is asked for by name. Volumes of an in-tree plugin that the driver replaces ask
for it only on nodes with a CSINode."""
Counts = npt.NDArray[np.int32]
Rows = npt.NDArray[np.int32]

UNLIMITED = np.iinfo(np.int32).max
NO_NODE = ""
UNBOUND = "\0"  # start of a name that no volume handle has
NO_NAME = "PersistentVolumeClaim had no name"
VERSIONS = count()


class MissingClaimError(VolumeError):
    """A claim of a pod does not exist."""


class AttachedVolumes(VolumeCounts):
    """CSI volumes in use by row, from pods and VolumeAttachments.

    Parameters
    ----------
    informers : InformerFactory
        Informers of claims, volumes, classes, CSINodes and VolumeAttachments.

    Attributes
    ----------
    room : dict of str to (rows,) int32 array
        By driver with attach limits, the number of further volumes for each row; very many without a limit.
        The core counts the volumes of pods that it places; `settle` sets the exact numbers.
    like : dict of str to str
        By name of a node that only a fork of the cache has, the node whose drivers and limits it has.
    version : int
        Differs between all states between which anything has changed but the pods of rows.
    """

    def __init__(self, table: NodeTable, informers: InformerFactory) -> None:
        self._table = table
        self._claims = informers.informer(PersistentVolumeClaim).indexer
        self._volumes = informers.informer(PersistentVolume).indexer
        self._classes = informers.informer(StorageClass).indexer
        self._nodes = informers.informer(CSINode).indexer
        self._attachments = informers.informer(VolumeAttachment).indexer
        self.like: dict[str, str] = {}
        self.read_by(self._claims.reader(), self._volumes.reader(), VolumeError)
        self.clear()

    def logs(self) -> tuple[KeyLog, ...]:
        """Return the change logs of claims, volumes, classes, CSINodes and VolumeAttachments, in order."""
        indexers = self._claims, self._volumes, self._classes, self._nodes, self._attachments
        return tuple([indexer.follow() for indexer in indexers])

    def clear(self) -> None:
        """Drop the counts of all rows; the caller has to add the pods again."""
        self.forget()
        self.version = next(VERSIONS)
        self._size = 0
        self._limits: dict[str, Counts] = {}  # by driver; UNLIMITED without a limit
        self.room: dict[str, Counts] = {}
        self._without: dict[Driver, npt.NDArray[np.bool_]] = {}  # the rows, of drivers asked for
        # Indexes from a changed object to the affected counts.
        self._nodes_of: dict[str, set[str]] = {}  # by volume, from attachments; may contain too many
        self._attachments_of: dict[str, dict[str, VolumeAttachment]] = {}  # by node
        self._node_of: dict[str, str] = {}  # by attachment
        for key in self._attachments.items():
            self._update_attachment(key)

    # ---- queries ------------------------------------------------------------------------------------------

    def volumes_of_new_pod(self, pod: Pod) -> frozenset[CSIVolume]:
        """Return the CSI volumes of a pod that is being scheduled.

        Raises
        ------
        MissingClaimError
            A claim does not exist.
        VolumeError
            A claim has no name, or belongs to another pod's ephemeral volume.
        """
        return frozenset(self.volumes_of(pod, True))

    def drivers_of_new_pod(self, pod: Pod) -> list[Driver]:
        """Return the drivers of the volumes of a pod that is being scheduled, each once.

        Parameters
        ----------
        pod : Pod
            One whose volumes `volumes_of_new_pod` can tell.

        Returns
        -------
        list of Driver
            In alphabetical order; by name if any volume asks so.
        """
        drivers: dict[str, bool] = {}
        for volume in pod.spec.volumes:
            key = pod.claim_key(volume)
            resolved = inline_driver_and_handle(volume) if key is None else self.resolve(key)
            if resolved is not None and resolved[1]:
                driver = resolved[0]
                drivers[driver] = drivers.get(driver, False) or (key is not None and self._names_driver(key))
        return sorted(drivers.items())

    def _names_driver(self, key: str) -> bool:
        """Whether the volume of a claim, or the claim's class, names its CSI driver."""
        claim = self._claims.get(key)
        volume = claim and self._volumes.get(claim.spec.volume_name)
        if volume:
            return volume.spec.csi is not None
        of_class = claim and self._classes.get(claim_class(claim))
        return bool(of_class and of_class.provisioner not in MIGRATED_PROVISIONERS)

    def lacks(self, node_name: str, driver: Driver) -> bool:
        """Whether a volume asks for a driver that is not installed on a node."""
        name, is_named = driver
        node = self._nodes.get(self.like.get(node_name, node_name))
        if node is None:
            return is_named
        return all(installed.name != name for installed in node.spec.drivers)

    def rows_without(self, driver: Driver) -> npt.NDArray[np.bool_]:
        """Return the rows whose node `lacks` a driver.

        Returns
        -------
        (size,) bool array
            Mask over at least the rows of the node table.
        """
        if driver not in self._without:
            mask = self._without[driver] = np.zeros(self._size, dtype=bool)
            for row, name in self.names.items():
                mask[row] = self.lacks(name, driver)
        return self._without[driver]

    def rows_over_limit(self, rows: Rows, added: Iterable[CSIVolume]) -> npt.NDArray[np.bool_]:
        """Return the rows whose node would exceed a volume limit with additional volumes.

        Parameters
        ----------
        rows : (n,) int32 array
            Rows of the node table.
        added : iterable of CSIVolume
            The volumes of one pod.

        Returns
        -------
        (n,) bool array
            Mask over `rows`.
        """
        over = np.zeros(len(rows), dtype=bool)
        for driver, volumes in grouped((volume[0], volume) for volume in added).items():
            if driver not in self.room:
                continue
            room = self.room[driver].take(rows)
            occupied = [row for volume in volumes for row in self.pods_with.get(volume, ())]
            if occupied:
                there = np.zeros(self._size, dtype=np.int32)
                np.add.at(there, occupied, 1)
                new = len(volumes) - there.take(rows)
                over |= (new > 0) & (new > room)
            else:
                over |= room < len(volumes)
        return over

    def is_limited(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Return the rows whose node has a limit for any driver.

        Parameters
        ----------
        rows : (n,) int32 array
            Rows of the node table.

        Returns
        -------
        (n,) bool array
            Mask over `rows`.
        """
        mask = np.zeros(len(rows), dtype=bool)
        for limits in self._limits.values():
            mask |= limits.take(rows) != UNLIMITED
        return mask

    def exceeded(
        self, node_name: str, pods: Iterable[Pod], added: Iterable[CSIVolume]
    ) -> dict[str, tuple[int, int, int]]:
        """Return the limits that a node with some pods would exceed with additional volumes.

        Parameters
        ----------
        node_name : str
            Name of the node whose limits and VolumeAttachments count.
        pods : iterable of Pod
            The pods of the node, which may differ from those in the cache.
        added : iterable of CSIVolume
            The volumes of one more pod.

        Returns
        -------
        dict of str to tuple
            By driver, the limit, the number of volumes in use, and how many more are wanted.

        Raises
        ------
        VolumeError
            The volumes of one of the pods cannot be determined.
        """
        limits = self.limits_of(node_name)
        if not added or not limits:
            return {}
        used = self.in_use(node_name, pods)
        counts = Counter(driver for driver, _ in used)
        new = Counter(driver for driver, handle in added if not used.get((driver, handle)))
        return {
            driver: (limits[driver], counts[driver], number)
            for driver, number in new.items()
            if driver in limits and counts[driver] + number > limits[driver]
        }

    def in_use(self, node_name: str, pods: Iterable[Pod]) -> dict[CSIVolume, list[str]]:
        """Return the volumes of a node with some pods, and who uses them.

        Parameters
        ----------
        node_name : str
            Name of the node whose VolumeAttachments count.

        Returns
        -------
        dict of CSIVolume to list of str
            The pods that use it, as ``namespace/name``; none for one that is only attached.

        Raises
        ------
        VolumeError
            The volumes of one of the pods cannot be determined.
        """
        used = grouped((volume, pod.key) for pod in pods for volume in self.volumes_of(pod, False))
        for volume in self.attachments_to(node_name):
            used.setdefault(volume, [])
        return used

    def limits_of(self, node_name: str) -> dict[str, int]:
        """Return the volume limits of a node.

        Returns
        -------
        dict of str to int
            Maximum number of volumes by driver, without drivers that have no limit.
        """
        node = self._nodes.get(self.like.get(node_name, node_name))
        return {
            driver.name: driver.allocatable.count
            for driver in (() if node is None else node.spec.drivers)
            if driver.allocatable is not None and driver.allocatable.count is not None
        }

    # ---- volumes of claims ---------------------------------------------------------------------------------

    def volumes_of(self, pod: Pod, is_new: bool, claims: list[str] | None = None) -> list[CSIVolume]:
        """Return the volumes of a pod.

        Parameters
        ----------
        is_new : bool
            Whether the pod is being scheduled. A missing claim is an error for these alone.
        claims : list of str, optional
            Receives the keys of its claims.

        Raises
        ------
        MissingClaimError, VolumeError
            As for `volumes_of_new_pod`.
        """
        volumes = []
        for volume in pod.spec.volumes:
            key = pod.claim_key(volume)
            if key is None:
                inline = inline_driver_and_handle(volume)
                if inline[0]:
                    volumes.append(inline)
                continue
            name = key.partition("/")[2]
            if not name:
                raise VolumeError(NO_NAME)
            if claims is not None:
                claims.append(key)
            claim = self._claims.get(key) if is_new or volume.ephemeral is not None else None
            if is_new and claim is None:
                raise MissingClaimError(f'looking up PVC {key}: persistentvolumeclaim "{name}" not found')
            if volume.ephemeral is not None and claim is not None:
                check_owner(pod, claim)
            resolved = self.resolve(key)
            if resolved is not None:
                volumes.append(resolved)
        return volumes

    def volume_of(self, volume: PersistentVolume) -> CSIVolume | None:
        """Return what is counted for a volume that is not of a CSI driver.

        Returns
        -------
        CSIVolume or None
            None if no driver has replaced its plugin.
        """
        driver, handle = driver_and_handle(volume)
        return (driver, handle) if driver and handle else None

    def volume_of_class(self, key: str, claim: PersistentVolumeClaim) -> CSIVolume | None:
        """Return what is counted for a claim without a volume.

        Parameters
        ----------
        key : str
            The claim, as ``namespace/name``.

        Returns
        -------
        CSIVolume or None
            None if the provisioner of its class does not count.
        """
        storage_class = self._classes.get(claim_class(claim))
        if storage_class is None or storage_class.provisioner in UNCOUNTED_PROVISIONERS:
            return None
        driver = MIGRATED_PROVISIONERS.get(storage_class.provisioner, storage_class.provisioner)
        return (driver, UNBOUND + key) if driver else None

    def column_of(self, driver: str) -> Counts:
        """Return the numbers of volumes of a driver by row, which are made if there are none.

        Returns
        -------
        (size,) int32 array
        """
        column: Counts = self.used.setdefault(driver, np.zeros(self._size, dtype=np.int32))
        return column

    # ---- updates -----------------------------------------------------------------------------------------

    def resize(self, rows: int) -> None:
        """Grow the columns to a number of rows.

        Parameters
        ----------
        rows : int
            Number of rows of the node table.
        """
        if rows > self._size:
            more = 0, max(rows, 2 * self._size) - self._size
            self._size += more[1]
            for driver, counts in self.used.items():
                self.used[driver] = np.pad(counts, more)
            for drivers, mask in self._without.items():
                self._without[drivers] = np.pad(mask, more)
            for columns in (self._limits, self.room):
                for driver, counts in columns.items():
                    columns[driver] = np.pad(counts, more, constant_values=UNLIMITED)
            self.version = next(VERSIONS)

    def settle(self, rows: Collection[int] = ()) -> None:
        """Bring the room of rows up to date, after changes of pods or objects.

        Parameters
        ----------
        rows : collection of int
            Rows where the core may have placed pods.
        """
        at = [*self.unsettled, *rows]
        self.unsettled.clear()
        for driver, room in self.room.items():
            room[at] = self._limits[driver][at] - self.used[driver][at]

    def set_node_name(self, row: int, name: str) -> None:
        """Set the node of a row.

        Parameters
        ----------
        row : int
            Row of the node table.
        name : str
            Name of the node, or `NO_NODE`.
        """
        if self.names.get(row, NO_NODE) != name:
            self.names[row] = name
            self._set_limits(row, name)
            self._set_attached(row, name)

    def _set_limits(self, row: int, name: str) -> None:
        limits = self.limits_of(name)
        for driver in limits:
            if driver not in self._limits:
                self._limits[driver] = np.full(self._size, UNLIMITED, dtype=np.int32)
                self.room[driver] = UNLIMITED - self.column_of(driver)
        for driver, column in self._limits.items():
            column[row] = limits.get(driver, UNLIMITED)
        for drivers, mask in self._without.items():
            mask[row] = self.lacks(name, drivers)
        self.unsettled[row] = None
        self.version = next(VERSIONS)

    def _set_attached(self, row: int, name: str) -> None:
        before, after = self.attached.pop(row, frozenset()), frozenset(self.attachments_to(name))
        if after:
            self.attached[row] = after
        for volume in after - before:
            self.attachments_with.setdefault(volume, {})[row] = 1
        for volume in before - after:
            del self.attachments_with[volume][row]
            if not self.attachments_with[volume]:
                del self.attachments_with[volume]
        for volume in before ^ after:
            if row not in self.pods_with.get(volume, ()):
                self.count(row, volume, 1 if volume in after else -1)

    def attachments_to(self, node_name: str) -> dict[CSIVolume, tuple[str, str]]:
        """Return the volumes that VolumeAttachments name for a node, with the names of the attachment and of
        the PersistentVolume.

        Returns
        -------
        dict of CSIVolume to (str, str)
            In ascending order.
        """
        volumes: list[tuple[CSIVolume, tuple[str, str]]] = []
        for attachment in self._attachments_of.get(node_name, {}).values():
            attacher, name = attachment.spec.attacher, attachment.spec.source.persistent_volume_name
            volume = None if name is None else self._volumes.get(name)
            if attacher and volume is not None and volume.spec.csi is not None:
                handle = attacher, volume.spec.csi.volume_handle
                volumes.append((handle, (attachment.name, volume.name)))
        return dict(sorted(volumes))

    def update_objects(
        self,
        claims: Iterable[str],
        volumes: Iterable[str],
        nodes: Iterable[str],
        attachments: Iterable[str],
        pods: Mapping[int, Mapping[str, Pod]],
    ) -> None:
        """Update the counts after changes of objects.

        Parameters
        ----------
        claims, volumes, nodes, attachments : iterable of str
            Keys of changed claims, volumes, CSINodes and VolumeAttachments.
        pods : mapping of int to mapping of str to Pod
            Pods by UID, by row, as passed to `add_pod`.
        """
        stale = set(nodes)
        for key in attachments:
            stale |= self._update_attachment(key)
        changed = dict.fromkeys(claims)
        for name in volumes:  # most of them are new, and nothing is known of them
            if (known := self.claims_of.pop(name, None)) is not None:
                changed |= dict.fromkeys(sorted(known))
            if (named := self._nodes_of.get(name)) is not None:
                stale |= named
        for key in changed if self.resolved else ():
            self.resolved.pop(key, None)
        used = [key for key in changed if key in self.pods_of] if self.pods_of else []
        for at in dict.fromkeys(at for key in used for at in self.pods_of[key]):
            row, uid = at
            pod = pods[row][uid]
            self.remove_pod(pod, row)
            self.add_pod(pod, row)
            self.version = next(VERSIONS)
        for name in stale:
            node_row = self._table.find_row(name)
            if node_row is not None and self.names.get(node_row) == name:
                self._set_limits(node_row, name)
                self._set_attached(node_row, name)
        self.settle()

    def _update_attachment(self, key: str) -> set[str]:
        """Index the current state of an attachment; returns the names of the affected nodes."""
        before, attachment = self._node_of.pop(key, None), self._attachments.get(key)
        if before is not None:
            del self._attachments_of[before][key]
        if attachment is None:
            return set() if before is None else {before}
        node = self._node_of[key] = attachment.spec.node_name
        self._attachments_of.setdefault(node, {})[key] = attachment
        name = attachment.spec.source.persistent_volume_name
        if name is not None:
            self._nodes_of.setdefault(name, set()).add(node)
        return {node} if before is None else {before, node}
