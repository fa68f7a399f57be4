"""PodScheduler: the verbs on a scheduler's state that place pods: one, many, or all pending ones, in queue
order.

`Scheduler` in `answers` is this class with the questions. It cannot stand here, as this room imports no
answers, and the rooms between the two need what places pods.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Self, Unpack

from msgspec.structs import replace

from moorage import cluster as room
from moorage import controllers
from moorage._core.base.bracket import Bracket
from moorage._core.state.node_table import NodeTable
from moorage.arguments import argument, typed
from moorage.controllers.api_server import server_of
from moorage.controllers.sleeping_controllers import ControlledCluster, SleepingControllers
from moorage.engine import scheduler as placing
from moorage.engine.cache import SchedulerCache, Transaction
from moorage.engine.framework.profile import Profile
from moorage.engine.plugins.registry import default_profile, read_configuration
from moorage.engine.scheduler.cycle.engine import TIE_BREAKS
from moorage.engine.scheduler.cycle.results import Decision, ScheduleResult
from moorage.engine.scheduler.loop import Loop
from moorage.engine.scheduler.options import check_readable, checked
from moorage.engine.scheduler.scheduler_state import SchedulerState
from moorage.kube.model.cluster import Cluster
from moorage.kube.model.meta import Object
from moorage.kube.model.node import Node
from moorage.kube.model.pod import Pod
from moorage.kube.read.python_values import Source, write
from moorage.kube.releases import DEFAULT, pod_gates, release_named
from moorage.kube.releases import feature_gates as all_gates
from moorage.store import ObjectClient, ObjectStore

from .cluster_setup import (
    ClusterOptions,
    SchedulerOptions,
    check_names,
    threads_for,
    time_of,
    volume_controller,
    write_cluster,
)

if TYPE_CHECKING:
    from moorage.controllers import ClusterControllers
    from moorage.engine.framework.group_index import PodGroups
    from moorage.engine.scheduler.schedule_pods import Preemption
    from moorage.engine.scheduler.scheduler_metrics import SchedulerMetrics

    from .examine import Examination, Feasibility

NOTHING = Cluster()


class PodScheduler:
    """Schedules the pods of a cluster: verbs on a `SchedulerState`, its `context`.

    Its parameters and attributes are those of `Scheduler`, which adds what rooms above this one do.
    """

    def __init__(
        self, cluster: Cluster | ObjectClient = NOTHING, **options: Unpack[SchedulerOptions]
    ) -> None:
        if not isinstance(cluster, Cluster) and not hasattr(cluster, "follow"):
            kind = type(cluster).__name__
            raise TypeError(f"a scheduler takes a Cluster, as `load` returns it, or a client, not {kind}")
        check_names(options, "a scheduler")
        self.options = _options_of(cluster, options)
        gates, now = self.options.gates, self.options.clock or time.monotonic
        clock = time_of(cluster if isinstance(cluster, Cluster) else None)
        client = ObjectStore(clock) if isinstance(cluster, Cluster) else cluster
        cache = SchedulerCache(options.get("ttl"), now, pod_gates(gates, gates.release))
        profiles = options.get("profiles") or (options.get("profile") or default_profile(gates),)
        with self._assembled(SchedulerState(cache, client, self.options, clock), profiles):
            if options.get("measured"):
                self.measure()
            if options.get("synced", True) or isinstance(cluster, Cluster):
                self.sync()
                if isinstance(cluster, Cluster):
                    write_cluster(self.context, self.sleeping_controllers, cluster)
            else:
                self.informers.begin()

    @contextmanager
    def _assembled(self, context: SchedulerState, profiles: Sequence[Profile]) -> Iterator[None]:
        """Make the parts of the scheduler, and the controllers beside it. An exception in the block takes the
        plugins from it."""
        options, store, clock = self.options, context.store, self.options.clock
        volumes = volume_controller(context, options)
        with context.assembled(profiles, volumes):
            self.context, self.client, self.store, self.cache = context, context.client, store, context.cache
            self.informers, self.handle, self.engines = context.informers, context.handle, context.engines
            self.queue, self.pods, self.bindings = context.queue, context.pods, context.bindings
            self.volumes, self.metrics = volumes, context.metrics
            self._advanced = self.cache.clock()  # what it has shown at the last call of `advance`
            engine = context.rotation.engines[0]
            self.profile, self.plan, self.placer = engine.profile, engine.plan, engine.placer
            if store is not None:
                server_of(store)  # it admits what controllers and the scheduler write
            self.sleeping_controllers: SleepingControllers | None = None
            if options.owns_store and options.controllers and store is not None:
                now = clock if clock is not None and options.wait is None else volumes.now
                times = options.pod_times
                times_of = times if callable(times) else lambda _: times or controllers.PodTimes()
                around = ControlledCluster(
                    store, self.informers, self.cache, now, times_of, options.gates, options.suspended
                )
                self.sleeping_controllers = context.controllers = SleepingControllers(around)
            yield

    @property
    def controllers(self) -> ClusterControllers | None:
        """The simulated controllers, made at the first use; None where others run them."""
        return None if self.sleeping_controllers is None else self.sleeping_controllers.wake()

    def __repr__(self) -> str:
        with self.cache.lock:
            placed, waiting = len(self.cache.state.ledger), len(self.queue)
            nodes = sum(node is not None for node in self.table.objects)
        return f"<Scheduler: {nodes} nodes, {placed} pods on nodes, {waiting} waiting>"

    def transaction(self) -> Bracket[Transaction]:
        """Undo the changes of the block at its end, unless the transaction is committed and no exception was
        raised.

        The cache, the store, the queue, nominations, waiting pods, and volumes are restored. A plugin with
        the methods `save()` and `undo(saved)` takes part as well; if a signal breaks its `undo` off, that is
        called again. Transactions nest. Writes of others to the store during the block are undone too; their
        watches report that.

        Returns
        -------
        context manager
            Its value is the Transaction.

        Raises
        ------
        MoorageError
            The client is no ObjectStore, so its changes cannot be undone; or pods are being bound.
        """
        return self.cache.transaction(self.context)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Scheduler cannot be pickled: send its Cluster, and make a Scheduler of it there")

    def fork(self, clock: Callable[[], float] | None = None) -> Self:
        """Return an independent copy of the scheduler: its cache, store, queue, nominations, pods that wait
        on Permit, and volumes. Objects are shared.

        Each of the two takes the decisions that it would take without the other, also in a thread of its own.
        The copy has no watches of others on its store, and the same extenders. No other thread may use this
        scheduler or its store meanwhile.

        Parameters
        ----------
        clock : callable, optional
            The clock of the copy, if this scheduler has one: both show the same time now.

        Raises
        ------
        MoorageError
            The client is no ObjectStore, so it cannot be copied; or pods are being bound.
        InputError
            A plugin that was passed as an instance keeps state, and has no method `clone`. Plugins of a
            configuration are made anew; one with the methods `save()` and `undo(saved)` receives the state of
            the other.
        """
        store = self.context.copyable_store()
        profiles = [engine.profile for engine in self.engines.values()]
        out = type(self).__new__(type(self))
        cache, out.options = self.cache.fork(), self.options
        if clock is not None:
            cache.clock = checked(clock)
            out.options = replace(out.options, clock=cache.clock)
        there = time_of(None)
        there.now = self.context.time.now
        context = SchedulerState(cache, store.clone(there), out.options, there)
        with out._assembled(context, profiles):
            context.copy_from(self.context)
        return out

    @typed
    def save(self, path: str | Path) -> None:
        """Write the objects of the scheduler's store to a file as they are now, for `load` and every command.
        A pod that is only assumed has no node there.

        Parameters
        ----------
        path : str or Path
            Its suffix decides the format, as for `moorage.kube.write`.

        Raises
        ------
        MoorageError
            The client is no ObjectStore (write its objects with ``moorage dump``), or pods are being bound.
        OSError
            The file cannot be written.
        """
        with self.context.lock:
            self.sync()
            store = self.context.copyable_store()
            objects = [obj for kind in store.changed_since(-1) for obj in store.list(kind)[0]]
            order = {name: at for at, name in enumerate(self.context.view_order())}

        def written(obj: Object) -> tuple[int, int]:
            """Nodes first, in the order in which cycles see them; then what was written first."""
            at = order[obj.name] if isinstance(obj, Node) else len(order)
            return at, int(obj.metadata.resource_version)

        objects.sort(key=written)
        write(path, objects)

    def measure(self) -> SchedulerMetrics:
        """Count and time what runs do from now on, with kube-scheduler's metrics. A fork is not measured.

        Returns
        -------
        SchedulerMetrics
            The same one at each call.
        """
        if self.metrics is None:
            from moorage.engine.scheduler.scheduler_metrics import SchedulerMetrics

            engines = self.context.rotation.engines
            self.metrics = self.context.metrics = SchedulerMetrics(self.handle, self.queue, engines)
        return self.metrics

    def sync(self) -> bool:
        """Process all new events of the store, and have the simulated controllers do what follows from them.

        Returns
        -------
        bool
            Whether there were any. Inside a transaction that cannot undo writes, events are left for later.

        Raises
        ------
        InputError
            A node, or a pod on a node, has something else where a quantity belongs.
        """
        return self.context.sync()

    @property
    def plugin_errors(self) -> Mapping[tuple[str, str], int]:
        """Number of exceptions by (plugin name, exception type name); answers that were refused count as
        PluginError."""
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
            return self.context.groups

    # ---- one pod -------------------------------------------------------------------------------------------

    def examine(self, pod: Source) -> Examination:
        """Filter every node and score all feasible nodes, without sampling and without placing the pod.
        Extenders are not called.

        Parameters
        ----------
        pod : Pod, or a dict, text or object of a client that `load` reads as one
            In the cache or not.

        Raises
        ------
        InputError
            `load` would refuse the pod.
        """
        pod = room.given_objects.pod_of(self.client, pod)
        check_readable((pod,))
        with self.cache.lock:
            self.cache.check_whole()
            return room.examine_nodes(self.context.engine_for(pod), pod, self.context.view_order())

    def can_schedule_pod(self, pod: Source, *, limit: int | None = None) -> Feasibility:
        """Return the nodes on which a pod fits now, or why it fits on none. Nothing is placed and no pod is
        evicted.

        Parameters
        ----------
        pod : Pod, or a dict, text or object of a client that `load` reads as one
            In the cache or not. Extenders are not called.
        limit : int, optional
            How many nodes are enough: the search ends with them, and they are not scored. By default all.

        Returns
        -------
        Feasibility
            True where the pod fits.

        Raises
        ------
        InputError
            `load` would refuse the pod.
        TypeError
            `limit` is no int.
        ValueError
            `limit` is less than 1.
        """
        pod = room.given_objects.pod_of(self.client, pod)
        if limit is not None:
            if not isinstance(limit, int):
                raise TypeError(f"limit is an int, not {type(limit).__name__}")
            if limit < 1:
                raise ValueError(f"limit must be at least 1, not {limit}")
            check_readable((pod,))
            with self.cache.lock:
                self.cache.check_whole()
                if nodes := room.first_feasible(self.context.engine_for(pod), pod, limit):
                    return room.Feasibility(nodes)
        seen = self.examine(pod)
        return room.Feasibility(
            tuple(seen.feasible[:limit]), seen.error or ("" if seen.feasible else seen.fit_error)
        )

    def schedule_one(self, pod: Source) -> Decision:
        """Schedule one pod in a cycle of its own, with its trace; see `schedule_pods.schedule_one`.

        Parameters
        ----------
        pod : Pod, or a dict, text or object of a client that `load` reads as one
            Not in the cache. If it has claims, or an out-of-tree plugin or an extender takes part, it is
            bound, unless it waits on Permit, and must be in the store; an `ObjectStore` gets it.

        Raises
        ------
        CacheError
            The pod is in the cache.
        InputError
            `load` would refuse the pod.
        """
        pod = room.given_objects.pod_of(self.client, pod)
        try:
            return placing.schedule_pods.schedule_one(self.context, pod)
        except ValueError:
            check_readable((pod,))
            raise

    # ---- many pods -----------------------------------------------------------------------------------------

    def run(self) -> ScheduleResult:
        """Schedule every pending pod of the cluster in queue order: higher priority first, then older.

        Pods that failed before are tried too. A failed pod is tried again after an event that may make it
        schedulable.

        Returns
        -------
        ScheduleResult
            Its `warnings` say what is ignored of the pod groups in an `ObjectStore`.
        """
        self.context.drop_unused_classes()
        return Loop(self.context).all(warns=True)

    def schedule_pods(
        self, pods: Sequence[Source], *, dry_run: bool = False, stop_on_failure: bool = False
    ) -> ScheduleResult:
        """Schedule pods in the given order, and assume each on its node: it takes room there, until `bind`
        makes it real or `release` takes it back.

        Parameters
        ----------
        pods : sequence of Pod, or of dicts, texts or objects of a client that `load` reads as pods
            Not in the cache. A pod that has claims, or in which an out-of-tree plugin or an extender takes
            part, is bound, unless it waits on Permit, and must be in the store; an `ObjectStore` gets it.
        dry_run : bool
            Whether everything is undone at the end, so that only the result is left.
        stop_on_failure : bool
            Whether the result ends with the first pod that fits nowhere; later pods are not tried.

        Returns
        -------
        ScheduleResult
            In the order of the pods.

        Raises
        ------
        CacheError
            A pod is in the cache or appears twice; no pod is placed then.
        InputError
            `load` would refuse a pod; no pod is placed then.
        """
        pods = room.given_objects.pods_of(self.client, pods)
        if not dry_run:
            return placing.schedule_pods.schedule_pods(self.context, pods, stop_on_failure)
        with self.cache.transaction():
            return placing.schedule_pods.schedule_pods(self.context, pods, stop_on_failure)

    @typed
    def schedule_workload(self, pod_group: Source, pods: Sequence[Source] | None = None) -> ScheduleResult:
        """Place the pods of a group together: all that fit, if they reach the group's minimum with the
        members that have a node. Otherwise nothing changes. No pod is evicted. The pods are assumed, as by
        `schedule_pods`.

        Parameters
        ----------
        pod_group : PodGroup, CompositePodGroup, dict, text, or anything else that `load` reads
            Or the name of one in the cluster, such as ``podgroup/train`` or ``podgroup/NAMESPACE/train``. It
            is placed as a group also if the gates of groups are off.
        pods : sequence of Pod, dict, text, or anything else that `load` reads, optional
            In the order to try; of a composite group, in that order within each of its groups.
            By default the members without a node, in the order in which a run pops them.

        Returns
        -------
        ScheduleResult
            In the order of the pods. Its `warnings` say if a topology is ignored because its gate is off.

        Raises
        ------
        CacheError
            A pod is in the cache or appears twice.
        InputError
            `load` would refuse the group or a pod.
        MoorageError
            The pods ask for different schedulers.
        NotFoundError
            There is no group of this name.
        TypeError
            They are no group or no pods.
        """
        given = None if pods is None else room.given_objects.pods_of(self.client, pods)
        return placing.schedule_pods.schedule_workload(
            self.context, room.given_objects.group_like(self.client, pod_group), given
        )

    def bind(self, pods: ScheduleResult | Sequence[Source]) -> list[Pod]:
        """Make real what `schedule_pods`, `schedule_workload` or `schedule_by_template` has placed: bind pods
        to the nodes where they are assumed.

        Pods that are in the store are bound there; others are created there with their node. Pods that are
        bound already stay so, and those that wait on Permit go on waiting. In an `ObjectStore`, all are bound
        or none.

        Parameters
        ----------
        pods : ScheduleResult, or sequence of pods as `schedule_pods` takes them
            Of a result, the pods that have a node.

        Returns
        -------
        list of Pod
            The bound pods, as they are in the store.

        Raises
        ------
        CacheError
            A pod is on no node.
        ApiError
            The client refused a pod. Pods before it are bound, unless the client is an `ObjectStore`.
        """
        return placing.schedule_pods.bind_pods(self.context, self._placed(pods))

    def release(self, pods: ScheduleResult | Sequence[Source]) -> None:
        """End pods on their nodes, so that their room is free: what `schedule_pods`, `schedule_workload` or
        `schedule_by_template` has assumed is taken back, and bound pods are deleted.

        An assumed pod that is in the store is pending again; delete it there if it has ended.

        Parameters
        ----------
        pods : ScheduleResult, or sequence of pods as `schedule_pods` takes them
            Of a result, the pods that have a node.

        Raises
        ------
        CacheError
            A pod is on no node; no pod is released then.
        ApiError
            The client refused to delete a pod.
        """
        placing.schedule_pods.release_pods(self.context, self._placed(pods))

    def _placed(self, pods: ScheduleResult | Sequence[Source]) -> ScheduleResult | Sequence[Pod]:
        return pods if isinstance(pods, ScheduleResult) else room.given_objects.pods_of(self.client, pods)

    @typed
    def preempt_pods(self, pods: Sequence[Source], offsets: Sequence[int] = ()) -> Preemption:
        """Place pods at once, with evictions where they fit nowhere; see `schedule_pods.preempt_pods`.

        Parameters
        ----------
        pods : sequence of Pod, or of dicts, texts or objects of a client that `load` reads as pods
            Not in the cache.
        offsets : sequence of int, optional
            For each pod, the index at which dry runs begin among the nodes where eviction might help; 0 by
            default.

        Returns
        -------
        Preemption
            The handle of a transaction, to be committed or undone.
        """
        return placing.schedule_pods.preempt_pods(
            self.context, room.given_objects.pods_of(self.client, pods), offsets
        )

    @typed
    def schedule_by_template(self, template: Source, n: int, first: int = 0) -> ScheduleResult:
        """Place up to `n` replicas of a template, and assume them in the cache.

        Replica number i, from `first` on, is named ``<generateName><i>``, or ``<name>-<i>`` without a
        generateName; its UID follows from the name. The names must not be in use. Placement ends at the first
        replica that fits nowhere. If all plugins of the profile are in the core, nothing is written to the
        store; otherwise each replica that is placed is created and bound there.

        Parameters
        ----------
        n : int
            0 to 2^31 - 1.
        first : int, optional
            Ordinal of the first replica.

        Returns
        -------
        ScheduleResult
            The rows of the placed replicas; `failures` has the first replica that fits nowhere, by its index.

        Raises
        ------
        ValueError
            `n` or `first` is out of range.
        CacheError
            A name is in use, or the template has none.
        """
        return placing.schedule_pods.schedule_by_template(
            self.context, room.given_objects.pod_of(self.client, template, "template"), n, first
        )

    @typed
    def advance(self, now: float | None = None) -> ScheduleResult:
        """Continue the pods whose wait on Permit has ended, by a plugin or a timeout, and the binding cycles
        that are due.

        Parameters
        ----------
        now : float, optional
            The time on the scheduler's clock, in seconds; by default what the clock shows. It may be later,
            so that what waits until then ends, and is no number of seconds to go on by.

        Returns
        -------
        ScheduleResult
            The pods that were bound or failed, and in `waiting` and `binding` those that are not yet bound.

        Raises
        ------
        ValueError
            The time is past: before the clock's time at the last call, or at first when the scheduler was
            made, or when a pod began to wait.
        """
        loop, shown = Loop(self.context), self.cache.clock()
        began = (each.waiting.began for each in self.bindings.waiting.values() if each.waiting is not None)
        past = max((self._advanced, *began))
        now = shown if now is None else now
        if now < past:
            text = f"the scheduler's clock has shown {past:.12g} s already, so {now:.12g} s is past"
            raise ValueError(f"{text}; advance takes a time, such as clock() + 10, and not how long to wait")
        self._advanced = shown
        if self.bindings.running:
            self.volumes.reach(now)
        with loop.recording_evictions():
            loop.resume(now)
        loop.result.waiting, loop.result.binding = self.bindings.progress()
        self.sync()
        return loop.result.end_run()


def _options_of(cluster: Cluster | ObjectClient, given: SchedulerOptions) -> ClusterOptions:
    """Return the options of a scheduler from its keyword arguments.

    Raises
    ------
    ValueError
        The tie-break is unknown.
    """
    classes = {"PodTimes": controllers.PodTimes} if "pod_times" in given else {}
    for name in given:
        annotation = SchedulerOptions.__annotations__[name].__forward_arg__
        argument(name, given[name], annotation, classes)  # type: ignore[literal-required]
    tie_break, config = given.get("tie_break", "go-heap"), given.get("config")
    if tie_break not in TIE_BREAKS:
        raise ValueError(f"tie_break must be one of {', '.join(TIE_BREAKS)}, not {tie_break!r}")
    release = release_named(given.get("kubernetes_version", DEFAULT))
    gates, wait = all_gates(given.get("feature_gates"), release), given.get("wait")
    clock = None if (clock := given.get("clock")) is None else checked(clock)
    return ClusterOptions(
        configuration=None if config is None else read_configuration(config, gates),
        registry=given.get("registry"),
        gates=gates,
        percentage=given.get("percentage_of_nodes_to_score"),
        tie_break=tie_break,
        seed=given.get("seed", 0),
        clock=clock,
        wait=wait,
        threads=given.get("threads"),
        binding_threads=threads_for(cluster, given.get("binding_threads"), clock or wait),
        owns_store=isinstance(cluster, Cluster),
        controllers=given.get("controllers", True),
        pod_times=given.get("pod_times"),
        fail_fast=given.get("fail_fast", False),
        suspended=tuple(cluster.suspended) if isinstance(cluster, Cluster) else (),
    )
