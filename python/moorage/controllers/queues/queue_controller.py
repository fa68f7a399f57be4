"""Kueue beside the other controllers: it hears what becomes of queues and jobs, and lets jobs run, or stops
them, as its scheduler decides (v0.17, pkg/controller/jobframework/reconciler.go)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, cast

from msgspec.structs import replace

from moorage.grouped import grouped
from moorage.kube.admission.request import RefusedError
from moorage.kube.model.autoscaling import KUEUE_KEY, ConfigMap
from moorage.kube.model.cluster import PodAdditions, Suspended
from moorage.kube.model.kueue import (
    KINDS,
    LocalQueue,
    QueuedWorkloadStatus,
    ResourceFlavor,
    WorkloadPriorityClass,
)
from moorage.kube.model.kueue import Workload as KueueWorkload
from moorage.kube.model.meta import Condition, Object
from moorage.kube.model.node import Namespace, Node
from moorage.kube.model.pod import Pod
from moorage.kube.model.policy import LimitRange, RuntimeClass
from moorage.kube.model.workload import CustomObject, Job, LeaderWorkerSet, PriorityClass, StatefulSet
from moorage.kube.read.object_defaults import default_object, priority_classes
from moorage.kube.workloads.deployment_rollout import WORKER, group_of
from moorage.kube.workloads.job_state import verdict_of
from moorage.kube.workloads.ownership import FINISHED, Names, has_made_up_uid, is_active, refers_to
from moorage.lazy import NamedTuple
from moorage.queues import AdmittedPods, Cycle, Kueue, QueuedWorkload
from moorage.queues.configuration import Configuration, read_configuration
from moorage.queues.jobs.job_workloads import JobWorkloads, role_of
from moorage.queues.settings import Settings
from moorage.queues.whole_amounts import amounts_of
from moorage.saved_fields import SavedFields
from moorage.store import ObjectStore, ResourceExpiredError, WatchEvent, find_object

from ..store_control import StoreControl
from .queued_pods import (
    OWNERS,
    domain_of,
    gated,
    in_domain,
    is_gated,
    let_go,
    may_be_gated,
    members,
    owner_of_pod,
    queued_unit,
    unit_id,
    with_top_owner,
)
from .recorded_workloads import record, recorded, says

_READ: tuple[type[Object], ...] = (ConfigMap, *KINDS, Namespace, LimitRange, RuntimeClass, PriorityClass)
"""What Kueue reads beside jobs, in this order."""
_FOR_JOBS = (LocalQueue, WorkloadPriorityClass, PriorityClass)
"""Of these depends which workloads become of jobs."""
_SECOND = 1000

_Standing = dict[str, defaultdict[int, Counter[tuple[str, ...]]]]
_PodsIn = Callable[[str], Mapping[str, Sequence[Pod]]]


class _SharedKueue:
    """Kueue, which a saved state and a fork share until it changes."""

    def __init__(self, kueue: Kueue) -> None:
        self.kueue = kueue
        self._is_shared = False

    def copy(self) -> _SharedKueue:
        """Share it."""
        self._is_shared = True
        out = _SharedKueue(self.kueue)
        out._is_shared = True
        return out

    def changing(self) -> Kueue:
        """Return it, for a change."""
        if self._is_shared:
            self.kueue, self._is_shared = self.kueue.copy(), False
        return self.kueue


class _Changed(NamedTuple):
    """An object that was written, or is gone."""

    obj: Object
    is_gone: bool


class RefusedJob(NamedTuple):
    """A job of which Kueue makes no workload, the one that it would make, and why."""

    job: Object
    workload: KueueWorkload
    why: str


class QueueController(SavedFields):
    """Lets jobs run that Kueue admits, and stops those that it evicts.

    Parameters
    ----------
    client : ObjectStore
        Nobody else runs Kueue on it.
    suspended : callable
        The workloads of other projects that wait in queues.

    Attributes
    ----------
    unseen : tuple of str
        The jobs that run, though no Workload says what they hold.
    refused : dict of str to RefusedJob
        By `unit_id` of the job, or of each pod of a group.
    ignored : tuple of str
        What Kueue's configuration says of workloads, and is not simulated.
    """

    fields = (
        "_shared",
        "_version",
        "_seen",
        "_taken",
        "_is_behind",
        "_keys",
        "_maker",
        "_cycles",
        "unseen",
        "refused",
        "ignored",
    )

    def __init__(
        self, client: ObjectStore, control: StoreControl, suspended: Callable[[], tuple[Suspended, ...]]
    ) -> None:
        self._client, self._control = client, control
        self._suspended = suspended
        self._taken: tuple[Suspended, ...] = ()  # those that Kueue knows
        self._shared = _SharedKueue(Kueue())
        self._version = ""
        self._seen = -1
        self._is_behind = False  # whether something has changed since it decided
        self._keys: dict[str, str] = {}  # of workloads, by `unit_id`
        self._maker: JobWorkloads | None = None
        self._cycles: list[Cycle] = []
        self.unseen: tuple[str, ...] = ()
        self.refused: dict[str, RefusedJob] = {}
        self.ignored: tuple[str, ...] = ()

    @property
    def kueue(self) -> Kueue:
        """The queues and workloads as they are; not to be changed."""
        return self._shared.kueue

    @property
    def basis(self) -> str:
        """What decides, in a few words."""
        source = "defaults" if self.kueue.settings == Settings() else "ConfigMap"
        return f"Kueue 0.17 with its {source}"

    @property
    def cycles(self) -> tuple[Cycle, ...]:
        """What was decided so far."""
        return tuple(self._cycles)

    def work(self, decides: bool) -> bool:
        """Follow what has changed, let Kueue decide, and carry it out; return whether that wrote anything.

        Parameters
        ----------
        decides : bool
            Without it Kueue follows alone: more is to change at the same moment.
        """
        before = self._client.changes
        is_known = before == self._seen and self._suspended() is self._taken
        if is_known and not (decides and self._is_behind):
            return False
        changed = [*self._changed()]
        self._version = self._client.list(ResourceFlavor)[1]  # of all kinds; flavors are few
        if changed:
            self._follow(changed)
            self._is_behind = True
        if decides and self._is_behind:
            self._is_behind = False
            kueue = self._shared.changing()
            self._cycles += kueue.run()
            pods_in, standing = cache(self._pods_by_workload), _Standing()
            for key in kueue.take_moved():
                if (workload := kueue.workloads.get(key)) is not None:
                    is_running = workload.status == "admitted" and workload.active
                    self._carry_out(workload, is_running, pods_in, standing)
            for key in kueue.take_decided():
                record(self._client, key, kueue.workloads.get(key))
            self._version = self._client.list(ResourceFlavor)[1]
        self._seen = self._client.changes
        return self._seen != before

    def queued_pods(self) -> dict[str, str]:
        """Return by ``namespace/name`` the pods that wait with a gate, with their workloads."""
        pods: list[Pod] = [pod for pod in self._client.list(Pod)[0] if is_gated(pod)]
        units = {pod.key: queued_unit(self._client, pod) for pod in pods}
        known = self._keys | {uid: each.workload.key for uid, each in self.refused.items()}
        keys = {pod: known.get(unit_id(unit.metadata)) for pod, unit in units.items() if unit is not None}
        return {pod: key for pod, key in keys.items() if key is not None}

    def with_node(self, keys: Collection[str]) -> int:
        """Return how many pods of workloads have a node, of those that wait by themselves or with a group."""
        placed: list[Pod] = [pod for pod in self._client.list(Pod)[0] if pod.spec.node_name]
        units = (queued_unit(self._client, pod) or pod if group_of(pod) else pod for pod in placed)
        return sum(self._keys.get(unit_id(unit.metadata)) in keys for unit in units)

    # ---- what has changed ----------------------------------------------------------------------------------

    def _changed(self) -> Iterator[_Changed]:
        """Yield what was written since the last round, of the kinds that count."""
        written = {*self._client.changed_since(self._seen)}
        placing = (Node,) if self._has_topologies() else ()
        for kind in (*_READ, Job, Pod, StatefulSet, LeaderWorkerSet, *placing):
            if kind in written:
                yield from map(_changed, _latest(self._events(kind)))
        if (suspended := self._suspended()) is not self._taken:
            known, self._taken = {id(each) for each in self._taken}, suspended
            new = [each.source for each in suspended if each.source and id(each) not in known]
            yield from (_Changed(source, False) for source in new)

    def _suspended_job(self, uid: str) -> Suspended | None:
        listed = self._suspended()
        return next((job for job in reversed(listed) if job.source and job.source.metadata.uid == uid), None)

    def _has_topologies(self) -> bool:
        flavors: list[ResourceFlavor] = self._client.list(ResourceFlavor)[0]
        return any(flavor.spec.topology_name for flavor in flavors)

    def _events(self, kind: type[Object]) -> Iterable[WatchEvent[Object]]:
        version = self._version or "0"
        try:
            with self._client.watch(kind, resource_version=version) as watch:
                return watch.poll()
        except ResourceExpiredError:  # more was written at once than a store remembers
            with self._client.watch(kind) as watch:
                return watch.poll()

    def _follow(self, changed: Sequence[_Changed]) -> None:
        """Tell Kueue what was written: queues first, then the jobs in their order."""
        kueue = self._shared.changing()
        now = round(self._client.now() * _SECOND)
        if not self._version or not kueue.now:
            kueue.now = now
        elif now > kueue.now:
            kueue.advance(now - kueue.now)
        jobs: list[_Changed] = []
        for each in changed:
            if isinstance(each.obj, ConfigMap):
                if KUEUE_KEY in each.obj.data:
                    configuration = Configuration() if each.is_gone else read_configuration(each.obj)
                    self.ignored, self._maker = configuration.ignored, None
                    self._shared.changing().configure(configuration.settings)
            elif isinstance(each.obj, KueueWorkload):
                jobs += self._follow_workload(each)
            elif isinstance(each.obj, _READ):
                kueue.delete(each.obj.kind, each.obj.key) if each.is_gone else kueue.apply(each.obj)
            elif isinstance(each.obj, StatefulSet | LeaderWorkerSet):
                self._resize(each)
            elif not isinstance(each.obj, Node):
                jobs.append(each)
        if self._has_topologies():
            placed = [each for each in changed if isinstance(each.obj, Node | Pod)]
            kueue.place(
                {
                    (each.obj.kind, each.obj.key): None if each.is_gone else _with_conditions(each.obj)
                    for each in placed
                }
            )
        if any(isinstance(each.obj, WorkloadPriorityClass | PriorityClass) for each in changed):
            refused = {each.job.full_name: each.job for each in self.refused.values()}.values()
            current = [find_object(self._client, type(job), job.name, job.namespace) for job in refused]
            jobs += [_Changed(new or job, False) for new, job in zip(current, refused, strict=True)]
        if self._maker is None or any(isinstance(each.obj, _FOR_JOBS) for each in changed):
            read = [obj for kind in _FOR_JOBS for obj in self._client.list(kind)[0]]
            self._maker = JobWorkloads(read, self.kueue.settings.frameworks)
        jobs.sort(key=lambda each: int(each.obj.metadata.resource_version or 0))
        maker, standing = self._maker, _Standing()
        for each in jobs:
            if isinstance(each.obj, Pod) and not each.is_gone:
                self._follow_pod(each.obj, maker, standing)
            else:
                self._follow_job(each, maker)

    def _follow_workload(self, changed: _Changed) -> Iterator[_Changed]:
        """Take over a workload that somebody else has written; yield the job of one that is gone, as Kueue
        makes it anew."""
        kueue, workload = self._shared.changing(), cast(KueueWorkload, changed.obj)
        known = kueue.workloads.get(workload.key)
        if changed.is_gone:
            if known is not None and known.status == "admitted":
                self._carry_out(known, False, self._pods_by_workload, _Standing())
            kueue.delete(KueueWorkload.__name__, workload.key)
            self._keys = {unit: key for unit, key in self._keys.items() if key != workload.key}
            for owner in workload.metadata.owner_references:
                kind = OWNERS.get(owner.kind)
                job = (
                    None if kind is None else find_object(self._client, kind, owner.name, workload.namespace)
                )
                if job is not None:
                    yield _Changed(job, False)
        elif known is None or not says(workload, recorded(self._client, known)):
            kueue.apply(workload)
            for owner in workload.metadata.owner_references:
                self._keys[unit_id(workload.metadata, owner.uid)] = workload.key

    def _resize(self, changed: _Changed) -> None:
        """Delete the workload of a StatefulSet without replicas, or of groups that a LeaderWorkerSet lacks; a
        new one comes with the first of its pods."""
        obj = cast("StatefulSet | LeaderWorkerSet", changed.obj)
        uid, replicas = obj.metadata.uid, 1 if obj.spec.replicas is None else obj.spec.replicas
        numbers = range(0 if changed.is_gone else replicas)
        if isinstance(obj, StatefulSet):
            left = [] if numbers else [uid]
        else:
            kept = {f"{uid}/{at}" for at in numbers}
            groups = {unit for unit in (*self._keys, *self.refused) if unit.startswith(f"{uid}/")}
            left = sorted(groups - kept)
        for unit in left:
            self._forget(unit)

    def _forget(self, unit: str) -> None:
        """Delete the workload of a job that is gone; that of a group stays until all of its pods are."""
        self.refused.pop(unit, None)
        if (key := self._keys.pop(unit, None)) is None:
            return
        workload = self.kueue.workloads.get(key)
        owners = () if workload is None else workload.obj.metadata.owner_references
        if not any(owner.kind == Pod.__name__ and owner.uid in self._keys for owner in owners):
            self._shared.changing().delete(KueueWorkload.__name__, key)

    def _follow_job(self, changed: _Changed, maker: JobWorkloads) -> None:
        """Make the workload of a new job, and end that of one that has ended."""
        job, kueue = changed.obj, self._shared.changing()
        workload = kueue.workloads.get(self._keys.get(job.metadata.uid, ""))
        if changed.is_gone:
            self._forget(job.metadata.uid)
        elif workload is None:
            waiting = self._suspended_job(job.metadata.uid)
            if isinstance(job, Job) and verdict_of(job) is not None:
                return
            if maker.queue_of(job):
                self._enter(job, maker)
            elif waiting is not None and waiting.is_held:
                self._make(waiting, {})  # as Kueue's configuration leaves its kind alone
        elif isinstance(job, Job) and verdict_of(job) is not None:
            kueue.finish(workload.key)
        elif isinstance(job, Job | CustomObject):
            self._update(job, workload, maker)
            if isinstance(job, Job):
                workload = kueue.workloads[workload.key]
                is_running = workload.status == "admitted" and workload.active
                self._carry_out(workload, is_running, self._pods_by_workload, _Standing())

    def _update(self, job: Object, workload: QueuedWorkload, maker: JobWorkloads) -> None:
        """Let a workload follow a change of its job: of all that it asks for while it waits, of its priority
        always."""
        new = maker.workload([job])
        if new is None or maker.refusal(new):
            return
        old = workload.obj
        if workload.status == "pending" and _asked(new) != _asked(old):
            spec = replace(new.spec, active=old.spec.active)
            changed = replace(old, spec=spec, status=QueuedWorkloadStatus())
            self._shared.changing().apply(changed, workload.arrival)
        elif new.spec.priority_class_ref != old.spec.priority_class_ref:
            self._shared.changing().prioritize(old.key, new.spec.priority)

    def _follow_pod(self, pod: Pod, maker: JobWorkloads, standing: _Standing) -> None:
        """Let a new pod wait in its queue, or give it what its job has got."""
        if not may_be_gated(pod):
            if pod.status.phase in FINISHED and (key := self._keys.get(pod.metadata.uid)) is not None:
                self._shared.changing().finish(key)
            return
        if (unit := queued_unit(self._client, pod)) is None or not maker.queue_of(unit):
            self._place(pod, standing)
            return
        key = self._keys.get(unit_id(unit.metadata))
        if key is not None and self.kueue.workloads[key].status == "admitted":
            self._let_go(pod, standing)
        elif not is_gated(pod):  # as if it had been created so: gates cannot come later
            self._client.delete(Pod, pod.name, pod.namespace)
            self._client.create(gated(pod))
        if key is None:
            units: list[Object] = [unit]
            if isinstance(unit, Pod):
                others = [other for other in members(self._client, pod) if other.key != pod.key]
                queued = [queued_unit(self._client, other) for other in others]
                units += [other for other in queued if other is not None]
            if (workload := maker.workload(units)) is not None:
                self._apply(with_top_owner(self._client, pod, workload), units, pod, maker)

    def _place(self, pod: Pod, standing: _Standing) -> None:
        """Give a new pod the domain that it has in its topology."""
        placed = self._in_domain(pod, self._held_by(pod), standing)
        if placed is not pod:
            self._client.update(placed)

    def _in_domain(self, pod: Pod, held: AdmittedPods | None, standing: _Standing) -> Pod:
        """Return a pod with the domain that it has in the topology of its set.

        Parameters
        ----------
        standing : dict
            By namespace and set how many pods stand in each domain: counted once for all pods of a round.
        """
        if held is None or not held.domains:
            return pod
        if pod.namespace not in standing:
            of_sets = standing[pod.namespace] = defaultdict(Counter)
            pods: list[Pod] = self._client.list(Pod, pod.namespace)[0]
            for each in pods:
                if (own := self._held_by(each)) is not None and own.domains:
                    of_sets[id(own)][domain_of(self._client, each, own)] += 1
        return in_domain(self._client, pod, standing[pod.namespace][id(held)], held) or pod

    def _held_by(self, pod: Pod) -> AdmittedPods | None:
        """Return what the set of a pod holds: by what goes through a queue for it, by its job, or by the
        workload of another project that has made it, or its job."""
        unit = queued_unit(self._client, pod)
        if unit is not None and (key := self._keys.get(unit_id(unit.metadata))) is not None:
            holds = {pods.name: pods for pods in self.kueue.workloads[key].holds or ()}
            of_leader = "leader" if pod.metadata.labels.get(WORKER) == "0" else "worker"
            named = next((holds[name] for name in (of_leader, role_of(pod)) if name in holds), None)
            return named or next(iter(holds.values()), None)
        job = owner_of_pod(self._client, pod)
        if job is not None and (key := self._keys.get(job.metadata.uid)) is not None:
            return next(iter(self.kueue.workloads[key].holds or ()), None)
        dependent: Object = pod if job is None else job
        owner = dependent.metadata.controller()
        near = [each for each in reversed(self._suspended()) if each.namespace == pod.namespace]
        waiting = next((each for each in near if each.source and refers_to(owner, each.source)), None)
        if waiting is None or waiting.source is None:
            return None
        key = self._keys.get(waiting.source.metadata.uid)
        if key is None:
            return None
        holds = {each.name: each for each in self.kueue.workloads[key].holds or ()}
        return holds[_pod_set_of(dependent, waiting, [*holds])] if holds else None

    def _let_go(self, pod: Pod, standing: _Standing) -> None:
        """Let a pod of an admitted workload go where what its set holds allows."""
        held = self._held_by(pod)
        additions = PodAdditions({}, ()) if held is None else self._additions(held)
        free = let_go(self._in_domain(pod, held, standing), additions)
        if free != pod:
            self._client.update(free)

    def _enter(self, job: Object, maker: JobWorkloads) -> None:
        """Let a job wait in its queue; one that runs already is left alone, as it is not known what it
        holds."""
        workload = maker.workload([job])
        if workload is None:
            return
        if isinstance(job, Job) and not job.spec.suspend:
            if not has_made_up_uid(job) and job.metadata.creation_timestamp is not None and job.status.active:
                self.unseen += (job.full_name,)
                return
            self._write(job, replace(job, spec=replace(job.spec, suspend=True)))
        self._apply(workload, [job], job, maker)

    def _apply(
        self, workload: KueueWorkload, units: Iterable[Object], job: Object, maker: JobWorkloads
    ) -> None:
        """Let the workload of some objects wait, in the order in which their jobs came; Kueue makes none
        whose priority is not known."""
        why = maker.refusal(workload)
        for unit in [unit_id(each.metadata) for each in units]:
            if why:
                self.refused[unit] = RefusedJob(job, workload, why)
            else:
                self.refused.pop(unit, None)
                self._keys[unit] = workload.key
        if not why:
            arrival = int(job.metadata.resource_version or 0)
            # In the order of arrivals; a saved cluster may have one with the same numbers.
            uid = f"workload-{arrival:020d}-{workload.key}"
            new = replace(workload, metadata=replace(workload.metadata, uid=uid))
            self._shared.changing().apply(new, arrival)

    # ---- what follows --------------------------------------------------------------------------------------

    def _carry_out(
        self, workload: QueuedWorkload, is_running: bool, pods_in: _PodsIn, standing: _Standing
    ) -> None:
        """Let the job of a workload run, or stop it; pods that go through queues themselves run, or are
        deleted, and their controller makes them anew."""
        owners = workload.obj.metadata.owner_references
        if not owners:
            return
        owner = workload.obj.metadata.controller() or owners[0]  # no pod of a group controls its workload
        if (waiting := self._suspended_job(owner.uid)) is not None:
            if is_running:
                self._make(waiting, {pods.name: self._additions(pods) for pods in workload.holds or ()})
                return
            for obj in waiting.objects:
                if (current := find_object(self._client, type(obj), obj.name, obj.namespace)) is not None:
                    self._control.delete(current)
            return
        if owner.kind in (Pod.__name__, StatefulSet.__name__, LeaderWorkerSet.__name__):
            for pod in pods_in(workload.obj.namespace).get(workload.key, ()):
                if not is_running:
                    self._control.delete(pod)
                elif may_be_gated(pod):
                    self._let_go(pod, standing)
            return
        if owner.kind != Job.__name__ and not is_running:
            self._stop(owner.uid, workload.obj.namespace)
        job = find_object(self._client, Job, owner.name, workload.obj.namespace)
        if owner.kind != Job.__name__ or job is None or bool(job.spec.suspend) != is_running:
            return
        (pod_set,) = workload.pod_sets
        spec = job.spec.template.spec
        if is_running:
            (pods,) = workload.holds or ()
            spec = self._additions(pods).to(spec)
            parallelism = pods.pods if pods.pods < pod_set.count else job.spec.parallelism
        else:
            given = pod_set.template.spec
            spec = replace(spec, node_selector=given.node_selector, tolerations=given.tolerations)
            is_reduced = job.spec.parallelism is not None and job.spec.parallelism < pod_set.count
            parallelism = pod_set.count if is_reduced else job.spec.parallelism
        template = replace(job.spec.template, spec=spec)
        new = replace(job.spec, suspend=not is_running, template=template, parallelism=parallelism)
        self._write(job, replace(job, spec=new))

    def _pods_by_workload(self, namespace: str) -> Mapping[str, Sequence[Pod]]:
        """Return the pods of a namespace that go through queues by themselves, in a set or in a group."""
        pods: list[Pod] = [pod for pod in self._client.list(Pod, namespace)[0] if is_active(pod)]
        units = ((queued_unit(self._client, pod), pod) for pod in pods)
        keys = ((self._keys.get(unit_id(unit.metadata)), pod) for unit, pod in units if unit is not None)
        return grouped((key, pod) for key, pod in keys if key is not None)

    def _stop(self, uid: str, namespace: str) -> None:
        """Delete what a workload of another project has made that ran when the cluster was read."""
        kinds: tuple[type[Object], ...] = (Job, Pod)
        for kind in kinds:
            for obj in self._client.list(kind, namespace)[0]:
                owner = obj.metadata.controller()
                if owner is not None and owner.uid == uid:
                    self._control.delete(obj)

    def _make(self, waiting: Suspended, held: Mapping[str, PodAdditions]) -> None:
        """Make what a workload of another project makes when it runs, with what its sets of pods hold."""
        classes, standing = priority_classes(self._client.list(PriorityClass)[0]), _Standing()
        for obj in waiting.objects:
            additions = held[_pod_set_of(obj, waiting, [*held])] if held else PodAdditions({}, ())
            new = default_object(with_additions(obj, additions), classes, Names(), admitted=True)
            if isinstance(new, Pod):
                self._control.create(new, new)
                if (pod := find_object(self._client, Pod, new.name, new.namespace)) is not None:
                    self._place(pod, standing)
            else:
                self._control.write(None, new)

    def _write(self, old: Object, new: Object) -> None:
        try:
            self._control.write(old, new)
        except RefusedError as error:
            self._client.denied[old.full_name] = str(error)

    def _additions(self, pods: AdmittedPods) -> PodAdditions:
        """Return what the flavors of a set of pods add to them."""
        labels, tolerations = dict[str, str](), tuple[Any, ...]()
        for name in dict.fromkeys(pods.flavors.values()):
            flavor = find_object(self._client, ResourceFlavor, name)
            if flavor is not None:
                labels |= flavor.spec.node_labels
                tolerations += flavor.spec.tolerations
        return PodAdditions(labels, tolerations)


def _asked(workload: KueueWorkload) -> object:
    """Return what a workload asks for, to be compared; defaults of the API server are not."""
    spec = workload.spec
    return (
        spec.queue_name,
        spec.priority_class_ref,
        [
            (
                *(each.name, each.count, each.min_count, each.topology_request),
                *(amounts_of(each.template.spec), each.template.spec.node_selector or {}),
                *(each.template.spec.affinity, each.template.spec.tolerations),
            )
            for each in spec.pod_sets
        ],
    )


def _changed(event: WatchEvent[Object]) -> _Changed:
    return _Changed(event.object, event.type == "DELETED")


def _with_conditions(obj: Object) -> Object:
    """Return a node of which nothing is said, as a new one, as its kubelet would soon report it: ready."""
    if not isinstance(obj, Node) or obj.status.conditions:
        return obj
    ready = Condition(type="Ready", status="True")
    return replace(obj, status=replace(obj.status, conditions=(ready,)))


def _latest(events: Iterable[WatchEvent[Object]]) -> Iterable[WatchEvent[Object]]:
    """Return the last event of each object, in their order."""
    last: dict[str, WatchEvent[Object]] = {}
    for event in events:
        last.pop(event.object.key, None)
        last[event.object.key] = event
    return last.values()


def _pod_set_of(obj: Object, waiting: Suspended, names: Sequence[str]) -> str:
    """Return which set of pods an object is of, by its name."""
    own = (obj.name or obj.metadata.generate_name).removeprefix(waiting.name)
    fitting = [name for name in names if f"-{name}-" in f"{own}-"]
    return max(fitting, key=len) if fitting else names[-1] if not own else names[0]


def with_additions(obj: Object, additions: PodAdditions) -> Object:
    """Return a pod or Job whose pods have what flavors add."""
    if isinstance(obj, Pod):
        return replace(obj, spec=additions.to(obj.spec))
    if isinstance(obj, Job):
        template = replace(obj.spec.template, spec=additions.to(obj.spec.template.spec))
        return replace(obj, spec=replace(obj.spec, template=template))
    return obj
