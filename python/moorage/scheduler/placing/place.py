"""Pods in order, each decided about and accounted for: the core in one go, single cycles where it must be."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from moorage._core.decide.pod_batch import LedgerSink, PodBatch, Route, Sink
from moorage.framework.runtime.runtime import Target
from moorage.scheduler.cycle.engine import Engine, FailedSearch
from moorage.scheduler.cycle.results import Decision, Failure, ScheduleResult

if TYPE_CHECKING:
    from moorage.scheduler.scheduling_context import SchedulingContext

WHOLE_CYCLE = int(Route.PYTHON | Route.EXTENDERS)
"""Plugins outside the core or extenders have a say: each pod has a cycle of its own, with all its plugins."""

APART = WHOLE_CYCLE | int(Route.WAITS)
"""The same, and pods that wait on Permit for others of their group where they come alone."""

LEDGER = LedgerSink()
ALONE = int(Route.ALONE)


class Placing:
    """Places the pods of a batch for one engine, whose turn it is from now on, one after the other.

    Parameters
    ----------
    context : SchedulingContext
    engine : Engine
        Of a profile that is in the core as a whole.
    batch : PodBatch
    result : ScheduleResult
        Takes rows and failures, at the places of the pods.
    sink : Sink, optional
        Where placed pods go; by default the ledger, as assumed.
    """

    def __init__(
        self,
        context: SchedulingContext,
        engine: Engine,
        batch: PodBatch,
        result: ScheduleResult,
        sink: Sink = LEDGER,
    ) -> None:
        self.context = context
        self.engine = context.rotation.take(engine)
        self.batch = batch
        self.result = result
        self.sink = sink
        self._latest: dict[Target, Failure] = {}  # of each target, before a pod of this call failed
        self._failed_search: tuple[int, FailedSearch] | None = None  # with the pod's place

    def place(self, first: int, end: int, until_eviction: bool = False) -> int:
        """Place the pods from `first` to `end`.

        Parameters
        ----------
        first, end : int
        until_eviction : bool
            End behind the first pod that others are evicted for, before anybody hears of their leaving.

        Returns
        -------
        int
            The place of the pod to go on with.
        """
        at = first
        while at < end:
            with self.context.cache.lock:  # not over the whole: informers take it after a lock of their own
                at = self.place_together(at, end)
                if at == end:
                    break
                evicted = self._place_one(at)
            at += 1
            if evicted and until_eviction:
                break
            if evicted:
                self.context.sync()
        return at

    def place_until_failure(self, end: int) -> int:
        """Place the pods up to the first that fits nowhere. Nobody hears of those that leave for it.

        Parameters
        ----------
        end : int

        Returns
        -------
        int
            The end of the pods that were tried.
        """
        at = 0
        while at < end and not self.result.failures:
            at = self.place_together(at, end)
            if at < end:
                self._place_one(at)
                at += 1
        return at

    def place_together(self, first: int, end: int) -> int:
        """Place pods by the core alone.

        Parameters
        ----------
        first, end : int

        Returns
        -------
        int
            `end`; or the place of the first pod that needs a cycle of its own, see `Placer.place`, or that
            fits nowhere while others may be evicted for it.
        """
        placer = self.engine.placer
        done = placer.place(self.batch, self.result, first, end, self.sink, self._must_ask_post_filter)
        if done > first:
            self.engine.batching.scored = None
            if placer.unplaced:
                self._complete_failures(first, done)
        return done

    def _must_ask_post_filter(self, at: int) -> bool:
        """A pod fits nowhere that is the first of its target to find the cluster so: note why, unless it
        needs a cycle of its own."""
        target = self.batch.target(at)
        known = self.engine.search.states.state_of(*target).failure
        failure = self._why(target, at)
        if failure is None:
            return True
        if known is not None:
            self._latest.setdefault(target, cast(Failure, known))
        self.result.failures[at] = failure
        return False

    def _complete_failures(self, first: int, end: int) -> None:
        """Pods of a target that failed one after the other have the reason of the first."""
        failures, latest, states = self.result.failures, self._latest, self.engine.search.states
        for at in (first + np.flatnonzero(self.result.rows[first:end] < 0)).tolist():
            target = self.batch.target(at)
            if at in failures:
                latest[target] = failures[at]
            else:
                failures[at] = latest.get(target) or cast(Failure, states.state_of(*target).failure)
        self._latest = {}

    def _why(self, target: Target, at: int) -> Failure | None:
        """Why a pod fits nowhere, as things are; None where PostFilter must be asked about it."""
        engine, head = self.engine, self.context.cache.state.log.head
        search = engine.search
        known = None if search.has_nominated else search.states.failure_of(target, head)
        if known is not None:
            return cast(Failure, known)
        state = engine.framework.state_of(target)
        ran = engine.framework.run_pre_filter_plugins(state, self.batch.pod(at))
        diagnosis, by_node = engine.diagnose(target, state.shape, ran)
        if not engine.preemption_is_futile(diagnosis):
            self._failed_search = at, FailedSearch(state, ran, diagnosis, by_node)
            return None
        failure = Failure(engine.with_futile_messages(diagnosis)[0])
        # A search among named nodes moves the rotation even in vain.
        if ran.node_names is None and not search.has_nominated:
            search.states.set_failure(target, failure, head)
        return failure

    def _place_one(self, at: int) -> bool:
        """Decide about one pod in a cycle of its own; whether others were evicted for it."""
        target, states, log = self.batch.target(at), self.engine.search.states, self.context.cache.state.log
        is_plain = not (self.context.nominator or self.batch.route(at) & ALONE)
        if is_plain and (known := states.failure_of(target, log.head)) is not None:
            self.result.failures[at] = cast(Failure, known)
            return False
        decision = self.cycle(at)
        if decision.node is not None:
            self.result.rows[at] = self.engine.row_in_view(decision.node)
            return False
        self.result.failures[at] = failure = Failure.of(decision)
        diagnosis = decision.diagnosis
        settled = diagnosis is not None and bool(diagnosis.futile_plugins or decision.nominating)
        if is_plain and settled and not failure.nominated_node and decision.next == decision.start:
            states.set_failure(target, failure, log.head)
        return bool(failure.nominated_node)

    def cycle(self, at: int) -> Decision:
        """A cycle for one pod: it is assumed on the chosen node, or nominated as PostFilter says.

        Parameters
        ----------
        at : int

        Returns
        -------
        Decision
        """
        context, pod = self.context, self.batch.pod(at)
        context.enlist_if_possible()
        searched, self._failed_search = self._failed_search, None
        if searched is not None and searched[0] == at:
            decision = self.engine.preempt(pod, searched[1], context.view_order)
        else:
            decision, _ = self.engine.schedule(pod, self.batch.target(at), context.view_order)
        if decision.node is not None:
            context.assume(pod, decision.node)
        else:
            context.bindings.nominate(context.nominator, pod, decision.nominating)
        return decision
