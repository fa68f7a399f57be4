"""NodeVolumeLimits: limits the number of volumes of a CSI driver on a node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import cast

import numpy as np

from moorage import framework as fwk
from moorage._core.decide.terms import MAX_DRIVERS
from moorage.framework.plugin import events
from moorage.framework.plugin.events import ActionType, is_live, of_class, on, queue_if
from moorage.framework.profiles.in_core import Attachment, BoundClaims, Mask, VolumePlugin, VolumesOfBatch
from moorage.objects import CSINode, PersistentVolumeClaim, Pod
from moorage.objects.model.storage import CSIDriver, VolumeAttachment
from moorage.volume.binding.claims import VolumeError
from moorage.volume.usage.attached import AttachedVolumes, CSIVolume, MissingClaimError
from moorage.volume.usage.in_use import VolumesInUse
from moorage.volume.usage.migration import migrated_driver

from .volume_restrictions import claim_names

STATE = "NodeVolumeLimits"
EXCEEDED = fwk.Status(fwk.Code.UNSCHEDULABLE, ("node(s) exceed max volume count",))
STATUSES = None, EXCEEDED
MANY_USERS, MOST_VOLUMES = 16, 64  # limits of what the core counts for a pod
Needs = tuple[tuple[str, int], ...]
"""The number of volumes by driver with limits."""


class NodeVolumeLimits(VolumePlugin):
    """Filter of kube-scheduler v1.36, nodevolumelimits/csi.go."""

    name = "NodeVolumeLimits"

    # ---- decisions -----------------------------------------------------------------------------------------

    def pre_filter(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Status | None:
        return self._unbuilt() if _counts(pod) else fwk.SKIP

    def _unbuilt(self) -> fwk.Status | None:
        """The Error for a driver with preventPodSchedulingIfMissing (gate VolumeLimitScaling)."""
        if self.required_handle().scales_volume_limits:
            for driver in self.lister(CSIDriver).list():
                if driver.spec.prevent_pod_scheduling_if_missing:
                    text = f'CSIDriver "{driver.name}": spec.preventPodSchedulingIfMissing is not built yet'
                    return fwk.Status(fwk.Code.ERROR, (text,))
        return None

    def filter(self, state: fwk.CycleState, pod: Pod, node_info: fwk.NodeInfo) -> fwk.Status | None:
        attached = self._attached()
        volumes = self._wanted(state, pod, attached)
        if isinstance(volumes, fwk.Status):
            return volumes
        try:
            exceeds = attached.is_over_limit(node_info.name, node_info.pods, volumes)
        except VolumeError as error:
            return fwk.Status(fwk.Code.ERROR, (str(error),))
        return EXCEEDED if exceeds else None

    def filter_all(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Answers:
        attached, rows = self._attached(), nodes.rows
        volumes = self._wanted(state, pod, attached)
        if isinstance(volumes, fwk.Status):
            return fwk.Answers(np.zeros(len(rows), dtype=np.uint8), (volumes,))
        numbers = attached.rows_over_limit(rows, volumes).view(np.uint8)
        if not (volumes and attached.errors):
            return fwk.Answers(numbers, STATUSES)
        failing = np.flatnonzero(np.isin(rows, list(attached.errors)) & attached.is_limited(rows)).tolist()
        texts = [next(iter(attached.errors[int(rows[at])].values())) for at in failing]
        numbers = numbers.astype(np.int32)
        numbers[failing] = np.arange(2, 2 + len(failing))
        return fwk.Answers(numbers, (*STATUSES, *(fwk.Status(fwk.Code.ERROR, (text,)) for text in texts)))

    def needs_of(
        self, pod: Pod, claims: BoundClaims, nodes: fwk.NodesView, batch: VolumesOfBatch | None = None
    ) -> Needs | None:
        if self._unbuilt() is not None:
            return None
        if not (self._has_limits() and _counts(pod)):
            return ()
        attached = self._attached()
        if (self.required_handle().nominator or attached.errors) and attached.is_limited(nodes.rows).any():
            return None
        volumes = _volumes_of(pod, attached)
        if isinstance(volumes, fwk.Status):
            return None
        limited = [volume for volume in volumes if volume[0] in attached.room]
        counts = sorted(Counter([driver for driver, _ in limited]).items())
        if len(counts) > MAX_DRIVERS or len(limited) > MOST_VOLUMES:
            return None
        if batch is not None:
            drivers = [driver for driver, _ in counts]
            for number, volume in enumerate(limited):
                users = batch.users.setdefault(volume, [])
                places = [*attached.rows_with(volume), *users]
                if len(places) > MANY_USERS or volume in batch.exclusive:
                    return None
                batch.shared += [(place, drivers.index(volume[0]), number) for place in places]
                users.append(~batch.at)
        return tuple(counts)

    def demand_of(self, needs: Hashable) -> tuple[Mask | None, list[Attachment]]:
        room = self._attached().room
        return None, [(room[driver], volumes) for driver, volumes in cast(Needs, needs)]

    @property
    def demand_version(self) -> int:
        return self._attached().version if self._has_limits() else -1

    def _has_limits(self) -> bool:
        """Whether any node may have limits; if not, nobody needs to know which volumes are in use."""
        return self.required_handle().derived(VolumesInUse.of).attached.has_csi_nodes

    def _attached(self) -> AttachedVolumes:
        in_use = self.required_handle().derived(VolumesInUse.of)
        in_use.refresh()
        return in_use.attached

    def _wanted(
        self, state: fwk.CycleState, pod: Pod, attached: AttachedVolumes
    ) -> frozenset[CSIVolume] | fwk.Status:
        """The volumes of a pod to attach, or a status for all nodes."""
        try:
            volumes: frozenset[CSIVolume] | fwk.Status = state.read(STATE)
        except fwk.NotFoundError:
            volumes = _volumes_of(pod, attached)
            state.write(STATE, volumes)
        return volumes

    # ---- the queue -----------------------------------------------------------------------------------------

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        return [
            on(events.CSI_NODE, ActionType.ADD | ActionType.UPDATE, self.after_csi_node_change),
            on(events.POD, ActionType.DELETE, self.after_pod_deleted),
            on(events.PERSISTENT_VOLUME_CLAIM, ActionType.ADD, self.after_claim_added),
            on(events.VOLUME_ATTACHMENT, ActionType.DELETE, self.after_detached),
        ]

    @of_class
    def after_csi_node_change(self, pod: Pod, old: CSINode | None, new: CSINode) -> fwk.QueueingHint:
        """Queue if a CSINode was added, or the limit of a driver on it is higher.

        Parameters
        ----------
        pod : Pod
            The rejected pod.
        old : CSINode or None
            The object before the event; None if it was added.
        new : CSINode
            The object after the event.

        Returns
        -------
        QueueingHint
        """
        if old is None:
            return queue_if(True)
        was = _limits(old)
        return queue_if(any(limit > was.get(driver, 0) for driver, limit in _limits(new).items()))

    @of_class
    def after_pod_deleted(self, pod: Pod, old: Pod, new: None) -> fwk.QueueingHint:
        """Queue if a pod with attachable volumes was deleted.

        Parameters
        ----------
        pod : Pod
            The rejected pod.
        old : Pod
            The object before the event.
        new : None
            The object after the event.

        Returns
        -------
        QueueingHint
        """
        return queue_if(_counts(old) and is_live(old))

    def after_claim_added(self, pod: Pod, old: None, new: PersistentVolumeClaim) -> fwk.QueueingHint:
        """Queue if a claim of the pod was added.

        Parameters
        ----------
        pod : Pod
            The rejected pod.
        old : None
            The object before the event.
        new : PersistentVolumeClaim
            The object after the event.

        Returns
        -------
        QueueingHint
        """
        return queue_if(is_claim_of(pod, new))

    def after_detached(self, pod: Pod, old: VolumeAttachment, new: None) -> fwk.QueueingHint:
        """Queue if a volume was detached whose driver the pod may use.

        Parameters
        ----------
        pod : Pod
            The rejected pod.
        old : VolumeAttachment
            The object before the event.
        new : None
            The object after the event.

        Returns
        -------
        QueueingHint
        """
        volumes, driver = pod.spec.volumes, old.spec.attacher
        return queue_if(any(vol.persistent_volume_claim or migrated_driver(vol) == driver for vol in volumes))


def _counts(pod: Pod) -> bool:
    """Whether a pod has volumes that may be attached by a CSI driver."""
    return any(v.persistent_volume_claim or v.ephemeral or migrated_driver(v) for v in pod.spec.volumes)


def _volumes_of(pod: Pod, attached: AttachedVolumes) -> frozenset[CSIVolume] | fwk.Status:
    try:
        return attached.volumes_of_new_pod(pod)
    except MissingClaimError as error:
        return fwk.Status(fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (str(error),))
    except VolumeError as error:
        return fwk.Status(fwk.Code.ERROR, (str(error),))


def is_claim_of(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Whether a pod uses a claim.

    Parameters
    ----------
    pod : Pod
        The pod.
    claim : PersistentVolumeClaim
        The claim.

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
