"""What an operator does with kubectl, written to the store of a scheduler: the changes behind the methods of
`Scheduler`.

Each change is made whole or not at all, and can be undone in a transaction or tried on a fork. In a store of
the scheduler's own the controllers of workloads follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

from msgspec.structs import replace

from moorage.engine.scheduler.options import node_like
from moorage.errors import InputError, located
from moorage.kube import Namespace, Node, Object, Pod, PodGroup
from moorage.kube.apiserver.admission import RefusedError
from moorage.kube.apiserver.validate_object import GATE, refuse_comparisons
from moorage.kube.model.node import ZONE
from moorage.kube.model.storage import PersistentVolumeClaim
from moorage.kube.model.workload import MAX_PODS, CronJob, Job
from moorage.kube.read.python_values import Source
from moorage.kube.workloads.job_state import next_run, runs_under_way
from moorage.store import ApiError, ObjectClient, kind_named, parse_reference

from .apply_objects import apply as apply_objects
from .change import Change, get, preemptions, select_nodes, select_objects, workload_named
from .node_changes import (
    add_copies,
    delete_nodes,
    evict_pods,
    labelled,
    mark_unschedulable,
    parse_copy,
    reason_to_stay,
    tainted,
)
from .pod_scheduler import PodScheduler
from .workload_changes import (
    RESTARTABLE,
    SCALABLE,
    Bound,
    RequestFile,
    ResourceRequest,
    read_requests,
    restarted,
    scale_to,
    still_suspended,
    write_requests,
)

_PERMANENT = ("default", "kube-system", "kube-public")
"""Namespaces that the API server does not delete."""


@contextmanager
def _changing(scheduler: PodScheduler) -> Iterator[ObjectClient]:
    """Make the writes of the block whole or not at all, with all events processed before and after."""
    scheduler.context.enlist()
    scheduler.sync()
    client = scheduler.client
    try:
        if scheduler.store is not None:
            with scheduler.store.all_or_nothing():
                yield client
        else:
            yield client
    except (ApiError, RefusedError) as error:
        raise InputError(str(error)) from error
    scheduler.sync()


def _pods_on(scheduler: PodScheduler, nodes: Iterable[Node]) -> dict[str, list[Pod]]:
    """Return the pods on nodes, by node, with the finished ones, which the cache does not have."""
    infos = {node.name: scheduler.cache.node_info(node.name) for node in nodes}
    pods = {name: [] if info is None else info.pods for name, info in infos.items()}
    for pod in scheduler.pods.finished.values():
        if pod.spec.node_name in pods:
            pods[pod.spec.node_name].append(pod)
    return pods


def apply(scheduler: PodScheduler, what: Source | Iterable[Source]) -> Change:
    """Create or change objects."""
    check = None if scheduler.handle.feature_gates[GATE] else refuse_comparisons
    with _changing(scheduler) as client:
        release = scheduler.handle.release.version
        return apply_objects(client, scheduler.controllers, what, check, release)


def delete(
    scheduler: PodScheduler,
    references: Sequence[str],
    kind: str = "",
    selector: str = "",
    namespace: str = "",
) -> Change:
    """Delete objects, those that are named or those that a selector matches."""
    if (selector or namespace) and not kind:
        raise InputError("a selector or a namespace needs a kind")
    controllers = scheduler.controllers
    with _changing(scheduler) as client:
        objects = [
            get(client, struct, name, space) for struct, space, name in map(parse_reference, references)
        ]
        if kind:
            objects += select_objects(client, kind_named(kind), namespace, selector)
        for obj in {(type(obj), obj.key): obj for obj in objects}.values():
            if isinstance(obj, Namespace) and obj.name in _PERMANENT:
                text = f'namespaces "{obj.name}" is forbidden: this namespace may not be deleted'
                raise InputError(text)
            if controllers is not None and isinstance(obj, PersistentVolumeClaim | PodGroup):
                controllers.claims.protect(obj)
            client.delete(type(obj), obj.name, obj.namespace)
        return Change(deleted=tuple(dict.fromkeys(obj.full_name for obj in objects)))


def scale(scheduler: PodScheduler, reference: str, replicas: int) -> Change:
    """Set the number of replicas of a workload."""
    if not 0 <= replicas <= MAX_PODS:
        raise InputError(f"must be between 0 and {MAX_PODS}, not {replicas}", obj=reference, path="replicas")
    with _changing(scheduler) as client:
        obj = workload_named(client, reference, SCALABLE, "has no replicas to set")
        return _updated(client, obj, replace(obj, spec=replace(obj.spec, replicas=replicas)))


def restart(scheduler: PodScheduler, reference: str) -> Change:
    """Roll a workload out anew."""
    with _changing(scheduler) as client:
        obj = workload_named(client, reference, RESTARTABLE, "cannot be restarted")
        return _updated(client, obj, restarted(obj))


def restart_all(scheduler: PodScheduler) -> Change:
    """Restart all workloads, each after a run has placed the pods of the one before."""
    changed, preempted = list[str](), dict[str, str]()
    for struct in RESTARTABLE:
        objects: list[Any] = scheduler.client.list(struct)[0]
        for obj in sorted(objects, key=lambda obj: obj.key):
            changed += restart(scheduler, f"{obj.kind}/{obj.namespace}/{obj.name}").changed
            preempted |= preemptions(scheduler.run()).preempted
    return Change(changed=tuple(changed), deleted=tuple(preempted), preempted=preempted)


def autoscale_to(scheduler: PodScheduler, bound: Bound) -> Change:
    """Give the targets of autoscalers their least or most replicas."""
    if bound not in ("min", "max"):
        raise ValueError(f"must be min or max, not {bound!r}")
    with _changing(scheduler) as client:
        return scale_to(client, bound)


def run_cron_jobs(scheduler: PodScheduler) -> Change:
    """Let each CronJob create its next Job."""
    with _changing(scheduler) as client:
        jobs: list[Job] = client.list(Job)[0]
        stored: list[CronJob] = client.list(CronJob)[0]
        crons = [cron for cron in stored if not (cron.spec.suspend or cron.metadata.deletion_timestamp)]
        busy, taken = runs_under_way(jobs), {job.key for job in jobs}
        new, kept, replaced = list[Job](), dict[str, str](), list[Job]()
        for entry in crons:
            running = busy.get(entry.key, [])
            if running and entry.spec.concurrency_policy == "Forbid":
                kept[entry.full_name] = f"Job {running[0].name} has not finished, and its policy is Forbid"
            else:
                new.append(next_run(entry, taken))
                replaced += running if entry.spec.concurrency_policy == "Replace" else []
        for job in replaced:
            client.delete(Job, job.name, job.namespace)
        change = apply_objects(client, scheduler.controllers, new)
        return replace(change, deleted=tuple(obj.full_name for obj in replaced), kept=change.kept | kept)


def set_requests(scheduler: PodScheduler, what: str | Iterable[ResourceRequest]) -> Change:
    """Give containers of workloads other requests."""
    requests = read_requests(what) if isinstance(what, str) else RequestFile(list(what), {})
    with _changing(scheduler) as client, located(source=requests.source):
        return write_requests(client, requests)


def unsuspend(scheduler: PodScheduler) -> Change:
    """Let all suspended workloads make their pods."""
    changed: list[str] = []
    with _changing(scheduler) as client:
        waiting = still_suspended(client, scheduler.options.suspended)
        objects = [obj for workload in waiting for obj in workload.objects]
        created = apply_objects(client, scheduler.controllers, objects).created if objects else ()
        kept = {workload.text: workload.why for workload in waiting if workload.why}
        jobs: list[Job] = client.list(Job)[0]
        queued = {
            (workload.namespace, workload.name): workload
            for workload in scheduler.options.suspended
            if workload.is_job
        }
        for job in jobs:
            waits = queued.get((job.namespace, job.name))
            if not job.spec.suspend or (waits is not None and waits.why):
                continue  # what its queue never admits is told as it is
            spec, template = job.spec, job.spec.template
            if waits is not None and waits.additions is not None:
                template = replace(template, spec=waits.additions.to(template.spec))
            running = replace(job, spec=replace(spec, suspend=False, template=template))
            changed += _updated(client, job, running).changed
    return Change(created=created, changed=tuple(changed), kept=kept)


def label(scheduler: PodScheduler, reference: str, labels: Sequence[str]) -> Change:
    """Set or remove labels of an object."""
    struct, namespace, name = parse_reference(reference)
    with _changing(scheduler) as client:
        obj = get(client, struct, name, namespace)
        return _updated(client, obj, labelled(obj, labels))


def add_nodes(scheduler: PodScheduler, count: int, like: Source, labels: Mapping[str, str] = {}) -> Change:
    """Add nodes like another one."""
    named, given = node_like(like), dict(labels)
    is_template = not isinstance(named, str)
    if isinstance(named, str):
        name, of_copy = parse_copy(named)
        given = of_copy | given
    with _changing(scheduler) as client:
        node = get(client, Node, name) if isinstance(named, str) else named
        return add_copies(client, count, node, given, is_template)


def remove_nodes(scheduler: PodScheduler, nodes: str | Sequence[str]) -> Change:
    """Remove nodes with the pods on them."""
    with _changing(scheduler) as client:
        selected = select_nodes(client, nodes)
        pods = [*chain.from_iterable(_pods_on(scheduler, selected).values())]
        return delete_nodes(client, selected, pods)


def fail_zone(scheduler: PodScheduler, zone: str) -> Change:
    """Remove all nodes of a zone, with the pods on them."""
    client = scheduler.client
    nodes: list[Node] = client.list(Node)[0]
    names = [node.name for node in nodes if node.metadata.labels.get(ZONE) == zone]
    if not names:
        raise InputError(f'no Node is in the zone "{zone}"')
    return remove_nodes(scheduler, names)


def set_unschedulable(scheduler: PodScheduler, nodes: str | Sequence[str], value: bool) -> Change:
    """Cordon or uncordon nodes."""
    with _changing(scheduler) as client:
        return Change(changed=mark_unschedulable(client, select_nodes(client, nodes), value))


def drain(
    scheduler: PodScheduler,
    nodes: str | Sequence[str],
    why_not: Callable[[Pod], str] = reason_to_stay,
    respect_budgets: bool = True,
) -> Change:
    """Cordon nodes and evict their pods, but for those with a reason to stay."""
    with _changing(scheduler) as client:
        selected = select_nodes(client, nodes)
        cordoned = mark_unschedulable(client, selected, True)
        pods = chain.from_iterable(_pods_on(scheduler, selected).values())
        grace_of = _grace_of_evictions(scheduler)
        return replace(evict_pods(client, pods, why_not, grace_of, respect_budgets), changed=cordoned)


def evict(scheduler: PodScheduler, pods: Iterable[Pod]) -> Change:
    """Evict pods as far as disruption budgets allow it now."""
    with _changing(scheduler) as client:
        stored = {pod.key: pod.metadata.uid for pod in client.list(Pod)[0]}
        left = [pod for pod in pods if stored.get(pod.key) == pod.metadata.uid]
        return evict_pods(client, left, lambda _: "", _grace_of_evictions(scheduler))


def _grace_of_evictions(scheduler: PodScheduler) -> Callable[[Pod], int | None]:
    controllers = scheduler.controllers
    return (lambda _: None) if controllers is None else controllers.kubelets.grace_of_eviction


def taint(scheduler: PodScheduler, nodes: str | Sequence[str], taints: Sequence[str]) -> Change:
    """Set or remove taints of nodes."""
    with _changing(scheduler) as client:
        changed: list[str] = []
        for node in select_nodes(client, nodes):
            changed += _updated(client, node, tainted(node, taints)).changed
        return Change(changed=tuple(changed))


def _updated(client: ObjectClient, old: Object, new: Object) -> Change:
    if new == old:
        return Change()
    return Change(changed=(client.update(new).full_name,))


# ---- upgrades: nodes are replaced one at a time ------------------------------------------------------------


def upgrade_nodes(scheduler: PodScheduler, nodes: str | Sequence[str], surge: int) -> Change:
    """Replace nodes by copies: see `Scheduler.upgrade_nodes`."""
    old = [node.name for node in select_nodes(scheduler.client, nodes)]
    if not 0 <= surge <= len(old):
        raise InputError(f"must be between 0 and {len(old)}, the number of nodes, not {surge}", path="surge")
    parts = [add_nodes(scheduler, 1, name) for name in old[:surge]]
    for at, name in enumerate(old):
        emptied, kept = _empty(scheduler, name)
        parts += emptied
        if kept:
            waiting = {f"Node {left}": f"is upgraded after {name}" for left in old[at + 1 :]}
            return replace(_together(parts), kept=kept | waiting)
        if not surge:
            parts.append(add_nodes(scheduler, 1, name))
        parts.append(replace(remove_nodes(scheduler, name), deleted=(f"Node {name}",)))
        if surge and at + surge < len(old):
            parts.append(add_nodes(scheduler, 1, old[at + surge]))
    return _together(parts)


def _empty(scheduler: PodScheduler, node: str) -> tuple[list[Change], dict[str, str]]:
    """Drain a node, and place its pods, until all are gone or none can go; return the pods that stay.

    It ends: each round evicts a pod that stayed before.
    """
    parts = [drain(scheduler, node)]
    while True:
        parts.append(preemptions(scheduler.run()))
        kept = parts[-2].unfinished
        if not kept or not parts[-2].deleted:
            return parts, kept
        pods = [scheduler.client.get(Pod, *name.removeprefix("Pod ").split("/")[::-1]) for name in kept]
        parts.append(evict(scheduler, pods))


def _together(parts: Sequence[Change]) -> Change:
    """Return changes as one, without what was kept."""

    def all_of(field: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(chain.from_iterable(getattr(part, field) for part in parts)))

    created, changed, deleted, notes = map(all_of, ("created", "changed", "deleted", "notes"))
    preempted = dict(chain.from_iterable(part.preempted.items() for part in parts))
    return Change(created, changed, deleted, preempted=preempted, notes=notes)
