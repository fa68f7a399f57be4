"""The pods that workloads lack: those that a cluster would have, and those that wait or are refused."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator
from dataclasses import replace as replaced
from typing import Unpack

from moorage.controllers import Rollout
from moorage.controllers.api_server import admission_of
from moorage.kube.model.cluster import Cluster, RefusedPod, Suspended
from moorage.kube.model.meta import Object
from moorage.kube.model.node import Namespace, Node
from moorage.kube.model.pod import Pod
from moorage.kube.model.workload import TEMPLATED
from moorage.kube.read.cluster_builder import refusal_warnings
from moorage.kube.workloads.ownership import FINISHED
from moorage.store import ObjectClient, ObjectStore

from .cluster_setup import SchedulerOptions
from .pod_scheduler import PodScheduler
from .workload_changes import still_suspended

_OTHERS_HAVE = (Node, Namespace, Pod)


def rollouts(scheduler: PodScheduler) -> list[Rollout]:
    """Return the rollouts that are not complete; see `Questions.rollouts`."""
    scheduler.sync()
    controllers = scheduler.controllers
    return [] if controllers is None else controllers.rollouts()


def awaited_pods(scheduler: PodScheduler) -> list[Pod]:
    """Return the pods that workloads lack until others are available or gone: `Questions.awaited_pods`."""
    scheduler.sync()
    refused = {pod.pod.key for pod in refused_pods(scheduler)}
    controllers = scheduler.controllers
    awaited = [] if controllers is None else controllers.awaited_pods()
    return [entry.pod for entry in awaited if entry.pod.key not in refused]


def refused_pods(scheduler: PodScheduler) -> list[RefusedPod]:
    """Return the pods that workloads lack as the API server refuses them; see `Questions.refused_pods`."""
    scheduler.sync()
    controllers = scheduler.controllers
    return [] if controllers is None else controllers.refused_pods()


def refusals(scheduler: PodScheduler) -> dict[str, str]:
    """Return the workloads that lack pods so, with the texts of the API server; see `Questions.refusals`."""
    scheduler.sync()
    controllers = scheduler.controllers
    return {} if controllers is None else dict(sorted(controllers.control.refusals.items()))


def suspended(scheduler: PodScheduler) -> list[Suspended]:
    """Return the workloads of other projects that the cluster has and that are suspended still."""
    controllers = scheduler.sleeping_controllers
    known = scheduler.options.suspended if controllers is None else controllers.suspended
    return still_suspended(scheduler.client, known)


def expanded(cluster: Cluster, **options: Unpack[SchedulerOptions]) -> Cluster:
    """Return a cluster with the pods that its workloads lack, and whatever else controllers make at once:
    ReplicaSets, revisions of templates, claims.

    A `Scheduler` does the same by itself. Pods that controllers delete, as in a rollout, are no longer there.

    Parameters
    ----------
    **options
        Those of a `Scheduler`: the release and its gates count.

    Returns
    -------
    Cluster
        New pods and objects come after those that were there. Those that the API server would refuse are in
        `Cluster.refused`.

    Raises
    ------
    InputError
        A workload asks for more pods than there may be.
    """
    scheduler = PodScheduler(cluster, **options)
    refused = [*cluster.refused, *refused_pods(scheduler)]
    pods: list[Pod] = scheduler.client.list(Pod)[0]
    namespaces = dict.fromkeys(pod.namespace for pod in pods)
    added = admission_warnings(scheduler.client, namespaces, [pod for pod in pods if not pod.spec.node_name])
    of_templates = template_warnings(scheduler.client)
    warnings = [*cluster.warnings, *added, *of_templates, *refusal_warnings(refused)]
    return replaced(with_objects(cluster, scheduler.client), refused=refused, warnings=warnings)


def admission_warnings(
    client: ObjectClient, namespaces: Collection[str], pods: Iterable[Pod]
) -> Iterator[str]:
    """Yield sentences about what admission adds to new pods, or a distribution would add; see
    `Additions.warnings`; and about policies that could not be asked."""
    admission = admission_of(client)
    yield from admission.switched.notes
    yield from admission.additions.warnings(namespaces, pods, lambda: client.list(Node)[0])
    if admission.policies is not None:
        yield from admission.policies.notes()


def template_warnings(client: ObjectClient, besides: Container[str] = ()) -> Iterator[str]:
    """Yield sentences about workloads whose pods their namespaces forbid.

    Parameters
    ----------
    besides : container of str, optional
        Those of which an answer says so itself, as ``Kind namespace/name``.
    """
    objects = (obj for kind in TEMPLATED for obj in client.list(kind)[0])
    yield from admission_of(client).security.notes(obj for obj in objects if obj.full_name not in besides)


def with_objects(cluster: Cluster, client: ObjectClient) -> Cluster:
    """Return a cluster with the pods and the other objects of a store of its own, but its own nodes and
    namespaces, in the order in which they were written."""
    assert isinstance(client, ObjectStore)
    kinds = [kind for kind in client.changed_since(-1) if kind not in _OTHERS_HAVE]
    others: list[Object] = [obj for kind in kinds for obj in client.list(kind)[0]]
    pods: list[Pod] = client.list(Pod)[0]
    for written in (pods, others):
        written.sort(key=lambda obj: int(obj.metadata.resource_version))
    finished = [pod for pod in pods if pod.status.phase in FINISHED]
    unfinished = [pod for pod in pods if pod.status.phase not in FINISHED] if finished else pods
    return replaced(cluster, pods=unfinished, finished=finished, others=others, turns={})
