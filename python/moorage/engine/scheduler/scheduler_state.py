"""The state of a scheduler: its parts, the events that reach them, what transactions and forks restore."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from moorage._core.base.watch_events import Notice
from moorage._core.decide.pod_batch import PodBatch, Route, Routes
from moorage._core.queue.entrance import CreationClock
from moorage._core.state.pod_spec import bound
from moorage.errors import MoorageError, PluginError
from moorage.kube.model.node import Node
from moorage.kube.model.pod import Pod
from moorage.kube.model.pod_group import AnyGroup, group_of
from moorage.kube.model.resource_claims import DeviceClass
from moorage.kube.releases import groups_pods
from moorage.lazy import lazy_attribute
from moorage.saved_fields import SavedFields
from moorage.short_repr import ShortRepr
from moorage.store import InformerFactory, ObjectClient, ObjectStore
from moorage.store.pod_binding import why_unreadable

from .. import framework as fwk
from .. import scheduler as room
from ..cache.scheduler_cache import SchedulerCache, Undoable, end_each
from ..devices.resource_classes import ResourceClasses
from ..framework.claim_plugins import NO_RESOURCES, ClaimsOfBatch
from ..framework.events import ASSIGNED_POD_DELETE
from ..framework.handle import FrameworkHandle
from ..framework.interface import NominatingInfo
from ..framework.profile import Profile
from ..framework.run_plugins import Target
from ..framework.waiting_pods import PodNominator
from ..plugins.queue_and_groups import SchedulingGates
from ..plugins.registry import is_in_tree
from ..queue import QueueSettings, SchedulingQueue
from . import cycle
from .cycle.binding_cycle import BindingCycles
from .cycle.engine import Engine, Rotation, disowned_on_error, make_engines, make_handle
from .cycle.node_search import Batching
from .cycle.results import GATED_WITH_GROUP, TERMINATING
from .event_handlers import PodHandler, watch
from .options import ClaimControllers, Drain, Options, WorkloadControllers, check_readable

if TYPE_CHECKING:
    from ..framework.group_index import PodGroups
    from .scheduler_metrics import SchedulerMetrics
    from .volume_classes import Answer, VolumeClasses


PROFILE = int(Route.PROFILE)
EXTENDERS, WAITS = int(Route.EXTENDERS), int(Route.WAITS)
SIGNED, SIGNATURE = int(Route.SIGNED), int(Route.SIGNATURE)
FOREIGN = "a transaction cannot take back what is written to {}: only to an ObjectStore of this process"
RUNNING = "a transaction cannot begin while pods are being bound"
NO_COPY = "a scheduler over {} cannot be copied: only one over an ObjectStore of this process"
NO_FORK = "a scheduler cannot be copied while pods are being bound"

FEW_CLASSES = 1 << 12
"""Classes of pods up to which those that no pod has any more are kept."""


class SchedulerState(ShortRepr):
    """The state of a scheduler, which runs, cycles and changes of the cluster work on.

    Functions call it `context`. With its store, informers, queue, bindings and plugins it takes part in the
    transactions of the cache; it is enlisted before the first write to any of them.

    Parameters
    ----------
    time : CreationClock
        Shows the time of the cluster, where the scheduler has no clock.

    Attributes
    ----------
    store : ObjectStore or None
        The client, if it is a store of this process: what is written there can be undone, and takes no time.
    lock : context manager
        The lock of the cache, for what reads or writes both the store and the cache: other threads see all of
        it or nothing. It does nothing beside a server, which would have others wait.
    options : Options
        As the scheduler was made with them.
    volumes : ClaimControllers
        Binds claims, and lets time pass.
    controllers : WorkloadControllers or None
        The simulated controllers of workloads, if there are any.
    drains : tuple of Drain
        Those that go on in each run, in the order in which they began.
    lost_domains : tuple of (str, str)
        Labels and their values with which no node can come.
    metrics : SchedulerMetrics or None
        None unless runs are measured.
    handle : FrameworkHandle
        The handle of the plugins.
    engines : dict of str to Engine
        Scheduler name to the engine of its profile.
    rotation : Rotation
        The engines, and the position at which the next search begins.
    bindings : BindingCycles
        The pods that wait on Permit or are being bound.
    pods : PodHandler
        Enters the events of pods into cache and queue.
    routes : Routes
        Computes the route of a pod: the features that its placement needs.
    routes_of_members : Routes
        Computes the route of a pod that is placed together with the others of its group: it waits for none
        of them.
    claims : ClaimsOfBatch
        The volumes and claims that the pods of the latest batch use.
    """

    shows = "{0.cache}, {0.queue}"

    def __init__(
        self, cache: SchedulerCache, client: ObjectClient, options: Options, time: CreationClock
    ) -> None:
        self.cache, self.client, self.options, self.time = cache, client, options, time
        self.store = client if isinstance(client, ObjectStore) else None
        self.lock: AbstractContextManager[object] = nullcontext() if self.store is None else cache.lock
        self.informers = InformerFactory(client, lock=cache.lock)
        self.controllers: WorkloadControllers | None = None
        self.drains: tuple[Drain, ...] = ()
        self.lost_domains: tuple[tuple[str, str], ...] = ()
        self.metrics: SchedulerMetrics | None = None

    @contextmanager
    def assembled(self, profiles: Sequence[Profile], volumes: ClaimControllers) -> Iterator[None]:
        """Make the plugins and the queue, and have informers report to them. An exception in the block takes
        the plugins from the scheduler.

        Parameters
        ----------
        profiles : sequence of Profile
            Used unless a configuration has others.
        volumes : ClaimControllers
            Have the scheduler process events by `sync`.
        """
        options, gates, clock = self.options, self.options.gates, self.options.clock
        client, store, self.volumes = self.client, self.store, volumes
        self.nominator = PodNominator(self.is_waiting, gates.release.empty_nominations_are_kept)
        self.handle = make_handle(self.cache, client, self.informers, self.nominator, options, volumes)
        if store is not None:
            self.handle.now = store.now
        signs = gates["OpportunisticBatching"] and not self.handle.extenders
        batching = Batching(signs, clock or (lambda: 0.0), gates.release.last_node_is_rescored)
        engines = make_engines(self.handle, options, profiles, batching)
        with disowned_on_error([engine.profile for engine in engines]):
            self.engines = {engine.profile.scheduler_name: engine for engine in engines}
            self.rotation = Rotation(list(self.engines.values()))
            self.cache.participants = [self.rotation, batching]
            threads, nominates = options.binding_threads, gates["NominatedNodeNameForExpectation"]
            self.bindings = BindingCycles(client, store, self.cache.clock, volumes, threads, nominates)
            self.queue = self._make_queue(engines)
            ages = self.time if clock is None else None
            self.pods = PodHandler(self.handle, self.queue, self._is_ours, ages)
            self._shared = SharedPluginData(self.handle)
            self.claims = ClaimsOfBatch()
            self._device_class_lister = self.informers.lister(DeviceClass)
            self._device_classes = 0  # `changes` of their lister when routes were computed
            # Of the last signed pod, and whether its route has SIGNATURE.
            self._signature, self._turn = cast("bytes | None", None), 0
            self._begin_routes()
            watch(self.handle, self.pods, self._forget_failures)
            yield

    def _make_queue(self, engines: Sequence[Engine]) -> SchedulingQueue:
        """Make the queue, with the backoff periods of a configuration."""
        configuration, gates = self.options.configuration, self.options.gates
        settings = QueueSettings(
            pop_from_backoff=gates["SchedulerPopFromBackoffQ"],
            nominates_gated=gates.release.gated_pods_are_nominated,
        )
        if groups_pods(gates):
            settings = replace(
                settings, groups_pods=True, top_of=engines[0].handle.shared(fwk.group_index.PodGroups).top
            )
        if configuration is not None:
            settings = replace(
                settings,
                initial_backoff=float(configuration.pod_initial_backoff_seconds or 0),
                max_backoff=float(configuration.pod_max_backoff_seconds or 0),
            )
        frameworks, lock = [engine.framework for engine in engines], self.cache.lock
        return SchedulingQueue(frameworks, self.options.clock or self.time, settings, self.nominator, lock)

    def _forget_failures(self, group: AnyGroup) -> None:
        """Invalidate remembered failures after a change of a pod group: other pods may be evicted for it
        now."""
        for engine in self.engines.values():
            engine.search.states.open_scope()

    def _is_ours(self, pod: Pod) -> bool:
        """Whether a profile has the scheduler name of a pod."""
        return not pod.spec.scheduler_name or pod.spec.scheduler_name in self.engines

    @property
    def groups(self) -> PodGroups:
        """The pod groups."""
        return self.handle.shared(fwk.group_index.PodGroups)

    # ---- events and time -----------------------------------------------------------------------------------

    def is_waiting(self, pod: Pod) -> bool:
        """Whether a pod exists without a node, according to the informers."""
        return self.pods.unbound(pod) is not None

    def not_ours(self, pod: Pod) -> str:
        """Return why this scheduler does not schedule a pod now; "" where it does."""
        if pod.metadata.deletion_timestamp:
            return TERMINATING
        if not self._is_ours(pod):
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
        unit, groups = group_of(pod), self.groups
        root = None if unit is None or pod.spec.node_name else groups.root(unit)
        is_gated = root is not None and any(map(self._why_gated, groups.pending(root)))
        return GATED_WITH_GROUP if is_gated else ""

    def _why_gated(self, pod: Pod) -> str:
        """Return what PreEnqueue says against a pod; "" for nothing."""
        status = self.engine_of(pod).framework.run_pre_enqueue_plugins(pod)
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
        with self.lock:
            if self.cache.transactions:
                if self.store is None:
                    return False  # events are received after the transaction
                self.enlist()
            try:
                if self.bindings.freed:
                    self.announce_freed()
                controllers = self.controllers if with_controllers else None
                while self.informers.run_once() or (controllers is not None and controllers.work()):
                    has_events = True
            except BaseException as error:
                self.pods.repair()
                if isinstance(error, ValueError):  # perhaps by a quantity that nobody has checked
                    for kind in (Node, Pod):
                        check_readable(self.informers.informer(kind).indexer.values())
                raise
        return has_events

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
        self.enlist()
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
        """Let time pass until the pods are gone that controllers have deleted, as far as the scheduler can:
        one change follows another some time later.

        Nothing is scheduled, so the pods on nodes become fewer, and this ends.
        """
        controllers = self.controllers
        if controllers is not None and self.options.clock is None:
            self.enlist()
            while (when := controllers.next_stop()) < math.inf:
                self._reach(when)

    def _reach(self, when: float) -> None:
        """Let time pass until a moment, in seconds: pods whose back-off has ended return to the queue."""
        self.volumes.wait(max(0.0, when - self.volumes.now()))
        if self.options.clock is None:
            self.queue.run_periodic(self.queue.now())

    # ---- engines -------------------------------------------------------------------------------------------

    def engine_of(self, pod: Pod) -> Engine:
        """Return the engine of a pod's profile; that of the first profile, if no profile has the pod's
        scheduler name."""
        return self.engines.get(pod.spec.scheduler_name) or self.rotation.engines[0]

    def engines_of(self, pods: Iterable[Pod]) -> set[Engine]:
        """Return the engines of the profiles of pods; see `engine_of`."""
        one_of_each = {pod.spec.scheduler_name: pod for pod in pods}
        return set(map(self.engine_of, one_of_each.values()))

    def engine_for(self, pod: Pod) -> Engine:
        """Return the engine that schedules a pod, and hand the rotation to it."""
        return self.rotation.take(self.engine_of(pod))

    def target_of(self, pod: Pod) -> Target:
        """Return the target of a pod.

        Returns
        -------
        (int, int, int)
            Class of the pod, symbol of spec.nodeName, symbol of the node it is pinned to; 0 for none.
        """
        return self.engine_of(pod).framework.target_of(pod)

    def batch_of(self, pods: Sequence[Pod], by_demand: bool = False, first: int = 0) -> PodBatch:
        """Return pods as a batch for the core, with the route of each.

        Parameters
        ----------
        by_demand : bool, optional
            Whether the core is to place pods with bound volumes by the demand of their class
            (`Route.CLAIMS`), until events about claims and volumes are processed.
        first : int, optional
            The index of the first pod that the batch knows.

        Returns
        -------
        PodBatch
            With `by_demand` it ends before a pod with a claim that an earlier pod of the batch allocates.
        """
        version = self._device_class_lister.changes
        if version != self._device_classes:  # known routes may be wrong: extended resources may be theirs
            self._device_classes = version
            self._begin_routes()
        if by_demand:
            self.claims = ClaimsOfBatch()
        classes = self._class_with_volumes if by_demand else None
        engines = self.rotation.engines if self._device_classes else ()
        delegated = NO_RESOURCES.union(*[engine.profile.delegated_resources() for engine in engines])
        return PodBatch(self.cache.state, pods, self.routes, classes, first, delegated)

    def _class_with_volumes(self, pod: Pod, pod_class: int, at: int) -> Answer:
        """Return what `VolumeClasses.find` does, for a pod of the latest batch."""
        return self._volume_classes.find(self.claims, pod, pod_class, at)

    @lazy_attribute
    def _volume_classes(self) -> VolumeClasses:
        return room.volume_classes.VolumeClasses(self.engine_of)

    def readable_batch_of(self, pods: Sequence[Pod], first: int) -> PodBatch | str:
        """Return pods as `batch_of` does by demand, up to one that cannot be read.

        Parameters
        ----------
        first : int
            The index of the first pod that the batch knows.

        Returns
        -------
        PodBatch or str
            Why the first pod cannot be read, if it cannot.
        """
        try:
            return self.batch_of(pods, True, first)
        except ValueError:  # by a quantity of a pod that nobody has checked
            for at, pod in enumerate(pods[first:], first):
                if why := why_unreadable(pod):
                    return self.batch_of(pods[:at], True, first) if at > first else f"pod {pod.key}: {why}"
            raise

    def _begin_routes(self) -> None:
        engines, extenders = self.rotation.engines, self.handle.extenders
        signers = [engine.framework.signer for engine in engines if engine.signs]
        repeats = not extenders and all(signer.reads_spec_alone for signer in signers)
        of_pod = self._route_of_pod if extenders or signers else None
        self.routes_of_members = self.routes = Routes(self._route_of_class, of_pod, repeats)
        if any(engine.profile.has_units for engine in engines):
            self.routes = Routes(self._route_of_class, self._route_of_pod, repeats)

    def _route_of_class(self, pod: Pod, target: Target, uses_volumes: bool) -> int:
        """Return the route bits that all pods of a class share."""
        engine = self.engine_of(pod)
        by_demand = target[0] in engine.search.states.volume_demands
        if not (uses_volumes or by_demand) and engine.profile.asks_devices(pod):
            return engine.number * PROFILE | Route.PYTHON | Route.VOLUMES
        route = engine.number * PROFILE
        if not (engine.profile.complete if uses_volumes else engine.profile).is_in_core:
            return route | Route.PYTHON
        return route if engine.passes(target, pod) else route | Route.REJECTED

    def _route_of_pod(self, pod: Pod) -> int:
        """Return the route bits that depend on the single pod."""
        engine, route = self.engine_of(pod), 0
        if not engine.decides_alone(pod):
            route |= EXTENDERS
        if engine.profile.has_units and group_of(pod) is not None:
            route |= WAITS
        if engine.signs and (signature := engine.sign(pod)) is not None:  # volumes do not change it
            if signature != self._signature:
                self._signature, self._turn = signature, self._turn ^ SIGNATURE
            route |= SIGNED | self._turn
        return route

    def engine_of_route(self, route: int) -> Engine:
        """Return the engine that schedules the pods of a route, and hand the rotation to it.

        Parameters
        ----------
        route : int
            Bits of `Route`, as `PodBatch.cut` returns them.
        """
        return self.rotation.take(self.rotation.engines[route // PROFILE])

    def assume(self, pod: Pod, node: str) -> None:
        """Assume a pod on the chosen node, and end its nomination.

        Raises
        ------
        CacheError
            The pod is in the cache.
        """
        self.cache.assume_pod(bound(pod, node))
        for follow in self.engine_of(pod).plan.follows:
            follow()
        if pod.metadata.uid in self.nominator.nodes:
            self.nominator.delete_nominated_pod_if_exists(pod)

    def nominate(self, pod: Pod, info: NominatingInfo | None, *, writes: bool = True) -> None:
        """Record a change of nomination by PostFilter, for a pod whose failure is not reported otherwise.

        Parameters
        ----------
        info : NominatingInfo or None
            None, or `noop`, leaves the nomination as it is.
        writes : bool, optional
            Whether the status of the pod is written, and not only the nominator.
        """
        if info is None or info.noop or not self.nominator.is_changed_by(pod, info):
            return
        self.nominator.add_nominated_pod(pod, info)
        if writes:
            cycle.status_writes.patch_pod(self.client, pod, None, info, self.bindings.writes)

    # ---- the node list -------------------------------------------------------------------------------------

    def drop_unused_classes(self) -> None:
        """Forget what is kept of pods that are gone, once it is more than of those that are there.

        Whoever receives events without a run calls this now and then, between two decisions.
        """
        state = self.cache.state
        with self.cache.lock:
            if len(state.classes) > max(FEW_CLASSES, 4 * (len(state.ledger) + len(self.queue))):
                state.number_classes_anew()

    def view_order(self) -> list[str]:
        """Return the node names in the list order of a cycle that begins now."""
        with self.cache.lock:
            self.cache.state.view.refresh()
            return self.cache.state.view.node_names()

    def view_rows(self) -> npt.NDArray[np.int32]:
        """Return the rows of the node table in the list order of a cycle that begins now, as (n,) int32
        array."""
        with self.cache.lock:
            self.cache.state.view.refresh()
            return self.cache.state.view.rows()

    # ---- transactions --------------------------------------------------------------------------------------

    def go_on_draining(self) -> bool:
        """Evict further pods of nodes that are drained, as budgets allow it now; return whether any went."""
        before, self.drains = self.drains, tuple([drain.go_on(self) for drain in self.drains])
        return any(len(new.evicted) > len(old.evicted) for new, old in zip(self.drains, before, strict=True))

    def enlist(self) -> None:
        """Enlist store, informers and queue in the open transactions, before a write to any of them.

        Raises
        ------
        MoorageError
            Such a write could not be undone.
        """
        if self.cache.transactions:
            self.cache.enlist(self)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Make the writes of the block whole or not at all, if the store can undo them.

        The block may use the cache and the queue, whose lock is taken before that of the store.
        """
        with self.lock:
            self.enlist()
            with nullcontext() if self.store is None else self.store.all_or_nothing():
                yield

    def enlist_if_possible(self) -> None:
        """Enlist store, informers and queue in the open transactions, if writes to the store can be
        undone."""
        if self.cache.transactions and self.store is not None:
            self.cache.enlist(self)

    def take_back(self, pods: Iterable[Pod]) -> None:
        """Remove assumed pods from the cache, except those whose binding cycles go on.

        Parameters
        ----------
        pods : iterable of Pod
            Read under the lock of the cache.
        """
        with self.cache.lock:
            for pod in pods:
                if self.cache.is_assumed_pod(pod) and not self.bindings.has(pod):
                    self.cache.forget_pod(self.cache.get_pod(pod))

    @contextmanager
    def taken_back_on_error(self, pods: Iterable[Pod]) -> Iterator[None]:
        """Remove assumed pods from the cache if an exception ends the block; see `take_back`."""
        try:
            yield
        except BaseException:
            self.take_back(pods)
            raise

    def _parts(self) -> list[Undoable]:
        """Return the parts to save, in the order in which they are restored."""
        return [
            self.informers,
            self.queue,
            self.pods,
            self.bindings,
            self.handle.waiting_pods,
            self.handle.recorder,
            self.volumes,
            self._shared,
            *([self.controllers] if self.controllers is not None else ()),
            *self._plugins_with_state(),
        ]

    def _plugins_with_state(self) -> list[Undoable]:
        """Return the plugins that take part in transactions."""
        plugins = [p for engine in self.engines.values() for p in engine.profile.plugins]
        own = [p for p in plugins if not is_in_tree(p)]  # which save nothing, and would wake up if asked
        return [cast(Undoable, p) for p in own if hasattr(p, "save") and hasattr(p, "undo")]

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
        mark = self._store_to(FOREIGN, RUNNING).save()
        parts = [(part, part.save()) for part in self._parts()]
        return mark, self.drains, self.lost_domains, self.time.now, parts

    def refuse_failing_plugins(self, served: Iterable[str]) -> None:
        """Check that plugins have not failed on every pod.

        Parameters
        ----------
        served : iterable of str
            The scheduler names of the pods that have got a node; looked at if a plugin has failed.

        Raises
        ------
        PluginError
            A plugin has failed, and no pod of a profile with it has got a node, or none of its scores was
            accepted.
        """
        errors = self.handle.plugin_errors
        if not errors.first:
            return
        profiles = [self.engines[name].profile for name in {*served} & self.engines.keys()]
        work = {plugin.name for profile in profiles for plugin in profile.plugins}
        for plugin, text in errors.first.items():
            if plugin not in work or not errors.scores.get(plugin, True):
                raise PluginError(f'plugin "{plugin}" fails on every pod; first on {text}')

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
        if self.store is None:
            raise MoorageError(foreign.format(type(self.client).__name__))
        if self.bindings.running:
            raise MoorageError(running)
        return self.store

    def copy_from(self, other: SchedulerState) -> None:
        """Take the state of all parts of another scheduler, of whose cache and store this one has copies."""
        self.informers.copy_from(other.informers)
        self.time.now = other.time.now
        self.pods.copy_from(other.pods)
        self.queue.copy_from(other.queue)
        engines = self.rotation.take_over(other.rotation)
        self.handle.waiting_pods.copy_from(other.handle.waiting_pods)
        self.bindings.take_over(other.bindings, engines)
        self.handle.recorder.copy_from(other.handle.recorder)
        self.handle.plugin_errors.copy_from(other.handle.plugin_errors)
        self.volumes.copy_from(cast(Any, other.volumes))
        if self.controllers is not None and other.controllers is not None:
            self.controllers.copy_from(other.controllers)
        self._shared.copy_from(other._shared)
        self.drains, self.lost_domains = other.drains, other.lost_domains
        for mine, its in zip(self._plugins_with_state(), other._plugins_with_state(), strict=True):
            if isinstance(mine, SavedFields):  # its parts are its own
                mine.copy_from(cast(Any, its))
            else:
                mine.undo(its.save())

    def undo(self, saved: object) -> None:
        """Restore the state of `save`."""
        mark, self.drains, self.lost_domains, self.time.now, parts = cast(Any, saved)
        self.bindings.stop()  # first, to end the writes of threads
        store = cast(ObjectStore, self.client)
        if store.is_open(mark):  # else it has been undone, before a signal ended this method
            store.undo(mark)  # before informers, so that watches rewind
        end_each(parts, "undo")

    def release(self, saved: object) -> None:
        """Drop the state of `save` without restoring it."""
        mark, *_ = cast(Any, saved)
        store = cast(ObjectStore, self.client)
        if store.is_open(mark):
            store.release(mark)


class SharedPluginData:
    """The data shared by plugins, as a part of a transaction.

    `undo` drops those made since `save`, and restores the assumed volumes of the others.
    """

    def __init__(self, handle: FrameworkHandle) -> None:
        self._handle = handle

    def save(self) -> object:
        """Return the shared data and their state."""
        shared, derived = (data.copy() for data in self._handle.plugin_data())
        parts = [part for data in shared.values() for part in _parts_of(data)]
        return (shared, derived), [(part, part.save()) for part in parts]

    def undo(self, saved: object) -> None:
        """Restore the state of `save`."""
        data, parts = cast(Any, saved)
        for now, before in zip(self._handle.plugin_data(), data, strict=True):
            now.clear()
            now.update(before)
        end_each(parts, "undo")

    def copy_from(self, other: SharedPluginData) -> None:
        """Take the assumed volumes and lost uses of another scheduler; all other shared data is derived from
        the informers."""
        shared, _ = other._handle.plugin_data()
        for make, data in shared.copy().items():  # a question in another thread may add to it
            parts = _copied_of(data)
            if parts:
                mine = self._handle.shared(cast(Any, make))
                for part, its in zip(_copied_of(mine), parts, strict=True):
                    part.copy_from(its)


def _copied_of(data: object) -> list[Any]:
    """Return what a copy takes over of shared data: its parts with a state of their own, or all of it."""
    return [data] if getattr(data, "is_copied_whole", False) else _parts_of(data)


def _parts_of(data: object) -> list[Any]:
    """Return the parts of shared data that follow from events and cannot be derived anew: assume caches, and
    the classes of extended resources."""
    if isinstance(data, ResourceClasses):
        return [data]
    names = ("pv_cache", "pvc_cache", "claim_cache")
    return [part for name in names if (part := getattr(data, name, None)) is not None]
