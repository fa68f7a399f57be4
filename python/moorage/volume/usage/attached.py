"""Volumes that CSI drivers attach to nodes: which ones, how many, and how many each node takes.

What counts is kube-scheduler v1.36's, nodevolumelimits/csi.go: of each claim its volume, or, as long as it
has none, one of its class's provisioner; and what VolumeAttachments say beyond that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from moorage._core.state.node_table import NodeTable
from moorage.objects.model.pod import Pod
from moorage.objects.model.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from moorage.store import InformerFactory
from moorage.store.informers.indexer import KeyLog
from moorage.volume.binding.claims import VolumeError, claim_class

from .migration import (
    MIGRATED_PROVISIONERS,
    UNCOUNTED_PROVISIONERS,
    driver_and_handle,
    inline_driver_and_handle,
)

CSIVolume = tuple[str, str]
"""A volume as its driver knows it: the driver, and the volume's handle there."""
Counts = npt.NDArray[np.int32]
Rows = npt.NDArray[np.int32]

UNLIMITED = np.iinfo(np.int32).max
NO_NODE = ""
UNBOUND = "\0"  # no handle begins like this
NO_NAME = "PersistentVolumeClaim had no name"


class MissingClaimError(VolumeError):
    """A claim that a pod names is not there."""


class AttachedVolumes:
    """CSI volumes by row, as far as pods and VolumeAttachments tell.

    Attributes
    ----------
    errors : dict of int to dict
        Row to the pods there, by UID, whose volumes cannot be counted, and why; upstream's text.
    """

    def __init__(
        self,
        table: NodeTable,
        informers: InformerFactory,
    ) -> None:
        self._table = table
        self._claims = informers.informer(PersistentVolumeClaim).indexer
        self._volumes = informers.informer(PersistentVolume).indexer
        self._classes = informers.informer(StorageClass).indexer
        self._nodes = informers.informer(CSINode).indexer
        self._attachments = informers.informer(VolumeAttachment).indexer
        self.clear()

    def logs(self) -> tuple[KeyLog, ...]:
        """What changes of claims, volumes, classes, CSINodes and VolumeAttachments."""
        indexers = self._claims, self._volumes, self._classes, self._nodes, self._attachments
        return tuple(indexer.follow() for indexer in indexers)

    def clear(self) -> None:
        """Forget all rows; what they have must come anew."""
        self.errors: dict[int, dict[str, str]] = {}
        self._size = 0
        self._used: dict[str, Counts] = {}
        self._room: dict[str, Counts] = {}  # of drivers that some node limits; UNLIMITED less the used ones
        self._names: dict[int, str] = {}  # rows whose limits have been read
        # Who refers to a volume on a row: so many pods, and the row's attachments; a volume counts once.
        self._refers: dict[int, dict[CSIVolume, int]] = {}
        self._pods_with: dict[CSIVolume, dict[int, int]] = {}
        self._of_pod: dict[tuple[int, str], tuple[CSIVolume, ...]] = {}
        self._attached: dict[int, frozenset[CSIVolume]] = {}
        # Where a change of an object shows.
        self._resolved: dict[str, CSIVolume | None] = {}
        self._pods_of: dict[str, dict[tuple[int, str], None]] = {}  # by claim
        self._claims_of: dict[str, set[str]] = {}  # by volume; may name too many
        self._nodes_of: dict[str, set[str]] = {}  # by volume, through attachments; may name too many
        self._attachments_of: dict[str, dict[str, VolumeAttachment]] = {}  # by node
        self._node_of: dict[str, str] = {}  # by attachment
        for key in self._attachments.items():
            self._renew_attachment(key)

    # ---- what is asked -------------------------------------------------------------------------------------

    def wanted_by(self, pod: Pod) -> frozenset[CSIVolume]:
        """The volumes of a new pod.

        Raises
        ------
        MissingClaimError
            A claim is not there.
        VolumeError
            They cannot be told.
        """
        return frozenset(self._volumes_of(pod, True))

    def exceeding(self, rows: Rows, wanted: Iterable[CSIVolume]) -> npt.NDArray[np.bool_]:
        """The rows whose node does not take these volumes besides those that it has."""
        over = np.zeros(len(rows), dtype=bool)
        by_driver: dict[str, list[CSIVolume]] = {}
        for volume in wanted:
            by_driver.setdefault(volume[0], []).append(volume)
        for driver, volumes in by_driver.items():
            if driver not in self._room:
                continue
            room = self._room[driver].take(rows)
            held = [row for volume in volumes for row in self._pods_with.get(volume, ())]
            if held:
                there = np.zeros(self._size, dtype=np.int32)
                np.add.at(there, held, 1)
                new = len(volumes) - there.take(rows)
                over |= (new > 0) & (new > room)
            else:
                over |= room < len(volumes)
        return over

    def is_limited(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """The rows whose node limits the volumes of some driver."""
        found = np.zeros(len(rows), dtype=bool)
        for driver, room in self._room.items():
            found |= (room + self._used[driver]).take(rows) != UNLIMITED
        return found

    def exceed(self, node_name: str, pods: Iterable[Pod], wanted: Iterable[CSIVolume]) -> bool:
        """Whether a node with these pods, who may be others than are there, does not take the volumes.

        Raises
        ------
        VolumeError
            The volumes of one of the pods cannot be told.
        """
        limits = self.limits_of(node_name)
        if not wanted or not limits:
            return False
        held = {volume for pod in pods for volume in self._volumes_of(pod, False)}
        counts: dict[str, int] = {}
        for driver, _ in held | self._attached_to(node_name):
            counts[driver] = counts.get(driver, 0) + 1
        new: dict[str, int] = {}
        for driver, handle in wanted:
            if (driver, handle) not in held:
                new[driver] = new.get(driver, 0) + 1
        return any(
            driver in limits and counts.get(driver, 0) + more > limits[driver] for driver, more in new.items()
        )

    def limits_of(self, node_name: str) -> dict[str, int]:
        """Driver to the number of volumes that a node takes, where that is limited."""
        node = self._nodes.get(node_name)
        drivers = () if node is None else node.spec.drivers
        found = {}
        for one in drivers:
            if one.allocatable is not None and one.allocatable.count is not None:
                found[one.name] = one.allocatable.count
        return found

    # ---- what a claim stands for ---------------------------------------------------------------------------

    def _volumes_of(self, pod: Pod, is_new: bool, claims: list[str] | None = None) -> list[CSIVolume]:
        """The volumes of a pod; missing claims are an error of new pods only. `claims` gets their keys."""
        found = []
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is not None:
                name = volume.persistent_volume_claim.claim_name
            elif volume.ephemeral is not None:
                name = f"{pod.name}-{volume.name}"
            else:
                inline = inline_driver_and_handle(volume)
                if inline[1]:
                    found.append(inline)
                continue
            if not name:
                raise VolumeError(NO_NAME)
            key = f"{pod.namespace}/{name}"
            if claims is not None:
                claims.append(key)
            claim = self._claims.get(key) if is_new or volume.ephemeral is not None else None
            if is_new and claim is None:
                text = f'looking up PVC {key}: persistentvolumeclaim "{name}" not found'
                raise MissingClaimError(text)
            if volume.ephemeral is not None and claim is not None:
                check_owner(pod, claim)
            resolved = self._resolve(key)
            if resolved is not None:
                found.append(resolved)
        return found

    def _resolve(self, key: str) -> CSIVolume | None:
        """The volume that a claim stands for; None where none counts."""
        try:
            return self._resolved[key]
        except KeyError:
            found = self._look_up(key)
            self._resolved[key] = found
            return found

    def _look_up(self, key: str) -> CSIVolume | None:
        claim = self._claims.get(key)
        if claim is None:
            return None
        name = claim.spec.volume_name
        if name:
            self._claims_of.setdefault(name, set()).add(key)
            volume = self._volumes.get(name)
            if volume is not None:
                driver, handle = driver_and_handle(volume)
                return (driver, handle) if driver and handle else None
        its_class = self._classes.get(claim_class(claim))
        if its_class is None or its_class.provisioner in UNCOUNTED_PROVISIONERS:
            return None
        driver = MIGRATED_PROVISIONERS.get(its_class.provisioner, its_class.provisioner)
        return (driver, UNBOUND + key) if driver else None

    # ---- following what changes ----------------------------------------------------------------------------

    def make_room(self, rows: int) -> None:
        """There are so many rows now."""
        if rows > self._size:
            self._size = max(rows, 2 * self._size)
            self._used = {driver: self._grown(counts, 0) for driver, counts in self._used.items()}
            self._room = {driver: self._grown(counts, UNLIMITED) for driver, counts in self._room.items()}

    def _grown(self, counts: Counts, value: int) -> Counts:
        more = np.full(self._size - len(counts), value, dtype=np.int32)
        return np.concatenate((counts, more))

    def _of_driver(self, driver: str) -> Counts:
        """How many volumes of a driver each row has."""
        if driver not in self._used:
            self._used[driver] = np.zeros(self._size, dtype=np.int32)
        return self._used[driver]

    def name_row(self, row: int, name: str) -> None:
        """A row has the node of this name, or `NO_NODE`."""
        if self._names.get(row, NO_NODE) != name:
            self._names[row] = name
            self._set_limits(row, name)
            self._set_attached(row, name)

    def come(self, pod: Pod, row: int) -> None:
        """A pod has come to a row."""
        at, claims = (row, pod.metadata.uid), list[str]()
        try:
            volumes = tuple(set(self._volumes_of(pod, False, claims)))
        except VolumeError as error:
            volumes = ()
            self.errors.setdefault(row, {})[pod.metadata.uid] = str(error)
        for key in claims:
            self._pods_of.setdefault(key, {})[at] = None
        self._of_pod[at] = volumes
        for volume in volumes:
            rows = self._pods_with.setdefault(volume, {})
            rows[row] = rows.get(row, 0) + 1
            self._refer(row, volume, 1)

    def leave(self, pod: Pod, row: int) -> None:
        """A pod has left a row."""
        at = row, pod.metadata.uid
        for volume in self._of_pod.pop(at):
            rows = self._pods_with[volume]
            rows[row] -= 1
            if not rows[row]:
                del rows[row]
            if not rows:
                del self._pods_with[volume]
            self._refer(row, volume, -1)
        self._leave_claims(pod, at)
        if row in self.errors:
            self.errors[row].pop(pod.metadata.uid, None)
            if not self.errors[row]:
                del self.errors[row]

    def _leave_claims(self, pod: Pod, at: tuple[int, str]) -> None:
        for volume in pod.spec.volumes:
            claim = volume.persistent_volume_claim
            name = f"{pod.name}-{volume.name}" if claim is None else claim.claim_name
            key = f"{pod.namespace}/{name}"
            if key in self._pods_of:
                self._pods_of[key].pop(at, None)
                if not self._pods_of[key]:
                    del self._pods_of[key]
                    self._resolved.pop(key, None)

    def _refer(self, row: int, volume: CSIVolume, sign: int) -> None:
        refers = self._refers.setdefault(row, {})
        before = refers.get(volume, 0)
        after = refers[volume] = before + sign
        if not after:
            del refers[volume]
            if not refers:
                del self._refers[row]
        if not (before and after):
            self._of_driver(volume[0])[row] += sign
            if volume[0] in self._room:
                self._room[volume[0]][row] -= sign

    def _set_limits(self, row: int, name: str) -> None:
        limits = self.limits_of(name)
        for driver in limits:
            if driver not in self._room:
                self._room[driver] = UNLIMITED - self._of_driver(driver)
        for driver, room in self._room.items():
            room[row] = limits.get(driver, UNLIMITED) - self._used[driver][row]

    def _set_attached(self, row: int, name: str) -> None:
        for volume in self._attached.pop(row, ()):
            self._refer(row, volume, -1)
        volumes = self._attached_to(name)
        if volumes:
            self._attached[row] = volumes
            for volume in volumes:
                self._refer(row, volume, 1)

    def _attached_to(self, node_name: str) -> frozenset[CSIVolume]:
        """What VolumeAttachments say of a node."""
        found = []
        for attachment in self._attachments_of.get(node_name, {}).values():
            attacher, name = attachment.spec.attacher, attachment.spec.source.persistent_volume_name
            volume = None if name is None else self._volumes.get(name)
            if attacher and volume is not None and volume.spec.csi is not None:
                found.append((attacher, volume.spec.csi.volume_handle))
        return frozenset(found)

    def renew(
        self,
        claims: Iterable[str],
        volumes: Iterable[str],
        nodes: Iterable[str],
        attachments: Iterable[str],
        pods: Mapping[int, Mapping[str, Pod]],
    ) -> None:
        """Objects of these keys have changed; `pods` are those that have come to each row."""
        stale = set(nodes)
        for key in attachments:
            stale |= self._renew_attachment(key)
        changed = dict.fromkeys(claims)
        for name in volumes:
            changed |= dict.fromkeys(sorted(self._claims_of.pop(name, ())))
            stale |= self._nodes_of.get(name, set())
        for key in changed:
            self._resolved.pop(key, None)
        for at in dict.fromkeys(at for key in changed for at in self._pods_of.get(key, ())):
            row, uid = at
            pod = pods[row][uid]
            self.leave(pod, row)
            self.come(pod, row)
        for name in stale:
            found = self._table.find_row(name)
            if found is not None and self._names.get(found) == name:
                self._set_limits(found, name)
                self._set_attached(found, name)

    def _renew_attachment(self, key: str) -> set[str]:
        """An attachment came, changed or went; the nodes that it is about."""
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


def check_owner(pod: Pod, claim: PersistentVolumeClaim) -> None:
    """VolumeError where the claim of a pod's ephemeral volume belongs to something else
    (component-helpers/storage/ephemeral, VolumeIsForPod)."""
    owner = claim.metadata.controller()
    if owner is None or owner.uid != pod.metadata.uid:
        text = f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"
        raise VolumeError(text)
