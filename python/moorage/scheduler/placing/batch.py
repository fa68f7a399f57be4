"""Many pods in a given order: the core decides about them in one go, without an object per decision."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from moorage._core.state.node_table import NodeTable
from moorage._core.state.pod_spec import bound
from moorage.cache import SchedulerCache
from moorage.framework.plugin.nominator import PodNominator
from moorage.framework.runtime.runtime import Target
from moorage.objects.model.pod import Pod
from moorage.scheduler.cycle.diagnosis import Diagnosis
from moorage.scheduler.cycle.engine import NO_ROWS, Engine
from moorage.scheduler.cycle.results import Decision, Failure

from .binding_cycle import BindingCycles

Ints = npt.NDArray[np.int32]
Marks = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ScheduleResult:
    """What became of pods that were scheduled in their order; arrays have one item per pod.

    Attributes
    ----------
    rows : (n,) int32 array
        Row of the node table that the pod was put on, -1 where it fits nowhere.
    failures : dict of int to Failure
        Position of each other pod to the reason.
    starts, nexts : (n,) int32 array or None
        Where the pod's search and the one after it began, where that was asked for.
    """

    rows: Ints
    failures: dict[int, Failure]
    starts: Ints | None = None
    nexts: Ints | None = None


def joined(parts: Iterable[ScheduleResult], rotation: bool) -> ScheduleResult:
    """Results of pods that follow one another as one; `rotation` as in `Scheduler.schedule`."""
    rows, starts, nexts = [NO_ROWS], [NO_ROWS], [NO_ROWS]
    failures: dict[int, Failure] = {}
    first = 0
    for part in parts:
        failures |= {first + at: failure for at, failure in part.failures.items()}
        first += len(part.rows)
        rows.append(part.rows)
        starts.append(NO_ROWS if part.starts is None else part.starts)
        nexts.append(NO_ROWS if part.nexts is None else part.nexts)
    if not rotation:
        return ScheduleResult(np.concatenate(rows), failures)
    return ScheduleResult(np.concatenate(rows), failures, np.concatenate(starts), np.concatenate(nexts))


def result_of(decision: Decision, table: NodeTable) -> ScheduleResult:
    """A decision about one pod."""
    failures = {0: Failure.of(decision)} if decision.node is None else {}
    row = -1 if decision.node is None else table.find_row(decision.node)
    values = row, decision.start, decision.next
    rows, starts, nexts = (np.array([value], dtype=np.int32) for value in values)
    return ScheduleResult(rows, failures, starts, nexts)


def is_alone(engine: Engine, pod: Pod) -> bool:
    """Whether a pod must be decided about by itself: it is terminating, which counters leave out, or
    nominated, or may get a hint."""
    is_special = pod.metadata.deletion_timestamp or pod.status.nominated_node_name
    return bool(is_special or (engine.signs and engine.sign(pod)))


class Batches:
    """Schedules pods in the core, of profiles that are in the core as a whole.

    Parameters
    ----------
    order : callable
        The node list, for decisions about single pods.
    settle : callable
        Lets the cache hear that victims have gone. Called without the cache's lock.
    """

    def __init__(
        self,
        cache: SchedulerCache,
        nominator: PodNominator,
        bindings: BindingCycles,
        order: Callable[[], list[str]],
        settle: Callable[[], object],
    ) -> None:
        self.cache = cache
        self.nominator = nominator
        self.order = order
        self.bindings = bindings
        self.settle = settle

    def place(
        self,
        engine: Engine,
        targets: Sequence[Target],
        pods: Sequence[Pod],
        rotation: bool,
        until_eviction: bool = False,
    ) -> ScheduleResult:
        """Decide for pods, one after the other, and assume each on its node; with `until_eviction` only up to
        the first one that others are evicted for, whose leaving nobody has heard of yet."""
        start, n = engine.cycle.start, len(pods)
        rows = np.full(n, -1, dtype=np.int32)
        nexts = np.empty(n, dtype=np.int32) if rotation else None
        result = ScheduleResult(rows, {}, nexts=nexts)
        at = 0
        while at < n:
            with self.cache.lock:  # not over the whole batch: informers take it after a lock of their own
                at, evicted = self._place_from(engine, targets, pods, result, at)
            if evicted and until_eviction:
                return ScheduleResult(rows[:at], result.failures)
            if evicted:
                self.settle()
        if nexts is None:
            return result
        return ScheduleResult(rows, result.failures, np.concatenate(([start], nexts[:-1])), nexts)

    def _place_from(
        self, engine: Engine, targets: Sequence[Target], pods: Sequence[Pod], result: ScheduleResult, at: int
    ) -> tuple[int, bool]:
        """Place pods from `at` on, until one has others evicted; where that ends, and whether it does so."""
        n, easy = len(pods), at
        while at < n:
            if at >= easy:
                easy = self._easy_until(engine, targets, pods, at)
            if easy > at:
                classes = np.array([pod_class for pod_class, _, _ in targets[at:easy]], dtype=np.int32)
                pinned = np.array([pinned for _, _, pinned in targets[at:easy]], dtype=np.int32)
                work = self.place_many, engine, classes, pinned, pods[at:easy], result, at
                # Where an open transaction takes memory pod by pod, it can run out half-way.
                at = (
                    self.cache.state.atomically(*work)
                    if self.cache.state.journal.depth
                    else work[0](*work[1:])
                )
                end = easy if engine.cycle.failed else min(at + 1, easy)
            else:
                end = at + 1
                while end < n and targets[end] == targets[at]:
                    end += 1
                if self._in_core(engine, targets[at], pods[at:end]):
                    at = self._place_equal(engine, targets[at], pods[at:end], result, at)
            while at < end:
                at += 1
                if self._place_one(engine, targets[at - 1], pods[at - 1], at - 1, result):
                    return at, True
        return n, False

    def is_easy(self, engine: Engine, target: Target, pod: Pod) -> bool:
        """Whether the core may decide in one go about pods of a target and others, unless one `is_alone` or
        some are nominated."""
        has_ports = bool(self.cache.state.classes.shape_of(target[0]).ports)
        return not (target[1] or has_ports) and engine.passes_at_once(target, pod)

    def _easy_until(self, engine: Engine, targets: Sequence[Target], pods: Sequence[Pod], at: int) -> int:
        """The end of the pods from `at` on that the core may decide about in one go, of whatever class."""
        if self.nominator:
            return at
        known: dict[Target, bool] = {}
        while at < len(pods):
            pod, target = pods[at], targets[at]
            easy = known.get(target)
            if easy is None:
                easy = known[target] = self.is_easy(engine, target, pod)
            if not easy or is_alone(engine, pod):
                break
            at += 1
        return at

    def place_many(
        self,
        engine: Engine,
        classes: Ints,
        pinned: Ints,
        pods: Sequence[Pod],
        result: ScheduleResult,
        first: int,
        enters: bool = True,
    ) -> int:
        """Place pods of any class, those of `result` from `first` on, and enter them in the ledger unless the
        caller does so later. Where it ends, a plugin failed, or that pod fits nowhere and may have others
        evicted."""
        rows = result.rows[first : first + len(pods)]
        nexts = None if result.nexts is None else result.nexts[first : first + len(pods)]
        engine.batching.take()
        engine.cycle.nominate(())  # what the last single cycle was told
        if nexts is not None:
            nexts[:] = engine.cycle.start  # without nodes, it stays
        done, why = 0, dict[int, Failure]()
        latest = dict[Target, Failure]()  # of each, before a pod of this batch failed

        is_stopped = False

        def note(at: int) -> bool:
            nonlocal is_stopped
            target = int(classes[at]), 0, int(pinned[at])
            if target in engine.failures:
                latest.setdefault(target, engine.failures[target][1])
            failure = self._why(engine, target, pods[at])
            if failure is None:
                is_stopped = True
            else:
                why[at] = failure
            return is_stopped

        while done < len(pods) and not is_stopped:
            # Entered at once: they may be whom the next one evicts.
            done = engine.cycle.place_many(classes, pinned, rows, done, note, nexts, pods if enters else None)
            if engine.cycle.failed:
                break
        for at in np.flatnonzero(rows[:done] < 0).tolist():
            target = int(classes[at]), 0, int(pinned[at])
            if at in why:
                latest[target] = why[at]
            result.failures[first + at] = latest.get(target) or engine.failures[target][1]
        return first + done

    def _why(self, engine: Engine, target: Target, pod: Pod) -> Failure | None:
        """Why a pod fits nowhere, as things are; None where PostFilter must be asked about it."""
        head, failure = engine.failures.get(target, (-1, None))
        if failure is not None and head == self.cache.state.log.head:
            return failure
        state = engine.framework.state_of(target)
        ran = engine.framework.run_pre_filter_plugins(state, pod)
        diagnosis, _ = engine.diagnose(target, state.shape, ran)
        if not engine.is_helpless(diagnosis):
            return None
        failure = Failure(engine.as_helpless(diagnosis)[0])
        if ran.node_names is None:  # a search among named nodes moves the rotation even in vain
            engine.failures[target] = (self.cache.state.log.head, failure)
        return failure

    def _place_equal(
        self, engine: Engine, target: Target, pods: Sequence[Pod], result: ScheduleResult, first: int
    ) -> int:
        """Place pods of one target, those of `result` from `first` on; where it ends, they must be decided
        about one by one."""

        enter = partial(self.cache.state.assume_rows, target[0], pods)
        nexts = None if result.nexts is None else result.nexts[first : first + len(pods)]
        if nexts is not None:
            nexts[:] = engine.cycle.start  # where the core is not asked, it stays
        rows, failure = self._place_run(engine, target, pods[0], len(pods), enter, nexts)
        end = first + len(rows)
        result.rows[first:end] = rows
        if failure is None:
            return end
        result.failures.update(dict.fromkeys(range(end, first + len(pods)), failure))
        return first + len(pods)

    def place_template(
        self,
        engine: Engine,
        target: Target,
        template: Pod,
        n: int,
        enter: Callable[[Ints], None],
        marks: Marks | None,
    ) -> tuple[Ints, Failure | None]:
        """Rows of up to `n` pods equal to a template, which `enter` puts in the ledger, and why the next one
        fits nowhere; no failure and fewer rows where that pod must be decided about by itself."""
        if not self._in_core(engine, target, [template]):
            return NO_ROWS, None
        return self._place_run(engine, target, template, n, enter, marks=marks)

    def assume(self, pod: Pod, node: str) -> None:
        """Put a pod on the node that was chosen; it is nominated no more."""
        self.cache.assume_pod(bound(pod, node))
        self.nominator.delete_nominated_pod_if_exists(pod)

    def _in_core(self, engine: Engine, target: Target, pods: Sequence[Pod]) -> bool:
        """Whether the core alone decides like single cycles. It does not where PreFilter or PreScore objects,
        the latter only where two nodes are feasible; where others are nominated; or where one `is_alone`."""
        if not engine.passes_at_once(target, pods[0]) or self.nominator:
            return False
        return not any(is_alone(engine, pod) for pod in pods)

    def _place_one(self, engine: Engine, target: Target, pod: Pod, at: int, result: ScheduleResult) -> bool:
        """Decide about one pod; whether others were evicted for it."""
        is_plain = not (self.nominator or is_alone(engine, pod))
        head, failure = engine.failures.get(target, (-1, None))
        if is_plain and failure is not None and head == self.cache.state.log.head:
            result.failures[at] = failure
            if result.nexts is not None:
                result.nexts[at] = engine.cycle.start
            return False
        decision, _ = engine.schedule(pod, target, self.order)
        if result.nexts is not None:
            result.nexts[at] = decision.next
        if decision.node is not None:
            result.rows[at] = engine.row_in_view(decision.node)
            self.assume(pod, decision.node)
            return False
        result.failures[at] = failure = Failure.of(decision)
        self.bindings.nominate(self.nominator, pod, decision.nominating)
        diagnosis = decision.diagnosis
        settled = diagnosis is not None and bool(diagnosis.unhelpful or decision.nominating)
        if is_plain and settled and not failure.nominated_node and decision.next == decision.start:
            engine.failures[target] = (self.cache.state.log.head, failure)
        return bool(failure.nominated_node)

    def _place_run(
        self,
        engine: Engine,
        target: Target,
        pod: Pod,
        n: int,
        enter: Callable[[Ints], None],
        nexts: Ints | None = None,
        marks: Marks | None = None,
    ) -> tuple[Ints, Failure | None]:
        """Place up to `n` pods equal to this one in the core: their rows, and why the next one fits nowhere,
        for which nothing changes. None where a plugin failed about it, or where others may be evicted for it:
        it must be asked about by itself."""
        engine.batching.take()
        engine.cycle.nominate(())  # what the last single cycle was told
        cluster = self.cache.state
        nodes = engine.nodes_in_view()
        head, known = engine.failures.get(target, (-1, Failure()))
        if head == cluster.log.head:
            return NO_ROWS, known
        if nodes == 0:
            return NO_ROWS, Failure(Diagnosis(0, engine.profile, cluster.classes.shape_of(target[0])))

        alike = not engine.may_be_helped(cluster.classes.shape_of(target[0]))

        work = engine.cycle.place_run, target[0], n, target[1], target[2], nexts, marks, alike, enter
        # Where host ports or an open transaction take memory pod by pod, it can run out half-way.
        recorded = cluster.journal.depth or cluster.classes.shape_of(target[0]).ports
        rows = cluster.atomically(*work) if recorded else work[0](*work[1:])
        if engine.cycle.failed or len(rows) == n:
            return rows, None
        failure = self._why(engine, target, pod)
        if not alike and engine.failures.get(target, (-1, None))[0] != cluster.log.head:
            return rows, None
        if not alike and nexts is not None:
            nexts[len(rows) :] = engine.cycle.start  # all nodes were looked at in vain
        return rows, failure
