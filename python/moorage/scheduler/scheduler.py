"""Scheduler: cycles over a cluster, one pod at a time or all pending pods in queue order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from moorage._core.decide.decider import TieBreak
from moorage._core.state.node_table import NodeTable
from moorage.cache import SchedulerCache, Transaction
from moorage.framework.configuration import feature_gates as all_gates
from moorage.framework.configuration import pod_gates
from moorage.framework.plugin.events import ASSIGNED_POD_DELETE
from moorage.framework.plugin.group_index import PodGroups
from moorage.framework.plugin.nominator import PodNominator
from moorage.framework.profiles.plugin_registry import Registry
from moorage.framework.profiles.profile import Profile
from moorage.objects.model.cluster import Cluster
from moorage.objects.model.pod import Pod
from moorage.objects.model.pod_group import PodGroup
from moorage.plugins.registry import ConfigurationSource, default_profile, read_configuration
from moorage.plugins.scheduling_gates import SchedulingGates
from moorage.store import InformerFactory, ObjectClient, ObjectStore

from .checked_clock import checked
from .cycle.engines import (
    Rotation,
    disowned_on_error,
    make_engines,
    make_handle,
    placements_percentage,
)
from .cycle.examine import examine
from .cycle.opportunistic_batching import Batching
from .cycle.results import (
    Examination,
    Failure,
    Feasibility,
    ScheduleResult,
)
from .event_handlers import PodHandler, watch
from .explain.explain_pod import explain
from .explain.explanation import Explanation
from .groups.place_group import schedule_workload
from .placing.binding_cycle import BindingCycles, threads_for
from .placing.preempt_pods import Preemption, preempt_pods
from .placing.schedule_pods import schedule_by_template, schedule_pods
from .queueing import make_queue, newest_clock
from .records import Records
from .runs import TERMINATING, Run
from .scheduling_context import SchedulingContext
from .volume_controllers import Wait, volume_controller

TIE_BREAKS = {"first": TieBreak.FIRST, "random": TieBreak.RANDOM, "go-heap": TieBreak.GO_HEAP}
NOTHING = Cluster()


class Scheduler:
    """Decides for the pods of a cluster as kube-scheduler v1.36.2 with one worker does.

    Parameters
    ----------
    cluster : Cluster or ObjectClient, optional
        Objects, which go into a store of the scheduler's own (`client`), or a store that others write too.
        Nodes and bound pods enter the cache through informers; pods without a node are what `run` places and
        binds.
    profile : Profile, optional
        Default: kube-scheduler's own.
    profiles : sequence of Profile, optional
        Several instead, each for the pods that ask for its scheduler name; they share the queue order.
    config : path, bytes, mapping or KubeSchedulerConfiguration, optional
        A ``kubescheduler.config.k8s.io/v1`` configuration instead of profiles; see `load_configuration`.
    feature_gates : mapping of str to bool, optional
        On top of the defaults of v1.36. With profiles, which say themselves what runs, only those have an
        effect that say how pods are read (PodLevelResources, InPlacePodLevelResourcesVerticalScaling,
        TaintTolerationComparisonOperators), OpportunisticBatching, and
        GenericWorkload or GangScheduling: pods of a `PodGroup` are tried together. With
        WorkloadAwarePreemption besides, pods are evicted for a group that fits nowhere.
    registry : Registry, optional
        Plugins that the configuration may name besides the in-tree ones; by default those that installed
        packages offer (`installed_plugins`).
    percentage_of_nodes_to_score : int, optional
        0 (adaptive, the default) to 100, in place of the configuration's; a profile's own value goes first.
    tie_break : {"go-heap", "first", "random"}
        Among nodes of equal total: the one that Go's heap puts on top, as kube-scheduler v1.35 and v1.36
        choose (parity, the default); the first found; a seeded random one, as up to v1.34.
    seed : int
        For the random tie-break.
    ttl : float, optional
        When assumed pods expire, see `SchedulerCache`; never by default.
    clock : callable, optional
        Seconds: for `ttl`, for pods that wait on Permit, for the half second that a list of opportunistic
        batching is good for, and for the queue. By default time passes for the first two, a list does not
        age, and pods come to the queue when they were created (`CreationClock`). One that raises, or tells no
        finite time, is a ClockError; pods that a run has popped then are in the queue again.
    wait : callable, optional
        Lets so many seconds pass while pods are being bound and no other one is left to decide about. By
        default time passes. With a clock and no `wait`, nobody waits: such pods are in
        `ScheduleResult.binding`, and `advance` goes on with them. In a store of the scheduler's own, waiting
        takes no time, and claims are bound and volumes made at once (`SimulatedController`).
    binding_threads : int, optional
        How many pods' PreBind and Bind are at work at a time in threads, beside the decisions about others.
        For plugins and API servers that take real time: not with a Cluster, a clock or `wait`. By default
        none over an `ObjectStore`, else 8. A plugin that only waits needs no thread (`PreBindPlugin`).
    fail_fast : bool
        An exception in a plugin ends the run and is raised, for finding its cause. By default it fails the
        pod that the plugin was asked about, is logged once per plugin and type with its traceback, and is
        counted (`plugin_errors`).
    group_cycle_bugs : bool
        Whether pod group cycles have two bugs of v1.36.2. The affinity terms of pods placed earlier in a
        cycle matter to the later ones only where they are on nodes that had pods with such terms before; and
        a group that fails leaves the rotation and the node list of its cycle. Without, all terms matter, and
        a group that fails leaves no trace.

    Attributes
    ----------
    context : SchedulingContext
        What its cycles share.
    """

    def __init__(
        self,
        cluster: Cluster | ObjectClient = NOTHING,
        *,
        profile: Profile | None = None,
        profiles: Sequence[Profile] = (),
        config: ConfigurationSource | None = None,
        feature_gates: Mapping[str, bool] | None = None,
        registry: Registry | None = None,
        percentage_of_nodes_to_score: int | None = None,
        tie_break: str = "go-heap",
        seed: int = 0,
        ttl: float | None = None,
        clock: Callable[[], float] | None = None,
        wait: Wait | None = None,
        binding_threads: int | None = None,
        fail_fast: bool = False,
        group_cycle_bugs: bool = True,
    ) -> None:
        if tie_break not in TIE_BREAKS:
            raise ValueError(f"tie_break {tie_break!r}: one of {', '.join(TIE_BREAKS)}")
        clock, gates = clock and checked(clock), all_gates(feature_gates)
        configuration = None if config is None else read_configuration(config, gates)
        self.cache = SchedulerCache(ttl, clock or time.monotonic, pod_gates(gates))
        self.client = ObjectStore(newest_clock(cluster)) if isinstance(cluster, Cluster) else cluster
        self.informers = InformerFactory(self.client)
        nominator = PodNominator(self.is_waiting)
        self.volumes = volume_controller(cluster, self.client, self.sync, wait, clock)
        setting = configuration, tie_break, seed, self.volumes, gates
        self.handle = make_handle(self.cache, self.client, self.informers, nominator, *setting)
        self.handle.plugin_errors.fail_fast = fail_fast
        signs = gates["OpportunisticBatching"] and not self.handle.extenders
        batching = Batching(signs, clock or (lambda: 0.0))
        its = registry, TIE_BREAKS[tie_break], percentage_of_nodes_to_score, seed, batching
        one_or_more = profiles or (profile or default_profile(gates),)
        engines = make_engines(self.handle, configuration, one_or_more, *its)
        with disowned_on_error([engine.profile for engine in engines]):
            self.engines = {engine.profile.scheduler_name: engine for engine in engines}
            rotation = Rotation(list(self.engines.values()))
            self.cache.participants += (rotation, batching)
            self.profile, self.plan, self.placer = engines[0].profile, engines[0].plan, engines[0].placer
            threads = threads_for(cluster, binding_threads, clock or wait)
            self.bindings = BindingCycles(self.client, self.cache.clock, self.volumes, threads)
            self.queue, ages = make_queue(engines, configuration, gates, clock, nominator)
            self.pods = PodHandler(self.handle, self.queue, self._is_ours, ages)
            shared = self.cache, self.handle, rotation, self.engines, self.bindings, Records(self)
            self.context = SchedulingContext(*shared, self.sync, self.pods.current, self.finish_binding)
            self.context.group_cycle_bugs = group_cycle_bugs
            self.context.percentage_of_placements = placements_percentage(configuration)
            self._follow(cluster)

    def _follow(self, cluster: Cluster | ObjectClient) -> None:
        """Have informers report to the cache and the queue; write a cluster to the scheduler's own store."""
        watch(self.informers, self.cache, self.queue, self.pods, self._forget_failures)
        self.sync()
        if isinstance(cluster, Cluster) and isinstance(self.client, ObjectStore):
            # Only now, so that the objects arrive in their order and not in that of a list.
            self.client.create_many((*cluster.namespaces, *cluster.nodes, *cluster.others, *cluster.pods))
            self.sync()

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Whatever is done inside is undone at the end, unless the transaction is committed and nothing was
        raised: in the cache, in the store, in the queue, with nominations, pods that wait, and volumes. A
        plugin with the methods `save()` and `undo(saved)` takes part as well. Transactions nest.

        What others write to the store meanwhile is undone, too; they hear of it by their watches.

        Raises
        ------
        MoorageError
            Over a client that is no ObjectStore, where nothing can be taken back; and while pods are being
            bound.
        """
        with self.cache.transaction() as transaction:
            self.cache.enlist(self.context.records)
            yield transaction

    def _forget_failures(self, group: PodGroup) -> None:
        """A pod group changed: other pods may be evicted for it."""
        for engine in self.engines.values():
            engine.search.states.open_scope()

    def is_waiting(self, pod: Pod) -> bool:
        """Whether a pod is there and has no node, as far as informers know.

        Parameters
        ----------
        pod : Pod

        Returns
        -------
        bool
        """
        held = self.pods.current(pod)
        return held is not None and not held.spec.node_name and held.metadata.uid == pod.metadata.uid

    def _is_ours(self, pod: Pod) -> bool:
        return not pod.spec.scheduler_name or pod.spec.scheduler_name in self.engines

    def sync(self) -> bool:
        """Take over everything that the store has to tell; whether there was anything."""
        heard = False
        if self.cache.transactions:
            if not self.context.records.can_undo:
                return False  # nothing is heard before the end of the transaction
            self.context.enlist()
        try:
            if self.bindings.freed:
                self.announce_freed()
            while self.informers.run_once():
                heard = True
        except BaseException:
            self.repair_queue()
            raise
        return heard

    def repair_queue(self) -> None:
        """An exception may have ended an operation halfway: have every pod in the queue that waits."""
        self.pods.repair()

    def announce_freed(self) -> None:
        """A pod whose binding failed is for others as if it had been deleted (handleBindingCycleError)."""
        freed = self.bindings.freed
        while freed:
            self.queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_DELETE, freed.pop(0), None)

    @property
    def plugin_errors(self) -> Mapping[tuple[str, str], int]:
        """How often plugins have raised, by the name of the plugin and of the exception's type."""
        return dict(self.handle.plugin_errors.counts)

    @property
    def table(self) -> NodeTable:
        """The node table: ``table.allocatable["cpu"]``, ``table.requested[...]``, ``table.names`` by row."""
        return self.cache.state.table

    # ---- one pod -------------------------------------------------------------------------------------------

    def examine(self, pod: Pod) -> Examination:
        """Filter every node and score all feasible ones, without sampling and without placing the pod.
        Extenders are not asked.

        Parameters
        ----------
        pod : Pod
            In the cache or not.

        Returns
        -------
        Examination
        """
        with self.cache.lock:
            return examine(self.context.engine_for(pod), pod, self.context.view_order())

    def can_schedule_pod(self, pod: Pod) -> Feasibility:
        """Whether a pod fits now, on which nodes, or why on none. Nothing is placed, and nobody is evicted.

        Parameters
        ----------
        pod : Pod
            In the cache or not. Extenders are not asked about it.

        Returns
        -------
        Feasibility
            True where the pod fits.
        """
        seen = self.examine(pod)
        return Feasibility(tuple(seen.feasible), seen.error or ("" if seen.feasible else seen.fit_error))

    def explain(self, pod: Pod | str) -> Explanation:
        """Explain where a pod (or the one of this ``namespace/name``) would go now, or why nowhere and what
        would change that. A pod on a node is explained as if it were not; nothing that is tried stays.
        Other pending pods are ignored; `explain_in_turn` has those placed that come before it in a run.
        As in a run, what can be bound of the volumes in a store of the scheduler's own is bound first.
        Extenders are not asked.

        Parameters
        ----------
        pod : Pod or str

        Returns
        -------
        Explanation

        Raises
        ------
        NotFoundError
            There is no pod of this name.
        """
        self.volumes.settle()
        if isinstance(pod, str):
            namespace, _, name = pod.rpartition("/")
            pod = self.client.get(Pod, name, namespace)
        return explain(self.context.engine_of(pod), pod, self.not_ours(pod))

    @property
    def groups(self) -> PodGroups:
        """What is known of pod groups."""
        return self.handle.shared(PodGroups)

    def finish_binding(self, pods: Sequence[Pod]) -> dict[str, Failure]:
        """Let time pass until these pods are being bound no longer, as far as it is for the scheduler to let
        it pass; those that failed, by ``namespace/name``.

        Parameters
        ----------
        pods : sequence of Pod

        Returns
        -------
        dict of str to Failure
        """
        run = Run(self)
        while any(map(self.bindings.is_running, pods)) and run.let_time_pass():
            pass
        return run.result.unschedulable

    # ---- many pods -----------------------------------------------------------------------------------------

    def run(self) -> ScheduleResult:
        """Place every pending pod of the cluster, in queue order: higher priority first, then older. Those
        that failed before are tried too, and all once more whenever something happens that may help them."""
        return Run(self).all()

    def schedule_pods(self, pods: Sequence[Pod]) -> ScheduleResult:
        """Decide for pods in the given order, and assume each on its node.

        Parameters
        ----------
        pods : sequence of Pod
            Not in the cache. Those that plugins outside the core or extenders have a say in are bound, and
            must be in the store.

        Returns
        -------
        ScheduleResult

        Raises
        ------
        CacheError
            For a pod that is in the cache, or comes twice: then none is placed.
        """
        return schedule_pods(self.context, pods)

    def schedule_workload(self, pod_group: PodGroup, pods: Sequence[Pod] | None = None) -> ScheduleResult:
        """Place the pods of a group at once, as a run would: as many as fit if, with those that have a node,
        they make up the group's minimum; else none, and nothing has changed. Nobody is evicted.

        Parameters
        ----------
        pods : sequence of Pod, optional
            In the order to try; by default those members without a node that informers know, as a run pops
            them.

        Raises
        ------
        CacheError
            For a pod that is in the cache, or comes twice.
        MoorageError
            Where pods ask for different schedulers.
        """
        return schedule_workload(self.context, pod_group, pods)

    def preempt_pods(self, pods: Sequence[Pod], offsets: Sequence[int] = ()) -> Preemption:
        """Place pods at once, evicting whom they must; see `scheduler.placing.preempt_pods`.

        Parameters
        ----------
        pods : sequence of Pod
        offsets : sequence of int, optional

        Returns
        -------
        Preemption
            The handle of a transaction, to be committed or undone.
        """
        return preempt_pods(self.context, pods, offsets)

    def schedule_by_template(self, template: Pod, n: int, first: int = 0) -> ScheduleResult:
        """Place up to `n` pods that are equal to a template, and assume them in the cache.

        Pod number i, from `first` on, is called ``<generateName><i>``, or ``<name>-<i>`` where there is no
        generateName; its UID follows from that. The names must not be in use. It ends before the first pod
        that does not fit, of which the result has the failure. The store hears nothing of pods whose profile
        is all in the core.

        Parameters
        ----------
        template : Pod
        n : int
            0 to 2^31 - 1.
        first : int
            The ordinal of the first pod.

        Returns
        -------
        ScheduleResult
            The rows of the placed pods; `failures` has the place of the first other one, if there is one.

        Raises
        ------
        ValueError
            `n` is no int32, or less than 0.
        CacheError
            A name is in use, or the template has none.
        """
        return schedule_by_template(self.context, template, n, first)

    def advance(self, now: float | None = None) -> ScheduleResult:
        """Go on with the pods whose waiting on Permit has ended, by a plugin or by a timer that is due at
        `now` (seconds; default: the clock), and with those that are being bound and wait no longer. The
        result tells what became of them, who waits still, and who is being bound still.

        Parameters
        ----------
        now : float, optional
            Seconds.

        Returns
        -------
        ScheduleResult
        """
        run = Run(self)
        if self.bindings.running:
            self.volumes.reach(self.cache.clock() if now is None else now)
        run.advance(self.cache.clock() if now is None else now)
        run.result.waiting = {one.pod.key: one.node for one in self.bindings.waiting.values()}
        running = [one.started for one in self.bindings.running.values()]
        run.result.binding = {one.pod.key: one.node for one in running}
        self.sync()
        return run.result.end_run()

    def not_ours(self, pod: Pod) -> str:
        """Why a pod is not this scheduler's to place now; "" where it is.

        Parameters
        ----------
        pod : Pod

        Returns
        -------
        str
        """
        if pod.metadata.deletion_timestamp:
            return TERMINATING
        if pod.spec.scheduler_name and pod.spec.scheduler_name not in self.engines:
            return "other scheduler"
        status = self.context.engine_of(pod).framework.run_pre_enqueue_plugins(pod)
        if status is None:
            return ""
        return "gated" if status.plugin == SchedulingGates.name else f"{status.plugin}: {status.message()}"
