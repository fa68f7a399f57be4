"""One attempt to place the pods of a group, inside a transaction that somebody else opens and closes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from moorage._core.decide.pod_batch import Sink
from moorage._core.state.pod_spec import bound
from moorage.framework.plugin.cycle_state import CycleState
from moorage.framework.plugin.interface import NominatingInfo, PermitPlugin
from moorage.framework.runtime.binding_points import WAITING
from moorage.objects.model.pod import Pod
from moorage.objects.model.pod_group import PodGroup
from moorage.plugins.gang_scheduling import WAITS, GangScheduling
from moorage.scheduler.cycle.diagnosis import Diagnosis
from moorage.scheduler.cycle.engine import Engine
from moorage.scheduler.cycle.results import Failure, ScheduleResult
from moorage.scheduler.placing.binding_cycle import Started
from moorage.scheduler.placing.place import ALONE, LEDGER, Placing

if TYPE_CHECKING:
    from moorage.scheduler.scheduling_context import SchedulingContext

UNSCHEDULABLE = "pod group is unschedulable"
WAITS_FOR_VICTIMS = f"{UNSCHEDULABLE}, pod group is waiting for preemption to complete"
WAITS_FOR_MEMBERS = f"{UNSCHEDULABLE}, {WAITS}, {WAITING}"


class Members:
    """The pods of a group that are to be placed.

    Attributes
    ----------
    batch : PodBatch
        The pods as the core reads them.
    segments : list of Segment
        Pods that follow one another and are decided about in one way.
    """

    def __init__(
        self,
        context: SchedulingContext,
        engine: Engine,
        group: PodGroup | None,
        pods: Sequence[Pod],
        scheduled: Sequence[Pod],
    ) -> None:
        self.context = context
        self.engine = engine
        self.group = group
        self.minimum = group.min_count if group is not None and counts_members(engine) else 0
        self.pods = pods
        self.scheduled = scheduled
        self.batch = context.batch_of(pods)
        self.segments = list(context.segments(self.batch))

    @cached_property
    def carry_terms(self) -> bool:
        """Whether they have affinity terms by which those placed first could matter to the others."""
        shape_of = self.context.cache.state.classes.shape_of
        return len(self.pods) > 1 and any(shape_of(one).carried for one in self.batch.classes())

    def read_terms(self) -> None:
        """Have all counters that they are judged by."""
        for segment in self.segments:
            for pod_class, _, pinned in self.batch.targets(segment.first, segment.end):
                segment.engine.search.terms_of(pod_class, pinned)

    @cached_property
    def engines(self) -> list[Engine]:
        """The engines that decide about them."""
        return list(dict.fromkeys([self.engine, *(segment.engine for segment in self.segments)]))


def counts_members(engine: Engine) -> bool:
    """Whether a group needs its minimum: not where the gates let pods be grouped without GangScheduling.
    Where no gate does, somebody asks for a group all the same."""
    has_plugin = any(plugin.name == GangScheduling.name for plugin in engine.profile.at(PermitPlugin))
    return has_plugin or not engine.handle.groups_pods


@dataclass(frozen=True, slots=True)
class Reserved:
    """A pod that plugins outside the core have been asked about."""

    at: int
    engine: Engine
    state: CycleState
    pod: Pod
    assumed: Pod


class Attempt:
    """One attempt.

    Attributes
    ----------
    rows, failures
        As those of a `GroupResult`, before the transaction is undone.
    error : str
        The error that ended it.
    is_permitted : bool
        Whether Permit has let a pod go on. GangScheduling does as soon as the minimum is there.
    preempting : dict of int to str
        Position of each pod that others are to leave for, to the node that it is nominated to. Pods after it
        see it there.
    waits : bool
        Permit has let a pod go on after one that others are to leave for.
    next_start : int
        Where the next search would begin.
    """

    def __init__(self, members: Members) -> None:
        self.members = members
        self.context = members.context
        self.result = ScheduleResult.nowhere(self.context.cache.state, len(members.pods))
        self.rows, self.failures = self.result.rows, self.result.failures
        self.reserved: list[Reserved] = []
        self.error = ""
        self.is_permitted = self.waits = False
        self.preempting: dict[int, str] = {}
        self._asked_to_wait: dict[int, str] = {}
        self._gets_room = False
        self.next_start = self.context.rotation.start
        self._entered = 0
        self._message = ""

    @property
    def succeeded(self) -> bool:
        return self.is_permitted and not self.waits and not self.error

    @property
    def is_feasible(self) -> bool:
        """Whether the group has succeeded, or would if some pods left."""
        return self.is_permitted and not self.error

    @property
    def placed(self) -> int:
        """How many of the pods have a node, be it one that others are to leave."""
        return int(np.count_nonzero(self.rows >= 0)) + len(self.preempting)

    @property
    def message(self) -> str:
        """Why the group has failed."""
        return self._message or (WAITS_FOR_VICTIMS if self.waits else UNSCHEDULABLE)

    @message.setter
    def message(self, message: str) -> None:
        self._message = message

    def failed(self) -> dict[int, Failure]:
        """What becomes of each pod of a group that has failed without an error."""
        failures = dict.fromkeys(range(len(self.rows)), Failure(group_failure=self.message)) | self.failures
        held = Failure(group_failure=WAITS_FOR_MEMBERS, nominating=NominatingInfo())
        placed, table = np.flatnonzero(self.rows >= 0).tolist(), self.context.cache.state.table
        if self.waits or self._gets_room:
            for at in placed:
                nominating = NominatingInfo(table.row_name(self.rows[at]))
                failures[at] = Failure(group_failure=self.message, nominating=nominating)
            return failures
        failures |= dict.fromkeys((*placed, *self.preempting), held)
        for at, text in self._asked_to_wait.items():
            failures[at] = Failure(group_failure=text, nominating=NominatingInfo())
        return failures

    @property
    def _has_minimum(self) -> bool:
        return len(self.members.scheduled) + self.placed >= self.members.minimum

    def gets_room(self) -> None:
        """Others are to leave for the group."""
        self._gets_room = True

    def _permit(self) -> None:
        """A pod was placed that no other plugin has wait."""
        if self._has_minimum:
            self.is_permitted, self.waits = True, bool(self.preempting)

    # ---- placing -------------------------------------------------------------------------------------------

    def place(self) -> None:
        """Put every pod on a node, as far as nodes are found. Pods that the core alone decides about are not
        in the ledger before `enter`."""
        batch, nominator = self.members.batch, self.context.nominator
        for segment in self.members.segments:
            self.context.rotation.take(segment.engine)
            placing = Placing(self.context, segment.engine, batch, self.result, Sink())
            for begin, piece_end, route in batch.cut(ALONE, segment.first):
                at, end = begin, min(piece_end, segment.end)
                while at < end and not self.error:
                    if not (route or segment.whole_cycle or nominator):
                        at = self._place_together(placing, at, end)
                    if at < end:
                        self._enter_until(at)
                        self._place_one(segment.engine, not segment.whole_cycle, at)
                        at += 1
                if self.error or end == segment.end:
                    break
            if self.error:
                break
        self.next_start = self.context.rotation.start

    def _place_together(self, placing: Placing, first: int, end: int) -> int:
        """Place pods in one go; the place of the first that needs a cycle of its own."""
        done = placing.place_together(first, end)
        if np.any(self.rows[first:done] >= 0):
            self._permit()
        return done

    def enter(self) -> None:
        """Enter the pods in the ledger that are not there yet."""
        state = self.context.cache.state
        if state.journal.depth:
            state.atomically(self._enter_until, len(self.rows))
        else:
            self._enter_until(len(self.rows))

    def _enter_until(self, end: int) -> None:
        if end > self._entered:
            LEDGER.enter(self.members.batch, self.rows, self._entered, end)
            self._entered = end

    def _place_one(self, engine: Engine, in_core: bool, at: int) -> None:
        """A cycle of one pod, up to Permit."""
        pod, context = self.members.pods[at], self.context
        self._entered = at + 1
        decision, state = engine.schedule(pod, self.members.batch.target(at), context.view_order)
        node = decision.node
        if node is None:
            self.failures[at] = failure = Failure.of(decision)
            self.error, node = decision.error, failure.nominated_node
            if not node:
                return
            self.preempting[at] = node
        else:
            self.rows[at] = engine.row_in_view(node)
        assumed = bound(pod, node)
        context.cache.assume_pod(assumed)
        context.handle.nominator.delete_nominated_pod_if_exists(pod)
        if in_core:
            self._permit()
        else:
            self._reserve(Reserved(at, engine, state, pod, assumed))

    def _reserve(self, one: Reserved) -> None:
        """Ask the plugins outside the core about a pod that is assumed."""
        framework, node = one.engine.framework, one.assumed.spec.node_name
        status = framework.run_reserve_plugins_reserve(one.state, one.assumed, node)
        if status is None:
            status, _ = framework.run_permit_plugins(one.state, one.assumed, node)
        if status is None or status.is_wait:
            self.reserved.append(one)
            if status is None:
                self._permit()
            elif self._has_minimum:
                self._asked_to_wait[one.at] = f"{UNSCHEDULABLE}, {status.message()}"
            return
        framework.run_reserve_plugins_unreserve(one.state, one.assumed, node)
        self.context.cache.forget_pod(one.assumed)
        self.rows[one.at] = -1
        self.preempting.pop(one.at, None)
        if status.is_rejected:
            chosen = Diagnosis(1, one.engine.profile, one.state.shape, chosen=status)
            failure = Failure(chosen, nominating=NominatingInfo())
        else:
            failure = Failure(error=status.message() or str(status.code), nominating=NominatingInfo())
        self.failures[one.at], self.error = failure, failure.error

    # ---- what comes of it ----------------------------------------------------------------------------------

    def unreserve(self) -> None:
        """What was reserved was so in thought only: a group that has succeeded reserves for good."""
        for one in reversed(self.reserved):
            framework, node = one.engine.framework, one.assumed.spec.node_name
            framework.run_reserve_plugins_unreserve(one.state, one.assumed, node)

    def start(self) -> dict[int, Started]:
        """The group has succeeded: pods that plugins outside the core have a say in begin their binding
        cycles, with Reserve and Permit for good. Position to each that has begun."""
        started: dict[int, Started] = {}
        for one in reversed(self.reserved):
            self.context.cache.forget_pod(one.assumed)
        for one in self.reserved:
            node = one.assumed.spec.node_name
            outcome = self.context.bindings.reserve(one.engine, one.state, one.pod, node)
            if isinstance(outcome, Started):
                started[one.at] = outcome
            elif outcome.failure is not None:
                self.rows[one.at] = -1
                self.failures[one.at] = outcome.failure
        return started
