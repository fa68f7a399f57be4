"""Which pods have no place after a change, beside those that had none before it, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from moorage.cluster import PodScheduler
from moorage.cluster.lacking_pods import awaited_pods, refused_pods
from moorage.controllers.availability import why_awaited
from moorage.controllers.claims_in_use import NOT_STARTED
from moorage.controllers.cluster_controllers import NO_CONTROLLER
from moorage.controllers.store_control import workloads_of
from moorage.engine.scheduler.cycle.results import WAITING, ScheduleResult, problem_of
from moorage.errors import first_of, number_of
from moorage.kube import PodDisruptionBudget
from moorage.kube.model.pod import Pod
from moorage.kube.workloads.disruption import BudgetSelectors
from moorage.kube.workloads.ownership import controller_of
from moorage.lazy import NamedTuple
from moorage.store import ObjectClient

UNSCHEDULABLE, EVICTED, REFUSED = "unschedulable", "evicted", "refused"
KEPT, NOT_ROLLED_OUT = "kept", "not-rolled-out"
HELD = (KEPT, NOT_ROLLED_OUT)
"""Status of pods that are on nodes, as before: a drain has left them, or their workload has another template,
and it is not simulated how that is rolled out."""
EXAMPLES = 5
"""The most objects that a sentence names."""


class Withheld(NamedTuple):
    """Why a pod does not come in.

    Attributes
    ----------
    waits : bool
        Kueue does not let it go. Otherwise it is refused.
    """

    text: str
    waits: bool


class HomelessPod(NamedTuple):
    """A pod without a place.

    Attributes
    ----------
    pod : Pod
        The one that its controller has made anew, or will; the lost one, where none comes in its place.
    problem : str
        The reason in a word, as status of a finding.
    """

    pod: Pod
    why: str
    problem: str

    @property
    def lack(self) -> Lack:
        """The pod, and the reason in a word."""
        return Lack(self.pod, self.problem)


class Lack(NamedTuple):
    """A pod without a place, and the reason in a word."""

    pod: Pod
    problem: str

    @property
    def kind(self) -> Hashable:
        """What it has in common with a pod that is lacked instead of it: who makes them, of which template,
        and whether it is lost, kept, or waits. Pods without a controller stand alone, as do workloads that
        are marked instead of their pods."""
        meta = self.pod.metadata
        owner = controller_of(self.pod)
        template = meta.labels.get("controller-revision-hash", "")
        state = self.problem if self.problem in (EVICTED, *HELD) else ""
        return owner or (meta.uid if " " in meta.uid else self.pod.key), template, state


def are_new(lacks: Sequence[Lack], before: Iterable[Lack]) -> list[bool]:
    """Return for each pod that lacks a place whether none of its kind lacks one instead without the change:
    where a workload lacks as many pods as before, none is new, whatever their names are."""
    before = [*before]
    left, names = Counter(lack.kind for lack in before), {lack.pod.key for lack in before}
    new = [False] * len(lacks)
    for at in sorted(range(len(lacks)), key=lambda at: lacks[at].pod.key not in names):
        kind = lacks[at].kind
        new[at] = not left[kind]
        left[kind] -= not new[at]
    return new


class HomelessPods:
    """Tells which pods have no place after a change, in contrast to the present cluster after a run.

    Parameters
    ----------
    scheduler : Scheduler
        Its pending pods are placed.

    Attributes
    ----------
    waiting : dict of str to Lack
        By ``namespace/name``, the pods that have no node now.
    unmade : list of Lack
        Those that controllers cannot make now.
    """

    def __init__(self, scheduler: PodScheduler) -> None:
        self._scheduler = scheduler
        result = scheduler.run()
        failed = dict.fromkeys(result.unschedulable, UNSCHEDULABLE)
        failed |= {key: problem_of(why) for key, why in result.skipped.items()}
        self.waiting = {key: Lack(_pod(scheduler, key), problem) for key, problem in failed.items()}
        self.unmade = [each.lack for each in self._not_made()]

    def after(self, gone: Iterable[Pod], result: ScheduleResult) -> list[HomelessPod]:
        """Return the pods that have no place any more.

        Parameters
        ----------
        gone : iterable of Pod
            Those that the change has taken from nodes, or others have taken the place of.
        result : ScheduleResult
            Of the last run.
        """
        lost = ((pod, why_lost(self._scheduler, pod)) for pod in gone)
        homeless = [HomelessPod(pod, why, EVICTED) for pod, why in lost if why]
        homeless += [*self._without_node(result), *self._not_made()]
        if not homeless:
            return homeless
        stored = self._scheduler.pods.indexer.get_many(self.waiting)
        helped = [
            lack
            for lack, pod in zip(self.waiting.values(), stored, strict=True)
            if pod is None or pod.spec.node_name
        ]
        new = are_new([each.lack for each in homeless], [*helped, *self.unmade])
        return [each for each, is_new in zip(homeless, new, strict=True) if is_new]

    def _without_node(self, result: ScheduleResult) -> Iterator[HomelessPod]:
        controllers = self._scheduler.controllers
        for key, failure in result.unschedulable.items():
            if key not in self.waiting:  # else its message, which takes long, is of no use
                yield HomelessPod(_pod(self._scheduler, key), failure.search_message, UNSCHEDULABLE)
        for key, why in result.skipped.items():
            if key not in self.waiting:
                yield HomelessPod(_pod(self._scheduler, key), f"not scheduled: {why}", problem_of(why))
        if controllers is not None and (attachments := controllers.attachments).holders:
            for key, node in result.placements.items():
                pod = _pod(self._scheduler, key)
                if why := attachments.multi_attach_error(pod, node):
                    yield HomelessPod(pod, why, NOT_STARTED)

    def _not_made(self) -> Iterator[HomelessPod]:
        scheduler = self._scheduler
        yield from (HomelessPod(pod, why_awaited(pod), WAITING) for pod in awaited_pods(scheduler))
        for refused in refused_pods(scheduler):
            if not refused.is_old_template:
                yield HomelessPod(refused.pod, refused.message, REFUSED)


def _pod(scheduler: PodScheduler, key: str) -> Pod:
    return scheduler.client.get(Pod, *key.split("/")[::-1])


def refused_by_name(scheduler: PodScheduler) -> dict[str, Withheld]:
    """Return the pods that workloads lack as the API server refuses them, and its texts, by
    ``namespace/name``; those without a name of their own have a number."""
    withheld, numbers = dict[str, Withheld](), Counter[str]()
    for refused in refused_pods(scheduler):
        if not refused.is_old_template:
            key = refused.pod.key
            name = f"{key}#{numbers[key]}" if numbers[key] else key
            withheld[name] = Withheld(refused.message, waits=False)
            numbers[key] += 1
    return withheld


def waiting_note(scheduler: PodScheduler, is_run: bool, drains: bool = False) -> Iterator[str]:
    """Yield how many pods wait for a node, after a run which, for answers that do not count them; a drain
    places them with those that it moves."""
    pending = scheduler.pods.pending.values()
    waits = number_of(len(pending), "pod waits", "pods wait")
    are, them = ("is", "it") if len(pending) == 1 else ("are", "them")
    if pending and not is_run:
        fate = "placed with those that move" if drains else "not counted"
        yield f"{waits} for a node and {are} {fate}: --after-run places {them} first."
    elif pending:
        workloads = workloads_of(scheduler.client)
        counts = Counter(f"{pod.namespace}/{workloads.of(pod).text}" for pod in pending)
        named = [f"{name} ({count})" if count > 1 else name for name, count in counts.most_common()]
        yield f"{waits} for a node after the run and {are} not counted: {first_of(named, EXAMPLES)}."


def why_lost(scheduler: PodScheduler, pod: Pod) -> str:
    """Return why there comes no other pod in place of one that is gone; see `ClusterControllers.why_lost`."""
    return NO_CONTROLLER if scheduler.controllers is None else scheduler.controllers.why_lost(pod)


def what_keeps(client: ObjectClient, pods: Sequence[Pod]) -> str:
    """Return what keeps pods on drained nodes, in a few words."""
    selectors = BudgetSelectors(client.list(PodDisruptionBudget)[0])
    budgets = {budget.key: budget for pod in pods for budget in selectors.blocking(pod)}
    numbers = [
        f"{budget.key} (needs {budget.status.desired_healthy}, has {budget.status.current_healthy})"
        for budget in budgets.values()
    ]
    alone = [pod.key for pod in pods if pod.metadata.controller() is None]
    kind = "PodDisruptionBudget" if len(numbers) == 1 else "PodDisruptionBudgets"
    parts = [f"{kind} {first_of(numbers, EXAMPLES)}"] if numbers else []
    parts += [f"no controller would replace {first_of(alone, EXAMPLES)}"] if alone else []
    return "; ".join(parts)


@contextmanager
def noting_victims(scheduler: PodScheduler) -> Iterator[list[Pod]]:
    """Note the pods that runs of the block evict for others."""
    victims, callbacks = list[Pod](), scheduler.handle.on_eviction

    def note(pods: Sequence[Pod], node: str, preemptor: object) -> None:
        victims.extend(pods)

    callbacks.append(note)
    try:
        yield victims
    finally:
        callbacks.remove(note)
