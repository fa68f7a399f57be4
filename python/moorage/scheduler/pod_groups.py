"""Placing a pod group: its pods one after the other in one transaction, which is kept if enough of them fit.

kube-scheduler v1.36, schedule_one_podgroup.go: nobody else's changes are seen meanwhile, a member that fits
nowhere is passed over, and the group succeeds if Permit lets any of its pods go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from moorage._core.pod_spec import bound
from moorage.cache.scheduler_cache import Transaction
from moorage.framework.cycle_state import CycleState
from moorage.objects.pod import Pod
from moorage.objects.pod_group import PodGroup

from .batch import ScheduleResult, is_alone
from .binding_cycle import Started
from .diagnosis import Diagnosis
from .engine import Engine
from .results import Failure

if TYPE_CHECKING:
    from .scheduler import Scheduler

UNSCHEDULABLE = "pod group is unschedulable"
OTHER_FAILED = "failed to schedule other pod from a pod group: {}"


@dataclass(frozen=True, slots=True)
class GroupResult:
    """What became of the pods of a group.

    Attributes
    ----------
    rows : (n,) int32 array
        Row of the node table that each pod was put on, -1 where it has none: everywhere, if the group failed.
    failures : dict of int to Failure
        Position of each pod without a row to the reason.
    succeeded : bool
        Whether the pods that have a row are assumed. Otherwise nothing has changed.
    message : str
        Why the group failed.
    started : dict of int to Started
        Position to what `BindingCycles.bind` goes on with, for placed pods that plugins outside the core have
        a say in; all others are to be bound like those of a batch.
    """

    rows: npt.NDArray[np.int32]
    failures: dict[int, Failure]
    succeeded: bool
    message: str = ""
    started: dict[int, Started] = field(default_factory=dict)


def rejected(pods: Sequence[Pod], error: str) -> GroupResult:
    """What becomes of pods that cannot be a group."""
    failure = Failure(error=error)
    rows = np.full(len(pods), -1, dtype=np.int32)
    return GroupResult(rows, dict.fromkeys(range(len(pods)), failure), False, error)


def place_group(
    scheduler: Scheduler,
    engine: Engine,
    group: PodGroup | None,
    pods: Sequence[Pod],
    scheduled: Sequence[Pod] = (),
) -> GroupResult:
    """Place the pods of a group, in this order: all that fit, if with those that have a node they make up the
    group's minimum; else none. Nobody is evicted for a group.

    Parameters
    ----------
    engine : Engine
        Of the profile of the pods.
    group : PodGroup, optional
        None is a group without a minimum.
    pods : sequence of Pod
        Pending members, not in the cache.
    scheduled : sequence of Pod
        Members that have a node already, assumed ones included.
    """
    with scheduler.cache.lock, _unseen(scheduler, engine, pods):
        attempt = Attempt(scheduler, engine, group, pods, len(scheduled))
        with _all_or_nothing(scheduler) as transaction:
            try:
                attempt.place()
                if attempt.succeeded:
                    transaction.commit()
            finally:
                attempt.unreserve()
        return attempt.start() if attempt.succeeded else attempt.failed()


@contextmanager
def _unseen(scheduler: Scheduler, engine: Engine, pods: Iterable[Pod]) -> Iterator[None]:
    """What engines remember of failures is without PostFilter inside, and not for later pods."""
    engines = {id(one): one for one in map(engine.for_pod, pods)}.values()
    kept = [(one, one.runs_post_filter, one.failures) for one in engines]
    for one in engines:
        one.runs_post_filter, one.failures = False, {}
    try:
        yield
    finally:
        for one, runs_post_filter, failures in kept:
            one.runs_post_filter, one.failures = runs_post_filter, failures


@contextmanager
def _all_or_nothing(scheduler: Scheduler) -> Iterator[Transaction]:
    """A transaction of the cache that has nominations in it as well."""
    nominator = scheduler.handle.nominator
    saved = nominator.save()
    with scheduler.cache.transaction() as transaction:
        try:
            yield transaction
        finally:
            if not transaction.committed:
                nominator.undo(saved)


@dataclass(slots=True)
class Reserved:
    """A pod that plugins outside the core have been asked about."""

    at: int
    engine: Engine
    state: CycleState
    pod: Pod
    assumed: Pod


class Attempt:
    """One attempt to place the pods of a group.

    Attributes
    ----------
    error : str
        The error that ended it.
    is_permitted : bool
        Whether Permit has let a pod go on. GangScheduling does as soon as the minimum is there.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        engine: Engine,
        group: PodGroup | None,
        pods: Sequence[Pod],
        scheduled: int,
    ) -> None:
        self.scheduler = scheduler
        self.engine = engine
        self.minimum = 0 if group is None else group.min_count
        self.pods = pods
        self.scheduled = scheduled
        self.targets = [scheduler.classify(pod) for pod in pods]
        self.result = ScheduleResult(np.full(len(pods), -1, dtype=np.int32), {})
        self.reserved: list[Reserved] = []
        self.error = ""
        self.is_permitted = False

    @property
    def fitted(self) -> int:
        """How many of the pods have a node now."""
        return int(np.count_nonzero(self.result.rows >= 0))

    @property
    def succeeded(self) -> bool:
        return self.is_permitted and not self.error

    def _permit(self) -> None:
        """A pod was placed that no other plugin has wait."""
        self.is_permitted |= self.scheduled + self.fitted >= self.minimum

    # ---- placing -------------------------------------------------------------------------------------------

    def place(self) -> None:
        """Put every pod on a node, as far as nodes are found."""
        at, n = 0, len(self.pods)
        while at < n and not self.error:
            engine = self.scheduler.rotation.take(self.engine.for_pod(self.pods[at]))
            end = self._equal_until(at)
            if self._is_in_core(engine, at, end):
                batches = self.scheduler.batches
                done = batches._place_equal(engine, self.targets[at], self.pods[at:end], self.result, at)
                if self.result.rows[at] >= 0:
                    self._permit()
            else:
                done = at
            if done < end:
                self._place_one(engine, done)
                done += 1
            at = done

    def _equal_until(self, at: int) -> int:
        end = at + 1
        while end < len(self.pods) and self.targets[end] == self.targets[at]:
            end += 1
        return end

    def _is_in_core(self, engine: Engine, at: int, end: int) -> bool:
        if self.scheduler.handle.nominator or not engine.is_in_core_for(self.pods[at]):
            return False
        alone = any(is_alone(engine, pod) for pod in self.pods[at:end])
        return not alone and engine.passes_at_once(self.targets[at], self.pods[at])

    def _place_one(self, engine: Engine, at: int) -> None:
        """A cycle of one pod, up to Permit."""
        pod, scheduler = self.pods[at], self.scheduler
        decision, state = engine.schedule(pod, self.targets[at], scheduler.view_order)
        if decision.node is None:
            self.result.failures[at] = Failure.of(decision)
            self.error = decision.error
            return
        assumed = bound(pod, decision.node)
        scheduler.cache.assume_pod(assumed)
        scheduler.handle.nominator.delete_nominated_pod_if_exists(pod)
        self.result.rows[at] = engine.row_in_view(decision.node)
        if engine.is_in_core_for(pod):
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
            return
        framework.run_reserve_plugins_unreserve(one.state, one.assumed, node)
        self.scheduler.cache.forget_pod(one.assumed)
        self.result.rows[one.at] = -1
        if status.is_rejected:
            failure = Failure(Diagnosis(1, one.engine.profile, one.state.shape, chosen=status))
        else:
            failure = Failure(error=status.message() or str(status.code))
        self.result.failures[one.at], self.error = failure, failure.error

    def unreserve(self) -> None:
        """What was reserved was so in thought only: a group that has succeeded reserves for good."""
        for one in reversed(self.reserved):
            framework, node = one.engine.framework, one.assumed.spec.node_name
            framework.run_reserve_plugins_unreserve(one.state, one.assumed, node)

    # ---- what came of it -----------------------------------------------------------------------------------

    def start(self) -> GroupResult:
        """The group has succeeded: pods that plugins outside the core have a say in begin their binding
        cycles, with Reserve and Permit for good."""
        started: dict[int, Started] = {}
        for one in reversed(self.reserved):
            self.scheduler.cache.forget_pod(one.assumed)
        for one in self.reserved:
            node = one.assumed.spec.node_name
            outcome = self.scheduler.bindings.reserve(one.engine, one.state, one.pod, node)
            if isinstance(outcome, Started):
                started[one.at] = outcome
            elif outcome.failure is not None:
                self.result.rows[one.at] = -1
                self.result.failures[one.at] = outcome.failure
        return GroupResult(self.result.rows, self.result.failures, True, started=started)

    def failed(self) -> GroupResult:
        """The group has failed, and what was placed has been taken back."""
        message = OTHER_FAILED.format(self.error) if self.error else self._held_back()
        failure = Failure(error=message) if self.error else Failure(held_back=message)
        failures = {at: self.result.failures.get(at, failure) for at in range(len(self.pods))}
        if self.error:
            failures = {at: one if one.error else failure for at, one in failures.items()}
        return GroupResult(np.full(len(self.pods), -1, dtype=np.int32), failures, False, message)

    def _held_back(self) -> str:
        fitted = self.fitted
        text = f"{UNSCHEDULABLE}: {fitted} of {len(self.pods)} pods fit"
        if self.minimum:
            text = f"{text}, {max(self.minimum - self.scheduled, 0)} are needed"
        first = min(self.result.failures, default=None)
        if first is None:
            return text
        return f"{text}; {self.pods[first].key}: {self.result.failures[first].message}"
