"""VolumeBinding: finds, assumes and binds the volumes of a pod's claims, and scores nodes by
their storage.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from typing import TYPE_CHECKING, Any, Self, cast

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from moorage._core.base.quantity import wrap_int64
from moorage.engine import framework as fwk
from moorage.kube import (
    CSINode,
    NodeSelector,
    PersistentVolumeClaim,
    Pod,
    Quantity,
    StorageClass,
    parse_value,
)
from moorage.kube.model.storage import CSIDriver, CSIStorageCapacity
from moorage.store import ApiError, NotFoundError, ObjectClient

from .. import volume as storage
from ..framework.claim_plugins import Attachment, BoundClaims, ClaimsOfBatch, Mask
from ..framework.events import of_class, queue_if
from ..framework.waiting_pods import StatusSteps
from .node_volume_limits import is_claim_of
from .sleeping_plugins import VolumeBindingFacts

if TYPE_CHECKING:
    from ..volume import PodVolumeBinder, VolumeSources
    from ..volume.claims import PodVolumeClaims, PodVolumes
    from ..volume.volume_topology import VolumeTopology


# ---- utilization -------------------------------------------------------------------------------------------
# Scores nodes by the utilization of their storage (kube-scheduler v1.36, volumebinding/scorer.go).

MOST_UTILIZATION = 100
SCORE_SCALE = 10  # scores of a shape are 0 to 10


class StorageScore:
    """A piecewise linear score of the ratio of requested storage to capacity.

    Parameters
    ----------
    shape : sequence of mapping
        Points ``{"utilization": 0 to 100, "score": 0 to 10}`` in ascending order of utilization.
    """

    def __init__(self, shape: Sequence[Mapping[str, Any]]) -> None:
        self._points = [(point["utilization"], point["score"] * SCORE_SCALE) for point in shape]

    def score(self, volumes: PodVolumes, saturates: bool = False) -> int:
        """Return the mean score over storage classes.

        Parameters
        ----------
        volumes : PodVolumes
            Static bindings are scored, else dynamic provisions with known capacity.
        saturates : bool, optional
            Whether sizes beyond 64 bits are the largest number; see `Quantity.amount`.

        Returns
        -------
        int
            0 to 100; 0 if there is nothing to score.
        """
        sums = _sums(volumes, saturates)
        scores = [self._of_class(requested, capacity) for requested, capacity in sums.values()]
        if not scores:
            return 0
        return int(sum(scores) / len(scores) + 0.5)

    def _of_class(self, requested: int, capacity: int) -> int:
        if capacity == 0 or requested > capacity:
            return self._at(MOST_UTILIZATION)
        product = wrap_int64(requested * MOST_UTILIZATION)  # as upstream's; the quotient is cut off
        quotient = abs(product) // abs(capacity)
        return self._at(quotient if (product < 0) == (capacity < 0) else -quotient)

    def _at(self, utilization: int) -> int:
        """Interpolate the score with Go's integer division, which truncates towards zero."""
        before = self._points[0]
        for x, y in self._points:
            if utilization <= x:
                if x == before[0]:
                    return int(y)
                rise = (y - before[1]) * (utilization - before[0])
                run = x - before[0]
                return int(before[1] + (rise // run if rise >= 0 else -(-rise // run)))
            before = x, y
        return int(before[1])


def _sums(volumes: PodVolumes, saturates: bool) -> dict[str, tuple[int, int]]:
    """Requested bytes and capacity in bytes by storage class.

    Counted are static bindings, else dynamic provisions with known capacity. The class of a static binding is
    the volume's, which differs from the claim's for pre-bound volumes. As upstream, capacities of dynamic
    provisions are not added: the last one of a class counts. Sums wrap beyond 64 bits.
    """
    sums: dict[str, tuple[int, int]] = {}
    for volume, claim in volumes.static_bindings or ():
        name = volume.spec.storage_class_name
        requested, capacity = sums.get(name, (0, 0))
        requested = wrap_int64(requested + storage.claims.requested_storage(claim, saturates))
        sums[name] = requested, wrap_int64(capacity + storage.claims.storage_capacity(volume, saturates))
    if sums:
        return sums
    for claim, node_capacity in volumes.dynamic_provisions or ():
        if node_capacity is not None and node_capacity.capacity is not None:
            requested, _ = sums.get(storage.claims.claim_class(claim), (0, 0))
            available = storage.claims.parse_bytes(node_capacity.capacity, saturates)
            sums[storage.claims.claim_class(claim)] = (
                wrap_int64(requested + storage.claims.requested_storage(claim, saturates)),
                available,
            )
    return sums


# ---- volume binding ----------------------------------------------------------------------------------------

STATE = "VolumeBinding"
MakeVolumeBinder = Callable[[fwk.FrameworkHandle, "VolumeSources"], "PodVolumeBinder"]
# The answers for the volumes of bound claims.
FITS, CONFLICTS, IS_MISSING = range(3)


class VolumeBindingState(Struct):
    """The plugin's state for a pod in one cycle; clones of the cycle state share it.

    Attributes
    ----------
    claims : PodVolumeClaims or None
        Claims of the pod; None without claims.
    volumes : dict of str to PodVolumes
        Volumes to bind or provision, by node that passed Filter.
    all_bound : bool
        Whether all claims are bound for the chosen node.
    """

    claims: PodVolumeClaims | None = None
    volumes: dict[str, PodVolumes] = msgspec.field(default_factory=dict)
    all_bound: bool = False


class VolumeBinding(VolumeBindingFacts):
    """Finds, assumes and binds volumes, by a volume binder.

    PreBind is a generator that checks the claims each second on the handle's clock. Arguments:
    ``bindTimeoutSeconds``; ``shape``, with the gate StorageCapacityScoring.

    Parameters
    ----------
    args, handle
        See `Plugin`.
    make_binder : callable, optional
        Makes another volume binder from the handle and what the built-in one reads, and replaces the latter;
        `bindTimeoutSeconds` is not its timeout. `moorage.compat.AdaptedBinder` makes one of a volume binder
        of v1.14.
    """

    def __init__(
        self,
        args: Mapping[str, Any] | None = None,
        handle: fwk.FrameworkHandle | None = None,
        make_binder: MakeVolumeBinder | None = None,
    ) -> None:
        super().__init__(args, handle)
        self._make_binder = make_binder
        shape = self.args.get("shape")  # set only with the gate
        self._utilization = StorageScore(shape) if shape else None
        self._made: PodVolumeBinder | None = None
        self._sources: VolumeSources | None = None  # the sources of the current binder

    def another(self) -> Self:
        return type(self)(self.args, make_binder=self._make_binder)

    @property
    def binder(self) -> PodVolumeBinder:
        """The volume binder, whose assume caches are shared by all profiles."""
        handle = self.required_handle()
        sources = handle.shared(sources_of)  # a rollback may have dropped the earlier sources
        if self._made is None or sources is not self._sources:
            self._sources = sources
            if self._make_binder is not None:
                self._made = self._make_binder(handle, sources)
                return self._made
            self._made = storage.VolumeBinder(
                sources,
                bind_timeout=float(self.args["bindTimeoutSeconds"]),
                clock=handle.clock,
                sleep=handle.wait,
                exact_capacity=handle.release.storage_capacity_is_exact,
            )
        return self._made

    @property
    def sources(self) -> VolumeSources | None:
        """What the built-in binder reads; None with another one."""
        return None if self._make_binder is not None else self.binder.sources

    # ---- decisions -----------------------------------------------------------------------------------------

    def pre_filter(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Status | None:
        pod_state = VolumeBindingState()
        has_claims = False
        for volume in pod.spec.volumes:
            key = pod.claim_key(volume)
            if key is not None:
                has_claims = True
                wrong = self._wrong_with(pod, key, volume.persistent_volume_claim is None)
                if wrong:
                    return fwk.Status(fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (wrong,))
        if has_claims:
            try:
                pod_state.claims = self.binder.get_pod_volume_claims(pod)
            except storage.VolumeError as error:
                return fwk.as_status(error)
            if pod_state.claims.unbound_immediate:
                return fwk.Status(
                    fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (storage.volume_binder.UNBOUND_IMMEDIATE,)
                )
        state.write(STATE, pod_state)
        return None if has_claims else fwk.SKIP

    def _wrong_with(self, pod: Pod, key: str, is_ephemeral: bool) -> str:
        """The reason that rejects a pod because of a claim; "" for none."""
        try:
            claim = self.lister(PersistentVolumeClaim).get(key)
        except NotFoundError as error:
            name = key.partition("/")[2]
            if is_ephemeral:
                return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
            return str(error)
        if claim.status.phase == "Lost":
            lost = claim.spec.volume_name
            return f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume "{lost}"'
        if claim.metadata.deletion_timestamp is not None:
            return f'persistentvolumeclaim "{claim.name}" is being deleted'
        if is_ephemeral and not claim.metadata.is_controlled_by(pod.metadata.uid):
            return f"PVC {key} was not created for pod {pod.key} (pod is not owner)"
        return ""

    def filter(self, state: fwk.CycleState, pod: Pod, node_info: fwk.NodeInfo) -> fwk.Status | None:
        pod_state = _read(state)
        if pod_state is None or pod_state.claims is None or node_info.node is None:
            return None
        try:
            volumes, reasons = self.binder.find_pod_volumes(pod, pod_state.claims, node_info.node)
        except storage.VolumeError as error:
            return fwk.as_status(error)
        if reasons:
            return fwk.Status(fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)
        pod_state.volumes[node_info.name] = volumes
        return None

    def filter_all(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Answers:
        pod_state = _read(state)
        if pod_state is None or pod_state.claims is None:
            return fwk.Answers(np.zeros(len(nodes), dtype=np.uint8), (None,))
        if not (pod_state.claims.unbound_delayed or self._make_binder is not None):
            texts = storage.volume_binder.NODE_CONFLICT, storage.volume_binder.VOLUME_MISSING
            rejections = [fwk.Status(fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,)) for text in texts]
            with suppress(storage.VolumeError):  # of some nodes
                return fwk.Answers(self._of_bound(pod_state.claims, nodes.rows), (None, *rejections))
        statuses = [self.filter(state, pod, info) for info in nodes]
        return fwk.Answers(np.arange(len(statuses)), statuses)

    def needs_of(
        self, pod: Pod, claims: BoundClaims, nodes: fwk.NodesView, batch: ClaimsOfBatch | None = None
    ) -> tuple[NodeSelector, ...] | None:
        if self._make_binder is not None:
            return None
        sources, selectors = self.binder.sources, []
        for claim, volume in claims:
            if claim.status.phase == "Lost" or claim.metadata.deletion_timestamp is not None:
                return None
            if not storage.claims.is_fully_bound(claim) or sources.pvc_cache.find(claim.key) is not claim:
                return None
            if sources.pv_cache.find(volume.name) is not volume:
                return None
            plugin = storage.volume_topology.in_tree_plugin(volume)
            if plugin is not None and self._topology.migrated(plugin.name) is not None:
                return None
            if (required := storage.volume_topology.required_affinity(volume)) is not None:
                selectors.append(required)
        return tuple(selectors)

    def demand_of(self, needs: Hashable) -> tuple[Mask | None, list[Attachment]]:
        masks = [self._topology.mask_of(selector) for selector in cast(tuple[NodeSelector, ...], needs)]
        return reduce(np.logical_and, masks), []

    @property
    def _topology(self) -> VolumeTopology:
        return self.required_handle().derived(storage.volume_topology.VolumeTopology.of)

    def _of_bound(self, claims: PodVolumeClaims, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.uint8]:
        """The status of bound claims for each node: that of the first claim that rejects the node.

        Parameters
        ----------
        rows : (n,) int32 array

        Returns
        -------
        (n,) uint8 array
            `FITS`, `CONFLICTS` or `IS_MISSING`.

        Raises
        ------
        VolumeError
            A volume cannot be translated for the CSI driver of some node.
        """
        numbers = np.zeros(len(rows), dtype=np.uint8)
        for claim in claims.bound:
            try:
                mask = self._topology.mask(self.binder.sources.pv_cache.get_pv(claim.spec.volume_name))
            except storage.ObjectNotFoundError:
                numbers[numbers == FITS] = IS_MISSING
                break
            if mask is not None:
                numbers[~mask.take(rows)] = CONFLICTS
        return numbers

    # ---- scores --------------------------------------------------------------------------------------------

    def pre_score(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Status | None:
        return fwk.SKIP if self._utilization is None else None

    def score(self, state: fwk.CycleState, pod: Pod, node_info: fwk.NodeInfo) -> int:
        pod_state = _read(state)
        volumes = None if pod_state is None else pod_state.volumes.get(node_info.name)
        if volumes is None or self._utilization is None:
            return 0
        return self._utilization.score(volumes, self.required_handle().release.storage_capacity_is_exact)

    # ---- binding -------------------------------------------------------------------------------------------

    def reserve(self, state: fwk.CycleState, pod: Pod, node_name: str) -> fwk.Status | None:
        pod_state = _read(state)
        if pod_state is None:
            return None
        volumes = pod_state.volumes.get(node_name)
        if volumes is None:
            pod_state.all_bound = True
            return None
        try:
            pod_state.all_bound = self.binder.assume_pod_volumes(pod, node_name, volumes)
        except storage.VolumeError as error:
            return fwk.as_status(error)
        return None

    def unreserve(self, state: fwk.CycleState, pod: Pod, node_name: str) -> None:
        pod_state = _read(state)
        if pod_state is not None and node_name in pod_state.volumes:
            self.binder.revert_assumed_pod_volumes(pod_state.volumes[node_name])

    def pre_bind_pre_flight(self, state: fwk.CycleState, pod: Pod, node_name: str) -> fwk.Status | None:
        pod_state = _read(state)
        if pod_state is None or pod_state.all_bound:
            return fwk.SKIP
        return None if node_name in pod_state.volumes else _nothing_found(node_name)

    def pre_bind(self, state: fwk.CycleState, pod: Pod, node_name: str) -> fwk.Status | StatusSteps | None:
        pod_state = _read(state)
        if pod_state is None or pod_state.all_bound:
            return None
        if node_name not in pod_state.volumes:
            return _nothing_found(node_name)
        return self._bind(pod, pod_state.volumes[node_name], node_name)

    def _bind(self, pod: Pod, volumes: PodVolumes, node_name: str) -> StatusSteps:
        try:
            yield from self.binder.binding(pod, volumes, node_name)
        except (storage.VolumeError, ApiError) as error:
            return fwk.as_status(error)
        return None

    # ---- the queue -----------------------------------------------------------------------------------------

    @of_class
    def after_class_change(self, pod: Pod, old: StorageClass | None, new: StorageClass) -> fwk.QueueingHint:
        """Queue if a StorageClass was added, or its allowed topologies changed."""
        return queue_if(old is None or old.allowed_topologies != new.allowed_topologies)

    def after_claim_change(
        self, pod: Pod, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim
    ) -> fwk.QueueingHint:
        """Queue if a claim of the pod was added or updated."""
        return queue_if(is_claim_of(pod, new))

    @of_class
    def after_csi_node_change(self, pod: Pod, old: CSINode | None, new: CSINode) -> fwk.QueueingHint:
        """Queue if a CSINode was added, or its migrated plugins changed."""
        was, now = (
            state and state.metadata.annotations.get(storage.claims.MIGRATED_PLUGINS, "")
            for state in (old, new)
        )
        return queue_if(old is None or was != now)

    def after_driver_change(self, pod: Pod, old: CSIDriver, new: CSIDriver) -> fwk.QueueingHint:
        """Queue if a driver of the pod's inline volumes no longer reports storage capacity."""
        is_used = any(volume.csi is not None and volume.csi.driver == new.name for volume in pod.spec.volumes)
        return queue_if(is_used and old.spec.storage_capacity and not new.spec.storage_capacity)

    @of_class
    def after_capacity_change(
        self, pod: Pod, old: CSIStorageCapacity | None, new: CSIStorageCapacity
    ) -> fwk.QueueingHint:
        """Queue if a CSIStorageCapacity was added or reports more capacity."""
        exact = self.required_handle().release.storage_capacity_is_exact
        was, now = (None if capacity is None else _limit(capacity, exact) for capacity in (old, new))
        return queue_if(old is None or (now is not None and (was is None or was < now)))


def sources_of(handle: fwk.FrameworkHandle) -> VolumeSources:
    """Return the clients, assume caches and listers of the volume binder."""
    return storage.VolumeSources.over(cast(ObjectClient, handle.client), handle.informers)


def _read(state: fwk.CycleState) -> VolumeBindingState | None:
    """The plugin's state; None for a pod without volumes, for which PreFilter was not called."""
    try:
        pod_state: VolumeBindingState = state.read(STATE)
    except fwk.NotFoundError:
        return None
    return pod_state


def _nothing_found(node_name: str) -> fwk.Status:
    return fwk.Status(fwk.Code.ERROR, (f'no pod volumes found for node "{node_name}"',))


def _limit(capacity: CSIStorageCapacity, exact: bool) -> Quantity | None:
    """The maximum size of a volume, rounded up to bytes if it is not `exact`."""
    limit = storage.volume_binder.limit_of(capacity)
    if limit is None:
        return None
    return Quantity(limit) if exact else Quantity(parse_value(limit))
