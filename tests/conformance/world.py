"""The cluster of a scenario: its objects, literally, and the steps that change it."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from moorage.errors import NotBuiltError
from moorage.objects import Cluster, decode_object
from moorage.scheduler import Scheduler

from .vectors import MalformedError

Json = dict[str, Any]

STEP_KEYS = {
    "schedule": {"pod"},
    "addNode": {"node"},
    "updateNode": {"node"},
    "removeNode": {"name"},
    "addPod": {"pod"},
    "removePod": {"namespace", "name"},
    "updatePod": {"pod"},
    "addObject": {"object"},
    "updateObject": {"object"},
    "removeObject": {"object"},
    "updateNamespace": {"namespace", "labels"},
}


class World:
    """Hands objects to a scheduler's cache as an informer would: in order, each once.

    Attributes
    ----------
    nodes : dict of str to Node
        The nodes there are.
    pods : dict of str to Pod
        Every pod that is known, by ``namespace/name``: bound, placed by a step, or waiting.
    """

    def __init__(self, objects: list[Json], **settings: Any) -> None:
        decoded = [decode_object(one) for one in objects]
        cluster = Cluster(
            namespaces=[one for one in decoded if one.kind == "Namespace"],
            others=[one for one in decoded if one.kind not in ("Namespace", "Node", "Pod")],
        )
        self.scheduler = Scheduler(cluster, strict=True, **settings)
        self.nodes: dict[str, Any] = {}
        self.pods: dict[str, Any] = {}
        for one in decoded:
            if one.kind == "Node":
                self._add_node(one)
            elif one.kind == "Pod":
                self._add_pod(one)

    def apply(self, step: Json) -> bool:
        """Carry out a step that changes the cluster; true if it names a pod that is not there."""
        check_keys(step)
        match step["op"]:
            case "addNode":
                self._add_node(decode_object(step["node"]))
            case "updateNode":
                node = decode_object(step["node"])
                self.scheduler.cache.update_node(self.nodes[node.name], node)
                self.nodes[node.name] = node
            case "removeNode":
                self.scheduler.cache.remove_node(self.nodes.pop(step["name"]))
            case "addPod":
                self._add_pod(decode_object(step["pod"]))
            case "removePod":
                return self._remove_pod(f"{step['namespace']}/{step['name']}")
            case "updatePod":
                return self._update_pod(decode_object(step["pod"]))
            case op:
                raise NotBuiltError(f"not built yet: step {op}")
        return False

    def pod(self, step: Json) -> Any:
        """The pod that a schedule step is about."""
        check_keys(step)
        return decode_object(step["pod"])

    def place(self, pod: Any, node: str) -> None:
        """Put a pod on a node, as its binding would."""
        bound = replace(pod, spec=replace(pod.spec, node_name=node))
        self.scheduler.cache.add_pod(bound)
        self.pods[pod.key] = bound

    def placed(self, pod: Any, node: str) -> None:
        """Report a pod as bound that the scheduler has assumed on a node."""
        self.place(pod, node)

    def _add_node(self, node: Any) -> None:
        self.scheduler.cache.add_node(node)
        self.nodes[node.name] = node

    def _add_pod(self, pod: Any) -> None:
        if pod.spec.node_name:
            self.scheduler.cache.add_pod(pod)
        elif pod.status.nominated_node_name:
            raise NotBuiltError("not built yet: nominated pods")
        self.pods[pod.key] = pod

    def _remove_pod(self, key: str) -> bool:
        pod = self.pods.pop(key, None)
        if pod is not None and pod.spec.node_name:
            self.scheduler.cache.remove_pod(pod)
        return pod is None

    def _update_pod(self, pod: Any) -> bool:
        old = self.pods.get(pod.key)
        if old is None:
            return True
        if not old.spec.node_name:
            raise NotBuiltError("not built yet: updates of waiting pods")
        new = replace(pod, spec=replace(pod.spec, node_name=old.spec.node_name))
        self.scheduler.cache.update_pod(old, new)
        self.pods[pod.key] = new
        return False


def check_keys(step: Json) -> None:
    """Refuse a step with an unknown operation or with fields that the operation does not have."""
    expected = STEP_KEYS.get(step.get("op", ""))
    if expected is None:
        raise MalformedError(f"unknown step {step.get('op')!r}")
    if step.keys() - {"snapshot"} != expected | {"op"}:
        raise MalformedError(f"fields of step {step['op']}: {', '.join(sorted(step))}")
