"""NodePools as Karpenter sees them once it has looked at their node classes.

Rules: Karpenter v1.15.0, pkg/controllers/nodepool/readiness.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from moorage.kube import Condition, EC2NodeClass, NodePool
from moorage.kube.read.decode import decode
from moorage.store import ObjectClient

from ..providers.aws.type_labels import DOMAIN


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[Condition, ...] = ()


def stored_pools(client: ObjectClient) -> list[NodePool]:
    """Return the pools of a cluster. Those whose EC2NodeClass is there and not ready are not ready either,
    whatever they say: Karpenter looks again."""
    classes: dict[str, EC2NodeClass] = {one.name: one for one in client.list(EC2NodeClass)[0]}
    return [_with_state(one, classes) for one in client.list(NodePool)[0]]


def _with_state(pool: NodePool, classes: Mapping[str, EC2NodeClass]) -> NodePool:
    reference = pool.spec.template.spec.node_class_ref
    node_class = classes.get(reference.name) if reference.group == DOMAIN else None
    if node_class is None or not (why := _why_unready(node_class)):
        return pool
    own = {one.type: one for one in pool.status.conditions}
    unready = {
        "ValidationSucceeded": own.get("ValidationSucceeded", Condition("ValidationSucceeded", "True")),
        "NodeClassReady": Condition(
            "NodeClassReady", "False", message=f"EC2NodeClass {node_class.name}: {why}"
        ),
        "Ready": Condition("Ready", "False"),
    }
    status = replace(pool.status, conditions=tuple((own | unready).values()))
    return replace(pool, status=status)


def _why_unready(node_class: EC2NodeClass) -> str:
    """Why a node class is not ready, in the words of its conditions; "" if it is, or nothing says."""
    if node_class.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    conditions = {one.type: one for one in decode(dict(node_class.status), _Status).conditions}
    ready = conditions.pop("Ready", None)
    if ready is None or ready.status == "True":
        return ""
    broken = [
        f"{one.type}: {one.message}" for one in conditions.values() if one.status != "True" and one.message
    ]
    return "; ".join(broken) or ready.message or f"Ready is {ready.status}"
