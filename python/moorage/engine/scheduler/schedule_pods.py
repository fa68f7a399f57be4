"""Placement of pods that a caller gives: in order, as replicas of a template, or with evictions at once. They
are then bound, or leave their nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self, cast

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from moorage._core.decide.bulk_operations import check_new
from moorage._core.decide.pod_batch import PodBatch
from moorage._core.preempt.preemptor import Evictions
from moorage.errors import CacheError, MoorageError
from moorage.kube.model.pod import Pod
from moorage.kube.model.pod_group import AnyGroup
from moorage.store import ObjectStore, find_object

from ..framework.run_plugins import Target
from ..preemption.actuation import make_room
from ..preemption.default_preemption import DefaultPreemption
from ..preemption.eviction_units import budgets_of, groups_of
from .cycle import cycle
from .cycle.cycle import binding_cycle
from .cycle.engine import Engine
from .cycle.results import Decision, ScheduleResult, after_binding
from .group_attempt import GroupResult
from .loop import finish_binding
from .options import check_pod, check_pods, check_readable
from .place import APART, SEGMENTS, WHOLE_CYCLE, Placing
from .place_group import ignored_topologies, place_group
from .scheduler_state import SchedulerState
from .valid_groups import why_invalid

MOST = 2**31 - 1


def schedule_one(context: SchedulerState, pod: Pod) -> Decision:
    """Schedule one pod: search, choose a node, assume the pod there.

    If no node is feasible, PostFilter may evict pods and nominate the pod to their node; the pod is to be
    scheduled again then. If the pod has claims, or an out-of-tree plugin or an extender takes part, the cycle
    goes on with Reserve, Permit, PreBind, Bind and PostBind, and the pod may end up waiting. An API server
    must have the pod then; an `ObjectStore` gets it, and loses it again if it finds no node.

    Raises
    ------
    CacheError
        The pod is in the cache.
    """
    batch = context.batch_of([pod])
    if batch.route(0) & APART:
        return schedule_apart(context, pod, is_new=is_missing(context, pod))
    is_new = not (pod.metadata.uid and context.cache.state.has_pod(pod))
    with context.taken_back_on_error([pod] if is_new else []):
        with context.cache.lock:
            engine = context.engine_of_route(batch.route(0))
            decision = Placing(context, engine, batch, ScheduleResult(context.cache.state, 1)).cycle(0)
        if decision.evicts:
            context.sync()
        return decision


def schedule_apart(context: SchedulerState, pod: Pod, *, is_new: bool) -> Decision:
    """Schedule and bind a pod in a cycle of its own, with all plugins and extenders.

    Parameters
    ----------
    is_new : bool
        Whether the store gets the pod first. It loses it again if the pod finds no node and evicts none.
    """
    if is_new:
        context.enlist()
        pod = cast(ObjectStore, context.handle.client).create(pod)
        context.sync()
    pod = with_claims(context, pod)
    batch = context.batch_of([pod])
    decision = cycle.schedule_one_pod(context, context.engine_of_route(batch.route(0)), pod, batch.target(0))
    if decision.binding:
        failures = finish_binding(context, [pod])
        is_running = context.bindings.is_running(pod)
        decision = after_binding(decision, failures.get(pod.key), binding=is_running)
    if is_new and decision.node is None and not decision.evicts:
        context.handle.client.delete(Pod, pod.name, pod.namespace)
    context.sync()
    return decision


def with_claims(context: SchedulerState, pod: Pod) -> Pod:
    """Return a pod with the claims that controllers have made for it."""
    stored = context.pods.unbound(pod)
    statuses = pod.status.resource_claim_statuses if stored is None else stored.status.resource_claim_statuses
    if statuses == pod.status.resource_claim_statuses:
        return pod
    return replace(pod, status=replace(pod.status, resource_claim_statuses=statuses))


def is_missing(context: SchedulerState, pod: Pod) -> bool:
    """Whether the scheduler works on an `ObjectStore` that does not have a pod, nor has the cache."""
    store = context.store
    if store is None or context.cache.state.has_pod(pod):
        return False
    return find_object(store, Pod, pod.name, pod.namespace) is None


class GivenPods(Struct):
    """Pods that a caller gives, which are placed in order.

    Attributes
    ----------
    result : ScheduleResult
        Receives rows and failures at the indexes of the pods.
    stops : bool
        Whether to end with the first pod that fits nowhere.
    apart : int
        Route bits of pods that have a cycle of their own, in which they are bound.
    """

    context: SchedulerState
    batch: PodBatch
    result: ScheduleResult
    stops: bool = False
    apart: int = APART

    def place(self) -> None:
        """Place the pods in a row of each engine together, by the core where possible, or each apart."""
        for first, end, route in self.batch.cut(SEGMENTS):
            engine = self.context.engine_of_route(route)
            if route & self.apart:
                self._place_each(engine, first, end)
            else:
                self.place_together(engine, first, end)
            if self.stops and self.result.failures:
                break

    def _place_each(self, engine: Engine, first: int, end: int) -> None:
        """Place pods in a row, each in a cycle of its own."""
        for at in range(first, end):
            decision = self.place_apart(engine, at)
            if decision.node is not None:
                self.result.rows[at] = engine.row_in_view(decision.node)
                continue
            self.result.failures[at] = decision.failure
            if self.stops:
                break

    def place_together(self, engine: Engine, first: int, end: int) -> None:
        """Place pods in a row, which have no cycle of their own."""
        Placing(self.context, engine, self.batch, self.result, stops=self.stops).place(first, end)

    def place_apart(self, engine: Engine, at: int) -> Decision:
        """Schedule and bind a pod in a cycle of its own, with all plugins and extenders."""
        context, pod = self.context, self.batch.pod(at)
        if is_missing(context, pod):
            return schedule_apart(context, pod, is_new=True)
        return cycle.schedule_one_pod(context, engine, with_claims(context, pod), self.batch.target(at))

    def placed(self) -> ScheduleResult:
        """Place the pods, and end what that has begun; after an exception none stays assumed."""
        context, batch, result = self.context, self.batch, self.result
        context.enlist_if_possible()
        try:  # `taken_back_on_error` would be a fifth of the time of one pod
            self.place()
            if context.bindings.running or context.bindings.waiting:
                placed = np.flatnonzero(result.rows >= 0).tolist()
                go_on_binding(
                    context, result, {at: batch.pod(at) for at in placed if batch.route(at) & self.apart}
                )
            context.sync()
            errors = context.handle.plugin_errors
            if errors.counts:
                errors.summarize()
            if self.stops:
                result.end_at_failure()
            else:
                result.note_names()
            return result
        except BaseException:
            context.take_back(map(batch.pod, range(len(batch))))
            raise


def go_on_binding(context: SchedulerState, result: ScheduleResult, pods: Mapping[int, Pod]) -> None:
    """Go on with assumed pods, by their index in a result, while the scheduler can let time pass. Those that
    still wait on Permit or are being bound, or whose binding has failed, are not placed by the result."""
    failures = finish_binding(context, list(pods.values()))
    waiting, binding = context.bindings.progress()
    for at, pod in pods.items():
        if pod.key in failures:
            result.failures[at] = failures[pod.key]
        elif pod.key in waiting:
            result.waiting[pod.key] = waiting[pod.key]
        elif pod.key in binding:
            result.binding[pod.key] = binding[pod.key]
        else:
            continue
        result.rows[at] = -1


def schedule_pods(
    context: SchedulerState, pods: Sequence[Pod], stop_on_failure: bool = False
) -> ScheduleResult:
    """Place pods in order; see `Scheduler.schedule_pods`.

    Parameters
    ----------
    stop_on_failure : bool
        Whether to end with the first pod that fits nowhere.

    Returns
    -------
    ScheduleResult
        In the order of the pods.

    Raises
    ------
    CacheError
        A pod is in the cache or appears twice.
    InputError
        A pod has something else where a quantity belongs.
    """
    batch = _new_batch(context, pods)
    result = ScheduleResult(context.cache.state, len(batch), batch)
    return GivenPods(context, batch, result, stop_on_failure).placed()


def _new_batch(context: SchedulerState, pods: Sequence[Pod]) -> PodBatch:
    """Return pods as a batch, none of which is in the cache."""
    with context.cache.lock:  # what another thread has tried out and not yet undone is not seen
        check_pods(context.cache.state, pods)
        try:
            return context.batch_of(pods)
        except ValueError:
            check_readable(pods)
            raise


def replica(template: Pod, index: int) -> Pod:
    """Return one replica of a template, with the name and UID that the cache gives it
    (`ClusterState.assume_template`).
    """
    meta = template.metadata
    base = meta.generate_name or f"{meta.name}-"
    uid = f"{meta.namespace}/{base}#{index}"
    return replace(template, metadata=replace(meta, name=f"{base}{index}", uid=uid))


def schedule_by_template(context: SchedulerState, template: Pod, n: int, first: int) -> ScheduleResult:
    """Place replicas of a template up to the first that fits nowhere; see `Scheduler.schedule_by_template`.

    They have no objects, for speed alone (`tests/house/special_paths.toml`).

    Parameters
    ----------
    first : int
        Ordinal of the first replica.

    Returns
    -------
    ScheduleResult
        Ends with the first replica that fits nowhere.

    Raises
    ------
    ValueError
        `n` or `first` is negative or larger than 2^31 - 1.
    CacheError
        A replica is in the cache, or its name is in use.
    """
    check_pod(template)
    check_readable((template,))
    if not 0 <= n <= MOST:
        raise ValueError(f"n must be from 0 to {MOST}, not {n}")
    if not 0 <= first <= MOST:
        raise ValueError(f"first must be from 0 to {MOST}, not {first}")
    state = context.cache.state
    tries = context.engine_of(template).placer.tries(n)
    _check_names(context, template, tries, first)
    begun: list[PodBatch] = []  # its pods are those of this call alone
    with (
        context.taken_back_on_error(batch.pod(at) for batch in begun for at in range(len(batch))),
        context.cache.lock,
    ):
        batch = PodBatch.of_template(state, template, tries, first, context.routes)
        state.check_template(template, first, n)
        begun.append(batch)
        # Single pods of a group do not wait for one another here.
        replicas = GivenPods(context, batch, ScheduleResult(state, tries, batch), True, WHOLE_CYCLE)
        if not (tries and batch.route(0) & WHOLE_CYCLE):  # whose bindings may wait for the lock
            return replicas.placed()  # with the lock: all pods of these names are those of this call
    return replicas.placed()


def _check_names(context: SchedulerState, template: Pod, n: int, first: int) -> None:
    """CacheError if informers know another pod of the name of a replica."""
    meta = template.metadata
    base, ordinals = f"{meta.namespace}/{meta.generate_name or f'{meta.name}-'}", range(first, first + n)
    indexer = context.handle.informers.informer(Pod).indexer
    if len(indexer) < n:
        named = [pod for pod in indexer.identities() if pod.key.startswith(base)]
    else:
        named = [pod for pod in indexer.identities_of(f"{base}{ordinal}" for ordinal in ordinals) if pod]
    for pod in named:
        end = pod.key[len(base) :]
        is_ordinal = end.isdecimal() and end == str(int(end)) and int(end) in ordinals
        if is_ordinal and pod.metadata.uid != f"{base}#{end}":
            raise CacheError(f"a replica would have the name of pod {pod.key}, which exists")


# ---- preempt pods ------------------------------------------------------------------------------------------
# Immediate preemption: pods are placed at once, with evictions where they fit nowhere, in an open
# transaction.

NOT_IN_CORE = "pod {}: a plugin or an extender outside the core takes part, so it cannot be placed at once"
BY_NODE = (
    "pod {} cannot be placed at once: plugins decide node by node about its volumes or claims, and what it "
    "gets is written when it is bound; create the pod in a transaction and call run()"
)
ENDED = "what was placed has been kept or taken back already"


class Preemption:
    """Pods placed by `preempt_pods` with their victims: the handle of an open transaction.

    The transaction is open until `commit`, `undo` or the end of the one around it. Until then the current
    thread holds the lock of the cache, and nothing is written to the store. At the end of a ``with`` block an
    open transaction is undone.

    Attributes
    ----------
    pods : list of Pod
        In the order given.
    rows : (pods,) int32 array
        Row in the node table of each pod's node; -1 where it fits nowhere.
    """

    def __init__(self, context: SchedulerState, pods: Sequence[Pod], rows: npt.NDArray[np.int32]) -> None:
        self._context = context
        self._bracket = context.cache.transaction()
        self._transaction = self._bracket.__enter__()
        self._is_open = True
        self.pods, self.rows = list(pods), rows
        self._evictions: list[tuple[int, Evictions]] = []  # of each run, with the index of its first pod

    def __repr__(self) -> str:
        victims = sum(len(self.victims(at)) for at in range(len(self.pods)))
        placed = int((self.rows >= 0).sum())
        return f"<Preemption: {placed} of {len(self.pods)} pods placed, {victims} evicted>"

    def victims(self, at: int) -> list[Pod]:
        """Return the pods evicted for one pod, most important first, with the node that they were on.

        Parameters
        ----------
        at : int
            Index of the pod.

        Raises
        ------
        IndexError
            There is no such pod.
        """
        if not 0 <= at < len(self.pods):
            raise IndexError(f"there is no pod {at} among {len(self.pods)}")
        for first, evictions in self._evictions:
            if first <= at < first + len(evictions.rows):
                return evictions.victims(at - first)
        return []

    def undo(self) -> None:
        """Undo everything: placed pods, victims and their order on each node, rotation.

        Raises
        ------
        MoorageError
            The transaction has ended.
        """
        self._check_open()
        self._bracket.__exit__(None, None, None)
        self._is_open = False  # last: if a signal comes first, this can be repeated

    def commit(self) -> None:
        """Keep everything. The placed pods stay assumed and lose their nomination.

        For each pod the nominations of lower priority to its node end, and its victims are evicted, as those
        of `Scheduler.run`: victims that wait on Permit are rejected, those in PreBind are cancelled, and
        others that the store has get the condition DisruptionTarget and are deleted there, unless they are
        terminating already.

        Raises
        ------
        MoorageError
            The transaction has ended, or there is one around it that cannot undo writes to the store.
        ApiError
            The client refused to delete a victim. Victims after it stay in the store.
        """
        context = self._context
        if self._is_open and len(context.cache.transactions) > 1:
            context.enlist()
        self._check_open()
        self._is_open = False
        victims, row_name = list(map(self.victims, range(len(self.pods)))), context.cache.state.table.row_name
        self._transaction.commit()
        self._bracket.__exit__(None, None, None)
        for at, (pod, row) in enumerate(zip(self.pods, self.rows.tolist(), strict=True)):
            if row >= 0:
                context.handle.nominator.delete_nominated_pod_if_exists(pod)
            if victims[at]:
                handle = context.engine_of(pod).handle
                make_room(handle, row_name(row), pod, victims[at], DefaultPreemption.name)
        context.sync()

    def _check_open(self) -> None:
        """Raise MoorageError if the transaction, or one around it, has ended."""
        if not self._is_open or self._transaction.is_over:
            raise MoorageError(ENDED)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._is_open:
            self.undo()


class EvictingPods(GivenPods, kw_only=True):
    """Pods that are placed at once, with evictions where they fit nowhere.

    Attributes
    ----------
    offsets : (pods,) int64 array
        See `preempt_pods`.
    evictions : list of (int, Evictions)
        Of each run of equal pods, with the index of its first pod.
    """

    offsets: npt.NDArray[np.int64]
    evictions: list[tuple[int, Evictions]]

    def place_together(self, engine: Engine, first: int, end: int) -> None:
        """Place pods in a row, run by run."""
        batch, at = self.batch, first
        while at < end:
            pod, target = batch.pod(at), _target_at_once(engine, batch.pod(at))
            if target is None:
                raise MoorageError(why_not_at_once(engine, pod))
            stop = at + 1
            if not engine.framework.asks_volume_plugins(pod):  # else it depends on the pods before
                stop = batch.end_of_run(at)
                while stop < end and batch.target(stop) == batch.target(at):
                    stop = batch.end_of_run(stop)
            if engine.passes(target, pod):  # else PreFilter rejects it, whichever pods are evicted
                self._place_run(engine, target, at, min(stop, end))
            at = stop

    def _place_run(self, engine: Engine, target: Target, at: int, end: int) -> None:
        """Place equal pods. Their own nominations have no effect."""
        run, handle, arguments = self.batch.pods[at:end], engine.handle, DefaultPreemption.default_args
        for plugin in engine.profile.plugins:
            if isinstance(plugin, DefaultPreemption):
                arguments = {**arguments, **plugin.args}
        engine.batching.take()
        engine.search.node_names = None
        uids = {pod.metadata.uid for pod in run}
        nominated = [
            (engine.row_in_view(node), [pod for pod in pods if pod.metadata.uid not in uids])
            for node, pods in handle.nominator.nominated_before(run[0]).items()
        ]
        engine.search.nominate([(row, pods) for row, pods in nominated if row >= 0])
        evictions = engine.framework.preemptor.place_run(
            target,
            run,
            budgets_of(handle),
            self.offsets[at:end],
            (arguments["minCandidateNodesPercentage"], arguments["minCandidateNodesAbsolute"]),
            groups_of(handle),
        )
        self.evictions.append((at, evictions))
        self.result.rows[at : at + len(evictions.rows)] = evictions.rows


def preempt_pods(context: SchedulerState, pods: Sequence[Pod], offsets: Sequence[int] = ()) -> Preemption:
    """Place pods one after the other: on a feasible node, or else on the node where eviction of pods of lower
    priority costs least.

    Victims disappear at once, and disruption budgets are not updated in between. A pod whose volumes the
    plugins accept on every node, whoever leaves, is placed as one without volumes (`Engine.cycle_target`),
    unless a plugin scores volumes, as VolumeBinding does with StorageCapacityScoring (on by default in 1.37).
    Others with volumes or claims are refused: plugins decide about them node by node, and what they get is
    written when they are bound. `Scheduler.run` in a transaction evicts for them, too.

    Parameters
    ----------
    pods : sequence of Pod
        Not in the cache. Their own nominations have no effect.
    offsets : sequence of int, optional
        For each pod, the index at which dry runs begin among the nodes where eviction might help, modulo
        their number; 0 by default.

    Returns
    -------
    Preemption
        To be committed or undone.

    Raises
    ------
    ValueError
        There are not as many offsets as pods.
    CacheError
        A pod is in the cache or appears twice.
    InputError
        A pod has something else where a quantity belongs.
    MoorageError
        A plugin of a pod's profile is not in the core, or there are extenders; or plugins decide about the
        volumes or claims of a pod node by node, once the pods before it are placed.
    """
    with context.cache.lock:
        if offsets and len(offsets) != len(pods):
            raise ValueError("give an offset for each pod")
        begin = np.array(offsets or [0] * len(pods), dtype=np.int64)
        batch = _new_batch(context, pods)
        result = ScheduleResult(context.cache.state, len(batch), batch)
        out = Preemption(context, pods, result.rows)
        try:
            EvictingPods(context, batch, result, apart=0, offsets=begin, evictions=out._evictions).place()
        except BaseException:
            out.undo()
            raise
        return out


def why_not_at_once(engine: Engine, pod: Pod) -> str:
    """Return why a pod cannot be placed by `preempt_pods`; "" where it can."""
    if _target_at_once(engine, pod) is not None:
        return ""
    is_outside = (
        engine.handle.extenders or not engine.profile.is_in_core or not engine.framework.preemptor.suits
    )
    return (NOT_IN_CORE if is_outside else BY_NODE).format(pod.key)


def _target_at_once(engine: Engine, pod: Pod) -> Target | None:
    """Return the target by which a pod is placed at once, as the cluster is now; None where it cannot be."""
    target = engine.cycle_target(pod, engine.framework.target_of(pod))
    in_core = engine.framework.profile_of(target).is_in_core and engine.framework.preemptor.suits
    return target if in_core and engine.decides_alone(pod) and not engine.handle.extenders else None


# ---- workloads ---------------------------------------------------------------------------------------------
# The pods of a group are placed together.


def schedule_workload(
    context: SchedulerState,
    group: AnyGroup,
    pods: Sequence[Pod] | None = None,
    scheduled: Sequence[Pod] | None = None,
) -> GroupResult:
    """Place and bind the pods of a group; see `Scheduler.schedule_workload`.

    Parameters
    ----------
    pods : sequence of Pod, optional
        In the order to try; by default the pending members.
    scheduled : sequence of Pod, optional
        Members that have a node already; by default those that are known.

    Returns
    -------
    GroupResult
        In the order of the pods.

    Raises
    ------
    CacheError
        A pod is in the cache or appears twice.
    MoorageError
        The pods ask for different schedulers.
    """
    groups, unit = context.groups, group.unit
    pending = groups.pending(unit) if pods is None else pods
    with context.cache.lock:  # what another thread has tried out and not yet undone is not seen
        check_new(context.cache.state, pending)
    engines = context.engines_of(pending)
    if len(engines) > 1:
        raise MoorageError(why_invalid(context, group, pending))
    if not engines:
        return GroupResult(context.cache.state, 0, context.batch_of(pending))
    placed = groups.scheduled(unit)[0] if scheduled is None else scheduled
    with context.taken_back_on_error(pending):
        result = place_group(context, engines.pop(), group, pending, placed)
        for at, started in result.started.items():
            if (failure := binding_cycle(context.bindings, started).failure) is not None:
                result.rows[at], result.failures[at] = -1, failure
        begun = {at: started.pod for at, started in result.started.items() if at not in result.failures}
        go_on_binding(context, result, begun)
        context.sync()
        result.note_names()
        tree = [node.group for node in groups.tree_of(group) if node.group is not None]
        texts = ignored_topologies(context.handle, tree).items()
        result.warnings = [f"{number} {text}." for text, number in texts]
        return result


# ---- placed pods -------------------------------------------------------------------------------------------
# What becomes of pods that a caller has had placed: they are bound, or leave their nodes.

Placed = ScheduleResult | Sequence[Pod]
"""A result, of which the placed pods are meant, or pods."""


def bind_pods(context: SchedulerState, placed: Placed) -> list[Pod]:
    """Bind assumed pods; see `Scheduler.bind`."""
    cache, client, pods = context.cache, context.client, _known(context, placed)
    with context.writing():
        for pod in pods:
            if not cache.is_assumed_pod(pod) or context.bindings.has(pod):
                continue
            if (stored := context.pods.current(pod)) is not None and stored.metadata.uid == pod.metadata.uid:
                client.bind(stored, pod.spec.node_name)
            elif client.create(pod).metadata.uid != pod.metadata.uid:  # an API server gives its own
                cache.forget_pod(pod)
    context.sync()
    return [pod for pod in map(context.pods.current, pods) if pod is not None and pod.spec.node_name]


def release_pods(context: SchedulerState, placed: Placed) -> None:
    """Have pods leave their nodes; see `Scheduler.release`."""
    cache, client, pods = context.cache, context.client, _known(context, placed)
    with context.writing():
        for pod in pods:
            if cache.is_assumed_pod(pod):
                context.pods.release_assumed(pod)
            else:
                client.delete(Pod, pod.name, pod.namespace, uid=pod.metadata.uid)
    context.sync()


def _known(context: SchedulerState, placed: Placed) -> list[Pod]:
    """Return pods as the cache has them, each with its node.

    Raises
    ------
    CacheError
        A pod is on no node.
    TypeError
        They are no pods, or the result is of a run.
    """
    if not isinstance(placed, ScheduleResult):
        pods = list(placed)
    elif placed.batch is None:
        raise TypeError("a run has bound its pods: pass those that you mean")
    else:
        pods = [placed.batch.pod(at) for at in np.flatnonzero(placed.rows >= 0).tolist()]
    with context.cache.lock:
        state = context.cache.state
        for pod in pods:
            if not state.has_pod(pod):
                raise CacheError(f"pod {pod.key} is on no node: nothing has placed it, or it has left")
        return [state.get_pod(pod) for pod in pods]
