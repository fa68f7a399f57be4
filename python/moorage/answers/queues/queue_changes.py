"""Changes with which Kueue would admit a workload, as a user makes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from moorage.controllers.queues.queue_controller import QueueController
from moorage.controllers.store_control import workloads_of
from moorage.errors import InputError, number_of
from moorage.kube import ClusterQueue, Job, LocalQueue, Object, Pod, PodSpec
from moorage.kube.model.kueue import BEST_EFFORT, QueuedWorkloadStatus, Workload
from moorage.kube.model.workload import MIN_PARALLELISM, QUEUE
from moorage.lazy import NamedTuple
from moorage.queues import QueuedWorkload
from moorage.queues.whole_amounts import amount, text
from moorage.queues.workloads import READY
from moorage.store import find_object

from .decided_workloads import new_preemptions, nodes_text, owner_of, preemption_text

if TYPE_CHECKING:
    from moorage.cluster import ChangingScheduler

_MOST, _MOST_RUNS = 3, 32
"""How many changes are named, and how often Kueue runs for those of one kind."""
_Place = tuple[str, str]
"""A flavor and a resource."""


def helpful_changes(
    scheduler: ChangingScheduler, queues: QueueController, workload: QueuedWorkload
) -> list[str]:
    """Return changes that let a workload in, a clause each: no strict order, another queue, fewer pods,
    smaller requests, more quota, and no limits to what is borrowed and lent. One that has quota lacks
    admission checks alone.

    They are found on copies of the queues, and then made as a user makes them, so that a clause says whom
    that preempts, and how many pods find nodes.
    """
    if workload.status == "quotaReserved":
        lacking = [name for name, state in workload.checks.items() if state.state != READY]
        check, are = ("check", "is") if len(lacking) == 1 else ("checks", "are")
        return [f"when admission {check} {', '.join(lacking)} {are} {READY}"] if lacking else []
    tried = _ChangedQueues(scheduler, queues, workload)
    kinds = (
        *(tried.best_effort, tried.other_queues, tried.fewer_pods),
        *(tried.smaller_requests, tried.more_quota, tried.no_limits),
    )
    return [*islice(filter(None, map(tried.first, kinds)), _MOST)]


class _QueueChange(NamedTuple):
    """A change, as a clause, and the object that a user would apply; None for one of another project."""

    clause: str
    obj: Object | None


class _ChangedQueues:
    """A workload that waits, which is tried with changes."""

    def __init__(
        self, scheduler: ChangingScheduler, queues: QueueController, workload: QueuedWorkload
    ) -> None:
        kueue = queues.kueue
        self._scheduler, self._queues = scheduler, queues
        self._kueue, self._key, self._per_pod = kueue, workload.key, workload.per_pod
        self._workload = replace(workload.obj, status=QueuedWorkloadStatus())
        self._queue = kueue.snapshot.queues.get(kueue.cluster_queue_of(workload))
        self._job: Job | None = None
        owner = workload.obj.metadata.controller()
        if owner is not None and owner.kind == Job.__name__:
            self._job = find_object(scheduler.client, Job, owner.name, workload.obj.namespace)
        self._runs = 0
        self._total = Counter[str]()
        for needs in workload.needs():
            self._total.update(needs.requests)

    def first(self, changes: Callable[[], Iterator[_QueueChange]]) -> str:
        """Return the first change of a kind with which all pods find nodes, or else the first that lets the
        workload in, with what it leads to; "" for none."""
        self._runs, clauses = 0, list[str]()
        for change in changes():
            clause, is_whole = self._played(change)
            clauses += [clause] if clause else []
            if is_whole:
                return clause
        return clauses[0] if clauses else ""

    def _may_run(self) -> bool:
        self._runs += 1
        return self._runs <= _MOST_RUNS

    def _played(self, change: _QueueChange) -> tuple[str, bool]:
        """Return a change with what it leads to, and whether that is all that was wanted; "" if it is
        refused, or does not let the workload in."""
        if change.obj is None:
            return change.clause, True
        if not self._may_run():
            return "", False
        before = self._queues.cycles
        with self._scheduler.transaction():
            try:
                self._scheduler.change.apply([change.obj])
            except InputError:
                return "", False
            self._scheduler.run()
            workload = self._queues.kueue.workloads.get(self._key)
            if workload is None or not workload.counts:
                return "", False
            victims = preemption_text(self._queues.kueue, new_preemptions(self._queues.cycles, before))
            number = sum(pods.pods for pods in workload.holds or ())
            if workload.status != "admitted":
                return f"{change.clause}{victims}", True
            owner, workloads = owner_of(workload.obj), workloads_of(self._scheduler.client)
            pods: list[Pod] = self._scheduler.client.list(Pod, owner.namespace)[0]
            placed = sum(bool(pod.spec.node_name) and workloads.of(pod) == owner for pod in pods)
            return f"{change.clause}{victims}{nodes_text(number, placed, ', ')}", placed >= number

    def _is_admitted(self, *changed: Object) -> bool:
        """Whether Kueue admits the workload after changes; not if it has run too often."""
        if not self._may_run():
            return False
        kueue = self._kueue.copy()
        for obj in (*changed, *([] if isinstance(changed[-1], Workload) else [self._workload])):
            kueue.apply(obj)
        kueue.run()
        return kueue.workloads[self._key].counts

    def _with(self, **fields: Any) -> Workload:
        return replace(self._workload, spec=replace(self._workload.spec, **fields))

    def _changed_job(self, **fields: tuple[str, str]) -> Job | None:
        """Return the job with another label or annotation."""
        if (job := self._job) is None:
            return None
        meta = {
            field: getattr(job.metadata, field) | {name: value} for field, (name, value) in fields.items()
        }
        return replace(job, metadata=replace(job.metadata, **meta))

    def best_effort(self) -> Iterator[_QueueChange]:
        """Yield its queue without strict order, where another workload holds it up."""
        for queue in filter(self._is_of, self._kueue.listed(ClusterQueue)):
            free = replace(queue, spec=replace(queue.spec, queueing_strategy=BEST_EFFORT))
            if free != queue and self._is_admitted(free):
                yield _QueueChange(f"with queueingStrategy {BEST_EFFORT} of ClusterQueue {queue.name}", free)

    def other_queues(self) -> Iterator[_QueueChange]:
        """Yield other queues of its namespace."""
        for local in self._kueue.listed(LocalQueue):
            is_other = local.name != self._workload.spec.queue_name
            is_near = local.namespace == self._workload.namespace
            if is_near and is_other and self._is_admitted(self._with(queue_name=local.name)):
                job = self._changed_job(labels=(QUEUE, local.name))
                yield _QueueChange(f"in queue {local.name} (ClusterQueue {local.spec.cluster_queue})", job)

    def fewer_pods(self) -> Iterator[_QueueChange]:
        """Yield the largest number of pods that is admitted."""
        if len(self._workload.spec.pod_sets) > 1:
            return
        (pods,) = self._workload.spec.pod_sets
        least, most = 0, pods.count
        while most - least > 1:
            number = (least + most) // 2
            fewer = replace(pods, count=number, min_count=None)
            if self._is_admitted(self._with(pod_sets=(fewer,))):
                least = number
            else:
                most = number
        if least:
            job = self._changed_job(annotations=(MIN_PARALLELISM, str(least)))
            allows = "" if job is None else f' (the annotation {MIN_PARALLELISM}: "{least}" allows it)'
            yield _QueueChange(f"with {number_of(least, 'pod', 'pods')}{allows}", job)
            if (job := self._job) is not None:  # the queue would borrow for more pods, and lose them again
                smaller = replace(job, spec=replace(job.spec, parallelism=least))
                yield _QueueChange(f"with parallelism {least}", smaller)

    def smaller_requests(self) -> Iterator[_QueueChange]:
        """Yield how much of a resource each pod may ask for."""
        if self._queue is None or len(self._workload.spec.pod_sets) > 1:
            return
        (pods,) = self._workload.spec.pod_sets
        most: dict[str, int] = {}
        for group in self._queue.groups:
            for resource in group.resources & self._total.keys():
                rooms = [self._queue.available((flavor, resource)) for flavor in group.flavors]
                most[resource] = max(rooms, default=0) // max(pods.count, 1)
        smaller = {each: value for each, value in most.items() if 0 < value < self._per_pod[0].get(each, 0)}
        if not smaller:
            return
        lower = {each: self._per_pod[0][each] - value for each, value in smaller.items()}
        spec = _lowered(pods.template.spec, lower)
        if self._is_admitted(
            self._with(pod_sets=(replace(pods, template=replace(pods.template, spec=spec)),))
        ):
            amounts = [f"{text(each, value)} {each}" for each, value in sorted(smaller.items())]
            job = self._job
            if job is not None:
                template = replace(job.spec.template, spec=_lowered(job.spec.template.spec, lower))
                job = replace(job, spec=replace(job.spec, template=template))
            yield _QueueChange(f"with requests of {', '.join(amounts)} a pod", job)

    def more_quota(self) -> Iterator[_QueueChange]:
        """Yield the quota that is enough, of one flavor: what is missing of all that there is, of what is not
        used, or of the queue's own, so that it may take back what it lends."""
        if (known := self._queue) is None:
            return
        for queue in filter(self._is_of, self._kueue.listed(ClusterQueue)):
            for flavor in (flavor for group in queue.spec.resource_groups for flavor in group.flavors):
                for room in (
                    lambda place: known.cell(place).potential(),
                    known.available,
                    lambda place: known.cell(place).nominal - known.cell(place).usage,
                ):
                    raised: dict[_Place, dict[str, Any]] = {}
                    texts = []
                    for quota in flavor.resources:
                        lacks = self._total[quota.name] - room((flavor.name, quota.name))
                        if lacks > 0:
                            nominal = text(quota.name, amount(quota.name, quota.nominal_quota) + lacks)
                            raised[flavor.name, quota.name] = {"nominal_quota": nominal}
                            texts.append(f"{nominal} {quota.name} (now {quota.nominal_quota})")
                    larger = with_quotas(queue, raised)
                    if raised and self._is_admitted(larger):
                        where = f"in flavor {flavor.name} of ClusterQueue {queue.name}"
                        yield _QueueChange(f"with nominalQuota {', '.join(texts)} {where}", larger)

    def no_limits(self) -> Iterator[_QueueChange]:
        """Yield limits without which it is admitted: of what its queue borrows, and others lend."""
        for queue in self._kueue.listed(ClusterQueue):
            field = "borrowing_limit" if self._is_of(queue) else "lending_limit"
            limits = {
                (flavor.name, quota.name): getattr(quota, field)
                for group in queue.spec.resource_groups
                for flavor in group.flavors
                for quota in flavor.resources
                if getattr(quota, field) is not None
            }
            for (flavor_name, resource), limit in limits.items():
                free = with_quotas(queue, {(flavor_name, resource): {field: None}})
                if self._is_admitted(free):
                    name = "borrowingLimit" if self._is_of(queue) else "lendingLimit"
                    where = f"in flavor {flavor_name} of ClusterQueue {queue.name}"
                    yield _QueueChange(f"without {name} {limit} {resource} {where}", free)

    def _is_of(self, queue: ClusterQueue) -> bool:
        return self._queue is not None and queue.name == self._queue.name


def with_quotas(queue: ClusterQueue, fields: Mapping[_Place, Mapping[str, Any]]) -> ClusterQueue:
    """Return a queue with other fields of some quotas."""
    groups = [
        replace(
            group,
            flavors=tuple(
                [
                    replace(
                        flavor,
                        resources=tuple(
                            [
                                replace(quota, **fields.get((flavor.name, quota.name), {}))
                                for quota in flavor.resources
                            ]
                        ),
                    )
                    for flavor in group.flavors
                ]
            ),
        )
        for group in queue.spec.resource_groups
    ]
    return replace(queue, spec=replace(queue.spec, resource_groups=tuple(groups)))


def _lowered(spec: PodSpec, lower: Mapping[str, int]) -> PodSpec:
    """Return pods of which the container that asks for most asks for less."""
    containers = list(spec.containers)
    for resource, less in lower.items():
        requested = [amount(resource, each.resources.requests.get(resource, 0)) for each in containers]
        at = requested.index(max(requested))
        requests = containers[at].resources.requests | {
            resource: text(resource, max(requested[at] - less, 0))
        }
        resources = replace(containers[at].resources, requests=requests)
        containers[at] = replace(containers[at], resources=resources)
    return replace(spec, containers=tuple(containers))
