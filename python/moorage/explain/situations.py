"""Explanations of pending pods in their turns of a run, alone, or after the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from moorage.errors import InputError
from moorage.objects import Pod
from moorage.objects.read.python_values import Source
from moorage.queue import QueuedPodInfo
from moorage.scheduler.check_arguments import check_readable, pod_of
from moorage.scheduler.cycle.results import ScheduleResult
from moorage.scheduler.runs import Run
from moorage.scheduler.scheduler import PodScheduler
from moorage.store import NotFoundError

from .explain_document import Explanation
from .explain_pod import explain, pod_named
from .explanation import AFTER_RUN, ALONE, IN_TURN, Situation
from .groups.explain_group import explain_group


def explain_now(scheduler: PodScheduler, pod: Source) -> Explanation:
    """Explain a pod in the state of the cluster: see `Scheduler.explain`."""
    if scheduler.options.owns_store:
        scheduler.context.enlist()
    scheduler.volumes.settle()
    named = pod_named(scheduler.client, pod) if isinstance(pod, str) else pod_of(scheduler.client, pod)
    check_readable((named,))
    explained = explain(scheduler.context.engine_of(named), named, scheduler.not_ours_with_group(named))
    if not scheduler.queue.groups_pods:
        return explained
    return replace(explained, group=explain_group(scheduler.context, named))


class AllExplainedError(Exception):
    """Raised to end a run when every pod is explained."""


class CountingRun(Run):
    """A run that counts the attempts to place some pods.

    A pod of a group is attempted with its group.

    Parameters
    ----------
    keys : iterable of str
        ``namespace/name`` of the pods.

    Attributes
    ----------
    keys : frozenset of str
    turns : Counter of str
        Number of attempts to place each pod.
    decided : dict of str to int
        For each attempted pod, the number of the last attempt before which no pod had been evicted for it
        or its group.
    """

    scheduler: PodScheduler

    def __init__(self, scheduler: PodScheduler, keys: Iterable[str]) -> None:
        super().__init__(scheduler)
        self.keys = frozenset(keys)
        self.turns = Counter[str]()
        self.decided: dict[str, int] = {}
        self._groups: dict[str, str] = {}

    def break_off(self) -> None:
        """Do nothing: nobody uses the scheduler after a run that was ended."""

    def attempt(self, infos: Sequence[QueuedPodInfo]) -> int:
        """Try popped pods up to the first of the counted ones, or that one with its group; see
        `Run.attempt`."""
        at = next((at for at, info in enumerate(infos) if self.counts(info.pod.key)), len(infos))
        if at < len(infos) and infos[at].unit is not None:
            at = next(first for first, info in enumerate(infos) if info.unit == infos[at].unit)
        end = at
        if at == 0:
            end = 1
            while infos[0].unit is not None and end < len(infos) and infos[end].unit == infos[0].unit:
                end += 1
            for info in infos[:end]:
                if self.counts(info.pod.key):
                    self._groups[info.pod.key] = "/".join(info.unit or ())
                    self.count(info.pod.key)
        if end < len(infos):
            self.queue.put_back(*infos[end:])
        return super().attempt(infos[:end])

    def counts(self, key: str) -> bool:
        """Whether the attempts to place a pod are counted.

        Parameters
        ----------
        key : str
            ``namespace/name`` of the pod.
        """
        return key in self.keys

    def count(self, key: str) -> None:
        """Count an attempt that is about to begin.

        Parameters
        ----------
        key : str
            ``namespace/name`` of the pod.
        """
        self.turns[key] += 1
        preemptors = key, self._groups.get(key)
        if all(eviction.by not in preemptors for eviction in self.result.evicted.values()):
            self.decided[key] = self.turns[key]


class ExplainingRun(CountingRun):
    """A run that explains some pods right before their decisive attempts, and ends when all are explained.

    Parameters
    ----------
    counted : CountingRun
        A whole run of an equal scheduler.

    Attributes
    ----------
    explanations : dict of str to Explanation
    """

    def __init__(self, scheduler: PodScheduler, counted: CountingRun) -> None:
        super().__init__(scheduler, counted.decided)
        self.explanations: dict[str, Explanation] = {}
        self._counted = counted
        self._pending = len(scheduler.pods.pending)

    def count(self, key: str) -> None:
        """Explain a pod before its decisive attempt; see `CountingRun.count`."""
        super().count(key)
        if self.turns[key] != self._counted.decided[key]:
            return
        placed = len(self.result.placements)
        others = max(0, self._pending - 1 - placed)
        situation = Situation(IN_TURN, placed, others, *_outcome(self._counted.result, key))
        self.explanations[key] = replace(explain_now(self.scheduler, key), situation=situation)
        if len(self.explanations) == len(self.keys):
            raise AllExplainedError


Explanations = dict[str, Explanation]
"""By ``namespace/name`` of the pod."""


def explain_in_turn(make: Callable[[], PodScheduler], keys: Sequence[str]) -> Explanations:
    """Explain pending pods in the state of the cluster at their attempts in a run, with the pods placed
    before on their nodes.

    Of several attempts the last one counts, whose result is that of the run. If pods are evicted for the pod,
    the attempt that chooses them counts. A pod that a run does not attempt (it has a node, or the scheduler
    ignores it) is explained alone.

    Parameters
    ----------
    make : callable
        Makes a scheduler over the cluster; all results must be equal. It is called up to three times.
    keys : sequence of str
        ``namespace/name`` of the pods.

    Returns
    -------
    dict of str to Explanation
        In the order of `keys`.
    """
    counting = CountingRun(make(), keys)
    counting.all()
    explained: Explanations = {}
    if counting.decided:
        run = ExplainingRun(make(), counting)
        with suppress(AllExplainedError):
            run.all()
        explained = run.explanations
    others = [key for key in keys if key not in explained]
    if others:
        explained |= explain_alone(make, others)
    return {key: explained[key] for key in keys}


def explain_alone(make: Callable[[], PodScheduler], keys: Sequence[str]) -> Explanations:
    """Explain pods as if no other pod were pending.

    Parameters
    ----------
    make : callable
        Makes a scheduler over the cluster.
    keys : sequence of str
        ``namespace/name`` of the pods.

    Returns
    -------
    dict of str to Explanation
        In the order of `keys`.
    """
    scheduler, explained = make(), Explanations()
    for key in keys:
        with suppress(NotFoundError):
            situation = Situation(ALONE, 0, _others(scheduler, key))
            explained[key] = replace(explain_now(scheduler, key), situation=situation)
    if len(explained) < len(keys):
        missing = min(set(keys) - explained.keys())
        raise InputError(
            "there is no such pod before the run: controllers make it during the run", obj=missing
        )
    return explained


def explain_after_run(make: Callable[[], PodScheduler], keys: Sequence[str]) -> Explanations:
    """Explain pods after a run, each removed from the node on which the run placed it.

    Parameters
    ----------
    make : callable
        Makes a scheduler over the cluster.
    keys : sequence of str
        ``namespace/name`` of the pods.

    Returns
    -------
    dict of str to Explanation
        In the order of `keys`.
    """
    scheduler = make()
    pending = {key: _others(scheduler, key) for key in keys}
    pods = {pod.key: pod for pod in scheduler.client.list(Pod)[0]}
    result = scheduler.run()
    explained = {}
    for key in keys:
        placed = len(result.placements) - (key in result.placements)
        others = max(0, pending[key] - placed)
        situation = Situation(AFTER_RUN, placed, others, *_outcome(result, key))
        of = pods[key] if key in result.evicted else key
        explained[key] = replace(explain_now(scheduler, of), situation=situation)
    return explained


SITUATIONS = {IN_TURN: explain_in_turn, ALONE: explain_alone, AFTER_RUN: explain_after_run}
"""The function that explains pods in each situation."""


def _others(scheduler: PodScheduler, key: str) -> int:
    """Return the number of other pending pods."""
    pending = scheduler.pods.pending
    return len(pending) - (key in pending)


def _outcome(result: ScheduleResult, key: str) -> tuple[str, str]:
    """Return the node of a pod in a run, and the reason why it has none."""
    failure = result.unschedulable.get(key)
    node = result.placements.get(key) or result.waiting.get(key, "")
    return node, failure.message if failure else ""
