"""A run over the cluster of a command, and the outcome of each pod that had no node before it or lost it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Protocol, cast

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, structs

from moorage.cluster.change import Change
from moorage.cluster.lacking_pods import admission_warnings, template_warnings
from moorage.cluster.node_changes import stays
from moorage.cluster.verbs import RequestedChange, joined
from moorage.controllers.api_server import server_of
from moorage.controllers.availability import why_awaited
from moorage.controllers.claims_in_use import NOT_STARTED as NOT_STARTED
from moorage.controllers.kubelets import tolerated_seconds
from moorage.controllers.store_control import workloads_of
from moorage.controllers.volume_plugins import unknown_topologies
from moorage.document import Count, Document
from moorage.engine.scheduler import ScheduleResult
from moorage.engine.scheduler.cycle.results import GATED as GATED
from moorage.engine.scheduler.cycle.results import OTHER_SCHEDULER as OTHER_SCHEDULER
from moorage.engine.scheduler.cycle.results import SKIPPED, Failure, problem_of
from moorage.engine.scheduler.cycle.results import TERMINATING as TERMINATING
from moorage.engine.scheduler.cycle.results import WAITING as WAITING
from moorage.engine.scheduler.loop import Loop
from moorage.engine.scheduler.place_group import group_warnings
from moorage.engine.scheduler.scheduler_state import SchedulerState
from moorage.errors import InputError, examples, first_of, number_of, with_hint
from moorage.grouped import by_count, grouped
from moorage.kube import Cluster, Node, Object, ObjectMeta, Pod, PriorityClass
from moorage.kube.model.cluster import LeftOut, NotAsked, RefusedObject, RefusedPod
from moorage.kube.model.storage import PersistentVolumeClaim
from moorage.kube.model.workload import MAX_PODS, CronJob, Job
from moorage.kube.read.cluster_builder import idle_warnings
from moorage.kube.workloads.daemon_pods import kubelet_refusals, pinned_by
from moorage.kube.workloads.job_state import verdict_of
from moorage.kube.workloads.missing_pods import MAKERS
from moorage.kube.workloads.ownership import (
    Workload,
    Workloads,
    controller_of,
    group_to_show,
    has_made_up_uid,
    is_active,
)
from moorage.lazy import NamedTuple
from moorage.notes import RoutineNote, as_sentence, basis_of
from moorage.store import ObjectStore, find_object

from ..homeless_pods import EVICTED as EVICTED
from ..homeless_pods import EXAMPLES, HELD, KEPT, NOT_ROLLED_OUT, Lack, what_keeps, why_lost
from ..homeless_pods import REFUSED as REFUSED
from ..homeless_pods import UNSCHEDULABLE as UNSCHEDULABLE
from ..scheduler import Scheduler
from .loaded_cluster import LoadedCluster, PodsInOrder, begin, hold_queues, is_running
from .summary import Summary, summarize

if TYPE_CHECKING:
    from moorage.cluster.waiting_drains import WaitingDrain

    from .coming_nodes import ComingNodes, ScaleUpReport

PLACED, REPLACED, SKIPPED_KIND, BOUND = "placed", "replaced", "skipped-kind", "bound"
QUEUED, WAITING_WORKLOAD = "queued", "Workload.kueue.x-k8s.io "
"""Of workloads that wait in a queue of Kueue; how their marks begin."""
REFUSED_LATER = "refused-later"
"""Of workloads whose pods run, and new ones would be refused."""
STATUSES = [
    *(PLACED, UNSCHEDULABLE, WAITING, GATED, OTHER_SCHEDULER, TERMINATING),
    *(EVICTED, REPLACED, KEPT, REFUSED, REFUSED_LATER, SKIPPED_KIND, NOT_ROLLED_OUT, NOT_STARTED, QUEUED),
]
Status = Annotated[str, Meta(extra_json_schema={"enum": STATUSES})]
"""What has become of a pod; see `PodOutcome`."""
PINNED = "{}spec.nodeName is {}, so the scheduler passes it by, and "
POD = "Pod "
"""What precedes the names of pods in a `Change`."""


class Progress(Protocol):
    """Shows how far a run has come."""

    def __call__(self) -> None:
        """Begin the next stage."""

    def count(self, total: int, poll: Callable[[], int]) -> None:
        """Show how many are done; `poll` returns it, and is called from another thread."""


class _Silence:
    """Shows nothing."""

    def __call__(self) -> None:
        pass

    def count(self, total: int, poll: Callable[[], int]) -> None:
        pass


SILENCE: Progress = _Silence()


class Evicted(NamedTuple):
    """A pod that a change has taken from its node, and by which change."""

    pod: Pod
    reason: str

    @classmethod
    def by(cls, change: RequestedChange, pod: Pod) -> Evicted:
        """Return a pod that a change has taken from its node."""
        node = pod.spec.node_name
        return cls(pod, f"{change.text_about(node)} took it from node {node}")


class Preempted(NamedTuple):
    """A pod that ran, and who has taken its place: ``namespace/name`` of a pod or a group."""

    pod: Pod
    by: str


class EvictedPod(Document, frozen=True):
    """A running pod that is evicted for another, as documents have it."""

    namespace: str
    pod: str
    node: str
    workload: str
    by: str
    """``namespace/name`` of a pod or a group."""


class PodOutcome(NamedTuple):
    """What a run has made of a pod.

    Attributes
    ----------
    pod : Pod
        As it was before the run.
    status : str
        ``placed``, ``unschedulable``, ``waiting`` (on Permit, other pods, or a group), ``gated``,
        ``other-scheduler``, ``terminating`` (and others may wait for its end), ``kept`` (by a drain),
        ``refused`` (by the API server, or on the node that it names), ``not-started`` (on its node, as its
        volume is attached to another), ``skipped-kind`` (of a workload that is not simulated),
        ``not-rolled-out`` (on its node, though its workload has another template); ``evicted``, or
        ``replaced`` where the controller of an evicted pod sees to it: it has made another, tells why it has
        not, or wants no more.
    node : str
        The node of a placed pod.
    reason : str
        Why it has no node; whom it replaced, if it is placed.
    victims : tuple of str
        The pods that were evicted for it.
    budgets : tuple of str
        The PodDisruptionBudgets that its own eviction violates.
    refusal : str
        Where nodes may come, which engine has none for it, and why.
    """

    pod: Pod
    workload: Workload
    status: str
    node: str = ""
    reason: str = ""
    failure: Failure | None = None
    victims: tuple[str, ...] = ()
    budgets: tuple[str, ...] = ()
    refusal: str = ""

    @property
    def key(self) -> str:
        """What names it among outcomes: ``namespace/name`` of the pod, or a mark of a workload without pods,
        such as `LeftOut.mark`, which has a space."""
        return self.pod.metadata.uid if self.pod.metadata.uid.partition(" ")[2] else self.pod.key

    @property
    def lack(self) -> Lack:
        """The pod, and the reason in a word."""
        return Lack(self.pod, self.status)

    @property
    def is_leaving(self) -> bool:
        """Whether it is being deleted, and no other pod waits for its end."""
        return self.status == TERMINATING == self.reason

    @property
    def short_reason(self) -> str:
        """The reason without what preemption adds, and without what pools repeat; with the command that gets
        what a refusal misses."""
        if self.failure is None or self.refusal:
            if self.status == REFUSED:
                return with_hint(self.reason)
            from moorage.autoscalers.karpenter.short_refusals import short_refusal  # few clusters have pools

            return short_refusal(self.reason)
        return self.failure.search_message


class Simulation(Struct, dict=True):
    """A run over a cluster.

    Attributes
    ----------
    setup : SimulationSetup
        The cluster before the run.
    scheduler : Scheduler
        After the run.
    evicted : dict of str to Evicted
        By ``namespace/name``, the pods that the changes have deleted from nodes and that should run on.
    kept : dict of str to str
        By ``namespace/name``, the pods that a drain has left where they are, with the reasons.
    scale_up : ScaleUpReport or None
        The nodes that came; None where none may come.
    rests_on : list of str
        What the answer rests on; see `gate.rests_on`.
    depends_on : str
        What changes the answer; see `gate.differing_times`.
    """

    setup: SimulationSetup
    scheduler: Scheduler
    result: ScheduleResult
    evicted: dict[str, Evicted] = msgspec.field(default_factory=dict)
    kept: dict[str, str] = msgspec.field(default_factory=dict)
    scale_up: ScaleUpReport | None = None
    rests_on: list[str] = msgspec.field(default_factory=list)
    depends_on: str = ""

    @cached_property
    def _victims(self) -> dict[str, list[str]]:
        return grouped((eviction.by, key) for key, eviction in self.result.evicted.items())

    @property
    def cluster(self) -> Cluster:
        """The objects that were loaded."""
        return self.setup.cluster

    @property
    def before(self) -> PodsInOrder:
        """The pods before the run."""
        return self.setup.pods

    @cached_property
    def workloads(self) -> Workloads:
        """The workloads of the pods."""
        return workloads_of(self.scheduler.client)

    @cached_property
    def written(self) -> Mapping[str, Pod | None]:
        """The pods that the run has written; see `LoadedCluster.since`."""
        return self.setup.loaded.since(self.scheduler, self.setup.version)

    @cached_property
    def new(self) -> list[Pod]:
        """The pods that controllers have made during the run, in the order of their outcomes."""
        result, before = self.result, self.before
        outcomes = (result.placements, result.waiting, result.unschedulable, result.skipped)
        keys = dict.fromkeys(key for keys in outcomes for key in keys if key not in before)
        pods = (find_object(self.scheduler.client, Pod, *key.split("/")[::-1]) for key in keys)
        return [pod for pod in pods if pod is not None]

    @cached_property
    def preempted(self) -> list[Preempted]:
        """The running pods that were evicted for others, by the changes and in the run."""
        before, placed = self.before, self.setup.placed
        evicted = (
            Preempted(before[key], eviction.by)
            for key, eviction in self.result.evicted.items()
            if key in before and key not in placed and before[key].spec.node_name
        )
        return [*self.setup.preempted.values(), *evicted]

    @cached_property
    def queues(self) -> list[str] | UnsetType:
        """What Kueue has decided, a line each; unset without a LocalQueue."""
        if (queues := self.scheduler.ask.queues()) is None:
            return UNSET
        from ..queues.queued_workloads import admission_lines

        loaded = self.setup.loaded
        return [*admission_lines(self.scheduler, queues, self.placed_of, loaded.decided, loaded.waited)]

    def lines(self) -> Iterator[str]:
        """Yield what Kueue has decided, which running pods were evicted, on which times it depends, and who
        was not asked, a line each."""
        yield from self.queues or ()
        if self.preempted:
            pods = number_of(len(self.preempted), "running pod", "running pods")
            texts = [f"{victim.pod.key}, by {victim.by}" for victim in self.preempted]
            yield f"evicts {pods}: {'; '.join([*texts[:5], *['…'] * (len(texts) > 5)])}"
            yield from self._default_priorities()
        if self.depends_on:
            yield self.depends_on
        yield from (f"not asked: {each.text}" for each in self.not_asked)

    def _default_priorities(self) -> Iterator[str]:
        """Yield how many were evicted for pods that have their priority from a global default class."""
        client = self.scheduler.client
        preemptors = [find_object(client, Pod, *victim.by.split("/")[::-1]) for victim in self.preempted]
        counts = Counter(pod.spec.priority_class_name for pod in preemptors if pod is not None)
        for each in client.list(PriorityClass)[0]:
            if each.global_default and (number := counts[each.name]):
                class_text = f"{each.name}, the global default PriorityClass ({each.value})"
                yield f"of them {number} for pods whose priority is that of {class_text}"

    def basis(self, notes: Iterable[str]) -> list[str]:
        """Return what the answer rests on, in a few words each."""
        release, makers = self.cluster.release, [] if self.scale_up is None else self.scale_up.coming.makers
        return basis_of([release.text] if release is not None else [], notes, [*makers, *self.rests_on])

    @cached_property
    def not_asked(self) -> list[NotAsked]:
        """Who decides about the change or about new pods, and cannot be asked."""
        return not_asked(self.cluster, self.scheduler, (outcome.pod for outcome in self.outcomes))

    def evictions(self) -> list[EvictedPod]:
        """Return the running pods that were evicted, as documents have them."""
        return [
            EvictedPod(
                victim.pod.namespace,
                victim.pod.name,
                victim.pod.spec.node_name,
                self.workloads.of(victim.pod).text,
                victim.by,
            )
            for victim in self.preempted
        ]

    def taken_as_given(self) -> list[str]:
        """Return what the answer rests on, as documents have it."""
        return [*self.rests_on, *filter(None, [self.depends_on])]

    @cached_property
    def outcomes(self) -> list[PodOutcome]:
        """The outcomes of the pods without a node before the run, of evicted ones, and of new ones."""
        moved, before, new = self.evicted, self.before, {pod.key for pod in self.new}
        gone = [eviction.pod for key, eviction in moved.items() if key not in before and key not in new]
        changed = self.result.evicted, moved, self.kept, self._remade, self.setup.placed
        keys = before.in_order((*before.pending, *chain.from_iterable(changed)))
        pods = [self._remade.get(key) or before[key] for key in keys]
        outcomes = [self._outcome(pod) for pod in (*gone, *pods, *self.new)]
        awaited = [
            PodOutcome(
                pod,
                self.workloads.of(pod),
                WAITING if pod.metadata.deletion_timestamp is None else TERMINATING,
                reason=why_awaited(pod),
            )
            for pod in self.setup.loaded.awaited_pods(self.scheduler)
        ]
        refused = [
            PodOutcome(refusal.pod, self.workloads.of(refusal.pod), REFUSED, "", refusal.message)
            for refusal in self.refused
            if not refusal.is_old_template
        ]
        known = [*self._in_queues(filter(None, outcomes)), *awaited, *refused, *self._refused_by_kubelets]
        more = [*self._not_simulated(), *self._queued()]
        return [*known, *more, *self._not_rolled_out({each.key for each in known})]

    @cached_property
    def lacking(self) -> dict[str, list[PodOutcome]]:
        """The outcomes of the pods that should run and do not, by `PodOutcome.key`."""
        outcomes = (each for each in self.outcomes if each.status not in (PLACED, REPLACED))
        return grouped((each.key, each) for each in outcomes if not each.is_leaving)

    @cached_property
    def bound(self) -> list[PodOutcome]:
        """The pods that had a node before the run and are there still, of which there is no other outcome."""
        known = {outcome.pod.key for outcome in self.outcomes}
        stored = {pod.key: pod.spec.node_name for pod in self.scheduler.client.list(Pod)[0]}
        return [
            PodOutcome(pod, self.workloads.of(pod), BOUND, node)
            for key, pod in self.before.items()
            if key not in known and (node := stored.get(key))
        ]

    @cached_property
    def _remade(self) -> dict[str, Pod]:
        """The pods that a StatefulSet has made under the name of one that was there before the run."""
        scheduler, remade = self.scheduler, {}
        for key in self.before.in_order(self.written):
            pod = self.before[key]
            current = None if scheduler.cache.state.has_pod(pod) else self._stored(pod)
            if current is not None and current.metadata.uid != pod.metadata.uid:
                remade[key] = current
        return remade

    @cached_property
    def refused(self) -> list[RefusedPod]:
        """The pods that the API server refuses: single ones, and those that workloads lack after the run."""
        return self.cluster.refused + self.scheduler.ask.refused_pods()

    @cached_property
    def _refused_by_kubelets(self) -> list[PodOutcome]:
        """An outcome for each new pod that names a node, itself or by its template, and does not start there.
        The scheduler does not look at them, so they are in no result."""
        pinned, outcomes = pinned_workloads(self.scheduler, self.cluster), list[PodOutcome]()
        if not pinned:
            return outcomes
        read = {pod.metadata.uid for pod in self.cluster.pods}
        stored = [pod for pod in self.scheduler.client.list(Pod)[0] if pod.spec.node_name and is_active(pod)]
        new = [
            pod
            for pod in stored
            if (controller_of(pod) in pinned and pod.metadata.uid not in read)
            or Workload(pod.namespace, pod.kind, pod.name) in pinned
        ]
        uids = {pod.metadata.uid for pod in new}
        others = (pod for pod in stored if pod.metadata.uid not in uids)
        nodes = {node.name: node for node in self.scheduler.client.list(Node)[0]}
        refusals = kubelet_refusals(new, others, nodes)
        for pod in new:
            if pod.key in refusals:
                name, workload = pod.spec.node_name, self.workloads.of(pod)
                why = pinned_text(workload, name) + refusals[pod.key]
                outcomes.append(PodOutcome(pod, workload, REFUSED, name, why))
        return outcomes

    def _not_simulated(self) -> list[PodOutcome]:
        """Return an outcome for each pod that a workload of an unknown kind would make."""
        outcomes: list[PodOutcome] = []
        for obj in self.cluster.left_out:
            workload = _workload_of(obj)
            pod = Pod(metadata=ObjectMeta(name=obj.name, namespace=obj.namespace, uid=obj.mark))
            replicas = number_of(obj.replicas, "replica", "replicas")
            reason = f"{replicas} of {obj.full_kind}, {obj.why}"
            outcomes += [PodOutcome(pod, workload, SKIPPED_KIND, "", reason)] * min(obj.replicas, MAX_PODS)
        return outcomes

    def _queued(self) -> Iterator[PodOutcome]:
        """Yield an outcome for each pod of the workloads that wait in queues: evicted, if they ran."""
        if (queues := self.scheduler.ask.queues()) is None:
            return
        from ..queues.queued_workloads import waiting_workloads  # few clusters have Kueue

        for each in waiting_workloads(queues, self.setup.loaded.decided):
            meta = ObjectMeta(name=each.owner.name, namespace=each.owner.namespace, uid=each.mark)
            status = EVICTED if each.was_running else QUEUED
            yield from [PodOutcome(Pod(metadata=meta), each.owner, status, "", each.why)] * each.pods

    def _in_queues(self, outcomes: Iterable[PodOutcome]) -> Iterator[PodOutcome]:
        """Yield outcomes; those of pods with the gate of Kueue say why it lets them wait."""
        whys: Mapping[str, str] = {}
        if (queues := self.scheduler.ask.queues()) is not None:
            from ..queues.queued_workloads import whys_of_pods

            whys = {key: each.text for key, each in whys_of_pods(queues).items()}
        for outcome in outcomes:
            why = whys.get(outcome.pod.key, "") if outcome.status == GATED else ""
            yield outcome._replace(status=QUEUED, reason=why) if why else outcome

    def placed_of(self, workload: Workload) -> int:
        """Return how many pods of a workload have a node."""
        outcomes = self._by_workload.get(workload, ())
        return self.running[workload] + sum(outcome.status == PLACED for outcome in outcomes)

    def _not_rolled_out(self, known: Container[str]) -> Iterator[PodOutcome]:
        """Yield an outcome for each pod on a node, of no other outcome, whose workload has another template;
        of a workload without such pods one that stands for it."""
        for refusal in self.refused:
            if refusal.is_old_template:
                workload = self.workloads.of(refusal.pod)
                pods = [
                    pod
                    for key, pod in self.before.items()
                    if pod.spec.node_name and key not in known and self.workloads.of(pod) == workload
                    if self.exists(pod)
                ]
                for pod in pods or [refusal.pod]:
                    yield PodOutcome(pod, workload, NOT_ROLLED_OUT, pod.spec.node_name, refusal.message)

    def _outcome(self, pod: Pod) -> PodOutcome | None:
        """Return what has become of a pod; None for one that its controller has taken back.

        A result tells by names what has become of pods, of which a later one may have the name of another.
        """
        result, key, workload = self.result, pod.key, self.workloads.of(pod)
        victims, current = tuple(self._victims.get(key, ())), self._stored(pod)
        why = f"preempted {', '.join(victims)}" if victims else ""
        exists = current is not None and current.metadata.uid == pod.metadata.uid
        if exists and current is not None and current.spec.node_name and key in result.placements:
            return self._on_node(pod, workload, current.spec.node_name, why, victims)
        if exists and (node := result.waiting.get(key) or result.binding.get(key)):
            return PodOutcome(pod, workload, WAITING, node, "waiting on permit", victims=victims)
        if exists and (failure := result.unschedulable.get(key)):
            refusal = "" if self.scale_up is None else self.scale_up.reasons.get(key, "")
            why = refusal or failure.message
            return PodOutcome(pod, workload, UNSCHEDULABLE, "", why, failure, victims, refusal=refusal)
        if key in self.kept:
            return PodOutcome(pod, workload, KEPT, pod.spec.node_name, self.kept[key])
        if key in self.setup.placed and exists:  # also under the name of an evicted one
            return self._on_node(pod, workload, pod.spec.node_name)
        if why := self.why_evicted(key):
            lost, eviction = why_lost(self.scheduler, pod), result.evicted.get(key)
            why, status = (f"{why}; {lost}", EVICTED) if lost else (why, REPLACED)
            budgets = () if eviction is None else eviction.budgets
            return PodOutcome(pod, workload, status, "", why, None, victims, budgets)
        skipped = result.skipped.get(key, "")
        if not skipped and not exists:
            return None
        return PodOutcome(pod, workload, problem_of(skipped), "", skip_reason(pod, skipped))

    def _on_node(
        self, pod: Pod, workload: Workload, node: str, why: str = "", victims: tuple[str, ...] = ()
    ) -> PodOutcome:
        """Return the outcome of a pod that has a node; a volume that is attached to another one keeps it."""
        controllers = self.scheduler.controllers
        error = "" if controllers is None else controllers.attachments.multi_attach_error(pod, node)
        return PodOutcome(
            pod, workload, NOT_STARTED if error else PLACED, node, error or why, victims=victims
        )

    @cached_property
    def _by_workload(self) -> dict[Workload, list[PodOutcome]]:
        return by_workload(self.outcomes)

    def count_of(self, workload: Workload) -> int:
        """Return the number of pods that a workload has, or lacks."""
        return self.running[workload] + len(self._by_workload.get(workload, ()))

    def exists(self, pod: Pod) -> bool:
        """Whether a pod is there after the run."""
        current = self._stored(pod)
        return current is not None and current.metadata.uid == pod.metadata.uid

    def _stored(self, pod: Pod) -> Pod | None:
        """Return the pod that has the name of a pod after the run."""
        return find_object(self.scheduler.client, Pod, pod.name, pod.namespace)

    @cached_property
    def summary(self) -> Summary:
        """The run in numbers."""
        placed = self.setup.placed
        before = (pod for key, pod in self.before.items() if key not in placed)
        summary = summarize(self.cluster.finished, self.scheduler, self.result, before)
        statuses = Counter(outcome.status for outcome in self.outcomes)
        failures = (outcome.failure for outcome in self.outcomes)
        reasons = Counter(reason for failure in failures if failure is not None for reason in failure.reasons)
        return structs.replace(
            summary,
            placed=statuses[PLACED] + (0 if placed else statuses[NOT_STARTED]),
            unschedulable=statuses[UNSCHEDULABLE],
            reasons=by_count(reasons),
        )

    def why_evicted(self, key: str) -> str:
        """Return why a pod was evicted; "" for none."""
        if eviction := self.result.evicted.get(key):
            against = f", which violates {', '.join(eviction.budgets)}" if eviction.budgets else ""
            return f"preempted by {eviction.by} on node {eviction.node}{against}"
        moved = self.evicted.get(key)
        return moved.reason if moved else ""

    @cached_property
    def running(self) -> Counter[Workload]:
        """Number of pods by workload that had a node before the run and have it still. Those that are being
        deleted do not count."""
        loaded, placed = self.setup.loaded, self.setup.placed
        has_pod, counts = self.scheduler.cache.state.has_pod, loaded.running.copy()
        for key in {*loaded.since(self.scheduler), *placed}:
            if (old := loaded.listed(key)) is not None and is_running(old):
                counts[loaded.workloads.of(old)] -= 1
            pod = self.before.get(key)
            if pod is not None and pod.spec.node_name and key not in placed and has_pod(pod):
                current = self._stored(pod)
                counts[self.workloads.of(pod)] += not (
                    current is not None and current.metadata.deletion_timestamp is not None
                )
        for outcome in self._refused_by_kubelets:
            counts[outcome.workload] -= 1
        return counts

    def is_remade(self, pod: Pod) -> bool:
        """Whether a pod has the name of another one that was there before all changes."""
        old = self.setup.loaded.listed(pod.key)
        return old is not None and old.metadata.uid != pod.metadata.uid

    def warnings(self) -> Iterator[str]:
        """Yield warnings about the input and the run, one sentence each."""
        yield from self.setup.warnings
        notes = () if self.scale_up is None else self.scale_up.coming.notes
        yield from (as_sentence(note) for note in notes if isinstance(note, RoutineNote))  # others: its lines
        workloads = (outcome.workload for outcome in self.outcomes if outcome.status == REFUSED)
        listed = {f"{each.kind} {each.namespace}/{each.name}" for each in workloads}
        yield from template_warnings(self.scheduler.client, listed)
        yield from self._failed_jobs()
        yield from self._denied()
        yield from self._unready_templates()
        yield from self._unbound_claims()
        evictions = Counter(chain.from_iterable(each.budgets for each in self.result.evicted.values()))
        for budget, count in sorted(evictions.items()):
            pods = number_of(count, "pod", "pods")
            yield f"preemption evicts {pods} in violation of PodDisruptionBudget {budget}."
        others = (outcome.pod for outcome in self.outcomes if outcome.status == OTHER_SCHEDULER)
        names = Counter(pod.spec.scheduler_name for pod in others)
        profiles = ", ".join(self.scheduler.engines)
        for name, count in sorted(names.items()):
            pods = number_of(count, "pod asks", "pods ask")
            which = f"which is not one of the profiles ({profiles})"
            hint = "add a profile with --config, or let check pass with --allow other-scheduler"
            yield f"{pods} for the scheduler {name}, {which}; {hint}."

    def _unready_templates(self) -> Iterator[str]:
        """Yield a sentence about each rollout of a template of whose pods none was ready in the files."""
        controllers = self.scheduler.controllers
        unready = {} if controllers is None else controllers.control.unready
        rollouts = self.setup.loaded.rollouts(self.scheduler) if unready else ()
        rolling = {rollout.workload for rollout in rollouts}
        for (namespace, kind, name, mark), number in sorted(unready.items()):
            top = self.workloads.top(Workload(namespace, kind, name), mark)
            if f"{top.kind} {namespace}/{top.name}" in rolling:
                pods = "the bound pod" if number == 1 else f"all {number} bound pods"
                verb = "is" if number == 1 else "are"
                text = f"{pods} of this template {verb} not ready, so new ones do not count as ready"
                yield f"{namespace}/{top.text}: {text}."

    def _unbound_claims(self) -> Iterator[str]:
        """Yield a sentence about pods that were on nodes before the run, and whose claims are unbound still:
        the scheduler, which has not placed them, would have them bound."""
        claims: list[PersistentVolumeClaim] = self.scheduler.client.list(PersistentVolumeClaim)[0]
        unbound = {claim.key for claim in claims if not claim.spec.volume_name}
        pods = self.before.values() if unbound else ()
        waiting = [
            f"{pod.key} on {pod.spec.node_name} (claim {', '.join(names)})"
            for pod in pods
            if pod.spec.node_name and self.exists(pod) and pod.metadata.deletion_timestamp is None
            if (names := [key.partition("/")[2] for key in pod.claim_keys() if key in unbound])
        ]
        if waiting:
            singular = (
                "pod names its node, so nobody binds its claim and it does not start; use a nodeSelector"
            )
            plural = (
                "pods name their nodes, so nobody binds their claims and they do not start; use nodeSelectors"
            )
            yield f"{number_of(len(waiting), singular, plural)} instead: {examples(waiting, 3)}."

    def _denied(self) -> Iterator[str]:
        """Yield a sentence about the deletions and the claims of pods that the API server refuses."""
        client = self.scheduler.client
        denied = client.denied if isinstance(client, ObjectStore) else {}
        texts = ((text.partition(" is forbidden: ")[2] or text, name) for name, text in denied.items())
        for text, names in grouped(texts).items():
            yield f"Deletions or claims are refused for {examples(names, 3)}: {text}."

    def _failed_jobs(self) -> Iterator[str]:
        """Yield a sentence about each Job that has failed since the files were read."""
        listed = (obj for obj in self.cluster.others if isinstance(obj, Job))
        known = {job.key for job in listed if verdict_of(job) is not None}
        jobs: list[Job] = self.scheduler.client.list(Job)[0]
        for job in jobs:
            why = verdict_of(job)
            if why is not None and job.key not in known:
                yield f"Job {job.key} fails: {why.reason}, {why.message}."


def input_warnings(cluster: Cluster, loaded: LoadedCluster) -> list[str]:
    """Return the warnings about the input, without those that changes have made untrue.

    Parameters
    ----------
    loaded : LoadedCluster
        Its scheduler is of this cluster, with the changes.
    """
    scheduler = loaded.scheduler
    client, pods = scheduler.client, loaded.pods.changed(loaded.since(scheduler))
    waiting = [pods[key] for key in pods.pending]
    stored: list[Object] = [*client.list(Job)[0], *client.list(CronJob)[0]]
    past = idle_warnings(cluster.others, cluster.suspended)
    now = idle_warnings(stored, scheduler.ask.suspended(), scheduler.ask.queues() is not None)
    kept = [text for text in cluster.warnings if text in now or text not in past]
    new = (text for text in now if text not in past)
    added = admission_warnings(client, loaded.namespaces, waiting)
    of_storage = unknown_topologies(client)
    return [
        *kept,
        *new,
        *added,
        *_device_warnings(scheduler, waiting),
        *group_warnings(scheduler.context),
        *of_storage,
    ]


def _device_warnings(scheduler: Scheduler, waiting: Iterable[Pod]) -> Iterator[str]:
    """Yield a sentence if pods depend on an allocator of devices that is not the release's."""
    release, asking = scheduler.handle.release, sum(bool(pod.spec.resource_claims) for pod in waiting)
    if asking and not release.devices_are_exact:
        have = number_of(asking, "pod has", "pods have")
        text = f"{release.patch} may choose other devices and nodes (docs/releases.md)"
        yield f"{have} claims for devices, which are allocated as in v1.35: {text}."


class NodeRejection(Document, frozen=True):
    """A status of a plugin, and the number of nodes that have it."""

    plugin: str
    code: str
    reasons: list[str]
    nodes: Count


class PodsWithoutNode(Document, frozen=True):
    """Pods without a node that have one reason."""

    status: Status
    pods: Count
    """Number of pods."""
    reason: str
    """The whole message, as kubectl describe shows it."""
    rejections: list[NodeRejection]


class PodsAlike(NamedTuple):
    """Pods of one workload with equal outcomes; none where the API server refuses the object itself."""

    workload: Workload
    status: str
    reason: str
    outcomes: list[PodOutcome]

    @property
    def is_of_queue(self) -> bool:
        """Whether they are of a workload that waits in a queue of Kueue."""
        if not self.outcomes or self.status == QUEUED:
            return self.status == QUEUED
        return self.outcomes[0].pod.metadata.uid.startswith(WAITING_WORKLOAD)

    @property
    def what(self) -> str:
        """What has become of how many pods."""
        return f"{len(self.outcomes)} {self.status}" if self.outcomes else self.status

    def document(self) -> PodsWithoutNode:
        """Return what documents have of the pods."""
        failure = self.outcomes[0].failure if self.outcomes else None
        diagnosis = None if failure is None or failure.error else failure.diagnosis
        rejections = [
            NodeRejection(status.plugin, str(status.code), list(status.reasons), nodes)
            for status, nodes in ([] if diagnosis is None else diagnosis.statuses_of_nodes())
        ]
        return PodsWithoutNode(self.status, len(self.outcomes), self.reason, rejections)


def refused_groups(cluster: Cluster) -> list[PodsAlike]:
    """Return the objects of a change that the API server would refuse, as groups without a pod; the reasons
    name the files."""
    return [
        PodsAlike(
            _workload_of(obj), REFUSED, ": ".join(filter(None, [obj.source, with_hint(obj.message)])), []
        )
        for obj in cluster.refused_objects
    ]


def not_asked(
    cluster: Cluster, scheduler: Scheduler, pods: Iterable[Pod] | None = None, moved: Container[str] = ()
) -> list[NotAsked]:
    """Return who decides about the change of a cluster or about new pods, and cannot be asked. Of webhooks
    that nobody answers it is known what becomes of what they are asked about.

    Parameters
    ----------
    scheduler : Scheduler
        After the changes.
    pods : iterable of Pod, optional
        Those among which the new ones are; by default all of the scheduler.
    moved : container of str
        As ``namespace/name``, further pods that are made anew.
    """
    if not cluster.is_reviewed:  # like most
        return []
    from moorage.kube.admission.policy.reviewers import Reviewers, schemas_not_asked

    listed: list[Pod] = scheduler.client.list(Pod)[0]
    old = {pod.metadata.uid for pod in cluster.pods if not has_made_up_uid(pod)}
    workloads, named = workloads_of(scheduler.client), dict[str, Pod]()
    for pod in listed if pods is None else pods:
        if pod.metadata.uid not in old or pod.key in moved:
            workload = workloads.of(pod)
            named.setdefault(f"{workload.namespace}/{workload.text}", pod)
    reviewers = Reviewers(cluster).not_asked(cluster.requested, named)
    webhooks = (
        server_of(scheduler.client).silent_webhooks() if isinstance(scheduler.client, ObjectStore) else ()
    )
    silent = {(silence.configuration.full_name, silence.webhook.name) for silence in webhooks}
    answering = [each for each in reviewers if (f"{each.kind} {each.name}", each.webhook) not in silent]
    return [*schemas_not_asked(cluster.requested), *answering]


def _workload_of(obj: RefusedObject | LeftOut) -> Workload:
    return Workload(obj.namespace, obj.kind, obj.name, group_to_show(obj.kind, f"{obj.group}/"))


def group_outcomes(outcomes: Iterable[PodOutcome], short: bool = False) -> list[PodsAlike]:
    """Group outcomes by workload, status and reason, of which some have the name of the pod.

    Parameters
    ----------
    short : bool, optional
        Whether the short reasons are taken.

    Returns
    -------
    list of PodsAlike
        In the order of their first pods.
    """
    groups: dict[tuple[Workload, str, str], list[PodOutcome]] = {}
    for outcome in outcomes:
        reason = outcome.short_reason if short else outcome.reason
        alike = reason.replace(outcome.pod.name, "")
        groups.setdefault((outcome.workload, outcome.status, alike), []).append(outcome)
    return [
        PodsAlike(*key[:2], members[0].short_reason if short else members[0].reason, members)
        for key, members in groups.items()
    ]


def by_workload(outcomes: Iterable[PodOutcome]) -> dict[Workload, list[PodOutcome]]:
    """Group outcomes by workload, without those of pods that were replaced, or are held on their nodes."""
    shown = (outcome for outcome in outcomes if outcome.status not in (REPLACED, *HELD))
    return grouped((outcome.workload, outcome) for outcome in shown)


def pinned_workloads(scheduler: Scheduler, cluster: Cluster) -> dict[Workload, str]:
    """Return the workloads whose templates name a node, and the new pods that do, with the node."""
    makers: Iterable[Object] = (obj for kind in MAKERS for obj in scheduler.client.list(kind)[0])
    pinned = {Workload(obj.namespace, obj.kind, obj.name): name for obj in makers if (name := pinned_by(obj))}
    named = {request.key for request in cluster.accepted if request.node}
    for pod in cluster.pods if named else ():
        if named & {("Pod", pod.namespace, name) for name in (pod.name, pod.metadata.generate_name)}:
            pinned[Workload(pod.namespace, pod.kind, pod.name)] = pod.spec.node_name
    return pinned


def pinned_text(workload: Workload, node: str) -> str:
    """Return who decides about a pod that names a node, as the beginning of a sentence."""
    return PINNED.format("" if workload.kind == Pod.__name__ else "spec.template.", node)


def skip_reason(pod: Pod, skipped: str) -> str:
    """Return why a run does not try a pod, with the names of gates and schedulers.

    Parameters
    ----------
    skipped : str
        See `SchedulerState.not_ours`.
    """
    match SKIPPED.get(skipped):
        case "gated":  # the text of SchedulingGates (kube-scheduler v1.36)
            names = " ".join(gate.name for gate in pod.spec.scheduling_gates)
            return f"waiting for scheduling gates: [{names}]"
        case "other-scheduler":
            return f"no profile for the scheduler {pod.spec.scheduler_name}"
    return skipped


def refuse_failing_plugins(scheduler: Scheduler, result: ScheduleResult) -> None:
    """Raise a PluginError if a plugin has failed on every pod of a run."""
    keys = [*result.placements, *result.waiting, *result.binding]
    pods = scheduler.pods.indexer.get_many(keys) if scheduler.plugin_errors else ()
    scheduler.context.refuse_failing_plugins(pod.spec.scheduler_name for pod in pods if pod is not None)


class SimulationSetup:
    """A cluster as a command finds it before the run, from which equal schedulers are made.

    Parameters
    ----------
    settings : mapping of str to object
        Keyword arguments of the `Scheduler`.
    changes : sequence of RequestedChange, optional
        Changes of the cluster, made in this order.
    coming : ComingNodes, optional
        With what nodes come for pods that fit nowhere; without it, none do.

    Attributes
    ----------
    pods : PodsInOrder
        The pods before the run.
    version : str
        How far writes had come then.
    placed : set of str
        By ``namespace/name``, the pods that the changes have placed: those that restart all workloads, or
        upgrade nodes, do.
    preempted : dict of str to Preempted
        By ``namespace/name``, the running pods that were evicted for others while the changes were made.
    backing_off : frozenset of str
        The workloads that were refused before the changes; see `StoreControl`.
    kept : dict of str to str
        As for a `Simulation`; a run may evict more of the pods that were kept.
    workloads : Workloads
        The workloads of these pods.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: Mapping[str, Any],
        changes: Sequence[RequestedChange] = (),
        coming: ComingNodes | None = None,
        loaded: LoadedCluster | None = None,
    ) -> None:
        self.cluster, self.coming = cluster, coming
        self.settings = settings
        self.changes = joined(changes)
        self.evicted: dict[str, Evicted] = {}
        self.preempted: dict[str, Preempted] = {}
        self.kept: dict[str, str] = {}
        self._drains: list[RequestedChange] = []  # by which changes those of the scheduler came
        loaded, without_effect = loaded or begin(cluster, settings, changes=changes), list[str]()
        self.loaded, scheduler = loaded, loaded.scheduler
        controllers = scheduler.controllers
        self.backing_off = frozenset[str]() if controllers is None else controllers.control.backing_off
        nodes = self._asked_nodes()
        taken = [*self._taken_by_taints(loaded.cluster.pods)]  # of the files
        self._taints_evict = bool(taken)
        for pod in taken:
            if why_lost(scheduler, pod):
                self.evicted[pod.key] = Evicted(pod, f"a taint took it from node {pod.spec.node_name}")
        for change in self.changes:
            scheduler.context.let_pods_stop()
            before = loaded.pods.changed(loaded.since(scheduler))
            effect = change.make(scheduler, nodes)
            self._record(change, before, effect)
            self._drains += [change] * (len(scheduler.context.drains) - len(self._drains))
            without_effect += change.left_as_is(effect, scheduler)
        hold_queues(scheduler, False)
        scheduler.sync()
        self._see_drains(scheduler, self.evicted, self.kept)
        written = loaded.since(scheduler)
        self.pods, self.version = loaded.pods.changed(written), loaded.version(scheduler)
        bound = (loaded.pods.get(key) for key in written)
        uids = {pod.metadata.uid for pod in bound if pod is not None and pod.spec.node_name}
        on_nodes = (pod for pod in written.values() if pod is not None and pod.spec.node_name)
        self.placed = {pod.key for pod in on_nodes if pod.metadata.uid not in uids}
        self.workloads = workloads_of(scheduler.client)
        self._warned = input_warnings(cluster, loaded) + without_effect
        if coming is not None:
            from moorage.autoscalers.providers.prices import foreign_zones  # most checks need no prices

            self._warned += foreign_zones(cluster.nodes, coming.prices.known.every())
        self._spare = [scheduler]

    @property
    def warnings(self) -> list[str]:
        """About the input and the pods that were made so far, a sentence each."""
        siblings = self.cluster.siblings
        return [*self._warned, *(siblings.sentences() if siblings is not None else ())]

    def _record(self, change: RequestedChange, before: PodsInOrder, effect: Change) -> None:
        """Note the pods that a change has deleted or kept."""
        deleted = {name.removeprefix(POD) for name in effect.deleted if name.startswith(POD)}
        written = (pod for key in self.loaded.since(self.loaded.scheduler) if (pod := before.get(key)))
        lost = (pod for pod in self._taken_by_taints(written) if why_lost(self.loaded.scheduler, pod))
        deleted |= {pod.key for pod in lost}
        left = {name.removeprefix(POD) for name in effect.unfinished if name.startswith(POD)}
        for key in before.in_order(deleted | left):
            pod = before[key]
            is_needed = pod.metadata.deletion_timestamp is None and not stays(pod)
            if key in deleted and pod.spec.node_name and is_needed:
                self.evicted.setdefault(key, Evicted.by(change, pod))  # the pod that was there first
            if key in deleted and (by := effect.preempted.get(POD + key)) is not None:
                self.preempted.setdefault(key, Preempted(pod, by))
            if (why := effect.unfinished.get(POD + key)) is not None:
                self.kept[key] = f"{change.text_about(pod.spec.node_name)}: {why}"

    def _taken_by_taints(self, before: Iterable[Pod]) -> Iterator[Pod]:
        """Yield those of some pods, as they were before, that taints have evicted."""
        scheduler = self.loaded.scheduler
        taints = {node.name: node.spec.taints for node in scheduler.client.list(Node)[0] if node.spec.taints}
        for old in before if taints else ():
            name = old.spec.node_name
            if name not in taints or not is_active(old) or tolerated_seconds(old, taints[name]):
                continue
            now = find_object(scheduler.client, Pod, old.name, old.namespace)
            if now is None or not is_active(now):
                yield old

    @property
    def loses_pods(self) -> bool:
        """Whether a taint, a later file or a change has taken pods from nodes."""
        return self._taints_evict or self.loaded.loses_pods()

    def make(self) -> Scheduler:
        """Return a scheduler that nobody has used."""
        scheduler = self._spare.pop() if self._spare else self._made()
        with suppress(InputError):  # its plugins cannot be copied, so the next one is made anew
            self._spare.append(scheduler.fork())
        return scheduler

    def _made(self) -> Scheduler:
        scheduler = Scheduler(self.cluster, **self.settings)
        nodes = self._asked_nodes()
        for change in self.changes:
            scheduler.context.let_pods_stop()
            change.make(scheduler, nodes)
        scheduler.sync()
        return scheduler

    def _asked_nodes(self) -> set[str]:
        """Return the names of the nodes before the changes, if one selects nodes."""
        if not any(change.verb.is_of_nodes for change in self.changes):
            return set()
        return {node.name for node in self.cluster.nodes}

    @cached_property
    def simulation(self) -> Simulation:
        """The pending pods placed, once for all that ask."""
        return self.run()

    def run(
        self, stages: Progress = SILENCE, loop_over: Callable[[SchedulerState], Loop] = Loop
    ) -> Simulation:
        """Place the pending pods.

        Parameters
        ----------
        stages : Progress, optional
            Shows how many pods have been tried.
        loop_over : callable, optional
            Makes the loop over a scheduler.
        """
        scheduler = self.make()
        loop = loop_over(scheduler.context)
        placed, failed = loop.result.placements, loop.result.unschedulable
        stages.count(len(scheduler.pods.pending), lambda: len(placed) + len(failed))
        loop.all()
        up = None if self.coming is None else self.coming.grow(scheduler, loop.result, loop.all)
        refuse_failing_plugins(scheduler, loop.result)
        evicted, kept = self.evicted.copy(), self.kept.copy()
        self._see_drains(scheduler, evicted, kept)
        return Simulation(self, scheduler, loop.result, evicted=evicted, kept=kept, scale_up=up)

    def place(self, scheduler: Scheduler) -> None:
        """Place the pending pods of a scheduler that `make` has returned, as `run` does without new nodes."""
        refuse_failing_plugins(scheduler, Loop(scheduler.context).all())

    def unended_drains(self, scheduler: Scheduler) -> Iterator[str]:
        """Yield a sentence about the pods that drains have left on their nodes after a run."""
        kept = self.kept.copy()
        self._see_drains(scheduler, {}, kept)
        if pods := [self.pods[key] for key in self.pods.in_order(kept)]:
            nodes = first_of([*dict.fromkeys(pod.spec.node_name for pod in pods)], EXAMPLES)
            keepers = what_keeps(scheduler.client, pods)
            stay = number_of(len(pods), "pod stays", "pods stay")
            yield f"The drain of {nodes} has not ended: {stay}{': ' * bool(keepers)}{keepers}."

    def _see_drains(self, scheduler: Scheduler, evicted: dict[str, Evicted], kept: dict[str, str]) -> None:
        """Note the pods that drains had to keep at first: those that went, and why others stay."""
        drains = cast("tuple[WaitingDrain, ...]", scheduler.context.drains)
        for change, drain in zip(self._drains, drains, strict=True):
            for pod in drain.pods:
                kept.pop(pod.key, None)
                if why := drain.kept.get(pod.full_name):
                    kept[pod.key] = f"{change.text_about(pod.spec.node_name)}: {why}"
                elif pod.full_name in drain.evicted:
                    evicted[pod.key] = Evicted.by(change, pod)
