"""Pods in order, each decided about and accounted for: the core in one go, single cycles where it must be."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from moorage._core.decide.pod_batch import LedgerSink, PodBatch, Route, Sink
from moorage.framework.runtime.runtime import Target
from moorage.scheduler.cycle.engine import Engine, SearchInVain
from moorage.scheduler.cycle.results import Failure, ScheduleResult

if TYPE_CHECKING:
    from moorage.scheduler.scheduling_context import SchedulingContext

LEDGER = LedgerSink()
PORTS = int(Route.PORTS)
ALONE = int(Route.TERMINATING | Route.NOMINATED | Route.SIGNED | Route.REJECTED)
"""Routes of pods that a cycle of their own decides about: counters leave terminating pods out, a nominated
node is tried first, a signature may bring a hint, and a rejection is PreFilter's to word."""


class Placing:
    """Places the pods of a batch for one engine, one after the other.

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
        self.engine = engine
        self.batch = batch
        self.result = result
        self.sink = sink
        self.state = context.cache.state
        self._in_vain: tuple[int, SearchInVain] | None = None  # the place of the pod, and what was found

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
                at, evicted = self._place_from(at, end)
            if evicted and until_eviction:
                break
            if evicted:
                self.context.sync()
        return at

    def _place_from(self, first: int, end: int) -> tuple[int, bool]:
        """Place pods until one has others evicted; where that ends, and whether it does so."""
        for begin, piece_end, route in self.batch.cut(ALONE, first):
            at, stop, failed = begin, min(piece_end, end), False
            while at < stop:
                if not (route or failed) and (together := self._together_until(at, stop)) > at:
                    at = self.place_together(at, together)
                    failed = self.engine.decider.failed
                if at < stop:
                    at += 1
                    if self._place_one(at - 1):
                        return at, True
            if stop == end:
                break
        return end, False

    def _together_until(self, first: int, end: int) -> int:
        """The end of the pods from `first` on that are nominated to no node."""
        nominator = self.context.nominator
        if nominator:
            for at in range(first, end):
                if nominator.nominated_node(self.batch.pods[at]) is not None:
                    return at
        return end

    def place_together(self, first: int, end: int) -> int:
        """Place pods by the core alone.

        Returns
        -------
        int
            `end`; or the place of the pod about which a plugin failed, or that fits nowhere while others may
            be evicted for it: a cycle of its own decides about that one.
        """
        self.engine.batching.kept = None
        nominator = self.context.nominator
        if nominator:
            with nominator.lock:
                self.engine.search.follow_nominator(nominator, self.batch.pod(first))
        else:
            self.engine.search.nominate(())
        # Where host ports or an open transaction take memory pod by pod, it can run out half-way.
        if self.state.journal.depth or self.batch.may_need(PORTS, first, end):
            return self.state.atomically(self._place_in_core, first, end)
        return self._place_in_core(first, end)

    def _place_in_core(self, first: int, end: int) -> int:
        states, rows, failures = self.engine.search.states, self.result.rows, self.result.failures
        noted = dict[int, Failure]()
        latest = dict[Target, Failure]()  # of each target, before a pod of this batch failed

        def must_ask_post_filter(at: int) -> bool:
            target = self.batch.target(at)
            known = states.state_of(*target).failure
            failure = self._why(target, at)
            if failure is None:
                return True
            if known is not None:
                latest.setdefault(target, cast(Failure, known))
            noted[at] = failure
            return False

        done = self.engine.placer.place(self.batch, rows, first, end, self.sink, must_ask_post_filter)
        if done == first or rows[first:done].min() >= 0:
            return done
        for at in (first + np.flatnonzero(rows[first:done] < 0)).tolist():
            target = self.batch.target(at)
            if at in noted:
                latest[target] = noted[at]
            failures[at] = latest.get(target) or cast(Failure, states.state_of(*target).failure)
        return done

    def _why(self, target: Target, at: int) -> Failure | None:
        """Why a pod fits nowhere, as things are; None where PostFilter must be asked about it."""
        engine, head = self.engine, self.state.log.head
        known = None if self.context.nominator else engine.search.states.failure_of(target, head)
        if known is not None:
            return cast(Failure, known)
        state = engine.framework.state_of(target)
        ran = engine.framework.run_pre_filter_plugins(state, self.batch.pod(at))
        diagnosis, by_node = engine.diagnose(target, state.shape, ran)
        if not engine.preemption_is_futile(diagnosis):
            self._in_vain = at, SearchInVain(state, ran, diagnosis, by_node)
            return None
        failure = Failure(engine.with_futile_messages(diagnosis)[0])
        # A search among named nodes moves the rotation even in vain.
        if ran.node_names is None and not self.context.nominator:
            engine.search.states.set_failure(target, failure, head)
        return failure

    def _place_one(self, at: int) -> bool:
        """Decide about one pod in a cycle of its own; whether others were evicted for it."""
        engine, target, pod = self.engine, self.batch.target(at), self.batch.pod(at)
        states = engine.search.states
        is_plain = not (self.context.nominator or self.batch.route(at) & ALONE)
        if is_plain and (known := states.failure_of(target, self.state.log.head)) is not None:
            self.result.failures[at] = cast(Failure, known)
            return False
        searched, self._in_vain = self._in_vain, None
        if searched is not None and searched[0] == at:
            decision = engine.preempt(pod, searched[1], self.context.view_order)
        else:
            decision, _ = engine.schedule(pod, target, self.context.view_order)
        if decision.node is not None:
            self.result.rows[at] = engine.row_in_view(decision.node)
            self.context.assume(pod, decision.node)
            return False
        self.result.failures[at] = failure = Failure.of(decision)
        self.context.bindings.nominate(self.context.nominator, pod, decision.nominating)
        diagnosis = decision.diagnosis
        settled = diagnosis is not None and bool(diagnosis.futile_plugins or decision.nominating)
        if is_plain and settled and not failure.nominated_node and decision.next == decision.start:
            states.set_failure(target, failure, self.state.log.head)
        return bool(failure.nominated_node)
