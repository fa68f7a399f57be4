"""Which nodes Karpenter's node repair ends, whatever budgets say.

Rules: Karpenter v1.15.0, pkg/controllers/node/health; conditions and times: RepairPolicies of the providers
for AWS 1d92708, Azure 352646f5 and GCP 417f047b.
"""

from __future__ import annotations

from math import ceil

from moorage.kube import Condition, Node
from moorage.kube.go_texts import timestamp
from moorage.kube.model.cluster import seconds
from moorage.kube.model.meta import condition_of
from moorage.lazy import NamedTuple

from ..providers.instance_type import POOL
from .cluster_view import ClusterView
from .existing_nodes import StateNode

UNHEALTHY = "Unhealthy"
_SHARE = 0.2
"""Of the nodes of a pool, rounded up, that may be unhealthy while nodes are repaired."""
_MINUTES: dict[str, dict[tuple[str, str], int]] = {
    "karpenter.k8s.aws": {
        **dict.fromkeys((("Ready", "False"), ("Ready", "Unknown"), ("StorageReady", "False")), 30),
        **dict.fromkeys((("NetworkingReady", "False"), ("KernelReady", "False")), 30),
        ("ContainerRuntimeReady", "False"): 30,
        ("AcceleratedHardwareReady", "False"): 10,
    },
    "karpenter.azure.com": {
        ("Ready", "False"): 10,
        ("Ready", "Unknown"): 10,
        ("kubernetes.azure.com/NodeHealthy", "False"): 0,
        ("PreemptionScheduled", "True"): 0,
    },
    "karpenter.k8s.gcp": {
        ("Ready", "False"): 10,
        ("Ready", "Unknown"): 10,
        **dict.fromkeys((("KernelDeadlock", "True"), ("ReadonlyFilesystem", "True")), 5),
        **dict.fromkeys((("FrequentKubeletRestart", "True"), ("FrequentContainerdRestart", "True")), 30),
    },
}
"""For how many minutes a condition of a node may have a status, by the group of node classes."""


class Repair(NamedTuple):
    """That a node is unhealthy.

    Attributes
    ----------
    text : str
        Why, and when it ends or what holds that back.
    is_due : bool
        Whether it ends now.
    """

    text: str
    is_due: bool


def repair_of(view: ClusterView, state: StateNode) -> Repair | None:
    """Return that a node is unhealthy; None if it is not, or nothing repairs nodes."""
    if not view.options.node_repair or state.claim is None or state.node is None:
        return None
    minutes = _MINUTES.get(state.claim.spec.node_class_ref.group, {})
    times = {
        kind: seconds(each.last_transition_time) + 60 * after
        for kind, after in minutes.items()
        if (each := _unhealthy(state.node, kind)) and each.last_transition_time
    }
    if not times:
        return None
    kind = min(times, key=times.__getitem__)
    about, pool = "{} is {}".format(*kind), state.labels.get(POOL, "")
    nodes = [each.node for each in view.states if each.node and each.labels.get(POOL, "") == pool]
    unhealthy = sum(any(_unhealthy(node, each) for each in minutes) for node in nodes)
    if unhealthy > ceil(len(nodes) * _SHARE):
        held = f"node repair waits while more than 20% of the nodes of NodePool {pool} are unhealthy"
        return Repair(f"{about}, but {held}", False)
    is_due = times[kind] <= view.situation.now
    when = "now" if is_due else f"from {timestamp(ceil(times[kind]))} on"
    return Repair(f"{about}, so node repair ends it {when}, whatever budgets say", is_due)


def _unhealthy(node: Node, kind: tuple[str, str]) -> Condition | None:
    status = condition_of(node.status.conditions, kind[0])
    return status if status is not None and status.status == kind[1] else None
