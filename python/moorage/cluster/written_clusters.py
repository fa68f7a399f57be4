"""Writes a cluster to the store of a scheduler, and what is joined to it; controllers make what it lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from moorage.controllers import ClusterControllers
from moorage.engine.scheduler.scheduler_parts import SchedulerParts
from moorage.kube.model.cluster import Cluster
from moorage.kube.model.pod import Pod
from moorage.kube.workloads.ownership import Names
from moorage.store import ObjectStore, find_object


def write_cluster(
    scheduler: SchedulerParts, store: ObjectStore, controllers: ClusterControllers | None, cluster: Cluster
) -> None:
    """Write a cluster to the empty store of a scheduler, which handlers follow already: so they receive the
    objects in this order, not in that of a list."""
    turns = cluster.turns if controllers is not None else {}
    in_turn = [pod for pod in cluster.pods if pod.key in turns] if turns else []
    pods = [pod for pod in cluster.pods if pod.key not in turns] if turns else cluster.pods
    store.siblings, store.failures = cluster.siblings, cluster.failures
    store.create_many((*cluster.namespaces, *cluster.nodes, *cluster.others, *pods, *cluster.finished))
    if controllers is not None:
        scheduler.sync(with_controllers=False)
        controllers.start()
    _complete(scheduler, store, controllers, in_turn, turns)
    if controllers is not None:
        known = {f"{obj.kind} {obj.key}" for obj in cluster.others if obj.metadata.uid}
        control = controllers.control  # without any UID, nothing tells what came with a change
        control.begin_back_off(known or control.refusals)


def join_cluster(scheduler: SchedulerParts, controllers: ClusterControllers | None, cluster: Cluster) -> None:
    """Write what was joined to the cluster of a scheduler, as if it had been read with it.

    Parameters
    ----------
    cluster : Cluster
        Its `joined` has the objects.
    """
    joined, store = cluster.joined, scheduler.store
    assert joined is not None
    assert store is not None
    turns = joined.turns if controllers is not None else {}
    store.siblings, store.failures = cluster.siblings, cluster.failures
    for obj in joined.objects:
        if find_object(store, type(obj), obj.name, obj.namespace) is None:
            store.create(obj)
        else:
            store.update(replace(obj, metadata=replace(obj.metadata, resource_version="")))
    store.create_many([pod for pod in joined.pods if pod.key not in turns])
    _complete(scheduler, store, controllers, [pod for pod in joined.pods if pod.key in turns], turns)


def _complete(
    scheduler: SchedulerParts,
    store: ObjectStore,
    controllers: ClusterControllers | None,
    in_turn: Sequence[Pod],
    turns: Mapping[str, str],
) -> None:
    """Let controllers make what workloads lack, with single pods among theirs."""
    if controllers is not None:
        scheduler.sync(with_controllers=False)
        controllers.take_turns(in_turn, turns)
    store.names = Names()
    for key in turns:
        store.names.take(Pod.__name__, *key.split("/"))
    scheduler.sync()
    store.names = None
