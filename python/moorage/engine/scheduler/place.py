"""The common way of a pod: the pods of a batch are placed in order, by the core together where possible.

`loop.py` makes the batches, of pods without a group, and binds what is placed. A pod that the core cannot
place takes the rare way, the single steps of `cycle/cycle.py`, which are in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from moorage._core.decide.batch_rows import LedgerSink, Sink
from moorage._core.decide.pod_batch import PodBatch, Route
from moorage._core.decide.scored_nodes import ScoredNodes

from ..framework.extension_points import PreFilterRun, StatusError
from ..framework.run_plugins import Target
from ..framework.status import CycleState, NodeToStatus
from . import cycle as cycles
from .cycle.engine import Engine
from .cycle.results import NO_ROWS, Decision, Failure, ScheduleResult
from .scheduler_state import SchedulerState

if TYPE_CHECKING:
    from .cycle.diagnosis import Diagnosis

# ---- listed nodes ------------------------------------------------------------------------------------------
# Opportunistic batching of the placing loop: pods take the nodes of a list that a cycle has left, without a
# cycle of each (`tests/house/special_paths.toml`).


def place_listed(
    engine: Engine, scored: ScoredNodes, batch: PodBatch, result: ScheduleResult, first: int, end: int
) -> int:
    """Place equal pods of a batch on the nodes of the list of the last cycle, as far as each may use the list
    and fits there. No pod is nominated, and all plugins are in the core.

    Parameters
    ----------
    result : ScheduleResult
        Receives the rows.
    first, end : int
        Index of the first pod, and index after the last; all belong to one run of the batch.

    Returns
    -------
    int
        Index of the first pod that needs a cycle of its own, or `end`.
    """
    if not engine.batching.is_fresh(scored, engine.sign(batch.pod(first))):
        return first
    try:
        return scored.place(engine.search, batch, result, first, end)
    except StatusError:  # the cycle of the pod tells of it
        return result.unplaced(first, end)[0]


# ---- place -------------------------------------------------------------------------------------------------

OWN_CYCLE = int(Route.ALONE | Route.CLAIMS | Route.VOLUMES)
"""Of the pods that need a cycle of their own, nominated and signed ones without these other bits may do
without."""

LEDGER = LedgerSink()
ALL_NODES = PreFilterRun()
"""The result of a PreFilter that leaves all nodes."""
LISTED = 1024
"""The number of pods after which the age of a list of scored nodes is looked at again."""

ALONE, CLAIMS = int(Route.ALONE), int(Route.CLAIMS)
BY_POD = ALONE | int(Route.SHARES)
"""Route bits of pods that may fit where others of their target do not."""


class FailedSearch(Struct, frozen=True):
    """A search of the placing loop that found no feasible node, kept for PostFilter.

    Attributes
    ----------
    state : CycleState
        State of the cycle after PreFilter.
    diagnosis : Diagnosis
        The rejections, without the message of PostFilter.
    statuses : NodeToStatus
        The status of each node by name.
    """

    at: int
    state: CycleState
    ran: PreFilterRun
    diagnosis: Diagnosis
    statuses: NodeToStatus


class Placing(Struct):
    """Places the pods of a batch by one engine, in order.

    Parameters
    ----------
    engine : Engine
        Of a profile all of whose plugins are in the core. It has the rotation (`Rotation.take`).
    result : ScheduleResult
        Receives rows and failures at the indexes of the pods.
    sink : Sink, optional
        Receives the placed pods; by default the ledger, which assumes them.
    writes_nominations : bool, optional
        Whether nominations are written to the pods here; else the report of the failure has them.
    stops : bool, optional
        Whether to end with the first pod that fits nowhere.
    """

    context: SchedulerState
    engine: Engine
    batch: PodBatch
    result: ScheduleResult
    sink: Sink = LEDGER
    writes_nominations: bool = True
    stops: bool = False
    _failed_search: FailedSearch | None = None
    _failure: Failure | None = None

    def place(self, first: int, end: int, until_evicts: bool = False) -> int:
        """Place the pods from `first` up to, but not including, `end`.

        Parameters
        ----------
        until_evicts : bool, optional
            Whether to end after a pod for which others are evicted; otherwise the events about them are
            processed at once.

        Returns
        -------
        int
            Index of the next pod to place. Plugins have to schedule it, if its route has `Route.CLAIMS`.
        """
        at = first
        while at < end:
            with self.context.cache.lock:  # for one step only: informers take it after a lock of their own
                together = self.place_together(at, end)
                if together == end:
                    return end
                at = self._place_hinted(self._place_nominated(together, end), end)
                if at > together:
                    continue
                if self.batch.route(at) & CLAIMS:
                    break
                evicted = self._place_one(at)
            at += 1
            if (evicted and until_evicts) or (self.stops and self.result.failures):
                break
            if evicted:
                self.context.sync()
        return at

    def place_together(self, first: int, end: int) -> int:
        """Place pods by the core alone.

        Returns
        -------
        int
            `end`, or the index of the first pod that needs a cycle of its own: see `Placer.place`, or it fits
            nowhere and PostFilter has to run for it.
        """
        done = self.engine.placer.place(self.batch, self.result, first, end, self.sink, self._failure_of)
        if done > first:
            self.engine.batching.scored = None
        return done

    def _place_nominated(self, first: int, end: int) -> int:
        """Assume leading pods that their nominated node accepts while no other pod is nominated to it, as a
        cycle of each would (kube-scheduler v1.36, evaluateNominatedNode), but faster
        (`tests/house/special_paths.toml`). Return the index of the first other pod."""
        at = first
        while at < end and (row := self._accepted_nomination(at)) >= 0:
            if at == first:
                self.context.enlist_if_possible()
            pod = self.batch.pod(at)
            self.context.assume(pod, pod.status.nominated_node_name)
            self.result.rows[at] = row
            at += 1
        if at > first:
            self.engine.batching.scored = None
        return at

    def _accepted_nomination(self, at: int) -> int:
        """Return the row of a pod's nominated node, if it accepts the pod while no other pod is nominated to
        it, and nothing outside the core takes part; else -1."""
        if self.batch.route(at) & OWN_CYCLE != Route.NOMINATED:
            return -1
        pod = self.batch.pod(at)
        node = pod.status.nominated_node_name
        row = self.engine.row_to_try(node)
        if row < 0 or not self.context.nominator.is_alone(pod, node):
            return -1
        return -1 if self.engine.search.verdict(row, *self.batch.target(at), False) else row

    def _place_hinted(self, first: int, end: int) -> int:
        """Assume leading pods on the nodes that the list of the last cycle proposes, as a cycle of each would
        (see `Batching`). Return the index of the first other pod."""
        state, nominator = self.context.cache.state, self.context.nominator
        route = 0 if self.engine.batching.scored is None else self.batch.route(first)
        if route & OWN_CYCLE != Route.SIGNED or self.sink is not LEDGER:
            return first
        if nominator or self.engine.search.has_nominated:
            return first
        self.context.enlist_if_possible()
        return state.atomically(self._follow_hints, first, end)

    def _follow_hints(self, first: int, end: int) -> int:
        batch, engine, at, stop = self.batch, self.engine, first, first
        scored = engine.batching.take()
        while scored is not None and at == stop < end and batch.route(at) & OWN_CYCLE == Route.SIGNED:
            stop = min(batch.end_of_run(at), at + LISTED, end)
            at = place_listed(engine, scored, batch, self.result, at, stop)
        self.sink.enter(batch, self.result, first, at)
        engine.batching.scored = scored
        return at

    def _failure_of(self, at: int) -> Failure | None:
        """Return why a pod fits nowhere, which the core calls for the first failing pod of a target since the
        cluster changed; None where a cycle has to find it, as plugins decide, PostFilter has to run, or this
        is the last pod that is tried."""
        if self.batch.route(at) & CLAIMS:
            return None
        engine, target, pod = self.engine, self.batch.target(at), self.batch.pod(at)
        known = None if self.stops or engine.search.has_nominated else self._known_failure(target)
        if known is not None:
            return known
        framework = engine.framework
        state, ran = (
            framework.pre_filtered(target, pod) if framework.may_narrow(target) else (None, ALL_NODES)
        )
        diagnosis, statuses = engine.diagnose(target, framework.shape_of(target), ran)
        if not self.stops and engine.preemption_is_futile(diagnosis):
            failure = Failure(replace(diagnosis, futile_plugins=engine.core_post_filters or ()))
            if failure != self._failure:  # pods that fail alike share one, with its text
                self._failure = failure
            return self._failure
        if state is None:
            state, ran = framework.pre_filtered(target, pod)
        self._failed_search = FailedSearch(at, state, ran, diagnosis, statuses)
        return None

    def _known_failure(self, target: Target) -> Failure | None:
        """Return why pods of a target fit nowhere, if that is known of the cluster as it is now."""
        failure: Failure | None = self.engine.search.states.failure_of(
            target, self.context.cache.state.log.head
        )
        return failure

    def _place_one(self, at: int) -> bool:
        """Schedule one pod in a cycle of its own; return whether pods were evicted for it."""
        is_plain = not (self.context.nominator or self.batch.route(at) & ALONE)
        decision = self.cycle(at)
        if decision.node is not None:
            self.result.rows[at] = self.engine.row_in_view(decision.node)
            return False
        self.result.failures[at] = failure = decision.failure
        diagnosis = decision.diagnosis
        settled = diagnosis is not None and bool(diagnosis.futile_plugins or decision.nominating)
        if is_plain and settled and not failure.nominated_node:
            self.remember(at, decision, failure)
        return bool(failure.nominated_node)

    def remember(self, at: int, decision: Decision, failure: Failure) -> None:
        """Remember why a pod fits nowhere, for the pods of its target while the cluster stays as it is.

        Parameters
        ----------
        at : int
            Index of the pod in the batch.
        decision : Decision
            Without a node, without nominated pods, and alike for all pods of the target that are placed
            together.
        """
        # A search among named nodes advances the rotation even without a result, so it has to be repeated.
        if decision.next == decision.start and not self.batch.route(at) & BY_POD:
            head = self.context.cache.state.log.head
            self.engine.search.states.set_failure(self.batch.target(at), failure, head)

    def cycle(self, at: int) -> Decision:
        """Run the cycle of one pod: assume it on the chosen node, or record the nomination by PostFilter.

        Parameters
        ----------
        at : int
            Index of the pod in the batch.
        """
        context, pod = self.context, self.batch.pod(at)
        context.enlist_if_possible()
        searched, self._failed_search = self._failed_search, None
        engine = self.engine
        if searched is not None and searched.at == at:  # the rotation advances as by the search of a cycle
            diagnosis, start = searched.diagnosis, engine.decider.start
            engine.placer.skip(1)
            engine.begin_search(searched.state, pod, searched.ran)
            evaluated, end = sum(diagnosis.verdicts.values()), engine.decider.start
            decision = Decision(None, start, end, evaluated, NO_ROWS, None, diagnosis)
            decision = cycles.cycle.run_post_filter(engine, searched.state, pod, decision, searched.statuses)
        else:
            decision, _ = cycles.cycle.schedule_pod(engine, pod, self.batch.target(at))
        if decision.node is not None:
            context.assume(pod, decision.node)
        else:
            context.nominate(pod, decision.nominating, writes=self.writes_nominations)
        return decision


# ---- routes ------------------------------------------------------------------------------------------------
# Route bits that are looked at together: they select the engine, and the kind of cycle.

WHOLE_CYCLE = int(Route.PYTHON | Route.EXTENDERS)
"""Route bits of pods that out-of-tree plugins or extenders take part in: each has a cycle of its own."""

APART = WHOLE_CYCLE | int(Route.WAITS)
"""`WHOLE_CYCLE` and the route bit of single pods of a group, which wait on Permit for the other members."""

SEGMENTS = APART | ~(int(Route.PROFILE) - 1)
"""Route bits that select the engine and the kind of cycle; a batch is cut where one of them changes."""
