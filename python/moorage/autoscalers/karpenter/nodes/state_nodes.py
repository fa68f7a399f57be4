"""Nodes as Karpenter sees them: a node, the claim that it came from, or both.

Rules: Karpenter v1.15.0, pkg/controllers/state/statenode.go and cluster.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from moorage._core.base.quantity import Quantity, parse
from moorage.autoscalers.instance_types.labels import INSTANCE_TYPE, POOL
from moorage.kube import Condition, Node, NodeClaim, Taint
from moorage.kube.model.node import HOSTNAME

from ..pods.pod_validation import GROUP

REGISTERED, INITIALIZED = f"{GROUP}/registered", f"{GROUP}/initialized"
_READINESS = "readiness.k8s.io/"
_EPHEMERAL = frozenset(
    {
        ("node.kubernetes.io/not-ready", "NoSchedule"),
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoSchedule"),
        ("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule"),
        (f"{GROUP}/unregistered", "NoExecute"),
    }
)
"""Keys and effects of taints that a new node has for a moment."""
_REBOOTING = (f"{GROUP}/rebooting", "NoSchedule")


def condition(of: Node | NodeClaim, kind: str) -> Condition | None:
    """A condition of an object."""
    return next((one for one in of.status.conditions if one.type == kind), None)


def is_true(of: Node | NodeClaim, kind: str) -> bool:
    """Whether a condition of an object holds."""
    found = condition(of, kind)
    return found is not None and found.status == "True"


class StateNode(Struct, eq=False, dict=True):
    """A node, its claim, or both."""

    node: Node | None
    claim: NodeClaim | None
    marked: bool = False

    @cached_property
    def is_registered(self) -> bool:
        return self.claim is None or self._says(REGISTERED)

    @cached_property
    def is_initialized(self) -> bool:
        return self.claim is None or self._says(INITIALIZED)

    def _says(self, label: str) -> bool:
        return self.node is not None and self.node.metadata.labels.get(label) == "true"

    @cached_property
    def _identity(self) -> Node | NodeClaim:
        """Whose name and labels count."""
        if self.node is None or (self.claim is not None and not self.is_registered):
            assert self.claim is not None
            return self.claim
        return self.node

    @property
    def name(self) -> str:
        return self._identity.name

    @property
    def labels(self) -> Mapping[str, str]:
        return self._identity.metadata.labels

    @property
    def host(self) -> str:
        return self.labels.get(HOSTNAME) or self.name

    @property
    def is_leaving(self) -> bool:
        """Whether the node is being deleted, or is marked for that."""
        if self.marked:
            return True
        if self.claim is not None:
            terminating = is_true(self.claim, "InstanceTerminating")
            return self.claim.metadata.deletion_timestamp is not None or terminating
        return self.node is not None and self.node.metadata.deletion_timestamp is not None

    @cached_property
    def taints(self) -> tuple[Taint, ...]:
        """Taints that stay once the node is ready."""
        if self.claim is None:
            return self.node.spec.taints if self.node is not None else ()
        taints = self.claim.spec.taints
        if self.node is not None and self.is_registered:
            taints = self.node.spec.taints
        if self.is_initialized and not is_true(self.claim, "Rebooting"):
            return taints
        startup = {(one.key, one.effect) for one in self.claim.spec.startup_taints}
        passing = _EPHEMERAL | startup | {_REBOOTING}
        return tuple(
            [
                one
                for one in taints
                if (one.key, one.effect) not in passing and not one.key.startswith(_READINESS)
            ]
        )

    @cached_property
    def capacity(self) -> dict[str, Quantity]:
        return self._amounts("capacity") | {"nodes": Quantity("1")}

    @cached_property
    def capacity_amounts(self) -> dict[str, int]:
        """Capacity in units of 10**-9."""
        return {name: amount.nanos() for name, amount in self.capacity.items()}

    @cached_property
    def allocatable(self) -> dict[str, Quantity]:
        return self._amounts("allocatable")

    def _amounts(self, field: str) -> dict[str, Quantity]:
        """Amounts of the node; those that a node not initialized reports as zero are the claim's."""
        shown: dict[str, Quantity] = {}
        if self.node is not None:
            shown = {name: parse(raw) for name, raw in getattr(self.node.status, field).items()}
        if self.claim is None or self.is_initialized:
            return shown
        for name, raw in getattr(self.claim.status, field).items():
            if name not in shown or not shown[name].sign():
                shown[name] = parse(raw)
        return shown


def state_nodes(
    nodes: Sequence[Node], claims: Sequence[NodeClaim], marked: Iterable[str] = ()
) -> list[StateNode]:
    """Join nodes and claims by the provider's ID; in order of their names.

    Parameters
    ----------
    marked : iterable of str
        Names of nodes, or of claims without one, that Karpenter is about to remove.
    """
    found: dict[str, StateNode] = {}
    for claim in claims:
        if claim.status.provider_id:
            found[claim.status.provider_id] = StateNode(None, claim)
    for node in nodes:
        labels, provider = node.metadata.labels, node.spec.provider_id
        pool = labels.get(POOL)
        if pool and (not provider or not (labels.get(INSTANCE_TYPE) or labels.get(INITIALIZED))):
            continue
        provider = provider or node.name
        before = found.get(provider)
        found[provider] = StateNode(node, before.claim if before is not None else None)
    names = frozenset(marked)
    for one in found.values():
        known = {obj.name for obj in (one.node, one.claim) if obj is not None}
        one.marked = bool(known & names)
    return sorted(found.values(), key=lambda one: one.name)
