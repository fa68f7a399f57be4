"""Scheduler: cycles over a cluster, one pod at a time or all pending pods in queue order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace as update
from itertools import groupby, repeat

import numpy as np
import numpy.typing as npt

from moorage._core.chooser import TieBreak
from moorage._core.node_table import NodeTable
from moorage.cache import SchedulerCache
from moorage.errors import CacheError
from moorage.framework.build import check_profiles
from moorage.framework.configuration import feature_gates as all_gates
from moorage.framework.handle import FrameworkHandle
from moorage.framework.interface import NominatingInfo
from moorage.framework.nominator import PodNominator
from moorage.framework.profile import Profile
from moorage.framework.registry import Registry
from moorage.framework.runtime import Target, target_of
from moorage.objects.cluster import Cluster
from moorage.objects.node import Namespace, Node
from moorage.objects.pod import Pod
from moorage.objects.policy import PodDisruptionBudget
from moorage.objects.workload import ReplicaSet, ReplicationController, Service, StatefulSet
from moorage.plugins.registry import ConfigurationSource, all_plugins, default_profile, read_configuration
from moorage.plugins.scheduling_gates import SchedulingGates
from moorage.preemption.handle import preempts
from moorage.store import InformerFactory, ObjectClient, ObjectStore

from .batch import Batches, ScheduleResult, joined
from .batching import Batching
from .binding_cycle import BindingCycles, Started
from .engine import Engine, Rotation, configured_engines, profile_engines
from .event_handlers import NamespaceHandler, NodeHandler, PodHandler, WorkloadHandler
from .examine import examine
from .explain import explain
from .explanation import Explanation
from .preempt_pods import Preemption, preempt
from .queue_order import newest, sort_as_queued
from .results import Decision, Examination, Failure, Result
from .settling import bind_placed, take_nominated
from .template_pods import TemplateRun, schedule_by_template
from .unbuilt import UnbuiltUses

TIE_BREAKS = {"first": TieBreak.FIRST, "random": TieBreak.RANDOM, "go-heap": TieBreak.GO_HEAP}
WORKLOADS = (Service, ReplicationController, ReplicaSet, StatefulSet)
NOTHING = Cluster()
TERMINATING = "terminating"
CANNOT_BE_ASSUMED = "pod {} is in the cache, so can't be assumed"


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
        On top of the defaults of v1.36. Without a configuration only PodLevelResources and
        OpportunisticBatching (`moorage.scheduler.batching`) have an effect.
    registry : Registry, optional
        Plugins that the configuration may name besides the in-tree ones; by default those that installed
        packages offer (`installed_plugins`).
    percentage_of_nodes_to_score : int, optional
        0 (adaptive, the default) to 100, in place of the configuration's; a profile's own value goes first.
    tie_break : {"first", "random", "go-heap"}
        Among nodes of equal total: the first found; a seeded random one (as up to v1.34); the one that Go's
        heap puts on top (v1.35 and v1.36, parity).
    seed : int
        For the random tie-break.
    strict : bool
        Raise NotBuiltError for a pod that uses a plugin that is not built yet, instead of leaving that out.
    ttl : float, optional
        When assumed pods expire, see `SchedulerCache`; never by default.
    clock : callable, optional
        Seconds: for `ttl`, for pods that wait on Permit, and for the half second that a list of opportunistic
        batching is good for. By default time passes for the first two, and a list does not age.
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
        tie_break: str = "first",
        seed: int = 0,
        strict: bool = False,
        ttl: float | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        if tie_break not in TIE_BREAKS:
            raise ValueError(f"tie_break {tie_break!r}: one of {', '.join(TIE_BREAKS)}")
        gates = all_gates(feature_gates)
        configuration = None if config is None else read_configuration(config, gates)
        self.cache = SchedulerCache(ttl, clock or time.monotonic, gates["PodLevelResources"])
        self.client = ObjectStore(newest(cluster)) if isinstance(cluster, Cluster) else cluster
        nominator = PodNominator(lambda pod: pod.key in self.pods.pending)
        self.pods = PodHandler(self.cache, nominator)
        self.handle = FrameworkHandle(self.cache, self.client, nominator=nominator)
        preempts(self.handle, seed if tie_break == "random" else None)
        self.pods.reject_waiting = self.handle.reject_waiting_pod
        extenders = configuration is not None and bool(configuration.extenders)
        batching = Batching(gates["OpportunisticBatching"] and not extenders, clock or (lambda: 0.0))
        setting = TIE_BREAKS[tie_break], percentage_of_nodes_to_score, seed, batching
        if configuration is None:
            given = profiles or (profile or default_profile(),)
            engines = profile_engines(check_profiles(given), self.handle, *setting)
        else:
            engines = configured_engines(configuration, all_plugins(registry), self.handle, *setting)
        self.unbuilt = UnbuiltUses([engine.profile for engine in engines], strict, extenders)
        self.engines = {engine.profile.scheduler_name: engine for engine in engines}
        self.rotation = Rotation(list(self.engines.values()))
        self.cache.participants += (self.rotation, batching)
        self.profile, self.plan, self.cycle = engines[0].profile, engines[0].plan, engines[0].cycle
        self.bindings = BindingCycles(self.client, self.cache.clock)
        self.batches = Batches(self.cache, nominator, self.bindings, self.view_order, self.sync)
        self.informers = self._watch()
        for engine in self.engines.values():
            engine.handle.informers = self.informers
        self.sync()
        if isinstance(cluster, Cluster) and isinstance(self.client, ObjectStore):
            # Only now, so that the objects arrive in their order and not in that of a list.
            self.client.create_many((*cluster.namespaces, *cluster.nodes, *cluster.others, *cluster.pods))
            self.sync()

    def _watch(self) -> InformerFactory:
        informers = InformerFactory(self.client)
        informers.informer(Namespace).add_event_handler(NamespaceHandler(self.cache))
        informers.informer(Node).add_event_handler(NodeHandler(self.cache))
        for kind in WORKLOADS:
            informers.informer(kind).add_event_handler(WorkloadHandler(self.cache))
        informers.informer(Pod).add_event_handler(self.pods)
        informers.informer(PodDisruptionBudget)  # for preemption
        return informers

    def sync(self) -> None:
        """Take over everything that the store has to tell."""
        while self.informers.run_once():
            self.pods.confirm()

    @property
    def table(self) -> NodeTable:
        """The node table: ``table.allocatable["cpu"]``, ``table.requested[...]``, ``table.names`` by row."""
        return self.cache.state.table

    def view_order(self) -> list[str]:
        """Node names in the order in which a cycle that began now would list them."""
        with self.cache.lock:
            self.cache.state.view.refresh()
            return self.cache.state.view.node_names()

    def view_rows(self) -> npt.NDArray[np.int32]:
        """Rows of the node table in that order."""
        with self.cache.lock:
            self.cache.state.view.refresh()
            return self.cache.state.view.rows()

    # ---- one pod -------------------------------------------------------------------------------------------

    def examine(self, pod: Pod) -> Examination:
        """Filter every node and score all feasible ones, without sampling and without placing the pod."""
        self.unbuilt.note(pod, self.cache.state.classes.intern(pod))
        with self.cache.lock:
            return examine(self._engine(pod), pod, self.view_order())

    def explain(self, pod: Pod | str) -> Explanation:
        """Explain where a pod (or the one of this ``namespace/name``) would go now, or why nowhere and what
        would change that. A pod on a node is explained as if it were not; nothing that is tried stays."""
        if isinstance(pod, str):
            namespace, _, name = pod.rpartition("/")
            pod = self.client.get(Pod, name, namespace)
        self.unbuilt.note(pod, self.cache.state.classes.intern(pod))
        return explain(self._engine_of(pod), pod, self._not_ours(pod))

    def schedule_one(self, pod: Pod) -> Decision:
        """One cycle: search, choose, assume the pod on the chosen node. Where it fits nowhere others may be
        evicted: it is nominated to their node then, and goes there when it comes again.

        Where the profile has plugins for what comes after, the cycle goes on to the end: Reserve, Permit,
        PreBind, Bind and PostBind. Then the pod must be in the store, and may be waiting when this returns.
        """
        target, engine = self.classify(pod), self._engine(pod)
        self.unbuilt.note(pod, target[0])
        if not engine.profile.is_in_core:
            decision = self._whole_cycle(engine, pod, target)
            self.sync()
            return decision
        with self.cache.lock:
            at_once = engine.schedule_at_once(pod, target, self.view_order)
            decision = at_once or engine.schedule(pod, target, self.view_order)[0]
            if decision.node is not None:
                self.batches.assume(pod, decision.node)
            else:
                self.bindings.nominate(self.handle.nominator, pod, decision)
        if decision.evicts:
            self.sync()
        return decision

    def _engine_of(self, pod: Pod) -> Engine:
        """The engine of the profile that a pod asks for; of the first, where there is none."""
        return self.engines.get(pod.spec.scheduler_name) or self.rotation.engines[0]

    def _engine(self, pod: Pod) -> Engine:
        """The same with the rotation: profiles share it."""
        return self.rotation.take(self._engine_of(pod))

    def _whole_cycle(self, engine: Engine, pod: Pod, target: Target) -> Decision:
        """A cycle with all its plugins, for one pod."""
        with self.cache.lock:
            decision, state = engine.schedule(pod, target, self.view_order)
            if decision.node is None:
                nominating = decision.nominating or NominatingInfo(noop=True)
                self.bindings.report(engine, pod, Failure.of(decision), nominating)
                started = None
            else:
                started = self.bindings.reserve(engine, state, pod, decision.node)
        if started is None:
            if decision.evicts:
                self.sync()
            return decision
        outcome = self.bindings.bind(started) if isinstance(started, Started) else started
        if outcome.failure is not None:
            failure = outcome.failure
            return update(decision, node=None, diagnosis=failure.diagnosis, error=failure.error)
        return update(decision, waiting=outcome.waiting)

    def classify(self, pod: Pod) -> Target:
        """A pod's class, and the symbols of the node it names and of the one it is pinned to (0: none)."""
        return target_of(self.cache, pod)

    # ---- many pods -----------------------------------------------------------------------------------------

    def run(self) -> Result:
        """Place every pending pod of the cluster, in queue order: higher priority first, then older. Pods for
        which others were evicted come again after all."""
        self.sync()
        self.handle.evicted.clear()
        result, bulk = Result(), list[str]()
        waiting = self._take_pending(result)
        while waiting:
            for engine, targets, pods in self._segments(waiting):
                if engine.profile.is_in_core:
                    began = time.perf_counter()
                    bulk += self._run_batch(engine, targets, pods, result)
                    result.seconds += time.perf_counter() - began
                else:
                    self._run_each(engine, pods, targets, result)
            waiting = take_nominated(self, waiting, result)
        bind_placed(self, bulk, result)
        result.warnings.extend(self.unbuilt.warnings())
        return result

    def schedule(self, pods: Sequence[Pod], rotation: bool = False) -> ScheduleResult:
        """Decide for pods in the given order, as `schedule_one` for each of them does and with the same
        effect, but much faster.

        Parameters
        ----------
        rotation : bool
            Tell where each search and the one after it began.

        Raises
        ------
        CacheError
            For a pod that is in the cache, or comes twice: then none is placed.
        """
        seen = set()
        for pod in pods:
            if pod.metadata.uid in seen or self.cache.state.has_pod(pod):
                raise CacheError(CANNOT_BE_ASSUMED.format(pod.metadata.uid))
            seen.add(pod.metadata.uid)
        parts = []
        for engine, targets, segment in self._segments(pods):
            if engine.profile.is_in_core:
                parts.append(self.batches.place(engine, targets, segment, rotation))
            else:
                parts += map(self._whole_result, repeat(engine), targets, segment)
        self.sync()
        return joined(parts, rotation)

    def _whole_result(self, engine: Engine, target: Target, pod: Pod) -> ScheduleResult:
        decision = self._whole_cycle(engine, pod, target)
        row = -1 if decision.node is None else self.table.find_row(decision.node)
        failures = {0: Failure.of(decision)} if decision.node is None else {}
        arrays = (np.array([value], dtype=np.int32) for value in (row, decision.start, decision.next))
        rows, starts, nexts = arrays
        return ScheduleResult(rows, failures, starts, nexts)

    def preempt(self, pods: Sequence[Pod], offsets: Sequence[int] = ()) -> Preemption:
        """Place pods at once, evicting whom they must; see `moorage.scheduler.preempt_pods.preempt`."""
        return preempt(self, pods, offsets)

    def _take_pending(self, result: Result) -> list[Pod]:
        """The pending pods that are this scheduler's to place, in queue order; notes the others."""
        ours = []
        for pod in self.pods.pending.values():
            why = self._not_ours(pod)
            if why == TERMINATING:
                note = f"skip schedule deleting pod: {pod.key}"
                self.handle.recorder.event(pod, "Warning", "FailedScheduling", "Scheduling", note)
            if why:
                result.skipped[pod.key] = why
            elif not self.cache.state.has_pod(pod):
                ours.append(pod)
        sort_as_queued(ours, self.rotation.engines[0].framework)
        return ours

    def _segments(self, pods: Sequence[Pod]) -> Iterator[tuple[Engine, list[Target], list[Pod]]]:
        """Pods that follow one another and ask for one profile, with the engine whose turn it is then."""
        targets = [self.classify(pod) for pod in pods]
        for target, pod in zip(targets, pods, strict=True):
            self.unbuilt.note(pod, target[0])
        first = 0
        for engine, segment in groupby(pods, key=self._engine_of):
            equal = list(segment)
            yield self.rotation.take(engine), targets[first : first + len(equal)], equal
            first += len(equal)

    def _run_batch(self, engine: Engine, targets: list[Target], pods: list[Pod], result: Result) -> list[str]:
        """Place pods of one profile; the keys of those that fit."""
        batch = self.batches.place(engine, targets, pods, rotation=False)
        placed = []
        for at, (pod, row) in enumerate(zip(pods, batch.rows.tolist(), strict=True)):
            if row < 0:
                result.unschedulable[pod.key] = batch.failures[at]
            else:
                result.placements[pod.key] = self.table.row_name(row)
                placed.append(pod.key)
        return placed

    def schedule_by_template(
        self, template: Pod, n: int, first: int = 0, marks: npt.NDArray[np.int64] | None = None
    ) -> TemplateRun:
        """Place up to `n` pods that are equal to a template, and assume them in the cache.

        Pod number i, from `first` on, is called ``<generateName><i>``, or ``<name>-<i>`` where there is no
        generateName; its UID follows from that. The names must not be in use. It ends before the first pod
        that does not fit. The store hears nothing of pods whose profile is all in the core. `marks`
        (n // 256 int64) takes the monotonic clock after each 256 pods that the core places in one go, in
        nanoseconds; the rest of it stays as it is.
        """
        return schedule_by_template(self, template, n, first, marks)

    def advance(self, now: float | None = None) -> Result:
        """Go on with the pods whose waiting on Permit has ended, by a plugin or by a timer that is due at
        `now` (seconds; default: the clock). The result tells what became of them, and who waits still."""
        result = Result()
        self._resume(result, self.cache.clock() if now is None else now)
        result.waiting = {one.pod.key: one.node for one in self.bindings.waiting.values()}
        self.sync()
        return result

    def _run_each(self, engine: Engine, pods: list[Pod], targets: list[Target], result: Result) -> None:
        """Place and bind pods one by one, with all plugins of the profile."""
        for pod, target in zip(pods, targets, strict=True):
            began = time.perf_counter()
            decision = self._whole_cycle(engine, pod, target)
            result.seconds += time.perf_counter() - began
            if decision.node is None:
                result.unschedulable[pod.key] = Failure.of(decision)
            else:
                (result.waiting if decision.waiting else result.placements)[pod.key] = decision.node
            self._resume(result, self.cache.clock())

    def _resume(self, result: Result, now: float) -> None:
        for outcome in self.bindings.resume(now):
            result.waiting.pop(outcome.pod.key, None)
            if outcome.failure is None:
                result.placements[outcome.pod.key] = outcome.node
            else:
                result.unschedulable[outcome.pod.key] = outcome.failure

    def _not_ours(self, pod: Pod) -> str:
        if pod.metadata.deletion_timestamp:
            return TERMINATING
        if pod.spec.scheduler_name and pod.spec.scheduler_name not in self.engines:
            return "other scheduler"
        status = self._engine_of(pod).framework.run_pre_enqueue_plugins(pod)
        if status is None:
            return ""
        return "gated" if status.plugin == SchedulingGates.name else f"{status.plugin}: {status.message()}"
