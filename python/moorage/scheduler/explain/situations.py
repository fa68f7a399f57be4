"""Explanations of a pending pod in its turn of a run, alone, or after the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from moorage.queue import QueuedPodInfo
from moorage.scheduler.cycle.results import ScheduleResult
from moorage.scheduler.runs import Run
from moorage.scheduler.scheduler import Scheduler

from .explanation import AFTER_RUN, ALONE, IN_TURN, Explanation, Situation


class AttemptReachedError(Exception):
    """Raised to end a run right before an attempt to place the explained pod."""


class CountingRun(Run):
    """A run that counts the attempts to place one pod, and can end right before one of them.

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
        Number of attempts to place the pod.
    decided : int
        Number of the last attempt before which no pod had been evicted for this pod.
    """

    def __init__(self, scheduler: Scheduler, key: str, last: int = 0) -> None:
        super().__init__(scheduler)
        self._key = key
        self._last = last
        self.turns = self.decided = 0

    def break_off(self) -> None:
        """Do nothing: the pod is explained in this state of the cluster."""

    def attempt(self, infos: Sequence[QueuedPodInfo]) -> int:
        """Count an attempt that includes the pod, and end the run before the last one; see `Run.attempt`.

        Parameters
        ----------
        infos : sequence of QueuedPodInfo

        Returns
        -------
        int
        """
        at = next((at for at, info in enumerate(infos) if info.pod.key == self._key), None)
        if at is None:
            return super().attempt(infos)
        unit = infos[at].unit
        if unit is not None:
            at = next(at for at, info in enumerate(infos) if info.unit == unit)
        if at:
            self.queue.put_back(*infos[at:])
            return super().attempt(infos[:at])
        self.turns += 1
        if self.turns == self._last:
            raise AttemptReachedError
        if all(eviction.by != self._key for eviction in self.result.evicted.values()):
            self.decided = self.turns
        return super().attempt(infos)


def explain_in_turn(make: Callable[[], Scheduler], key: str) -> Explanation:
    """Explain a pending pod in the state of the cluster at its attempt in a run, with the pods placed before
    on their nodes.

    Of several attempts the last one counts, whose result is that of the run. If pods are evicted for the pod,
    the attempt that chooses them counts. A pod that a run does not attempt (it has a node, or the scheduler
    ignores it) is explained alone.

    Parameters
    ----------
    make : callable
        Makes a scheduler over the cluster; all results must be equal. It is called once or twice.
    key : str
        ``namespace/name`` of the pod.

    Returns
    -------
    Explanation
    """
    counting = CountingRun(make(), key)
    pending = _others(counting.scheduler, key)
    result = counting.all()
    if not counting.decided:
        return explain_alone(make, key)
    run = CountingRun(make(), key, counting.decided)
    with suppress(AttemptReachedError):
        run.all()
    placed = len(run.result.placements)
    situation = Situation(IN_TURN, placed, pending - placed, *_outcome(result, key))
    return replace(run.scheduler.explain(key), situation=situation)


def explain_alone(make: Callable[[], Scheduler], key: str) -> Explanation:
    """Explain a pod as if no other pod were pending.

    Parameters
    ----------
    make : callable
        Makes a scheduler over the cluster.
    key : str
        ``namespace/name`` of the pod.

    Returns
    -------
    Explanation
    """
    scheduler = make()
    pending = _others(scheduler, key)
    return replace(scheduler.explain(key), situation=Situation(ALONE, 0, pending))


def explain_after_run(make: Callable[[], Scheduler], key: str) -> Explanation:
    """Explain a pod after a run, removed from the node on which the run placed it.

    Parameters
    ----------
    make : callable
        Makes a scheduler over the cluster.
    key : str
        ``namespace/name`` of the pod.

    Returns
    -------
    Explanation
    """
    scheduler = make()
    pending = _others(scheduler, key)
    result = scheduler.run()
    placed = len(result.placements) - (key in result.placements)
    situation = Situation(AFTER_RUN, placed, pending - placed, *_outcome(result, key))
    return replace(scheduler.explain(key), situation=situation)


SITUATIONS = {IN_TURN: explain_in_turn, ALONE: explain_alone, AFTER_RUN: explain_after_run}
"""The function that explains a pod in each situation."""


def _others(scheduler: Scheduler, key: str) -> int:
    """Return the number of other pending pods."""
    pending = scheduler.pods.pending
    return len(pending) - (key in pending)


def _outcome(result: ScheduleResult, key: str) -> tuple[str, str]:
    """Return the node of a pod in a run, and the reason why it has none."""
    failure = result.unschedulable.get(key)
    node = result.placements.get(key) or result.waiting.get(key, "")
    return node, failure.message if failure else ""
