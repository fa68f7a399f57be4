"""Objects for tests, from as little as a test wants to say."""

from __future__ import annotations

from typing import Any

from tests.make import accepted, cluster, make

from moorage import expanded
from moorage.kube import Cluster, Object

CONTAINERS = [{"name": "c"}]


def pod(name: str, spec: dict[str, Any] | None = None, **rest: Any) -> Object:
    return make("Pod", name, {"containers": CONTAINERS} | (spec or {}), **rest)


def node(name: str, labels: dict[str, str] | None = None, **rest: Any) -> Object:
    return make("Node", name, metadata={"labels": labels or {}}, **rest)


def workload(kind: str, name: str, spec: dict[str, Any] | None = None, **rest: Any) -> Object:
    """A workload as an API server takes it: its template has the label ``app: NAME`` and one container."""
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": CONTAINERS}}
    return make(kind, name, accepted(kind, {"template": template} | (spec or {})), **rest)


def owned(kind: str, name: str, uid: str = "", **metadata: Any) -> dict[str, Any]:
    """Metadata that names a controller."""
    return {"ownerReferences": [{"kind": kind, "name": name, "uid": uid, "controller": True}]} | metadata


def expand(*objects: Object) -> Cluster:
    return expanded(cluster(*objects))
