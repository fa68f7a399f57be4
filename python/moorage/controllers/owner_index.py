"""Indexes of objects by their owners, for informers of pods, ReplicaSets and claims."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from moorage.kube.model.meta import Object
from moorage.kube.model.pod import Pod
from moorage.kube.workloads.daemon_pods import node_of
from moorage.kube.workloads.ownership import group_to_show, has_made_up_uid, is_active
from moorage.store import Indexer

T = TypeVar("T", bound=Object)

OWNER, ENDED, ORPHAN = "owner", "owner of ended pods", "orphan"


def path(kind: str, namespace: str, name: str) -> str:
    """Return the value in the index of what an object controls."""
    return f"{kind} {namespace}/{name}"


def by_owner(obj: Object) -> tuple[str, ...]:
    """Return the values of an object in the index of owners: for its controller the path and the path with
    the UID, for any other owner the latter with another sign.
    """
    values: tuple[str, ...] = ()
    for owner in obj.metadata.owner_references:
        group = group_to_show(owner.kind, owner.api_version) if owner.api_version else ""
        kind = f"{owner.kind}.{group}" if group else owner.kind
        at = path(kind, obj.metadata.namespace, owner.name)
        values += (at, f"{at}#{owner.uid}") if owner.controller else (f"{at}!{owner.uid}",)
        if owner.kind == "DaemonSet" and isinstance(obj, Pod):
            values += (f"{at}@{node_of(obj.spec)}",)
    return values


def of_ended(pod: Pod) -> tuple[str, ...]:
    """Return the values of a pod that is not active in the index of owners of such pods."""
    return () if is_active(pod) else by_owner(pod)


def of_orphan(pod: Pod) -> Iterable[str]:
    """Return the namespace and the labels of an active pod without a controller, for adoption."""
    meta = pod.metadata
    if meta.controller() is not None or not is_active(pod):
        return ()
    return meta.namespace, *(f"{meta.namespace}/{key}={value}" for key, value in meta.labels.items())


def values_of(owner: Object) -> tuple[str, ...]:
    """Return the values that the index has for what an object controls (see `refers_to`)."""
    at = path(owner.kind, owner.namespace, owner.name)
    return (at,) if has_made_up_uid(owner) else (f"{at}#{owner.metadata.uid}", f"{at}#")


def dependents(indexer: Indexer[T], owner: Object) -> list[T]:
    """Return the objects with an owner reference to an object.

    Parameters
    ----------
    indexer : Indexer
        With the index of owners.
    """
    at = path(owner.kind, owner.namespace, owner.name)
    values = (*values_of(owner), f"{at}!{owner.metadata.uid}", f"{at}!")
    return [obj for value in values for obj in indexer.by_index(OWNER, value)]
