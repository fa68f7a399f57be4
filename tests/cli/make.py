"""Objects of commands: nodes for two pods each, and pods that take their room."""

from __future__ import annotations

from typing import Any

from tests import make
from tests.make import manifest


def node(name: str, zone: str) -> dict[str, Any]:
    room = {"cpu": "4", "memory": "8Gi", "pods": "2"}
    labels = {"kubernetes.io/hostname": name}
    return manifest(make.node(name, zone, labels, status={"capacity": room}, pods="2"))


def pod(name: str, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    requests = {"cpu": "1", "memory": "1Gi"}
    made = manifest(make.pod(f"{namespace}/{name}", requests=requests, metadata={"uid": ""}, **spec))
    made["spec"]["containers"][0]["image"] = "i"
    return made


ITEMS = [
    *(node("a", "z1"), node("b", "z2"), pod("old", nodeName="a")),
    *(pod("p1"), pod("p2", "other"), pod("p3"), pod("p4")),
    pod("gated", schedulingGates=[{"name": "wait"}]),
    pod("done", nodeName="b", status={"phase": "Succeeded"}),
]
