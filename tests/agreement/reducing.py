"""Makes the cluster of a difference smaller, as long as the same answers differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from tests.agreement.asking import Asking, Difference, OutOfTimeError
from tests.agreement.clusters import Cluster
from tests.agreement.objects import Key, Object, controller_of, key_of, name_of
from tests.agreement.relation import RELATIONS

OF_NAMESPACES = (
    "ResourceQuota",
    "LimitRange",
    "HorizontalPodAutoscaler",
    "PodDisruptionBudget",
    "PriorityClass",
)


def reduced(
    difference: Difference, cluster: Cluster, folder: Path, has_time: Callable[[], bool]
) -> Difference:
    """The same difference on a smaller cluster, as small as time allows."""
    for number, keys in enumerate(_parts(cluster)):
        smaller = cluster.with_objects(obj for obj in cluster.objects if key_of(obj) not in keys)
        found = _again(difference, smaller, folder / str(number), has_time)
        if found is not None:
            difference, cluster = found, smaller
    return difference


def _again(
    difference: Difference, cluster: Cluster, folder: Path, has_time: Callable[[], bool]
) -> Difference | None:
    relation = RELATIONS[difference.relation]
    if not has_time() or not relation.suits(cluster):
        return None
    asking = Asking(cluster, folder, has_time, relation.name)
    try:
        relation.ask(asking)
    except (OutOfTimeError, LookupError, TypeError):  # what it needs is gone
        return None
    found = (
        one for one in asking.differences if (one.about, one.known) == (difference.about, difference.known)
    )
    return next(found, None)


def _parts(cluster: Cluster) -> Iterator[set[Key]]:
    """Yield what can be left out together: a workload with all that is its own, an object of a namespace, a
    node with the pods that are for it alone."""
    for workload in cluster.workloads:
        app = workload.obj["spec"]["template"]["metadata"].get("labels", {}).get("app", "")
        own = (obj for obj in cluster.objects if app and _is_of(obj, app, workload.namespace))
        yield {key_of(workload.obj), *map(key_of, workload.pods), *map(key_of, own)}
    for kind in OF_NAMESPACES:
        yield from ({key_of(obj)} for obj in cluster.of(kind))
    yield from ({key_of(pod)} for pod in cluster.pods if controller_of(pod) is None)
    for node in cluster.nodes:
        pods = [pod for pod in cluster.pods if pod["spec"].get("nodeName") == name_of(node)]
        if all((controller_of(pod) or {}).get("kind") == "DaemonSet" for pod in pods):
            yield {key_of(node), *map(key_of, pods)}


def _is_of(obj: Object, app: str, namespace: str) -> bool:
    """Whether an object is of a drawn workload: it has its name."""
    meta = obj["metadata"]
    if obj["kind"] in ("PersistentVolumeClaim", "PersistentVolume"):
        claim = obj["spec"].get("claimRef", meta)
        return claim["namespace"] == namespace and claim["name"].startswith(f"data-{app}-")
    is_near = meta.get("namespace") == namespace and obj["kind"] in ("ReplicaSet", *OF_NAMESPACES)
    return is_near and (meta["name"] == app or meta["name"].startswith(f"{app}-"))
