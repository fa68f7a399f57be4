"""PersistentVolumeController: binds claims to volumes, provisions volumes, and reclaims released ones.

Source: controller/volume/persistentvolume/pv_controller_base.go and pv_controller.go.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from moorage.engine.framework.handle import EventRecorder
from moorage.engine.volume import AssumeCache, VolumeError, is_delay_binding_mode, is_volume_bound_to_claim
from moorage.engine.volume.claims import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PROVISIONED_BY,
    SELECTED_NODE,
    claim_class,
    find_matching_volume,
    has_access_modes,
    have_equal_modes,
    prefixing,
    requested_storage,
    storage_capacity,
    volume_class,
)
from moorage.errors import MoorageError
from moorage.kube import Node, Object, PersistentVolume, PersistentVolumeClaim, Pod
from moorage.kube.admission.built_in_plugins import default_class
from moorage.kube.model.storage import ObjectReference
from moorage.saved_fields import SavedFields
from moorage.store import (
    ConflictError,
    DeletedFinalStateUnknown,
    Informer,
    Lister,
    NotFoundError,
    ObjectClient,
    find_object,
)

from .volume_operations import (
    PODS_BY_CLAIM,
    ControllerParameters,
    ObjectWriter,
    VolumeCounts,
    VolumeOperations,
    claim_key,
    pods_that_use,
)
from .volume_plugins import VolumePlugins

T = TypeVar("T", bound=Object)

SYNC_POLL = 0.1
"""Seconds between two rounds of `PersistentVolumeController.run`."""
_RECLAIMED = ("Released", "Failed")

logger = logging.getLogger("moorage.volume")


class PersistentVolumeController(SavedFields):
    """Synchronizes claims and volumes.

    The controller is driven either by `run`, until it is stopped, or by `run_once`. In the second case
    nothing happens between two calls, and `next_due` is the time at which the next call has work. The caller
    runs the informers, which others may use as well.

    Parameters
    ----------
    parameters : ControllerParameters
        Client, informers, plugins and settings.
    clock : callable
        Returns the time in seconds, for resyncs and for the backoff after failed operations.

    Raises
    ------
    VolumeError
        A volume plugin cannot be used.

    Attributes
    ----------
    node_lister : Lister
        Lister of the node informer.
    node_lister_synced : callable
        Returns whether the node informer has synced.
    counts : VolumeCounts
        Numbers of claims and volumes; `VolumeCounts.register` exports all metrics of the controller.
    """

    fields = (
        *("_next_resync", "_claim_queue", "_volume_queue", "_writer.claims", "_writer.volumes"),
        *("_volume_operations.operations", "_volume_operations.times", "_recorder", "_is_at_rest"),
    )

    def __init__(
        self,
        parameters: ControllerParameters,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        recorder = EventRecorder() if parameters.event_recorder is None else parameters.event_recorder
        self._recorder = recorder
        self._parameters = parameters
        with prefixing("Could not initialize volume plugins for PersistentVolume Controller"):
            plugins = VolumePlugins(parameters.volume_plugins, self)
        self._clock = clock
        self._next_resync: float | None = None
        # `_versions` before the last resync, if that found all objects at rest.
        self._rest: tuple[int, ...] | None = None
        self._informers: tuple[Informer[Any], ...] = (
            parameters.volume_informer,
            parameters.claim_informer,
            parameters.class_informer,
            parameters.pod_informer,
            parameters.node_informer,
        )
        with suppress(ValueError):  # another controller has added the index
            parameters.pod_informer.indexer.add_index(PODS_BY_CLAIM, Pod.claim_keys)
        self.node_lister: Lister[Node] = parameters.node_informer.lister
        self.node_lister_synced: Callable[[], bool] = parameters.node_informer.has_synced
        writer = self._writer = ObjectWriter(parameters.kube_client, recorder)
        self._volume_operations = VolumeOperations(parameters, writer, plugins, clock)
        self.counts = VolumeCounts(writer.volumes, writer.claims)
        volumes = _SyncLoop(
            parameters.volume_informer, writer.volumes, self.sync_volume, self._volume_deleted
        )
        claims = _SyncLoop(parameters.claim_informer, writer.claims, self.sync_claim, self._claim_deleted)
        self._volume_queue, self._claim_queue = volumes.queue, claims.queue
        self._loops: tuple[_SyncLoop[Any], ...] = volumes, claims

    def get_kube_client(self) -> ObjectClient:
        """Return the controller's client, for volume plugins."""
        return self._parameters.kube_client

    def get_event_recorder(self) -> EventRecorder:
        """Return the controller's event recorder, for volume plugins."""
        return self._recorder

    # ---- the loop ----

    def run_once(self) -> int:
        """Process all events, resyncs and operations that are due now.

        Returns
        -------
        int
            Number of objects synchronized and operations continued; 0 if nothing was due, or the informers
            have not synced.
        """
        if self._next_resync is None and not self._begin():
            return 0
        resyncs = self._resync_if_due()
        seen = self._versions() if resyncs else ()
        done = self._volume_operations.operations.run_due()
        volumes, claims = self._loops
        while volumes.queue.keys or claims.queue.keys:
            for loop in self._loops:
                if loop.queue.keys:
                    done += 1
                    loop.sync_next()
        if resyncs:
            self._rest = seen if self._are_at_rest() else None
        return done

    def next_due(self) -> float | None:
        """Return the next time at which `run_once` has work.

        Returns
        -------
        float or None
            Time in seconds on the clock; None if no work is scheduled.
        """
        if self._volume_queue or self._claim_queue or self._next_resync is None:
            return self._clock()
        resync = self._next_resync if self._parameters.sync_period > 0 else None
        times = [self._volume_operations.operations.next_due(), resync]
        return min((time for time in times if time is not None), default=None)

    @property
    def _is_at_rest(self) -> bool:
        """Whether nothing has changed since a resync found all objects at rest."""
        return self._rest == self._versions()

    @_is_at_rest.setter
    def _is_at_rest(self, is_at_rest: bool) -> None:
        self._rest = self._versions() if is_at_rest else None

    def stop(self) -> None:
        """Receive no more events."""
        for loop in self._loops:
            loop.stop()

    def run(self, stop: Event) -> None:
        """Process events, resyncs and operations every `SYNC_POLL` seconds until `stop` is set.

        The caller runs the informers in other threads. Operations run in threads of their own, so that a
        plugin that blocks delays no other object.

        Parameters
        ----------
        stop : threading.Event
            Ends the loop, and each operation at its next pause.
        """
        logger.info("Starting persistent volume controller")
        self._volume_operations.operations.use_threads(stop)
        while not stop.wait(SYNC_POLL):
            self.run_once()
        logger.info("Shutting down persistent volume controller")

    def _begin(self) -> bool:
        """Fill the controller's caches once the informers have synced; a resync is due then."""
        if not all(informer.has_synced() for informer in self._informers):
            return False
        for loop in self._loops:
            loop.cache.add_all(loop.objects.values())
        self._next_resync = self._clock()
        return True

    def _resync_if_due(self) -> bool:
        """Queue all objects if a resync is due, unless none has changed since all were at rest; return
        whether they are queued."""
        now, due, period = self._clock(), self._next_resync, self._parameters.sync_period
        if due is None or now < due:
            return False
        self._next_resync = now + period if period > 0 else float("inf")
        if self._is_at_rest:
            return False
        for loop in reversed(self._loops):
            for key in sorted(loop.objects.items()):  # upstream: as a Go map
                loop.queue.add(key)
        return True

    def _versions(self) -> tuple[int, ...]:
        """Return versions of what the sync of an object at rest reads, and how many syncs have failed."""
        parameters, (volumes, claims) = self._parameters, self._loops
        changes = parameters.volume_informer.indexer.changes, parameters.claim_informer.indexer.changes
        return *changes, volumes.failures, claims.failures

    def _are_at_rest(self) -> bool:
        """Whether the sync of no object does anything, as all are bound, or volumes available."""
        if self._volume_operations.operations.are_running:
            return False
        volumes, claims = self._loops
        return all(
            claim.status.phase == "Bound" and BIND_COMPLETED in claim.metadata.annotations
            for claim in claims.objects.values()
        ) and all(volume.status.phase in ("Bound", "Available") for volume in volumes.objects.values())

    def _volume_deleted(self, key: str) -> None:
        """Queue the claim of a deleted volume, which is lost."""
        volume = self._writer.volumes.remove(key)
        self._volume_operations.times.end(key)
        if volume is not None and volume.spec.claim_ref is not None:
            self._claim_queue.add(claim_key(volume.spec.claim_ref))

    def _claim_deleted(self, key: str) -> None:
        """Queue the volume of a deleted claim, for its release."""
        claim = self._writer.claims.remove(key)
        self._volume_operations.times.forget(key)
        if claim is not None and claim.spec.volume_name:
            self._volume_queue.add(claim.spec.volume_name)

    # ---- claims ----

    def sync_claim(self, claim: PersistentVolumeClaim) -> None:
        """Synchronize a claim as far as possible without waiting (syncClaim).

        Parameters
        ----------
        claim : PersistentVolumeClaim
            State of the claim in the controller's cache.

        Raises
        ------
        VolumeError
            The claim cannot be bound.
        ApiError
            A write was refused; the next sync tries again.
        """
        if BIND_COMPLETED in claim.metadata.annotations:
            self._sync_bound_claim(claim)
        elif claim.spec.volume_name:
            self._sync_claim_with_volume_name(claim)
        else:
            self._sync_unbound_claim(claim)

    def _sync_unbound_claim(self, claim: PersistentVolumeClaim) -> None:
        """Synchronize a claim that does not name a volume."""
        delays = is_delay_binding_mode(claim, self._parameters.class_informer.lister)
        with prefixing(f'Error finding PV for claim "{claim.key}"'):
            volume = self._best_match(claim, delays)
        if volume is not None:
            with self._volume_operations.times.counting_failures(claim.key):
                self._writer.bind(volume, claim)
            self._volume_operations.times.end(claim.key)
        elif (default := default_class(claim, self._parameters.class_informer.lister.list())) is not None:
            with_class = replace(claim, spec=replace(claim.spec, storage_class_name=default.name))
            self._writer.update(claim, with_class)  # the informer's event queues the claim again
        elif delays and SELECTED_NODE not in claim.metadata.annotations:
            self._record_waiting(claim)
            self._writer.update_claim_status(claim, "Pending")
        elif claim_class(claim):
            self._volume_operations.provision_claim(claim)
        else:
            message = "no persistent volumes available for this claim and no storage class is set"
            self._writer.event(claim, "FailedBinding", message)
            self._writer.update_claim_status(claim, "Pending")

    def _best_match(self, claim: PersistentVolumeClaim, delay_binding: bool) -> PersistentVolume | None:
        """The volume to which a claim is to be bound (index.go, findByClaim).

        Volumes with fewer access modes beyond the requested ones come before smaller volumes; of equal ones
        the first by name is chosen (upstream's order is that of a Go map).
        """
        requested, volumes = set(claim.spec.access_modes), self._writer.volumes
        indexed = [(value.split(",") if value else [], value) for value in volumes.index_values()]
        for modes, value in sorted(indexed, key=lambda entry: (len(entry[0]), entry[0])):
            if requested.issubset(modes):
                candidates = sorted(volumes.list_value(value), key=lambda volume: volume.name)
                match = find_matching_volume(claim, candidates, delay_binding)
                if match is not None:
                    return match
        return None

    def _record_waiting(self, claim: PersistentVolumeClaim) -> None:
        """Record that a claim waits for its first consumer, or for its pods to be scheduled."""
        pods = [
            pod.name
            for pod in pods_that_use(self._parameters.pod_informer.lister, claim.key)
            if not (pod.spec.node_name or pod.metadata.deletion_timestamp)
        ]
        if pods:
            message = f"waiting for pod{'s' if len(pods) > 1 else ''} {','.join(pods)} to be scheduled"
            self._writer.event(claim, "WaitForPodScheduled", message)
        else:
            message = "waiting for first consumer to be created before binding"
            self._writer.event(claim, "WaitForFirstConsumer", message)

    def _sync_claim_with_volume_name(self, claim: PersistentVolumeClaim) -> None:
        """Synchronize a claim that names its volume, but is not bound to it yet."""
        volume = self._writer.volumes.find(claim.spec.volume_name)
        if volume is None:
            self._writer.update_claim_status(claim, "Pending")
        elif volume.spec.claim_ref is None:
            reason = _mismatch(volume, claim)
            if reason:
                message = f'Cannot bind to requested volume "{volume.name}": {reason}'
                self._writer.warning(claim, "VolumeMismatch", message)
                self._writer.update_claim_status(claim, "Pending")
            else:
                self._writer.bind(volume, claim)
        elif is_volume_bound_to_claim(volume, claim):
            self._writer.bind(volume, claim)
        elif BOUND_BY_CONTROLLER not in claim.metadata.annotations:
            self._writer.update_claim_status(claim, "Pending")
        else:  # the controller never writes such a claim
            raise VolumeError(
                f'Invalid binding of claim "{claim.key}" to volume "{volume.name}": '
                f'volume already claimed by "{claim_key(volume.spec.claim_ref)}"'
            )

    def _sync_bound_claim(self, claim: PersistentVolumeClaim) -> None:
        """Synchronize a bound claim: complete missing writes, and report a lost volume."""
        name = claim.spec.volume_name
        volume = self._writer.volumes.find(name) if name else None
        if volume is None:
            lost = "its PersistentVolume" if name else "reference to PersistentVolume"
            message = f"Bound claim has lost {lost}. Data on the volume is lost!"
            self._writer.lose_claim(claim, "ClaimLost", message)
        elif volume.spec.claim_ref is None or volume.spec.claim_ref.uid == claim.metadata.uid:
            self._writer.bind(volume, claim)
        else:
            message = "Two claims are bound to the same volume, this one is bound incorrectly"
            self._writer.lose_claim(claim, "ClaimMisbound", message)

    # ---- volumes ----

    def sync_volume(self, volume: PersistentVolume) -> None:
        """Synchronize a volume as far as possible without waiting (syncVolume).

        The phase of the volume is set, and the volume is reclaimed if its claim was deleted.

        Parameters
        ----------
        volume : PersistentVolume
            State of the volume in the controller's cache.

        Raises
        ------
        ApiError
            A write was refused; the next sync tries again.
        """
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            self._writer.update_volume_phase(volume, "Available")
            return
        claim = self._claim_of(volume, reference)
        policy = volume.spec.persistent_volume_reclaim_policy
        if claim is None:
            self._release(volume)
        elif not claim.spec.volume_name:
            self._await_claim(volume, claim)
        elif claim.spec.volume_name == volume.name:
            self._writer.update_volume_phase(volume, "Bound")
        elif policy == "Delete" and PROVISIONED_BY in volume.metadata.annotations:
            self._release(volume)  # provisioned for a claim that was bound to another volume
        else:
            self._writer.unbind(volume)

    def _claim_of(self, volume: PersistentVolume, reference: ObjectReference) -> PersistentVolumeClaim | None:
        """The claim to which a volume is bound; None if it was deleted, even if a claim of that name exists.

        The cache may contain a volume that the scheduler bound before it contains the claim, so that the
        informer and the API server are queried before the volume is released.
        """
        claim = self._writer.claims.find(claim_key(reference))
        is_ours = BOUND_BY_CONTROLLER in volume.metadata.annotations
        if claim is None and is_ours and volume.status.phase not in _RECLAIMED:
            try:
                claim = self._parameters.claim_informer.lister.get(claim_key(reference))
            except NotFoundError:
                client = self._parameters.kube_client
                claim = find_object(client, PersistentVolumeClaim, reference.name, reference.namespace)
        return claim if claim is not None and claim.metadata.uid == reference.uid else None

    def _release(self, volume: PersistentVolume) -> None:
        """Release a volume and reclaim it; a failed volume keeps its phase."""
        if volume.status.phase not in _RECLAIMED:
            volume = self._writer.update_volume_phase(volume, "Released")
        self._volume_operations.reclaim_volume(volume)

    def _await_claim(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """Queue the claim of a volume that is not bound to it yet; warn if their volume modes differ."""
        if have_equal_modes(volume, claim):
            self._claim_queue.add(claim.key)
            return
        # No claim would ever match this volume.
        reason = "due to incompatible volumeMode."
        message = f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{claim.name}" {reason}'
        self._writer.warning(volume, "VolumeMismatch", message)
        message = f'Cannot bind PersistentVolume "{volume.name}" to requested PersistentVolumeClaim {reason}'
        self._writer.warning(claim, "VolumeMismatch", message)


new_controller = PersistentVolumeController


class WorkQueue(SavedFields):
    """A work queue of keys without duplicates (client-go, util/workqueue, with one worker).

    Keys are in order of insertion; a key that is queued already is not added again. All methods are
    thread-safe.

    Attributes
    ----------
    keys : OrderedDict
        The queued keys in order.
    """

    fields = ("keys",)

    def __init__(self) -> None:
        self.keys = OrderedDict[str, None]()  # finds its first key at once, however many have gone before
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, key: str) -> None:
        """Queue a key."""
        with self._lock:
            self.keys[key] = None

    def take(self) -> str | None:
        """Remove and return the first key; None if the queue is empty."""
        with self._lock:
            return self.keys.popitem(last=False)[0] if self.keys else None


class _SyncLoop(Generic[T]):
    """Synchronizes the objects of one kind whose keys are in a queue, which its event handlers fill."""

    def __init__(
        self,
        informer: Informer[T],
        cache: AssumeCache[T],
        sync: Callable[[T], None],
        handle_deleted: Callable[[str], None],
    ) -> None:
        self.queue = WorkQueue()
        self.objects = informer.indexer
        self.cache = cache
        self._sync = sync
        self._handle_deleted = handle_deleted
        self.failures = 0  # of `sync`, without conflicts
        self._informer, self._registration = informer, informer.add_event_handler(self)

    def stop(self) -> None:
        self._informer.remove_event_handler(self._registration)

    def on_add(self, obj: T, is_in_initial_list: bool) -> None:
        if not is_in_initial_list:  # the first resync queues those
            self.queue.add(obj.key)

    def on_update(self, old: T, new: T) -> None:
        self.queue.add(new.key)

    def on_delete(self, obj: T | DeletedFinalStateUnknown[T]) -> None:
        self.queue.add(obj.key)

    def sync_next(self) -> None:
        """Synchronize the object of the first key in the queue, if there is one.

        An error is logged; the next event or resync tries again.
        """
        key = self.queue.take()
        if key is None:
            return
        obj = self.objects.get(key)
        if obj is None:
            self._handle_deleted(key)
            return
        if self.cache.find(key) is not obj:
            self.cache.add(obj)
            latest = self.cache.find(key)
            if latest is not None and latest.metadata.resource_version != obj.metadata.resource_version:
                return  # the controller has written a newer version
        try:
            self._sync(obj)
        except ConflictError as error:  # another writer was faster; the informer will report its write
            logger.debug('could not sync %s "%s": %s', self.cache.description, key, error)
        except MoorageError as error:
            self.failures += 1
            logger.error('could not sync %s "%s": %s', self.cache.description, key, error)


def _mismatch(volume: PersistentVolume, claim: PersistentVolumeClaim) -> str:
    """Why a claim cannot be bound to the volume that it names, or "" (checkVolumeSatisfyClaim)."""
    if volume.metadata.deletion_timestamp is not None:
        return f'the volume is marked for deletion "{volume.name}"'
    if storage_capacity(volume) < requested_storage(claim):
        return "requested PV is too small"
    if volume_class(volume) != claim_class(claim):
        return "storageClassName does not match"
    if not have_equal_modes(volume, claim):
        return "incompatible volumeMode"
    return "" if has_access_modes(volume, claim) else "incompatible accessMode"
