"""PersistentVolumeController: binds claims to volumes, provisions volumes, and reclaims those whose claim is
gone (controller/volume/persistentvolume/pv_controller_base.go)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any, Generic, TypeVar, cast

from moorage.errors import MoorageError
from moorage.framework.plugin.handle import EventRecorder
from moorage.objects.model.meta import Object
from moorage.objects.model.node import Node
from moorage.objects.model.pod import Pod
from moorage.objects.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from moorage.store.errors import ConflictError, NotFoundError
from moorage.store.informers.informer import DeletedFinalStateUnknown, Informer
from moorage.store.informers.lister import Lister
from moorage.store.protocol import ObjectClient
from moorage.volume.binding.claims import VolumeError

from .controller_cache import ControllerCache, VolumeCache
from .controller_claims import sync_claim
from .controller_metrics import OperationTimes, VolumeCounts
from .controller_state import PODS_BY_CLAIM, ControllerState, claim_key, claims_of
from .controller_volumes import sync_volume
from .controller_writes import Writes
from .host import VolumeHost
from .operations import Operations
from .provisioning import VolumePlugin, VolumePlugins
from .work_queue import WorkQueue

T = TypeVar("T", bound=Object)

SYNC_POLL = 0.1  # seconds

logger = logging.getLogger("moorage.volume")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerParameters:
    """What a `PersistentVolumeController` is made of.

    Attributes
    ----------
    kube_client : ObjectClient
        Where it writes.
    sync_period : float
        Seconds after which every claim and every volume is looked at again; 0 is never.
    volume_plugins : sequence of VolumePlugin
        Those that make, delete and recycle volumes.
    cluster_name : str
        Told to plugins that make volumes.
    volume_informer, claim_informer, class_informer, pod_informer, node_informer : Informer
        What it knows. Whoever has them runs them.
    event_recorder : EventRecorder or None
        Where it reports; None makes one.
    enable_dynamic_provisioning : bool
        Whether volumes are made for claims that no volume suits.
    """

    kube_client: ObjectClient
    volume_informer: Informer[PersistentVolume]
    claim_informer: Informer[PersistentVolumeClaim]
    class_informer: Informer[StorageClass]
    pod_informer: Informer[Pod]
    node_informer: Informer[Node]
    sync_period: float = 15.0
    volume_plugins: Sequence[VolumePlugin] = ()
    cluster_name: str = ""
    event_recorder: EventRecorder | None = None
    enable_dynamic_provisioning: bool = False


class PersistentVolumeController(VolumeHost):
    """Synchronizes claims and volumes; `new_controller` makes one.

    Driven either by `run`, in threads and in real time, or by `run_once` and `settle`, without threads and on
    the given clock: then nothing happens between two calls, and `next_due` says when the next one has
    something to do.

    Attributes
    ----------
    node_lister : Lister
        What is known of the nodes.
    node_lister_synced : callable
        Whether that is complete.
    counts : VolumeCounts
        How many claims and volumes there are; `VolumeCounts.register` shows all metrics of the controller.
    """

    def __init__(
        self,
        parameters: ControllerParameters,
        clock: Callable[[], float],
        migrated_plugins: Mapping[str, str],
    ) -> None:
        recorder = EventRecorder() if parameters.event_recorder is None else parameters.event_recorder
        super().__init__(parameters.kube_client, recorder)
        try:
            plugins = VolumePlugins(parameters.volume_plugins, self)
        except VolumeError as error:
            raise VolumeError(
                f"Could not initialize volume plugins for PersistentVolume Controller: {error}"
            ) from error
        self._clock = clock
        self._sync_period = parameters.sync_period
        self._next_resync: float | None = None
        self._informers: tuple[Informer[Any], ...] = (
            parameters.volume_informer,
            parameters.claim_informer,
            parameters.class_informer,
            parameters.pod_informer,
            parameters.node_informer,
        )
        with suppress(ValueError):  # another controller has added it
            parameters.pod_informer.indexer.add_index(PODS_BY_CLAIM, claims_of)
        self.node_lister: Lister[Node] = parameters.node_informer.lister
        self.node_lister_synced: Callable[[], bool] = parameters.node_informer.has_synced
        times = OperationTimes(clock)
        self._state = _state(parameters, recorder, plugins, Operations(clock), times, migrated_plugins)
        self.counts = VolumeCounts(self._state.volumes, self._state.claims)
        parameters.volume_informer.add_event_handler(_Enqueue[PersistentVolume](self._state.volume_queue))
        parameters.claim_informer.add_event_handler(_Enqueue[PersistentVolumeClaim](self._state.claim_queue))

    # ---- without threads ----

    def run_once(self) -> int:
        """Do everything that is to be done by now: what the informers have told, resyncs, and operations.

        Returns
        -------
        int
            How many objects were looked at and operations continued; 0 where nothing was to be done, or the
            informers have not synced.
        """
        if self._next_resync is None and not self._begin():
            return 0
        if self._is_resync_due():
            self._resync()
        done = self._state.operations.run_due()
        while True:
            handled = (
                self._next_volume(self._state.volume_queue.take()),
                self._next_claim(self._state.claim_queue.take()),
            )
            if not any(handled):
                return done
            done += sum(handled)

    def settle(self) -> int:
        """Run the informers and `run_once` until nothing happens any more; returns the number of rounds."""
        rounds = 0
        while sum(informer.run_once() for informer in self._informers) + self.run_once():
            rounds += 1
        return rounds

    def next_due(self) -> float | None:
        """When `run_once` has something to do, as far as is known, on the clock; None where never."""
        state = self._state
        if state.volume_queue or state.claim_queue or self._next_resync is None:
            return self._clock()
        times = [state.operations.next_due(), self._next_resync if self._sync_period > 0 else None]
        return min((time for time in times if time is not None), default=None)

    def save(self) -> object:
        """What it knows and has to do, for `undo`. The client is an ObjectStore, no threads are at work, and
        nobody else has the informers."""
        return self._next_resync, [(part, part.save()) for part in self._parts()]

    def undo(self, saved: object) -> None:
        """Know and have to do what it did at `save`, in a store that is back in its state of then."""
        self._next_resync, parts = cast(Any, saved)
        for part, what in parts:
            part.undo(what)

    def _parts(self) -> tuple[Any, ...]:
        state = self._state
        queues, caches = (state.claim_queue, state.volume_queue), (state.claims, state.volumes)
        recorder = self.get_event_recorder()
        return (*self._informers, *queues, *caches, state.operations, state.times, recorder)

    # ---- in threads ----

    def run(self, stop: Event) -> None:
        """Work in threads until `stop` is set: wait until the informers have synced, then look at everything,
        and at every change. Somebody else runs the informers."""
        logger.info("Starting persistent volume controller")
        try:
            while not self._begin():
                if stop.wait(SYNC_POLL):
                    return
            self._state.operations.use_threads(stop)
            workers = [
                Thread(target=self._resync_until, args=(stop,), name="volume resync", daemon=True),
                Thread(target=self._work_on_volumes, name="volume worker", daemon=True),
                Thread(target=self._work_on_claims, name="claim worker", daemon=True),
            ]
            for worker in workers:
                worker.start()
            stop.wait()
            self._state.claim_queue.shut_down()
            self._state.volume_queue.shut_down()
            for worker in workers:
                worker.join()
        finally:
            logger.info("Shutting down persistent volume controller")

    def _resync_until(self, stop: Event) -> None:
        self._resync()
        while not stop.wait(self._sync_period if self._sync_period > 0 else None):
            self._resync()

    def _work_on_volumes(self) -> None:
        while self._next_volume(self._state.volume_queue.wait()):
            pass

    def _work_on_claims(self) -> None:
        while self._next_claim(self._state.claim_queue.wait()):
            pass

    # ---- both ----

    def _begin(self) -> bool:
        """Fill the own caches, if the informers have synced; a resync is due then."""
        if not all(informer.has_synced() for informer in self._informers):
            return False
        state = self._state
        for volume in state.volume_lister.list():
            _stored(state.volumes, volume)
        for claim in state.claim_lister.list():
            _stored(state.claims, claim)
        self._next_resync = self._clock()
        return True

    def _is_resync_due(self) -> bool:
        now, due = self._clock(), self._next_resync
        if due is None or now < due:
            return False
        self._next_resync = now + self._sync_period if self._sync_period > 0 else float("inf")
        return True

    def _resync(self) -> None:
        state = self._state
        for claim in state.claim_lister.list():
            state.claim_queue.add(claim.key)
        for volume in state.volume_lister.list():
            state.volume_queue.add(volume.key)

    def _next_volume(self, key: str | None) -> bool:
        """Handle the volume of a key from the queue; False where there is none."""
        if key is None:
            return False
        try:
            volume = self._state.volume_lister.get(key)
        except NotFoundError:
            self._volume_deleted(key)
            return True
        if _stored(self._state.volumes, volume):
            _reported("volume", key, lambda: sync_volume(self._state, volume))
        return True

    def _next_claim(self, key: str | None) -> bool:
        """Handle the claim of a key from the queue; False where there is none."""
        if key is None:
            return False
        try:
            claim = self._state.claim_lister.get(key)
        except NotFoundError:
            self._claim_deleted(key)
            return True
        if _stored(self._state.claims, claim):
            _reported("claim", key, lambda: sync_claim(self._state, claim))
        return True

    def _volume_deleted(self, key: str) -> None:
        """The claim of a volume that went will find itself lost."""
        volume = self._state.volumes.remove(key)
        self._state.times.end(key)
        if volume is not None and volume.spec.claim_ref is not None:
            self._state.claim_queue.add(claim_key(volume.spec.claim_ref))

    def _claim_deleted(self, key: str) -> None:
        """The volume of a claim that went is to be released."""
        claim = self._state.claims.remove(key)
        self._state.times.forget(key)
        if claim is not None and claim.spec.volume_name:
            self._state.volume_queue.add(claim.spec.volume_name)


def new_controller(
    parameters: ControllerParameters,
    *,
    clock: Callable[[], float] = time.monotonic,
    migrated_plugins: Mapping[str, str] | None = None,
) -> PersistentVolumeController:
    """Make a controller; it does nothing yet but listen to the informers.

    Parameters
    ----------
    parameters : ControllerParameters
        What it is made of.
    clock : callable
        Seconds; for the pauses after failed operations, and for resyncs without threads.
    migrated_plugins : mapping, optional
        Name of each in-tree plugin whose work a CSI driver has taken over, to the driver's name.

    Raises
    ------
    VolumeError
        A volume plugin cannot be used.
    """
    return PersistentVolumeController(parameters, clock, dict(migrated_plugins or {}))


def _state(
    parameters: ControllerParameters,
    recorder: EventRecorder,
    plugins: VolumePlugins,
    operations: Operations,
    times: OperationTimes,
    migrated_plugins: Mapping[str, str],
) -> ControllerState:
    claims: ControllerCache[PersistentVolumeClaim] = ControllerCache("claim")
    volumes = VolumeCache()
    return ControllerState(
        client=parameters.kube_client,
        claims=claims,
        volumes=volumes,
        claim_lister=parameters.claim_informer.lister,
        volume_lister=parameters.volume_informer.lister,
        class_lister=parameters.class_informer.lister,
        pod_lister=parameters.pod_informer.lister,
        node_lister=parameters.node_informer.lister,
        claim_queue=WorkQueue(),
        volume_queue=WorkQueue(),
        operations=operations,
        times=times,
        writes=Writes(parameters.kube_client, claims, volumes, recorder),
        plugins=plugins,
        migrated_plugins=migrated_plugins,
        cluster_name=parameters.cluster_name,
        enable_dynamic_provisioning=parameters.enable_dynamic_provisioning,
    )


class _Enqueue(Generic[T]):
    """Puts the key of whatever an informer tells into a queue."""

    def __init__(self, queue: WorkQueue) -> None:
        self._queue = queue

    def on_add(self, obj: T, is_in_initial_list: bool) -> None:
        self._queue.add(obj.key)

    def on_update(self, old: T, new: T) -> None:
        self._queue.add(new.key)

    def on_delete(self, obj: T | DeletedFinalStateUnknown[T]) -> None:
        self._queue.add(obj.key)


def _stored(cache: ControllerCache[T], obj: T) -> bool:
    """Keep an object in the own cache; False where it is not to be looked at."""
    try:
        return cache.store(obj)
    except VolumeError as error:
        logger.error("%s", error)
        return False


def _reported(what: str, key: str, sync: Callable[[], None]) -> None:
    """Synchronize, and log what is refused: the next event or resync tries again."""
    try:
        sync()
    except ConflictError as error:  # somebody else was faster, and the news of it is on its way
        logger.debug('could not sync %s "%s": %s', what, key, error)
    except MoorageError as error:
        logger.error('could not sync %s "%s": %s', what, key, error)
