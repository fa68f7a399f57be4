"""Explanations of pending pods in their turns of a run, alone, or after the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby

from moorage.cluster import ChangingScheduler
from moorage.cluster.given_objects import pod_of
from moorage.cluster.played_changes import PlayedChanges
from moorage.cluster.pod_scheduler import PodScheduler
from moorage.engine.queue import QueuedPodInfo
from moorage.engine.scheduler.cycle.results import ScheduleResult
from moorage.engine.scheduler.loop import Loop, Policy
from moorage.engine.scheduler.options import check_readable
from moorage.errors import InputError
from moorage.kube import Pod
from moorage.kube.read.python_values import Source
from moorage.store import NotFoundError

from .explain_document import Explanation
from .explain_group import explain_group
from .explain_pod import explain, pod_named
from .explanation import AFTER_RUN, ALONE, IN_TURN, Situation


def explain_now(
    scheduler: ChangingScheduler,
    pod: Source,
    placed: Container[str] = (),
    ended: Sequence[Pod] = (),
    played: PlayedChanges | None = None,
) -> Explanation:
    """Explain a pod in the state of the cluster: see `Questions.explain`; `placed` are those that a run has
    placed before it, and `ended` those that were terminating, which it may have taken away. Changes are
    played on the scheduler, or else as is given."""
    if scheduler.options.owns_store:
        scheduler.context.enlist()
    scheduler.volumes.settle()
    named = pod_named(scheduler.client, pod) if isinstance(pod, str) else pod_of(scheduler.client, pod)
    check_readable((named,))
    skipped = scheduler.context.not_ours_with_group(named)
    if played is None and scheduler.options.owns_store and not scheduler.bindings.running:
        played = PlayedChanges(lambda: scheduler)
    explained = explain(scheduler.context.engine_of(named), named, skipped, placed, ended, played)
    if not scheduler.queue.groups_pods:
        return explained
    return replace(explained, group=explain_group(scheduler.context, named))


class AllExplainedError(Exception):
    """Raised to end a run when every pod is explained."""


class Turns(Policy):
    """Counts the attempts of a run to place some pods, and has something done before each.

    A pod of a group is attempted with its group.

    Parameters
    ----------
    keys : container of str, optional
        ``namespace/name`` of the pods; by default those of all.
    before : callable, optional
        Called with the pod's ``namespace/name`` before each of these attempts.

    Attributes
    ----------
    turns : Counter of str
        Number of attempts to place each pod.
    decided : dict of str to int
        For each attempted pod, the number of the last attempt before which no pod had been evicted for it
        or its group.
    """

    def __init__(
        self,
        scheduler: PodScheduler,
        keys: Container[str] | None = None,
        before: Callable[[str], object] | None = None,
    ) -> None:
        self.scheduler, self.loop = scheduler, Loop(scheduler.context, self)
        self.turns = Counter[str]()
        self.decided: dict[str, int] = {}
        self._keys, self._before = keys, before
        self._groups: dict[str, str] = {}

    def begin(self, infos: Sequence[QueuedPodInfo]) -> int:
        """Count the attempt of the first pod or group, if it counts; else have those before it tried."""
        of_unit = [list(pods) for _, pods in groupby(infos, lambda info: info.unit or info.uid)]
        counted = [any(map(self._counts, pods)) for pods in of_unit]
        if not counted[0]:
            first = counted.index(True) if True in counted else len(counted)
            return sum(map(len, of_unit[:first]))
        for info in filter(self._counts, of_unit[0]):
            self._groups[info.pod.key] = "/".join(info.unit or ())
            self._count(info.pod.key)
        return len(of_unit[0])

    def _counts(self, info: QueuedPodInfo) -> bool:
        return self._keys is None or info.pod.key in self._keys

    def _count(self, key: str) -> None:
        self.turns[key] += 1
        preemptors = key, self._groups.get(key)
        if all(eviction.by not in preemptors for eviction in self.loop.result.evicted.values()):
            self.decided[key] = self.turns[key]
        if self._before is not None:
            self._before(key)


Explanations = dict[str, Explanation]
"""By ``namespace/name`` of the pod."""


def explain_in_turn(
    make: Callable[[], ChangingScheduler], keys: Sequence[str], ended: Sequence[Pod] = ()
) -> Explanations:
    """Explain pending pods in the state of the cluster at their attempts in a run, with the pods placed
    before on their nodes.

    Of several attempts the last one counts, whose result is that of the run. If pods are evicted for the pod,
    the attempt that chooses them counts. A pod that a run does not attempt (it has a node, or the scheduler
    ignores it) is explained alone.

    Parameters
    ----------
    make : callable
        Makes a scheduler over the cluster; all results must be equal. It is called up to four times.
    keys : sequence of str
        ``namespace/name`` of the pods.
    ended : sequence of Pod, optional
        The pods that were terminating on nodes at first, which changes and the run may have taken away.

    Returns
    -------
    dict of str to Explanation
        In the order of `keys`.
    """
    counted = Turns(make(), frozenset(keys))
    result = counted.loop.all()
    explained = _explain_turns(make, counted.decided, result, ended) if counted.decided else {}
    others = [key for key in keys if key not in explained]
    if others:
        explained |= explain_alone(make, others, ended)
    return {key: explained[key] for key in keys}


def _explain_turns(
    make: Callable[[], ChangingScheduler],
    decided: Mapping[str, int],
    result: ScheduleResult,
    ended: Sequence[Pod],
) -> Explanations:
    """Explain pods before their decisive attempts in a run, which ends when all are explained.

    Parameters
    ----------
    decided : mapping of str to int
        By pod, the number of the attempt.
    result : ScheduleResult
        Of a whole run of an equal scheduler.
    """
    scheduler, explained, played = make(), Explanations(), PlayedChanges(make)
    pending = len(scheduler.pods.pending)

    def explain(key: str) -> None:
        if turns.turns[key] != decided[key]:
            return
        placements = turns.loop.result.placements
        placed = len(placements)
        situation = Situation(IN_TURN, placed, max(0, pending - 1 - placed), *_outcome(result, key))
        seen = explain_now(scheduler, key, placements, ended, played)
        explained[key] = replace(seen, situation=situation)
        if len(explained) == len(decided):
            raise AllExplainedError

    turns = Turns(scheduler, decided, explain)
    with suppress(AllExplainedError):
        turns.loop.all()
    return explained


def explain_alone(
    make: Callable[[], ChangingScheduler], keys: Sequence[str], ended: Sequence[Pod] = ()
) -> Explanations:
    """Explain pods as if no other pod were pending; see `explain_in_turn`."""
    scheduler, explained = make(), Explanations()
    for key in keys:
        with suppress(NotFoundError):
            situation = Situation(ALONE, 0, _others(scheduler, key))
            explained[key] = replace(explain_now(scheduler, key, (), ended), situation=situation)
    if len(explained) < len(keys):
        missing = min(set(keys) - explained.keys())
        raise InputError(
            "there is no such pod before the run: controllers make it during the run", obj=missing
        )
    return explained


def explain_after_run(
    make: Callable[[], ChangingScheduler], keys: Sequence[str], ended: Sequence[Pod] = ()
) -> Explanations:
    """Explain pods after a run, each removed from the node on which the run placed it; see
    `explain_in_turn`."""
    scheduler = make()
    played = PlayedChanges(lambda: scheduler)
    pending = {key: _others(scheduler, key) for key in keys}
    pods = {pod.key: pod for pod in scheduler.client.list(Pod)[0]}
    result = scheduler.run()
    explained = {}
    for key in keys:
        placed = len(result.placements) - (key in result.placements)
        others = max(0, pending[key] - placed)
        situation = Situation(AFTER_RUN, placed, others, *_outcome(result, key))
        of = pods[key] if key in result.evicted else key
        explained[key] = replace(explain_now(scheduler, of, (), ended, played), situation=situation)
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
