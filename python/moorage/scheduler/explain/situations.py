"""In which situation a pending pod is explained: in its turn of a run, alone, or after the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from moorage.objects.model.pod import Pod
from moorage.scheduler.runs import Run
from moorage.scheduler.scheduler import Scheduler

from .explanation import AFTER_RUN, ALONE, IN_TURN, Explanation, Situation


class TurnComesError(Exception):
    """Ends a run right before an attempt to place the pod in question."""


class TurnRun(Run):
    """A run that notes when it decides about one pod, and can end right before that attempt.

    A pod of a group is attempted with its group: the run ends before the first pod of the group then.

    Parameters
    ----------
    scheduler : Scheduler
    key : str
        ``namespace/name`` of the pod.
    last : int
        The number of the attempt before which the run ends; 0 for a whole run.

    Attributes
    ----------
    turns : int
        How many attempts to place the pod began.
    decided : int
        The last of them before which nobody had been evicted for the pod.
    """

    def __init__(self, scheduler: Scheduler, key: str, last: int = 0) -> None:
        super().__init__(scheduler)
        self._key = key
        self._last = last
        self.turns = self.decided = 0

    def break_off(self) -> None:
        """What was placed stays: the pod is explained beside it, and the scheduler serves nothing else."""

    def attempt(self, pods: Sequence[Pod]) -> int:
        at = next((at for at, pod in enumerate(pods) if pod.key == self._key), None)
        if at is None:
            return super().attempt(pods)
        if at and self.attempts.unit_of(pods[0]) is None:
            self._put_back(pods[at:])
            return super().attempt(pods[:at])
        self.turns += 1
        if self.turns == self._last:
            raise TurnComesError
        if all(eviction.by != self._key for eviction in self.result.evicted.values()):
            self.decided = self.turns
        return super().attempt(pods)


def explain_in_turn(make: Callable[[], Scheduler], key: str) -> Explanation:
    """Explain a pending pod as a run of the scheduler finds the cluster when it decides about it.

    The pods that the run places before are on their nodes. The last attempt counts, which is the one that the
    result of the run tells of; where others are evicted for the pod, the one at which they are chosen. A pod
    that a run does not attempt (it has a node, or is not the scheduler's to place now) is explained alone.

    Parameters
    ----------
    make : callable
        Makes a scheduler over the cluster; each must be equal to the others. One or two are made and run.
    key : str
        ``namespace/name`` of the pod.
    """
    counting = TurnRun(make(), key)
    pending = _others(counting.scheduler, key)
    result = counting.all()
    if not counting.decided:
        return explain_alone(make, key)
    run = TurnRun(make(), key, counting.decided)
    with suppress(TurnComesError):
        run.all()
    placed = len(run.result.placements)
    node = result.placements.get(key) or result.waiting.get(key, "")
    failure = result.unschedulable.get(key)
    situation = Situation(IN_TURN, placed, pending - placed, node, failure.message if failure else "")
    return replace(run.scheduler.explain(key), situation=situation)


def explain_alone(make: Callable[[], Scheduler], key: str) -> Explanation:
    """Explain a pod as if no other one were pending. Parameters as for `explain_in_turn`."""
    scheduler = make()
    pending = _others(scheduler, key)
    return replace(scheduler.explain(key), situation=Situation(ALONE, 0, pending))


def explain_after_run(make: Callable[[], Scheduler], key: str) -> Explanation:
    """Explain a pod when a run has ended, off the node that the run may have placed it on. Parameters as for
    `explain_in_turn`."""
    scheduler = make()
    pending = _others(scheduler, key)
    result = scheduler.run()
    failure = result.unschedulable.get(key)
    node = result.placements.get(key) or result.waiting.get(key, "")
    placed = len(result.placements) - (key in result.placements)
    situation = Situation(AFTER_RUN, placed, pending - placed, node, failure.message if failure else "")
    return replace(scheduler.explain(key), situation=situation)


SITUATIONS = {IN_TURN: explain_in_turn, ALONE: explain_alone, AFTER_RUN: explain_after_run}
"""What explains a pod in each situation."""


def _others(scheduler: Scheduler, key: str) -> int:
    """How many other pods are pending."""
    pending = scheduler.pods.pending
    return len(pending) - (key in pending)
