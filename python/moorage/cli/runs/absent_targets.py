"""Why ``moorage explain`` has nothing to explain: a workload without pods, another kind, a wrong name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from moorage.answers.explain.explain_pod import groups_instead
from moorage.answers.scheduler import Scheduler
from moorage.cluster.changes.selection import WORKLOADS
from moorage.engine.scheduler.place_group import pods_without_group
from moorage.errors import InputError, same_or_nearest
from moorage.kube import CompositePodGroup, Node, Object, Pod, PodGroup
from moorage.kube.model.workload import CronJob, Job
from moorage.kube.workloads.job_state import is_over
from moorage.store import kind_named

SUSPENDED = "it is suspended, and has no pods; --unsuspend lets it run"
NO_POD = "there is no such workload with a pod"


def absent_workload(scheduler: Scheduler, kind: str, name: str, namespace: str | None) -> str:
    """Return why a workload has no pod, and what to do.

    Parameters
    ----------
    scheduler : Scheduler
        After the run.
    namespace : str or None
        None for all namespaces.
    """
    for waiting in scheduler.suspended():
        its = waiting.full_kind.partition(".")[0], waiting.name
        if its == (kind, name) and namespace in (None, waiting.namespace):
            return SUSPENDED
    workloads = [*_workloads(scheduler, kind)]
    for one in workloads:
        if one.kind == kind and one.name == name and namespace in (None, one.namespace):
            return _without_pods(scheduler, one)
    where = f" in namespace {namespace}" if namespace else ""
    return f"{NO_POD}{where}{_alike(workloads, kind, name)}"


def absent_pod(scheduler: Scheduler, name: str, place: str) -> str:
    """Return what an error adds about a name that is that of no pod: it may be that of something else.

    Parameters
    ----------
    scheduler : Scheduler
        After the run.
    place : str
        Its namespace; "" for all.

    Returns
    -------
    str
        "" if nothing else has the name.
    """
    if any(node.name == name for node in scheduler.client.list(Node)[0]):
        return f", but a Node; {about_nodes(name)}"
    for waiting in scheduler.suspended():
        if waiting.name == name and place in ("", waiting.namespace):
            return f", but {waiting.text}: {SUSPENDED}"
    for one in (*_workloads(scheduler), *scheduler.client.list(PodGroup)[0]):
        if one.name == name and place in ("", one.namespace):
            return f", but {one.kind} {one.key}: {_without_pods(scheduler, one)}"
    return ""


def not_placed(scheduler: Scheduler, kind: type[Object], name: str) -> str:
    """Return what to do about a kind that has no pods.

    Parameters
    ----------
    name : str
        NAME or NAMESPACE/NAME.
    """
    if kind is Node:
        return f"a Node is not scheduled; {about_nodes(name)}"
    if kind is CompositePodGroup:
        namespace, _, name = name.rpartition("/")
        listed: list[CompositePodGroup] = scheduler.client.list(CompositePodGroup, namespace)[0]
        if all(one.name != name for one in listed):
            every = scheduler.client.list(CompositePodGroup)[0]
            return f"there is no such CompositePodGroup{_alike(every, kind.__name__, name)}"
        return groups_instead(scheduler.client, namespace, name)
    return f"a {kind.__name__} has no pods of its own; name a pod or a workload, such as deploy/web"


def about_nodes(name: str) -> str:
    return f"moorage nodes shows its room, and explain POD --why-not {name} why a pod is not on it"


def _workloads(scheduler: Scheduler, kind: str = "") -> Iterator[Any]:
    """Iterate over the workloads of a scheduler's store, those of one kind first."""
    kinds: list[type[Object]] = []
    with suppress(InputError):  # a kind that the store does not have
        kinds += [kind_named(kind)] if kind else []
    kinds += WORKLOADS
    for struct in dict.fromkeys(kinds):
        yield from scheduler.client.list(struct)[0]


def _without_pods(scheduler: Scheduler, obj: Any) -> str:
    """Return why an object has no pod now."""
    if isinstance(obj, CronJob):
        return "it has no pods between its runs; --cronjobs runs it once"
    if isinstance(obj, Job):
        if is_over(obj):
            return "it has finished"
        if obj.spec.suspend:
            return SUSPENDED
    if getattr(obj.spec, "replicas", None) == 0:
        return f"it has 0 replicas; --scale {reference_to(obj)}=N gives it some"
    return "it has no pod" + _pods_of_missing_groups(scheduler, obj)


def _pods_of_missing_groups(scheduler: Scheduler, obj: Any) -> str:
    """Return what an error adds about a pod group without pods, if pods of its namespace wait for a group
    that does not exist: one of the names may be wrong."""
    if not isinstance(obj, PodGroup):
        return ""
    pods = [pod for pod in scheduler.client.list(Pod)[0] if pod.namespace == obj.namespace]
    texts = pods_without_group(scheduler.handle, scheduler.client.list(PodGroup)[0], pods)
    return f"; {texts[0].removesuffix('.')}" if texts else ""


def _alike(workloads: list[Any], kind: str, name: str) -> str:
    """Return what an error adds about the same name elsewhere, or names that are like it."""
    of_kind = [one.name for one in workloads if one.kind == kind]
    return same_or_nearest(name, map(reference_to, workloads), of_kind)


def reference_to(workload: Any) -> str:
    """Return how options name an object, or a `Workload`: ``deployment/NAMESPACE/NAME``."""
    return f"{workload.kind.lower()}/{workload.namespace}/{workload.name}"
