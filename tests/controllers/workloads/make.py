"""A scheduler over a cluster with workloads, from as little as a test wants to say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from tests.objects.make import workload

import moorage as mo
from moorage import Scheduler
from moorage.controllers import ClusterControllers
from moorage.kube import Node, Object, Pod, build_cluster, decode_object


def machine(name: str, cpu: int = 4, zone: str = "a", **labels: str) -> Object:
    capacity = {"cpu": str(cpu), "memory": "8Gi", "pods": "20"}
    topology = {"topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": name}
    meta = {"name": name, "labels": topology | labels}
    return decode_object({"kind": "Node", "metadata": meta, "status": {"capacity": capacity}})


def template(app: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": containers} | spec}


def replicas(kind: str, name: str, count: int, cpu: str = "1", **spec: Any) -> Object:
    return workload(kind, name, {"replicas": count, "template": template(name, cpu)} | spec)


def daemons(name: str, **spec: Any) -> Object:
    return workload("DaemonSet", name, {"template": template(name, "100m", **spec)})


def job(name: str, parallelism: int, **spec: Any) -> Object:
    return workload("Job", name, {"parallelism": parallelism, "template": template(name)} | spec)


def scheduler(*objects: Object, **settings: Any) -> Scheduler:
    """A scheduler whose pods have been placed."""
    one = mo.Scheduler(build_cluster(objects), **settings)
    one.run()
    return one


def pods(one: Scheduler, app: str = "") -> dict[str, str]:
    """The nodes of the pods of an app that are not being deleted."""
    found = all_pods(one, app)
    going = {each.name for each in one.client.list(Pod)[0] if each.metadata.deletion_timestamp is not None}
    return {name: node for name, node in found.items() if name not in going}


def all_pods(one: Scheduler, app: str = "") -> dict[str, str]:
    """The nodes of the pods of an app, with those that are being deleted."""
    one.sync()
    found: list[Pod] = one.client.list(Pod)[0]
    return {each.name: each.spec.node_name for each in found if app in ("", each.metadata.labels.get("app"))}


def nodes(one: Scheduler) -> list[str]:
    found: list[Node] = one.client.list(Node)[0]
    return [each.name for each in found]


@contextmanager
def at_most(rounds: int) -> Iterator[None]:
    """Fail where the controllers do more rounds in all than these, instead of waiting for ever."""
    work, left = ClusterControllers.work, rounds

    def counted(controllers: ClusterControllers, decides: bool = True) -> bool:
        nonlocal left
        left -= 1
        assert left >= 0, f"more than {rounds} rounds"
        return work(controllers, decides)

    with patch.object(ClusterControllers, "work", counted):
        yield
    assert left >= 0  # also where somebody has caught the error
