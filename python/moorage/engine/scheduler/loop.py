"""A run: the waiting pods are tried in the order of the queue, until no event moves any of them.

What upstream's threads do between two cycles happens here at fixed points: victims are removed before the
next pod is tried, and placed pods are bound when no pod is left that could be tried at once. The common way
of a pod through a run is `place.py`, many pods at once; the rare way is `cycle/cycle.py`, step by step. Pods
of groups have a turn of their own, `GroupTurn` in `group_batch.py`. All work on one `SchedulerState`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from moorage._core.base.fields import unfinished_group_of
from moorage._core.decide.bulk_operations import not_assumed, terminating_or_known
from moorage._core.decide.pod_batch import PodBatch
from moorage._core.queue.in_flight import keys_of, pods_of
from moorage.kube import AnyGroup, CompositePodGroup, Pod, PodGroup, group_of
from moorage.store import ApiError

from .. import preemption
from .. import scheduler as room
from ..framework import NominatingInfo
from ..queue import Place, QueuedPodInfo
from . import cycle
from .cycle.binding_cycle import BindingOutcome
from .cycle.engine import Engine
from .cycle.results import (
    GATED_WITH_GROUP,
    TERMINATING,
    Decision,
    Eviction,
    Failure,
    ScheduleResult,
    evictions_of,
)
from .place import CLAIMS, SEGMENTS, WHOLE_CYCLE, Placing
from .scheduler_state import SchedulerState

if TYPE_CHECKING:
    from .group_batch import GroupTurn

ALL = 1 << 62

logger = logging.getLogger("moorage.scheduler")


class Policy:
    """What a run does in a way of its own. This one runs through the pods of a store while no time passes;
    replays and live runs have others."""

    time_passes = False
    """Whether time passes, so that backoff limits the attempts. Otherwise a group that has failed is tried
    again after an event that may help it, though it backs off."""

    is_live = False
    """Whether a cluster sees what happens: events and conditions of all failed pods are written, not only of
    cycles run by plugins, and an attempt ends with the answer to its binding."""

    def begin(self, infos: Sequence[QueuedPodInfo]) -> int:
        """Return how many of the popped pods are tried now; the others return to the queue."""
        return len(infos)

    def on_tried(self, number: int) -> None:
        """Note that so many of these pods have been tried."""

    def on_placed(self, infos: Sequence[QueuedPodInfo], nodes: Sequence[str]) -> None:
        """Note pods that are assumed or bound, each with the name of its node."""

    def on_failed(self, infos: Sequence[QueuedPodInfo], failures: Sequence[Failure]) -> None:
        """Note why pods fit nowhere."""

    def on_evicted(self, evictions: Mapping[str, Eviction]) -> None:
        """Note evictions, by ``namespace/name`` of the pod."""

    def bind(self, loop: Loop, infos: list[QueuedPodInfo], nodes: list[str]) -> None:
        """Bind assumed pods, each to a node."""
        loop.write_bindings(infos, nodes)


class Loop:
    """Takes pods from the queue of a scheduler, tries them and binds them.

    Attributes
    ----------
    sent : dict of str to (QueuedPodInfo, str)
        Pods that the policy is binding, and their nodes, by UID.
    evictions : int
        How often others were evicted for a pod or a group.
    retried : dict of str to int
        Of preemptors and nominated pods of groups: `evictions` when they were tried again.
    """

    def __init__(self, context: SchedulerState, policy: Policy | None = None) -> None:
        self.context, self.policy = context, policy or Policy()
        self.is_live, self.time_passes = self.policy.is_live, self.policy.time_passes
        self.queue, self.metrics = context.queue, context.metrics
        self.result = ScheduleResult(context.cache.state, 0)
        self.sent: dict[str, tuple[QueuedPodInfo, str]] = {}
        self.evictions, self.retried = 0, dict[str, int]()
        # Assumed pods that are to be bound together, and their nodes, in the order of the decisions.
        self._placed, self._nodes = list[QueuedPodInfo](), list[str]()
        # Whether pods were bound, and others placed afterwards, which may have the names of the former.
        self._binds = self._may_repeat = False
        # Of these, with the engine and what its plugin needs: pods whose resource claims are not yet written.
        self._claimed: list[tuple[Engine, QueuedPodInfo, Any]] = []
        self._most = ALL  # how many pods without a group are popped at once
        self._has_bound = False  # whether pods were bound one by one since the last sync
        self._groups: GroupTurn | None = None  # until there are groups

    def all(self, warns: bool = False) -> ScheduleResult:
        """Try all pods, also those that have failed before, and bind those that fit.

        A pod that fails is tried again after an event that may make it schedulable. Drains that wait go on
        when nothing else happens: each time they evict some pod.

        Parameters
        ----------
        warns : bool, optional
            Whether the result has the `group_warnings` of the beginning.
        """
        result = self._all_there(warns)
        while self.context.drains and self.context.go_on_draining():
            result = self._all_there(False)
        return result

    def _all_there(self, warns: bool) -> ScheduleResult:
        """Try all pods until nothing happens without a drain."""
        context, queue, controllers = self.context, self.queue, self.context.controllers
        deletions = 0 if controllers is None else controllers.deletions
        with self.recording_evictions():
            context.sync()
            if warns and self._may_have_groups():
                self.result.warnings = room.place_group.group_warnings(context)
            context.volumes.settle()
            self.resume()  # of pods that were deleted while they waited on Permit
            queue.activate(pods_of(queue.inactive()))
            while infos := self._next():
                self.attempt(infos)
        if controllers is not None and controllers.deletions != deletions:
            # Rollouts have deleted some of the pods since they were tried.
            for outcome in (self.result.placements, self.result.unschedulable):
                stored = context.pods.indexer.get_many(outcome)
                for key in [key for key, pod in zip(outcome, stored, strict=True) if pod is None]:
                    del outcome[key]
        gated = [info for info in queue.inactive() if info.gating_plugin]
        for pod in (*pods_of(gated), *context.pods.others.values()):
            self.result.skipped[pod.key] = context.not_ours(pod) or GATED_WITH_GROUP
        return self.result.end_run(self._may_repeat)

    def _may_have_groups(self) -> bool:
        """Whether the store has pod groups, or a pod of one waits."""
        store, waiting = self.context.store, pods_of([*chain(*self.queue.pending_pods())])
        return store is not None and (
            store.has((PodGroup, CompositePodGroup)) or any(map(unfinished_group_of, waiting))
        )

    @contextmanager
    def recording_evictions(self) -> Iterator[None]:
        """Record the evictions of the block; after an exception, return pods in flight to the queue."""
        self.context.enlist()
        try:
            self.context.handle.on_eviction.append(self.evicted)
            yield
            self._end()
        except BaseException:
            self._end()
            self._break_off()
            raise

    def _end(self) -> None:
        """Stop recording evictions, and log a summary of the plugin errors."""
        callbacks = self.context.handle.on_eviction
        callbacks[:] = [callback for callback in callbacks if callback != self.evicted]
        errors = self.context.handle.plugin_errors
        if errors.counts:
            errors.summarize()

    def _break_off(self) -> None:
        """End the run after an exception.

        Pods in flight that are neither bound nor being bound return to the queue; the cache forgets them.
        """
        context = self.context
        self._placed, self._nodes, self._claimed = [], [], []
        context.pods.repair()
        try:
            context.sync()  # to receive the events of bound pods
        except Exception:
            logger.exception("after an exception in a run")
        for info in self.queue.in_flight():
            if not (info.uid in self.sent or context.bindings.has(info.pod)):
                if self.metrics is not None:
                    self.metrics.forget(info.uid)
                context.take_back([info.pod])
                latest = context.pods.unbound(info.pod)
                if latest is None:
                    self.queue.done([info])
                else:
                    info.pod = latest
                    self.queue.put_back([info])

    def _next(self) -> list[QueuedPodInfo]:
        """Return the pods to try next: active ones, else those moved by what happens as time passes, else
        groups and preemptors that have failed."""
        while not (infos := self.take_or_bind()):
            if not self.let_time_pass():
                return self.take() if self._retry_preemptors() else []
        return infos

    def let_time_pass(self) -> bool:
        """Wait until a pod that is being bound can continue, or a rollout goes on; return False where neither
        waits for time to pass."""
        return self.context.bindings.let_time_pass() or self.context.let_controllers_proceed()

    def take_or_bind(self) -> list[QueuedPodInfo]:
        """Pop pods; where none is active, bind those that were placed, which may move others."""
        while not (infos := self.take()) and self.bind():
            pass
        return infos

    def take(self, limit: int = ALL) -> list[QueuedPodInfo]:
        """Continue the binding cycles that can go on, then pop pods, and record those that are not to be
        tried.

        Parameters
        ----------
        limit : int
            The number of pods without a group at most.

        Returns
        -------
        list of QueuedPodInfo
            Pods without a group, or all pods of groups of one priority, group by group.
        """
        self.resume()
        queue = self.queue
        infos: list[QueuedPodInfo] = []
        # Never of two priorities: if these evict pods, pods of lower priority would return to the queue.
        while not infos and (infos := queue.pop(min(limit, self._most))):
            odd = terminating_or_known(self.context.cache.state, pods_of(infos))
            if odd:
                for at in sorted(odd):
                    infos[at].group = None  # the attempt of its group goes on without it
                    self._skip(infos[at])
                infos = [info for at, info in enumerate(infos) if at not in odd]
        return infos

    def _skip(self, info: QueuedPodInfo) -> None:
        """End the attempt of a pod that is being deleted or in the cache, here or with its binding cycle.

        The cycle of a pod group takes its snapshot before its pods are looked at, that of a pod does not.
        """
        pod = info.pod
        if self.queue.groups_pods and group_of(pod) is not None:
            with self.context.cache.lock:
                self.context.cache.state.view.refresh()
        if pod.metadata.deletion_timestamp is not None:
            note = f"skip schedule deleting pod: {pod.key}"
            self.context.handle.recorder.event(pod, "Warning", "FailedScheduling", "Scheduling", note)
            self.result.skipped[pod.key] = TERMINATING
        elif self.context.bindings.has(pod):
            return
        self.queue.done([info])

    def _retry_preemptors(self) -> bool:
        """Activate groups that back off, and preemptors that no hint has moved, if something has made room
        since they failed; False without any."""
        failures, groups = self.result.unschedulable, self._groups
        again = [] if groups is None else groups.take_helped()
        for info in self.queue.inactive() if failures else ():
            key = info.pod.key
            if info.place is not Place.UNSCHEDULABLE or self.retried.get(key) == self.evictions:
                continue  # nothing has made room since
            if (failure := failures.get(key)) is not None and failure.nominated_node:
                failures[key] = Failure(failure.diagnosis, failure.error)
                self.retried[key] = self.evictions
                again.append(info.pod)
        if again:
            self.queue.activate(again)
        return bool(again)

    def _retry_groups(self) -> None:
        """Have failed groups tried again when no other pod is left."""
        if self._groups is not None:
            self._groups.retry()

    # ---- attempts ------------------------------------------------------------------------------------------

    def attempt(self, infos: Sequence[QueuedPodInfo]) -> int:
        """Try popped pods until others are evicted for one of them; the rest returns to the queue.

        Parameters
        ----------
        infos : sequence of QueuedPodInfo
            Pods in flight: without a group, or all of several groups.

        Returns
        -------
        int
            The number of pods that were tried.
        """
        end, queue = self.policy.begin(infos), self.queue
        if end < len(infos):
            queue.put_back(infos[end:])
            infos = infos[:end]
        of_groups, evictions, tried = infos[0].unit is not None, self.evictions, 0
        if of_groups and self._groups is None:
            self._groups = room.group_batch.GroupTurn(self.context, self)
        groups = self._groups
        held = groups.nominated(infos) if groups is not None and (of_groups or groups.failed) else set()
        attempt = groups.attempt if of_groups and groups is not None else self._try_pods
        for tried in attempt(list(infos)):
            self.policy.on_tried(tried)
            if self.evictions != evictions:
                break
            if tried < len(infos):
                self.resume()
        self._write_claims()
        if tried < len(infos):
            queue.put_back(infos[tried:])
        # Those after a preemptor return to the queue, so that few are popped while pods are evicted.
        self._most = min(2 * self._most, ALL) if self.evictions == evictions else 1
        if self.evictions != evictions:
            self.context.sync()
            self._retry_groups()
        elif groups is not None and (held or of_groups):
            groups.follow_nominations(infos, held)
        return tried

    def _try_pods(self, infos: list[QueuedPodInfo]) -> Iterator[int]:
        """Try pods without a group; yield now and then how many have been tried, and after each eviction."""
        tried, context, pods = 0, self.context, pods_of(infos)
        while tried < len(infos):
            batch = context.readable_batch_of(pods, tried)
            if isinstance(batch, str):
                self.failed([infos[tried]], [Failure(error=batch)])
                tried += 1
                yield tried
                continue
            result = ScheduleResult(context.cache.state, len(batch), batch)
            for _, end, route in batch.cut(SEGMENTS, tried):
                while tried < end:
                    engine = context.engine_of_route(route)
                    place = self._place_apart if route & WHOLE_CYCLE else self._place_together
                    tried += place(engine, result, infos, range(tried, end))
                    yield tried
            self._write_claims()

    def _write_claims(self) -> None:
        """Write the resource claims of placed pods. A pod for which that fails is no longer placed."""
        if not self._claimed:
            return
        began, claimed, self._claimed = time.perf_counter(), self._claimed, []
        for engine, part in groupby(claimed, itemgetter(0)):
            pods, plugin = list(part), engine.profile.claim_plugins.of_devices
            assert plugin is not None
            refused = plugin.bind_claims([(info.pod, claims) for _, info, claims in pods])
            for at, status in refused.items():
                info = pods[at][1]
                if self.result.placements.pop(info.key, None):
                    self._drop_placed({info.key})
                    self.refuse(info, status.message())
        self.spend(began)

    def spend(self, began: float, tried: int = 0) -> None:
        """Count the time since an attempt began, which tried so many pods together."""
        seconds = time.perf_counter() - began
        self.result.seconds += seconds
        if tried and self.metrics is not None:
            self.metrics.tried(tried, seconds)

    def _place_together(
        self, engine: Engine, result: ScheduleResult, infos: list[QueuedPodInfo], pods: range
    ) -> int:
        """Place some pods of a batch and account for them in bulk; return how many were tried."""
        context, batch, began = self.context, result.batch, time.perf_counter()
        assert batch is not None
        placing = Placing(context, engine, batch, result, writes_nominations=not self.is_live)
        claiming, plugin = context.claims.claims_to_write, engine.profile.claim_plugins.of_devices
        if claiming and plugin is not None:
            plugin.follow_claims()
        first, failures = pods.start, result.failures
        end = placing.place(first, pods.stop, until_evicts=True)
        tried = end - first
        self.spend(began, tried)
        placed, names = result.placed_of(infos, first, end)
        if placed:
            self.assumed(placed, names)
        if claiming and plugin is not None:
            at_node = {at: infos[at] for at in range(first, end) if at in claiming and at not in failures}
            nodes = dict(zip(at_node, result.nodes_of(at_node), strict=True))
            claimed = plugin.take_devices(claiming, nodes)
            self._claimed += [(engine, infos[at], claimed[at]) for at in nodes]
        if len(placed) < tried:
            self._fail(engine, batch, infos, result.unplaced(first, end), failures)
        if end == pods.stop:
            return tried
        has_evicted = tried > 0 and end - 1 in failures and bool(failures[end - 1].nominated_node)
        if not has_evicted and batch.route(end) & CLAIMS:
            self._write_claims()
            may_hold = not context.nominator
            decision = self._schedule(context.rotation.take(engine), infos[end])
            result.rows[end] = engine.row_of(decision)
            # Pods of the class that share no volumes with others fail alike, while the cluster stays as it
            # is, unless pods might be evicted for them.
            is_futile = decision.diagnosis is not None and bool(decision.diagnosis.futile_plugins)
            if may_hold and is_futile and not context.claims.has_released():
                placing.remember(end, decision, decision.failure)
            return tried + 1
        return tried

    def _fail(
        self,
        engine: Engine,
        batch: PodBatch,
        infos: Sequence[QueuedPodInfo],
        failed: Sequence[int],
        failures: Mapping[int, Failure],
    ) -> None:
        """Account for the pods of a batch that fit nowhere."""
        self.failed([infos[at] for at in failed], [failures[at] for at in failed])
        # Pods with claims are reported as the pod that was scheduled by plugins.
        if self.is_live or batch.has(CLAIMS):
            for at in failed:
                if self.is_live or batch.route(at) & CLAIMS:
                    cycle.cycle.report_failure(self.context, engine, infos[at].pod, failures[at])

    def _place_apart(
        self, engine: Engine, result: ScheduleResult, infos: list[QueuedPodInfo], pods: range
    ) -> int:
        """Place and bind the first of some pods of a batch, with all plugins of the profile; return 1."""
        self._write_claims()
        result.rows[pods.start] = engine.row_of(self._schedule(engine, infos[pods.start]))
        return 1

    def _schedule(self, engine: Engine, info: QueuedPodInfo) -> Decision:
        """Place and bind a pod by itself, with all plugins of the profile."""
        if self.metrics is not None:
            self.metrics.begin([info])
        context, began = self.context, time.perf_counter()
        decision = cycle.cycle.schedule_one_pod(context, engine, info.pod, context.target_of(info.pod))
        self.spend(began)
        if decision.node is None:
            self.failed([info], [decision.failure])
        else:
            context.claims.follow_volumes()
            self.record(BindingOutcome(info.pod, decision.node, decision.waiting, decision.binding))
        return decision

    def resume(self, now: float | None = None) -> None:
        """Continue the binding cycles of pods whose wait on Permit has ended, at a time in seconds; by
        default the time of the clock."""
        bindings = self.context.bindings
        if bindings.waiting or bindings.running or bindings.decided:
            now = self.context.cache.clock() if now is None else now
            for outcome in cycle.cycle.resume_binding_cycles(bindings, now):
                self.record(outcome)

    def record(self, outcome: BindingOutcome) -> None:
        """Record the state of a binding cycle: complete, waiting on Permit, or binding."""
        pod, result = outcome.pod, self.result
        result.waiting.pop(pod.key, None)
        result.binding.pop(pod.key, None)
        if outcome.waiting or outcome.binding:
            (result.waiting if outcome.waiting else result.binding)[pod.key] = outcome.node
            result.unschedulable.pop(pod.key, None)
        elif outcome.failure is None:
            self._bound(pod, outcome.node)
        else:
            info = self.queue.in_flight_pod(pod.metadata.uid) or QueuedPodInfo(pod)
            self.failed([info], [outcome.failure])
            if not self.context.is_waiting(pod):  # deleted meanwhile: what it held is free for good
                self._retry_groups()

    def _placed_on(self, infos: list[QueuedPodInfo], nodes: list[str]) -> None:
        """Record pods that are assumed or bound, each with its node."""
        self.policy.on_placed(infos, nodes)
        self._may_repeat |= self._binds
        self.result.note_placed(infos, nodes)
        for key in keys_of(infos) if self.result.unschedulable else ():
            self.result.unschedulable.pop(key, None)

    def assumed(self, infos: list[QueuedPodInfo], nodes: list[str]) -> None:
        """Record pods that were placed, and are to be bound together."""
        if self.metrics is not None and self.is_live:
            self.metrics.begin(infos, are_placed=True)
        elif self.metrics is not None:
            self.metrics.scheduled(infos)
        self._placed_on(infos, nodes)
        self._placed += infos
        self._nodes += nodes

    def _drop_placed(self, keys: Container[str]) -> list[QueuedPodInfo]:
        """Remove pods that are no longer placed, by ``namespace/name``, from those to bind; return them."""
        dropped = [info for info in self._placed if info.key in keys]
        if dropped:
            placed = zip(self._placed, self._nodes, strict=True)
            kept = [(info, node) for info, node in placed if info.key not in keys]
            self._placed, self._nodes = [info for info, _ in kept], [node for _, node in kept]
        return dropped

    def _bound(self, pod: Pod, node: str) -> None:
        """Record a pod that was placed and bound by itself."""
        info = self.queue.in_flight_pod(pod.metadata.uid)
        self._placed_on([info or QueuedPodInfo(pod)], [node])
        if info is not None:
            if self.metrics is not None:
                self.metrics.scheduled([info])
            self.queue.done([info])
        self._has_bound = self._binds = True

    def failed(self, infos: list[QueuedPodInfo], failures: list[Failure]) -> None:
        """Record the failures of pods, and return the pods to the queue."""
        if self.metrics is not None:
            self.metrics.failed(infos, failures)
        self.policy.on_failed(infos, failures)
        self.result.unschedulable.update(zip(keys_of(infos), failures, strict=True))
        context = self.context
        latest = context.pods.indexer.get_many(keys_of(infos))
        rejectors = [failure.rejectors for failure in failures]
        self.queue.give_back(infos, latest, rejectors, [failure.nominating for failure in failures])
        if context.bindings.freed:
            context.announce_freed()

    def evicted(self, victims: Sequence[Pod], node: str, preemptor: Pod | AnyGroup) -> None:
        """Record evicted pods; see `FrameworkHandle.on_eviction`."""
        self.evictions += 1
        budgets = dict[str, tuple[str, ...]]()
        if self.context.store is not None and isinstance(preemptor, Pod):
            units = preemption.eviction_units
            priority = units.priority_of(preemptor)
            budgets = units.violations_on(self.context.handle, node, priority, victims)
        if self.metrics is not None:
            self.metrics.preempted(len(victims))
        evictions = evictions_of(victims, node, preemptor, budgets)
        self.result.evicted.update(evictions)
        if self.result.has_placed:
            gone = {key for key in evictions if self.result.placements.pop(key, None) is not None}
            for info in self._drop_placed(gone) if gone else ():
                self.queue.done([info])
                if self.metrics is not None:
                    self.metrics.forget(info.uid)
        self.policy.on_evicted(evictions)

    # ---- binding -------------------------------------------------------------------------------------------

    def bind(self) -> bool:
        """Bind the placed pods. A pod that has been evicted or deleted since is no longer placed.

        Returns
        -------
        bool
            Whether there were any, or pods were bound by themselves.
        """
        if not (self._placed or self._has_bound):
            return False
        self._has_bound = False
        with self.context.lock:
            self.policy.bind(self, *self._take_placed())
        return True

    def write_bindings(self, infos: list[QueuedPodInfo], nodes: list[str]) -> None:
        """Bind assumed pods, in bulk in an ObjectStore, and receive the events of all bound pods.

        If a binding is refused, the cache forgets the pod.
        """
        context, client, store = self.context, self.context.client, self.context.store
        are_bound = store is not None
        try:
            if store is not None:
                store.bind_many(pods_of(infos), nodes, keys_of(infos))
        except ApiError:  # another client has bound one; none is bound here
            are_bound = False
        if are_bound:
            self.queue.done(infos)
        for info, node in () if are_bound else zip(infos, nodes, strict=True):
            try:
                client.bind(info.pod, node)
                self.queue.done([info])
            except ApiError as error:
                self.result.placements.pop(info.key, None)
                self.refuse(info, str(error))
        context.sync()
        context.claims.follow_volumes()
        self._retry_groups()

    def _take_placed(self) -> tuple[list[QueuedPodInfo], list[str]]:
        """Take the pods to bind, with their nodes. Others have deleted or bound some since: their attempts
        end, and they are not placed any more."""
        infos, nodes = self._placed, self._nodes
        self._placed, self._nodes, self._binds = [], [], True
        gone = set(not_assumed(self.context.cache.state, pods_of(infos)))
        if not gone:
            return infos, nodes
        ended = [info for at, info in enumerate(infos) if at in gone]
        nodes = [node for at, node in enumerate(nodes) if at not in gone]
        infos = [info for at, info in enumerate(infos) if at not in gone]
        for key in {*keys_of(ended)}.difference(keys_of(infos)):
            self.result.placements.pop(key, None)
        self.queue.done(ended)
        if self.metrics is not None:
            for info in ended:
                self.metrics.forget(info.uid)
        return infos, nodes

    def refuse(self, info: QueuedPodInfo, error: str) -> None:
        """Forget an assumed pod whose binding was refused, and return it to the queue."""
        assumed = self.context.cache.get_pod(info.pod)
        self.context.cache.forget_pod(assumed)
        self.context.bindings.freed.append(assumed)
        self.failed([info], [Failure(error=error, nominating=NominatingInfo())])


def finish_binding(context: SchedulerState, pods: Sequence[Pod]) -> dict[str, Failure]:
    """Go on with pods whose wait on Permit has ended, and let time pass until none of some pods is being
    bound, as far as the scheduler can let time pass.

    Returns
    -------
    dict of str to Failure
        The pods whose binding failed, by ``namespace/name``.
    """
    loop = Loop(context)
    loop.resume()
    while any(map(context.bindings.is_running, pods)) and loop.let_time_pass():
        loop.resume()
    return loop.result.unschedulable
