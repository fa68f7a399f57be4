"""All that a client can see of a store."""

from __future__ import annotations

from typing import Any

from moorage.kube import Node, Object, Pod
from moorage.store import ObjectStore, ResourceExpiredError

KINDS: tuple[type[Object], ...] = (Pod, Node)


def events_since(store: ObjectStore, kind: type[Object], version: int) -> Any:
    try:
        return store.watch(kind, resource_version=str(version)).poll()
    except ResourceExpiredError as error:
        return str(error)


def observe(store: ObjectStore) -> list[Any]:
    """Contents, resource version, and what a watch from each version on would say."""
    seen: list[Any] = []
    for kind in KINDS:
        objects, version = store.list(kind)
        versions = range(1, int(version) + 1)
        seen.append((objects, version, [events_since(store, kind, number) for number in versions]))
    return seen
