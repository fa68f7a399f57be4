"""PersistentVolumeController: binds claims to volumes, provisions volumes, and reclaims those whose claim is
gone (controller/volume/persistentvolume/pv_controller_base.go)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Event, Thread
from typing import Any, Generic, TypeVar, cast

from moorage.errors import MoorageError
from moorage.framework.plugin.handle import EventRecorder
from moorage.objects.model.meta import Object
from moorage.objects.model.node import Node
from moorage.objects.model.storage import PersistentVolumeClaim
from moorage.store.errors import ConflictError, NotFoundError
from moorage.store.informers.informer import DeletedFinalStateUnknown, Informer
from moorage.store.informers.lister import Lister
from moorage.volume.binding.claims import VolumeError

from .controller_cache import ControllerCache, VolumeCache
from .controller_claims import sync_claim
from .controller_metrics import OperationTimes, VolumeCounts
from .controller_state import PODS_BY_CLAIM, ControllerState, claim_key, claims_of
from .controller_state import ControllerParameters as ControllerParameters
from .controller_volumes import sync_volume
from .controller_writes import Writes
from .host import VolumeHost
from .operations import Operations
from .provisioning import VolumePlugins
from .work_queue import WorkQueue

T = TypeVar("T", bound=Object)

SYNC_POLL = 0.1  # seconds

logger = logging.getLogger("moorage.volume")


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
        claims, volumes = ControllerCache[PersistentVolumeClaim]("claim"), VolumeCache()
        self._state = ControllerState(
            parameters=parameters,
            claims=claims,
            volumes=volumes,
            claim_queue=WorkQueue(),
            volume_queue=WorkQueue(),
            operations=Operations(clock),
            times=OperationTimes(clock),
            writes=Writes(parameters.kube_client, claims, volumes, recorder),
            plugins=plugins,
            migrated_plugins=migrated_plugins,
        )
        self.counts = VolumeCounts(volumes, claims)
        self._loops: tuple[_SyncLoop[Any], ...] = self._make_loops(parameters)

    def _make_loops(self, parameters: ControllerParameters) -> tuple[_SyncLoop[Any], ...]:
        """The loops of volumes and claims, which handle the events of their informers."""
        state = self._state
        volumes = _SyncLoop(
            state.volume_queue,
            parameters.volume_informer.lister,
            state.volumes,
            partial(sync_volume, state),
            self._volume_deleted,
        )
        claims = _SyncLoop(
            state.claim_queue,
            parameters.claim_informer.lister,
            state.claims,
            partial(sync_claim, state),
            self._claim_deleted,
        )
        parameters.volume_informer.add_event_handler(volumes)
        parameters.claim_informer.add_event_handler(claims)
        return volumes, claims

    # ---- without threads ----

    def run_once(self) -> int:
        """Process all events, resyncs and operations that are due now.

        Returns
        -------
        int
            Number of objects synchronized and operations continued; 0 where nothing was due, or the informers
            have not synced.
        """
        if self._next_resync is None and not self._begin():
            return 0
        if self._is_resync_due():
            self._resync()
        done = self._state.operations.run_due()
        while True:
            handled = [loop.sync_next(loop.queue.take()) for loop in self._loops]
            if not any(handled):
                return done
            done += sum(handled)

    def settle(self) -> int:
        """Run the informers and `run_once` until both find nothing to do.

        Returns
        -------
        int
            Number of rounds in which something was done.
        """
        rounds = 0
        while sum(informer.run_once() for informer in self._informers) + self.run_once():
            rounds += 1
        return rounds

    def next_due(self) -> float | None:
        """The next time at which `run_once` has work.

        Returns
        -------
        float or None
            Seconds on the clock; None if no work is scheduled.
        """
        state = self._state
        if state.volume_queue or state.claim_queue or self._next_resync is None:
            return self._clock()
        times = [state.operations.next_due(), self._next_resync if self._sync_period > 0 else None]
        return min((time for time in times if time is not None), default=None)

    def save(self) -> object:
        """The state of the controller, for `undo`. Requires an ObjectStore as client, no running threads, and
        informers without another user."""
        return self._next_resync, [(part, part.save()) for part in self._parts()]

    def undo(self, saved: object) -> None:
        """Restore the state of `save`. The store must have been restored to that point before."""
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
        """Run in threads until `stop` is set: wait until the informers have synced, then synchronize all
        objects, and each one that changes. The caller runs the informers.

        Parameters
        ----------
        stop : threading.Event
            Ends the threads.
        """
        logger.info("Starting persistent volume controller")
        try:
            while not self._begin():
                if stop.wait(SYNC_POLL):
                    return
            self._state.operations.use_threads(stop)
            workers = [Thread(target=self._resync_until, args=(stop,), name="volume resync", daemon=True)]
            workers += [
                Thread(target=loop.work, name=f"{loop.cache.class_name} worker", daemon=True)
                for loop in self._loops
            ]
            for worker in workers:
                worker.start()
            stop.wait()
            for loop in self._loops:
                loop.queue.shut_down()
            for worker in workers:
                worker.join()
        finally:
            logger.info("Shutting down persistent volume controller")

    def _resync_until(self, stop: Event) -> None:
        self._resync()
        while not stop.wait(self._sync_period if self._sync_period > 0 else None):
            self._resync()

    # ---- both ----

    def _begin(self) -> bool:
        """Fill the controller's caches once the informers have synced; a resync is due then."""
        if not all(informer.has_synced() for informer in self._informers):
            return False
        for loop in self._loops:
            for obj in loop.lister.list():
                loop.store(obj)
        self._next_resync = self._clock()
        return True

    def _is_resync_due(self) -> bool:
        now, due = self._clock(), self._next_resync
        if due is None or now < due:
            return False
        self._next_resync = now + self._sync_period if self._sync_period > 0 else float("inf")
        return True

    def _resync(self) -> None:
        for loop in reversed(self._loops):
            for obj in loop.lister.list():
                loop.queue.add(obj.key)

    def _volume_deleted(self, key: str) -> None:
        """Have the claim of a deleted volume synchronized, which is lost."""
        volume = self._state.volumes.remove(key)
        self._state.times.end(key)
        if volume is not None and volume.spec.claim_ref is not None:
            self._state.claim_queue.add(claim_key(volume.spec.claim_ref))

    def _claim_deleted(self, key: str) -> None:
        """Have the volume of a deleted claim synchronized, which is to be released."""
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
    """Make a controller and register its handlers at the informers.

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


@dataclass(frozen=True, slots=True)
class _SyncLoop(Generic[T]):
    """Synchronizes the objects of one kind whose keys are in a queue, which it fills as an event handler."""

    queue: WorkQueue
    lister: Lister[T]
    cache: ControllerCache[T]
    sync: Callable[[T], None]
    handle_deleted: Callable[[str], None]

    def on_add(self, obj: T, is_in_initial_list: bool) -> None:
        self.queue.add(obj.key)

    def on_update(self, old: T, new: T) -> None:
        self.queue.add(new.key)

    def on_delete(self, obj: T | DeletedFinalStateUnknown[T]) -> None:
        self.queue.add(obj.key)

    def store(self, obj: T) -> bool:
        """Put an object into the controller's cache; False if it is not to be synchronized."""
        try:
            return self.cache.store(obj)
        except VolumeError as error:
            logger.error("%s", error)
            return False

    def work(self) -> None:
        """Synchronize until the queue is shut down."""
        while self.sync_next(self.queue.wait()):
            pass

    def sync_next(self, key: str | None) -> bool:
        """Synchronize the object of a key from the queue, and log an error: the next event or resync tries
        again. False where there is no key."""
        if key is None:
            return False
        try:
            obj = self.lister.get(key)
        except NotFoundError:
            self.handle_deleted(key)
            return True
        if not self.store(obj):
            return True
        try:
            self.sync(obj)
        except ConflictError as error:  # another writer was faster, and the informer will report its write
            logger.debug('could not sync %s "%s": %s', self.cache.class_name, key, error)
        except MoorageError as error:
            logger.error('could not sync %s "%s": %s', self.cache.class_name, key, error)
        return True
