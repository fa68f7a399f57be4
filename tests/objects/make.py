"""Objects for tests, from as little as a test wants to say."""

from __future__ import annotations

from typing import Any

from moorage import expanded
from moorage.objects import Cluster, Object, build_cluster, decode_object

CONTAINERS = [{"name": "c"}]


SELECTING = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")


def make(kind: str, name: str, spec: dict[str, Any] | None = None, **rest: Any) -> Object:
    """An object as decoded: nothing filled in. `rest` is merged into its top level."""
    metadata = {"name": name} | rest.pop("metadata", {})
    return decode_object({"kind": kind, "metadata": metadata, "spec": spec or {}} | rest)


def pod(name: str, spec: dict[str, Any] | None = None, **rest: Any) -> Object:
    return make("Pod", name, {"containers": CONTAINERS} | (spec or {}), **rest)


def node(name: str, labels: dict[str, str] | None = None, **rest: Any) -> Object:
    return make("Node", name, metadata={"labels": labels or {}}, **rest)


def workload(kind: str, name: str, spec: dict[str, Any] | None = None, **rest: Any) -> Object:
    """A workload as an API server takes it: its template has the label ``app: NAME`` and one container."""
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": CONTAINERS}}
    return make(kind, name, accepted(kind, {"template": template} | (spec or {})), **rest)


def accepted(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """The spec of a workload with what an API server requires beside a template."""
    template = spec["template"]
    if kind == "Job":
        pod = {"restartPolicy": "Never"} | template["spec"]
        return spec | {"template": template | {"spec": pod}}
    labels = {"matchLabels": template.get("metadata", {}).get("labels", {})}
    return {"selector": labels} | spec if kind in SELECTING else spec


def owned(kind: str, name: str, uid: str = "", **metadata: Any) -> dict[str, Any]:
    """Metadata that names a controller."""
    return {"ownerReferences": [{"kind": kind, "name": name, "uid": uid, "controller": True}]} | metadata


def cluster(*objects: Object) -> Cluster:
    return build_cluster(objects)


def expand(*objects: Object) -> Cluster:
    return expanded(cluster(*objects))
