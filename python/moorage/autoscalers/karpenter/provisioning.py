"""Room that Karpenter keeps free, and NodePools as it sees them once it has looked at their node classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace

from moorage.errors import number_of
from moorage.grouped import grouped
from moorage.kube import Condition, NodePool
from moorage.kube.apiserver.decode import decode
from moorage.kube.model.autoscaling import NODE_CLASSES, CapacityBuffer, ProviderNodeClass
from moorage.kube.workloads.capacity_buffers import buffer_of
from moorage.store import ObjectClient

from .cluster_view import ClusterView


def room_kept(view: ClusterView) -> Iterator[str]:
    """Yield for how many pods each CapacityBuffer keeps room, and why not for more."""
    buffers, (pods, empty) = view.objects.list(CapacityBuffer), view.buffers
    if buffers and not view.options.capacity_buffers:
        yield "CapacityBuffers keep no room: the gate CapacityBuffer is off in Karpenter's Deployment"
    for key, why in empty.items():
        yield f"CapacityBuffer {key} keeps no room: {why}"
    errors = view.provisioning.errors if pods else {}
    for name, keys in grouped((buffer_of(pod), pod.key) for pod in pods).items():
        missing = [key for key in keys if key in errors]
        why = f", not for {len(missing)} more: {errors[missing[0]].text}" if missing else ""
        room = number_of(len(keys) - len(missing), "pod", "pods")
        gate = "" if view.options.source else "; the gate CapacityBuffer is taken to be on"
        yield f"CapacityBuffer {name} keeps room for {room}{why}{gate}"


# ---- NodePools as Karpenter sees them once it has looked at their node classes -----------------------------
# Rules: Karpenter v1.15.0, pkg/controllers/nodepool/readiness.


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[Condition, ...] = ()


def stored_pools(client: ObjectClient) -> list[NodePool]:
    """Return the pools of a cluster. Those whose node class is there and not ready are not ready either,
    whatever they say: Karpenter looks again."""
    classes: dict[tuple[str, str], ProviderNodeClass] = {
        (each.kind, each.name): each for kind in NODE_CLASSES for each in client.list(kind)[0]
    }
    return [_with_state(pool, classes) for pool in client.list(NodePool)[0]]


def _with_state(pool: NodePool, classes: Mapping[tuple[str, str], ProviderNodeClass]) -> NodePool:
    reference = pool.spec.template.spec.node_class_ref
    node_class = classes.get((reference.kind, reference.name))
    if node_class is None or not (why := _why_unready(node_class)):
        return pool
    own = {condition.type: condition for condition in pool.status.conditions}
    unready = {
        "ValidationSucceeded": own.get("ValidationSucceeded", Condition("ValidationSucceeded", "True")),
        "NodeClassReady": Condition("NodeClassReady", "False", message=f"{node_class.full_name}: {why}"),
        "Ready": Condition("Ready", "False"),
    }
    status = replace(pool.status, conditions=tuple((own | unready).values()))
    return replace(pool, status=status)


def _why_unready(node_class: ProviderNodeClass) -> str:
    """Why a node class is not ready, in the words of its conditions; "" if it is, or nothing says."""
    if node_class.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    conditions = {
        condition.type: condition for condition in decode(dict(node_class.status), _Status).conditions
    }
    ready = conditions.pop("Ready", None)
    if ready is None or ready.status == "True":
        return ""
    broken = [
        f"{condition.type}: {condition.message}"
        for condition in conditions.values()
        if condition.status != "True" and condition.message
    ]
    return "; ".join(broken) or ready.message or f"Ready is {ready.status}"


def check_type(name: str, value: object, kind: type) -> None:
    """Refuse an argument that is neither None nor of a type, by a TypeError."""
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{name} must be {kind.__name__}, not {type(value).__name__}")
