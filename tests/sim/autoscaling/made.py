"""Timelines with an autoscaler, and what became of them."""

from __future__ import annotations

from typing import Any

import msgspec

import moorage as mo
from moorage import Timeline, edit
from moorage.kube import Cluster, Pod, decode_object
from tests import make as kit
from tests.doors.sim import AutoscalerSpec

GROUP_LABEL = "moorage.dev/node-group"


def node(cpu: str = "4", memory: str = "16Gi", pods: str = "110", **metadata: Any) -> dict[str, Any]:
    room = {"cpu": cpu, "memory": memory, "pods": pods}
    head = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "template"} | metadata}
    return head | {"status": {"capacity": room, "allocatable": room}}


def group(name: str = "small", cpu: str = "4", memory: str = "16Gi", **fields: Any) -> dict[str, Any]:
    return {"name": name, "template": node(cpu, memory), "provisionTime": "1m"} | fields


def spec(*groups: dict[str, Any], **fields: Any) -> AutoscalerSpec:
    return msgspec.convert({"nodeGroups": list(groups)} | fields, AutoscalerSpec)


def tiny() -> Any:
    """A node that takes no pod: without any node, attempts are errors, which are repeated after backoff."""
    return decode_object(node("10m", "1Mi", "0", name="tiny"))


def timeline(*groups: dict[str, Any], cluster: Cluster | None = None, **fields: Any) -> Timeline:
    made = Timeline(Cluster(nodes=[tiny()]) if cluster is None else cluster)
    made.autoscale(spec(*groups, **fields))
    return made


def pod(name: str, cpu: str = "1", memory: str = "1Gi", priority: int = 0, **metadata: Any) -> Pod:
    requests = {"cpu": cpu, "memory": memory}
    own: dict[str, Any] = {"scheduler_name": "default-scheduler", "priority": priority or None}
    return kit.pod(name, requests=requests, metadata={"uid": ""} | metadata, **own)


def deployment(name: str, replicas: int, cpu: str = "1", namespace: str = "default", **inside: Any) -> Any:
    marks = inside.pop("annotations", {})
    template = kit.template(name, {"cpu": cpu, "memory": "1Gi"}, **inside)
    template["metadata"]["annotations"] = marks
    return kit.workload("Deployment", f"{namespace}/{name}", replicas, template=template)


def member(name: str, group_name: str = "small", cpu: str = "4", **annotations: str) -> Any:
    """A node of a group."""
    labels = {GROUP_LABEL: group_name, "kubernetes.io/hostname": name}
    return decode_object(node(cpu, name=name, labels=labels, annotations=annotations))


def held(name: str, on: str, cpu: str = "1", kind: str = "ReplicaSet", **metadata: Any) -> Pod:
    """A pod on a node, of a controller that is not simulated: once evicted it is gone."""
    return edit(pod(name, cpu, **(kit.owned(kind, "o") if kind else {}), **metadata), {"spec.node_name": on})


def budget(name: str, most: int) -> Any:
    selector = {"matchLabels": {"app": name}}
    return kit.make("PodDisruptionBudget", f"default/{name}", {"maxUnavailable": most, "selector": selector})


def scalings(history: mo.History) -> list[tuple[Any, ...]]:
    """(time, action, group, nodes, reason) of each."""
    return list(zip(*history.scalings().to_dict().values(), strict=True))


def steps(history: mo.History) -> list[tuple[Any, ...]]:
    """(time, action, group, nodes) of each."""
    return [row[:4] for row in scalings(history)]


def sizes(history: mo.History) -> dict[str, list[int]]:
    """The sizes that each group had, one after the other."""
    now: dict[int, str] = {}
    out: dict[str, list[int]] = {}
    log = history.node_columns
    for number, state in zip(log["node"].tolist(), log["state"].tolist(), strict=True):
        name = "" if state < 0 else history.node_objects[state].metadata.labels.get(GROUP_LABEL, "")
        name = name or now.pop(number, "")
        if state >= 0:
            now[number] = name
        out.setdefault(name, []).append(sum(one == name for one in now.values()))
    return out
