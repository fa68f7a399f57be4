"""The pods that the workloads of a cluster lack."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Unpack

from moorage.controllers.store_control import admission_of
from moorage.kube.model.cluster import Cluster
from moorage.kube.model.meta import Object
from moorage.kube.model.node import Namespace, Node
from moorage.kube.model.pod import Pod
from moorage.kube.read.cluster_builder import refusal_warnings
from moorage.kube.workloads.ownership import FINISHED
from moorage.store import ObjectClient, ObjectStore

from .cluster_setup import SchedulerOptions
from .pod_scheduler import PodScheduler

_OTHERS_HAVE = (Node, Namespace, Pod)


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
    refused = [*cluster.refused, *scheduler.refused_pods()]
    pods: list[Pod] = scheduler.client.list(Pod)[0]
    namespaces = dict.fromkeys(pod.namespace for pod in pods)
    added = admission_warnings(scheduler.client, namespaces, [pod for pod in pods if not pod.spec.node_name])
    warnings = [*cluster.warnings, *added, *refusal_warnings(refused)]
    return replace(with_objects(cluster, scheduler.client), refused=refused, warnings=warnings)


def admission_warnings(
    client: ObjectClient, namespaces: Collection[str], pods: Iterable[Pod]
) -> Iterator[str]:
    """Yield sentences about what admission adds to new pods, or a distribution would add; see
    `Additions.warnings`."""
    return admission_of(client).additions.warnings(namespaces, pods, lambda: client.list(Node)[0])


def with_objects(cluster: Cluster, client: ObjectClient) -> Cluster:
    """Return a cluster with the pods and the other objects of a store of its own, but its own nodes and
    namespaces, in the order in which they were written."""
    assert isinstance(client, ObjectStore)
    kinds = client.changed_since(-1)
    stored: list[Object] = [obj for kind in kinds for obj in client.list(kind)[0]]
    stored.sort(key=lambda obj: int(obj.metadata.resource_version))
    pods = [obj for obj in stored if isinstance(obj, Pod)]
    return replace(
        cluster,
        pods=[pod for pod in pods if pod.status.phase not in FINISHED],
        finished=[pod for pod in pods if pod.status.phase in FINISHED],
        others=[obj for obj in stored if not isinstance(obj, _OTHERS_HAVE)],
        turns={},
    )
