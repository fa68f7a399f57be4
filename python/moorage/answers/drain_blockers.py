"""What would let go of pods that keep nodes from being drained: changes, each tried alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any

from msgspec.structs import replace

from moorage.cluster import ChangingScheduler, PodScheduler
from moorage.cluster.helpful_changes import (
    HelpfulChange,
    Kind,
    ObjectEdit,
    cost,
    gone,
    of_settings,
    put,
    tried,
    write,
)
from moorage.cluster.node_changes import NodeCopies
from moorage.cluster.requirements import changed_field
from moorage.grouped import grouped
from moorage.kube import (
    Deployment,
    Node,
    Object,
    ObjectMeta,
    OwnerReference,
    PodDisruptionBudget,
    ReplicaSet,
    StatefulSet,
)
from moorage.kube.model.meta import Condition, with_condition
from moorage.kube.model.pod import Pod
from moorage.kube.model.policy import ALWAYS_ALLOW
from moorage.kube.model.workload import Job
from moorage.kube.workloads.disruption import BudgetSelectors
from moorage.kube.workloads.job_state import state_of
from moorage.kube.workloads.ownership import Workload, Workloads, is_healthy, refers_to
from moorage.store import ObjectClient, find_object

from .homeless_pods import EVICTED, UNSCHEDULABLE, Lack, are_new
from .pod_moves import Blocker, unhealthy_pods

BlockedAgain = Callable[[ChangingScheduler, Collection[str], bool], Sequence[Blocker]]
"""Returns what keeps pods on nodes of these names; with True also pods without a controller may move."""
MOST_TRIED = 30
"""The most changes that are tried for one plan."""
MOST_TOLD = 3
"""Of how many pods that stay after each change it is said why."""
SCALED = (Deployment, StatefulSet, ReplicaSet)
FORCE = "--force, which moves pods without a controller, too"


class _Drain:
    """A drain in the cluster with changes, and why pods stayed when it was last tried."""

    def __init__(
        self, scheduler: ChangingScheduler, again: BlockedAgain, nodes: Collection[str], force: bool
    ) -> None:
        self._scheduler, self._again, self._nodes, self._force = scheduler, again, nodes, force
        self.kinds = set[Kind]()
        self.reasons = dict[str, str]()

    @contextmanager
    def changed(self, edits: Sequence[ObjectEdit]) -> Iterator[list[Lack]]:
        """Return the pods that stay after changes."""
        with self._scheduler.transaction():
            write(self._scheduler.client, edits)
            self._scheduler.sync()
            force = self._force or any(edit.about is None for edit in edits)
            blockers = self._again(self._scheduler, self._nodes, force)
            self.reasons = {blocker.pod: blocker.reason for blocker in blockers}
            yield lacks_of(self._scheduler, blockers)


def _let_go(before: Sequence[Lack], after: Sequence[Lack]) -> Mapping[str, Any]:
    """Return which pods can leave after a change, so that no other one of their workload stays instead; none
    where others lose their place."""
    if any(goes and lack.problem == EVICTED for lack, goes in zip(after, _new(after, before), strict=True)):
        return {}
    pods = [lack.pod.key for lack, goes in zip(before, _new(before, after), strict=True) if goes]
    return {"placed": len(pods), "values": {"pods": pods, "empties": not after}} if pods else {}


def _new(lacks: Sequence[Lack], before: Iterable[Lack]) -> list[bool]:
    """See `are_new`; wherever the pods are that stay."""
    here, there = ([lack._replace(problem=UNSCHEDULABLE) for lack in each] for each in (lacks, before))
    return are_new(here, there)


def lacks_of(scheduler: PodScheduler, blockers: Iterable[Blocker]) -> list[Lack]:
    """Return the pods of blockers, each once, so that others that their workloads have instead are known."""
    problems = {blocker.pod: EVICTED if blocker.elsewhere else UNSCHEDULABLE for blocker in blockers}
    lacks = list[Lack]()
    for key, problem in problems.items():
        namespace, name = key.split("/")
        pod = find_object(scheduler.client, Pod, name, namespace)
        stand_in = Pod(metadata=ObjectMeta(name=name, namespace=namespace))
        lacks.append(Lack(pod or stand_in, problem))
    return lacks


def with_changes(
    scheduler: ChangingScheduler,
    make: Callable[[], ChangingScheduler],
    blockers: Sequence[Blocker],
    again: BlockedAgain,
    force: bool,
    alone: bool,
) -> tuple[tuple[Blocker, ...], tuple[HelpfulChange, ...], tuple[str, ...]]:
    """Return blockers with the changes that let each pod go, the changes that let all of them go, and why
    pods stay that none lets go.

    Parameters
    ----------
    make : callable
        Returns the cluster in which changes are made.
    force : bool
        Whether pods without a controller move already.
    alone : bool
        Whether each node is drained alone, so that a change matters to the nodes alone that it is for.
    """
    proposals: dict[str, tuple[HelpfulChange, set[str]]] = {}
    changed = make() if blockers else scheduler
    proposer = _Proposer(scheduler, changed.client)
    for blocker in blockers:
        for change in proposer.of(blocker, force):
            proposals.setdefault(change.text, (change, set()))[1].add(blocker.node)
    helpful = list[HelpfulChange]()
    blocked, drains = {blocker.node for blocker in blockers}, dict[frozenset[str], _Drain]()
    reasons, stays = {blocker.pod: blocker.reason for blocker in blockers}, dict[str, str]()
    for change, own in islice(proposals.values(), MOST_TRIED):
        nodes = frozenset(own if alone else blocked)
        before = lacks_of(scheduler, (blocker for blocker in blockers if blocker.node in nodes))
        drain = drains.setdefault(nodes, _Drain(changed, again, nodes, force))
        helpful += tried(drain, change, partial(_let_go, before))
        if not any(edit.about in (Node, *SCALED) for edit in change.edits):
            for pod, reason in drain.reasons.items():
                if reasons.get(pod, reason) != reason:
                    stays.setdefault(pod, f"{pod} stays even with this change: {change.text}; then: {reason}")
    number = len({blocker.pod for blocker in blockers})
    helpful.sort(key=partial(cost, waiting=number))
    texts = grouped((pod, change.text) for change in helpful for pod in change.values["pods"])
    named = tuple([replace(blocker, changes=tuple(texts.get(blocker.pod, ()))) for blocker in blockers])
    every = [change for change in helpful if change.placed == number and change.values["empties"]]
    return named, tuple(every), tuple([text for pod, text in stays.items() if pod not in texts][:MOST_TOLD])


class _Proposer:
    """Proposes what may let pods go: changes of objects that are there at the beginning."""

    def __init__(self, scheduler: PodScheduler, beginning: ObjectClient) -> None:
        self._client = client = scheduler.client
        self._beginning = beginning
        budgets: list[PodDisruptionBudget] = client.list(PodDisruptionBudget)[0]
        self._budgets = BudgetSelectors(budgets)
        self._unready = unhealthy_pods(client, self._budgets, [budget.namespace for budget in budgets])
        self._scaled: dict[Workload, Object] = {
            Workload(obj.namespace, obj.kind, obj.name): obj
            for kind in SCALED
            for obj in client.list(kind)[0]
        }
        self._workloads, self._copies = Workloads(self._scaled.values()), NodeCopies(client)

    def of(self, blocker: Blocker, force: bool) -> Iterator[HelpfulChange]:
        """Yield what may let the pod of a blocker go."""
        pod = find_object(self._client, Pod, *blocker.pod.split("/")[::-1])
        if pod is None or blocker.elsewhere:
            yield self._copy_of(blocker.node)
            return
        budgets, owner = self._budgets.blocking(pod), pod.metadata.controller()
        if owner is None and not force:
            yield HelpfulChange(Kind.SETTING, FORCE, (of_settings(lambda _: True),))
        elif len(budgets) > 1:
            yield from map(_without, budgets)
        elif budgets:
            yield from _of_budget(budgets[0], pod)
            yield from self._ready(self._unready.get(budgets[0].key, ()))
            if (workload := self._scaled.get(self._workloads.of(pod))) is not None:
                more = partial(changed_field, path="spec.replicas", change=lambda old: (old or 0) + 1)
                text = f"one replica more of {workload.kind.lower()}/{workload.key}"
                edit = ObjectEdit(type(workload), workload.key, more)
                yield HelpfulChange(Kind.SCALE, text, (edit,))
        else:
            if owner is not None and owner.kind == Job.__name__:
                yield from self._more_failures(pod, owner)
            elif owner is not None and owner.kind == StatefulSet.__name__:
                pods: list[Pod] = self._client.list(Pod, pod.namespace)[0]
                own = (other for other in pods if other.metadata.controller() == owner)
                yield from self._ready(other for other in own if not is_healthy(other))
            yield self._copy_of(blocker.node)

    def _ready(self, pods: Iterable[Pod]) -> Iterator[HelpfulChange]:
        """Yield pods that become ready."""
        ready = partial(with_condition, new=Condition(type="Ready", status="True"))
        change = partial(changed_field, path="status.conditions", change=ready)
        for pod in pods:
            if find_object(self._beginning, Pod, pod.name, pod.namespace) is not None:
                edit = ObjectEdit(Pod, pod.key, change)
                yield HelpfulChange(Kind.BUDGET, f"pod {pod.key} becomes ready", (edit,))

    def _copy_of(self, name: str) -> HelpfulChange:
        node: Node = self._client.get(Node, name)
        copy = self._copies.copy(node, f"{name}-copy")
        return HelpfulChange(Kind.NODE, f"add a node like {name}", put(copy, *self._copies.parts(node, copy)))

    def _more_failures(self, pod: Pod, owner: OwnerReference) -> Iterator[HelpfulChange]:
        """Yield a Job that lets all of its pods on a node fail."""
        job = find_object(self._client, Job, owner.name, pod.namespace)
        if job is None:
            return
        pods: list[Pod] = self._client.list(Pod, pod.namespace)[0]
        its = [each for each in pods if refers_to(each.metadata.controller(), job)]
        lost = sum(each.spec.node_name == pod.spec.node_name for each in its)
        now, number = job.spec.backoff_limit, state_of(job, its).failed + lost
        text = f"set backoffLimit of Job {job.key} to {number} (now {now})"
        yield HelpfulChange(Kind.LIMIT, text, (_set(job, "backoff_limit", number),))


def _set(obj: Object, field: str, value: int | str) -> ObjectEdit:
    """An object has another value of a field of its spec."""
    change = partial(changed_field, path="spec", change=lambda spec: replace(spec, **{field: value}))
    return ObjectEdit(type(obj), obj.key, change)


def _without(budget: PodDisruptionBudget) -> HelpfulChange:
    edit = ObjectEdit(PodDisruptionBudget, budget.key, gone)
    return HelpfulChange(Kind.BUDGET, f"delete PodDisruptionBudget {budget.key}", (edit,))


def _of_budget(budget: PodDisruptionBudget, pod: Pod) -> Iterator[HelpfulChange]:
    """Yield the budget that lets a pod go."""
    spec, status, name = budget.spec, budget.status, f"PodDisruptionBudget {budget.key}"
    left = status.current_healthy - is_healthy(pod)

    def with_spec(text: str, field: str, value: int | str) -> HelpfulChange:
        return HelpfulChange(Kind.BUDGET, text, (_set(budget, field, value),))

    if not is_healthy(pod):
        text = f"set unhealthyPodEvictionPolicy: {ALWAYS_ALLOW} in {name}"
        yield with_spec(text, "unhealthy_pod_eviction_policy", ALWAYS_ALLOW)
    if (now := spec.min_available) is not None:
        number = max(left, 0)
        yield with_spec(f"set minAvailable of {name} to {number} (now {now})", "min_available", number)
    if (now := spec.max_unavailable) is not None:
        number = status.expected_pods - left
        yield with_spec(f"set maxUnavailable of {name} to {number} (now {now})", "max_unavailable", number)
