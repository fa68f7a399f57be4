"""The parts of a scheduler, how the events of its store reach them, and what a transaction saves of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from moorage._core.base.watch_events import Notice
from moorage._core.queue.entrance import CreationClock
from moorage._core.state.node_table import NodeTable
from moorage.errors import MoorageError
from moorage.kube import Cluster, group_of
from moorage.kube.model.cluster import newest_timestamp, seconds
from moorage.kube.model.node import Node
from moorage.kube.model.pod import Pod
from moorage.kube.releases import FeatureGates
from moorage.store import InformerFactory, ObjectClient, ObjectStore

from ..cache import SchedulerCache
from ..cache.scheduler_cache import end_each
from ..devices.extended_resources import ResourceClasses
from ..framework import PodNominator
from ..framework.configuration import KubeSchedulerConfiguration, groups_pods
from ..framework.events import ASSIGNED_POD_DELETE
from ..framework.group_index import PodGroups
from ..framework.handle import FrameworkHandle
from ..plugins.queue_and_groups import GangScheduling, SchedulingGates
from ..queue import QueueSettings, SchedulingQueue
from ..volume.volumes_in_use import LostUses
from .cycle.binding_cycle import BindingCycles
from .cycle.engine import Engine
from .event_handlers import PodHandler
from .options import ClaimControllers, Options, Undoable, WorkloadControllers, check_readable
from .scheduling_context import SchedulingContext

if TYPE_CHECKING:
    from .scheduler_metrics import SchedulerMetrics


TERMINATING = "terminating"
WAITING, GATED, OTHER_SCHEDULER = "waiting", "gated", "other-scheduler"
SKIPPED = {"gated": GATED, "other scheduler": OTHER_SCHEDULER, TERMINATING: TERMINATING}
"""The problem of a pod that a run has not tried, by the scheduler's word for it. A plugin gates the others;
those that GangScheduling gates wait for their group."""
GATED_WITH_GROUP = "another pod of its group is gated"


def problem_of(skipped: str) -> str:
    """Return the problem of a pod that a run has not tried, by what `SchedulerParts.not_ours` says."""
    return WAITING if skipped.startswith(f"{GangScheduling.name}: ") else SKIPPED.get(skipped, GATED)


class SchedulerParts:
    """The parts of a scheduler. `PodScheduler` makes them; runs and changes of the cluster work on them.

    Attributes
    ----------
    client : ObjectClient
    store : ObjectStore or None
        The client, if it is a store of this process: what is written there can be undone, and takes no time.
    informers : InformerFactory
    cache : SchedulerCache
    queue : SchedulingQueue
    pods : PodHandler
        Enters the events of pods into cache and queue.
    handle : FrameworkHandle
        The handle of the plugins.
    engines : dict of str to Engine
        Scheduler name to the engine of its profile.
    bindings : BindingCycles
        The pods that wait on Permit or are being bound.
    context : SchedulingContext
        The state that scheduling cycles share.
    volumes : ClaimControllers
        Binds claims, and lets time pass.
    controllers : WorkloadControllers or None
        The simulated controllers of workloads, if there are any.
    metrics : SchedulerMetrics or None
        None unless runs are measured.
    options : Options
        As it was made with them.
    """

    client: ObjectClient
    store: ObjectStore | None
    informers: InformerFactory
    cache: SchedulerCache
    queue: SchedulingQueue
    pods: PodHandler
    handle: FrameworkHandle
    engines: dict[str, Engine]
    bindings: BindingCycles
    context: SchedulingContext
    volumes: ClaimControllers
    controllers: WorkloadControllers | None
    metrics: SchedulerMetrics | None
    options: Options

    def is_waiting(self, pod: Pod) -> bool:
        """Whether a pod exists without a node, according to the informers."""
        return self.pods.unbound(pod) is not None

    def not_ours(self, pod: Pod) -> str:
        """Return why this scheduler does not schedule a pod now.

        Returns
        -------
        str
            "" where it does.
        """
        if pod.metadata.deletion_timestamp:
            return TERMINATING
        if pod.spec.scheduler_name and pod.spec.scheduler_name not in self.engines:
            return "other scheduler"
        return self._why_gated(pod)

    def not_ours_with_group(self, pod: Pod) -> str:
        """Return why this scheduler does not schedule a pod without a node now: while a pod of its group is
        gated, all are.

        Returns
        -------
        str
            "" where it does.
        """
        if (why := self.not_ours(pod)) or not self.queue.groups_pods:
            return why
        unit, groups = group_of(pod), self.context.groups
        root = None if unit is None or pod.spec.node_name else groups.root(unit)
        is_gated = root is not None and any(map(self._why_gated, groups.pending(root)))
        return GATED_WITH_GROUP if is_gated else ""

    def _why_gated(self, pod: Pod) -> str:
        """Return what PreEnqueue says against a pod; "" for nothing."""
        status = self.context.engine_of(pod).framework.run_pre_enqueue_plugins(pod)
        if status is None:
            return ""
        return "gated" if status.plugin == SchedulingGates.name else f"{status.plugin}: {status.message()}"

    def sync(self, *, with_controllers: bool = True) -> bool:
        """Process all new events of the store.

        Parameters
        ----------
        with_controllers : bool, optional
            Whether the simulated controllers do what follows from them. By default they do.

        Returns
        -------
        bool
            Whether there were any. Inside a transaction that cannot undo writes, events are left for later.

        Raises
        ------
        InputError
            A node, or a pod on a node, has something else where a quantity belongs.
        """
        has_events = False
        if self.cache.transactions:
            if self.store is None:
                return False  # events are received after the transaction
            self.context.enlist()
        try:
            if self.bindings.freed:
                self.announce_freed()
            controllers = self.controllers if with_controllers else None
            while self.informers.run_once() or (controllers is not None and controllers.work()):
                has_events = True
        except BaseException as error:
            self.repair_queue()
            if isinstance(error, ValueError):  # perhaps by a quantity that nobody has checked
                for kind in (Node, Pod):
                    check_readable(self.informers.informer(kind).indexer.values())
            raise
        return has_events

    def repair_queue(self) -> None:
        """Put every waiting pod that is missing back into the queue, after an exception interrupted an
        operation."""
        self.pods.repair()

    def announce_freed(self) -> None:
        """Move pods in the queue that profit from the end of a failed binding cycle, as after the deletion of
        its pod (kube-scheduler v1.36, schedule_one.go handleBindingCycleError)."""
        freed = self.bindings.freed
        while freed:
            self.queue.move_all(ASSIGNED_POD_DELETE, [Notice(freed.pop(0), None)])

    def let_controllers_proceed(self) -> bool:
        """Have claims bound and released; or let time pass until a pod of a rollout becomes available, the
        back-off of a Job or the grace period of a pod ends, as far as the scheduler can let time pass. At
        last, workloads try again that were refused before the present change.

        Returns
        -------
        bool
            False if nothing is to be done for claims or workloads, and nothing waits for a time.
        """
        options, controllers = self.options, self.controllers
        self.context.enlist()
        if self.volumes.settle():
            return True
        if controllers is None:
            return False
        can_wait = options.clock is None or options.wait is not None
        if can_wait and (when := controllers.next_time()) < math.inf:
            self._reach(when)
            return True
        if controllers.end_back_off():
            self.sync()
            return True
        return False

    def let_pods_stop(self) -> None:
        """Let time pass until the pods are gone that controllers have deleted, as far as the scheduler can.

        One change follows another some time later.

        Nothing is scheduled, so the pods on nodes become fewer, and this ends.
        """
        controllers = self.controllers
        if controllers is not None and self.options.clock is None:
            self.context.enlist()
            while (when := controllers.next_stop()) < math.inf:
                self._reach(when)

    def _reach(self, when: float) -> None:
        """Let time pass until a moment, in seconds: pods whose back-off has ended return to the queue."""
        self.volumes.wait(max(0.0, when - self.volumes.now()))
        if self.options.clock is None:
            self.queue.run_periodic(self.queue.now())

    @property
    def plugin_errors(self) -> Mapping[tuple[str, str], int]:
        """Number of exceptions by (plugin name, exception type name)."""
        return dict(self.handle.plugin_errors.counts)

    @property
    def table(self) -> NodeTable:
        """The node table: ``table.allocatable["cpu"]``, ``table.requested[...]``, ``table.names`` by row."""
        with self.cache.lock:
            self.cache.check_whole()
            return self.cache.state.table

    @property
    def groups(self) -> PodGroups:
        """The index of pod groups and their members."""
        with self.cache.lock:
            self.cache.check_whole()
            return self.handle.shared(PodGroups)


# ---- transaction parts -------------------------------------------------------------------------------------
# The state besides the cache that a transaction saves and restores: store, informers, queue and plugins.

FOREIGN = "a transaction cannot take back what is written to {}: only to an ObjectStore of this process"
RUNNING = "a transaction cannot begin while pods are being bound"
NO_COPY = "a scheduler over {} cannot be forked: only one over an ObjectStore of this process"
NO_FORK = "a scheduler cannot be forked while pods are being bound"


class SharedPluginData:
    """The data shared by plugins, as a part of a transaction.

    `undo` drops those made since `save`, and restores the assumed volumes of the others.
    """

    def __init__(self, scheduler: SchedulerParts) -> None:
        self._scheduler = scheduler

    def save(self) -> object:
        """Return the shared data and their state."""
        shared, derived = self._scheduler.handle.plugin_data()
        parts = [part for data in shared.values() for part in _parts_of(data)]
        return (shared.copy(), derived.copy()), [(part, part.save()) for part in parts]

    def undo(self, saved: object) -> None:
        """Restore the state of `save`."""
        data, parts = cast(Any, saved)
        for now, before in zip(self._scheduler.handle.plugin_data(), data, strict=True):
            now.clear()
            now.update(before)
        end_each(parts, "undo")

    def copy_from(self, other: SharedPluginData) -> None:
        """Take the assumed volumes and lost uses of another scheduler; all other shared data is derived from
        the informers."""
        for make, data in other._scheduler.handle.plugin_data()[0].items():
            parts = _copied_of(data)
            if parts:
                mine = self._scheduler.handle.shared(cast(Any, make))
                for part, its in zip(_copied_of(mine), parts, strict=True):
                    part.copy_from(its)


def _copied_of(data: object) -> list[Any]:
    """Return what a copy takes over of shared data: its parts with a state of their own, or all of it."""
    return [data] if isinstance(data, LostUses) else _parts_of(data)


def _parts_of(data: object) -> list[Any]:
    """Return the parts of shared data that follow from events and cannot be derived anew: assume caches, and
    the classes of extended resources."""
    if isinstance(data, ResourceClasses):
        return [data]
    names = ("pv_cache", "pvc_cache", "claim_cache")
    return [part for name in names if (part := getattr(data, name, None)) is not None]


class TransactionParts:
    """The records of a scheduler (store, informers, queue, bindings, plugins) as a participant of
    transactions.

    It is enlisted before the scheduler first writes to any of them in a transaction.
    """

    def __init__(self, scheduler: SchedulerParts) -> None:
        self._scheduler = scheduler
        self._shared = SharedPluginData(scheduler)

    def _parts(self) -> list[Undoable]:
        """Return the parts to save, in the order in which they are restored."""
        scheduler = self._scheduler
        handle: FrameworkHandle = scheduler.handle
        return [
            scheduler.informers,
            scheduler.queue,
            scheduler.pods,
            scheduler.bindings,
            handle.waiting_pods,
            handle.recorder,
            scheduler.volumes,
            self._shared,
            *([scheduler.controllers] if scheduler.controllers is not None else ()),
            *self._plugins_with_state(),
        ]

    def _plugins_with_state(self) -> list[Undoable]:
        """Return the plugins that take part in transactions."""
        plugins = [p for engine in self._scheduler.engines.values() for p in engine.profile.plugins]
        return [cast(Undoable, p) for p in plugins if hasattr(p, "save") and hasattr(p, "undo")]

    def save(self) -> object:
        """Save the store and all parts.

        Returns
        -------
        object
            The argument of `undo` and `release`.

        Raises
        ------
        MoorageError
            The client is no ObjectStore, or pods are being bound.
        """
        return self._store_to(FOREIGN, RUNNING).save(), [(part, part.save()) for part in self._parts()]

    def copyable_store(self) -> ObjectStore:
        """Return the store of a scheduler that can be forked.

        Raises
        ------
        MoorageError
            The client is no ObjectStore, or pods are being bound.
        """
        return self._store_to(NO_COPY, NO_FORK)

    def _store_to(self, foreign: str, running: str) -> ObjectStore:
        """Return the store, or raise the errors for that of others, and while pods are being bound."""
        scheduler = self._scheduler
        if scheduler.store is None:
            raise MoorageError(foreign.format(type(scheduler.client).__name__))
        if scheduler.bindings.running:
            raise MoorageError(running)
        return scheduler.store

    def copy_from(self, other: TransactionParts, queued: bool) -> None:
        """Take the state of all parts of another scheduler, of whose cache and store this one has copies;
        with the pods in its queue or without."""
        here, there = self._scheduler, other._scheduler
        here.informers.copy_from(there.informers)
        here.pods.undo(there.pods.save())
        here.queue.copy_from(there.queue, queued)
        engines = here.context.rotation.copy_from(there.context.rotation)
        here.handle.waiting_pods.copy_from(there.handle.waiting_pods)
        here.bindings.copy_from(there.bindings, engines)
        here.handle.recorder.copy_from(there.handle.recorder)
        here.handle.plugin_errors.counts.update(there.handle.plugin_errors.counts)
        here.volumes.copy_from(cast(Any, there.volumes))
        if here.controllers is not None and there.controllers is not None:
            here.controllers.undo(there.controllers.save())
        self._shared.copy_from(other._shared)
        for mine, its in zip(self._plugins_with_state(), other._plugins_with_state(), strict=True):
            mine.undo(its.save())

    def undo(self, saved: object) -> None:
        """Restore the state of `save`."""
        mark, parts = cast(Any, saved)
        self._scheduler.bindings.stop()  # first, to end the writes of threads
        store = cast(ObjectStore, self._scheduler.client)
        if store.is_open(mark):  # else it has been undone, before a signal ended this method
            store.undo(mark)  # before informers, so that watches rewind
        end_each(parts, "undo")

    def release(self, saved: object) -> None:
        """Drop the state of `save` without restoring it."""
        mark, _ = cast(Any, saved)
        store = cast(ObjectStore, self._scheduler.client)
        if store.is_open(mark):
            store.release(mark)


# ---- queueing ----------------------------------------------------------------------------------------------
# The queue of a scheduler, and the clock that shows the time of its cluster.


def time_of(cluster: Cluster | None) -> CreationClock:
    """Return a clock that shows when the newest object of a cluster was created, until time passes in it.

    An object without a timestamp that is created in a store of this time is at least as new as all others.

    Parameters
    ----------
    cluster : Cluster or None
        None for a store that others write to as well, whose pods set the clock as they come.
    """
    clock, newest = CreationClock(seconds), None if cluster is None else newest_timestamp(cluster)
    clock.now = 0.0 if newest is None else seconds(newest)
    return clock


def make_queue(
    engines: Sequence[Engine],
    configuration: KubeSchedulerConfiguration | None,
    gates: FeatureGates,
    clock: Callable[[], float],
    nominator: PodNominator,
) -> SchedulingQueue:
    """Make the queue of a scheduler.

    Parameters
    ----------
    engines : sequence of Engine
        One for each profile.
    configuration : KubeSchedulerConfiguration or None
        Has the backoff periods; None for the defaults.
    gates : FeatureGates
        The feature gates, and their release.
    clock : callable
        Returns seconds.
    """
    settings = QueueSettings(
        pop_from_backoff=gates["SchedulerPopFromBackoffQ"],
        nominates_gated=gates.release.gated_pods_are_nominated,
    )
    if groups_pods(gates):
        settings = replace(settings, groups_pods=True, top_of=engines[0].handle.shared(PodGroups).top)
    if configuration is not None:
        settings = replace(
            settings,
            initial_backoff=float(configuration.pod_initial_backoff_seconds or 0),
            max_backoff=float(configuration.pod_max_backoff_seconds or 0),
        )
    frameworks, lock = [engine.framework for engine in engines], engines[0].handle.cache.lock
    return SchedulingQueue(frameworks, clock, settings, nominator, lock)
