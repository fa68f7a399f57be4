"""Nodes that could go: what they cost, what it costs to move their pods, and why the others are none.

Rules: Karpenter v1.15.0, pkg/controllers/disruption/types.go (NewCandidate),
pkg/controllers/state/statenode.go and pkg/utils/disruption.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from math import inf

from msgspec import Struct

from moorage.autoscalers.instance_types.instance_type import InstanceType
from moorage.autoscalers.instance_types.labels import CAPACITY_TYPE, INSTANCE_TYPE, POOL, ZONE
from moorage.kube import Node, NodeClaim, NodePool, Pod
from moorage.kube.workloads.ownership import is_active

from ..cluster_view import ClusterView
from ..nodes.state_nodes import StateNode, is_true
from ..pods.pod_validation import (
    DO_NOT_DISRUPT,
    GROUP,
    goes_unready,
    is_protected,
    is_reschedulable,
    is_terminal,
    owned_by,
    tolerates_disruption,
)
from ..requirements.requirement import go_integer
from ..texts import with_values
from .claim_conditions import drifted_since, is_consolidatable

DISRUPTION_COST = f"{GROUP}/disruption-cost"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_BASE = 1.0
_INT32 = 2**31


class NodeEvent(Struct, frozen=True):
    """What Karpenter would tell of a node, claim or pool."""

    object: str
    type: str
    reason: str
    message: str


def node_event(state: StateNode, reason: str, message: str) -> NodeEvent:
    """An event about a node."""
    return NodeEvent(object_of(state), "Normal", reason, message)


def object_of(state: StateNode) -> str:
    """What events about a node name: the node, or its claim if it has no node."""
    return f"node/{state.node.name}" if state.node is not None else f"nodeclaim/{state.name}"


def sentence(text: str) -> str:
    """A text with a capital letter."""
    return text[:1].upper() + text[1:]


def eviction_cost(pod: Pod) -> float:
    """What it costs to evict a pod: 1 for a plain one."""
    cost, notes = _BASE, pod.metadata.annotations
    if not notes and not pod.spec.priority:
        return cost
    text = notes.get(DISRUPTION_COST, notes.get(DELETION_COST))
    number = go_integer(text) if text is not None else None
    if number is not None and -_INT32 <= number < _INT32:
        cost += number / 2.0**27
    if pod.spec.priority is not None:
        cost += pod.spec.priority / 2.0**25
    return max(-10.0, min(10.0, cost))


class NodeCandidate(Struct, eq=False, dict=True):
    """A node that nothing forbids to remove.

    Attributes
    ----------
    pods : list of Pod
        Those that need another node.
    """

    state: StateNode
    claim: NodeClaim
    pool: NodePool
    instance_type: InstanceType | None
    pods: list[Pod]

    @property
    def name(self) -> str:
        return self.state.name

    @property
    def capacity_type(self) -> str:
        return self.state.labels.get(CAPACITY_TYPE, "")

    @cached_property
    def price(self) -> float:
        """Per hour; 0 if it is not known."""
        return price_of(self.instance_type, self.state) or 0.0

    @cached_property
    def cost(self) -> float:
        """What the disruption costs: at least 1."""
        return _BASE + sum(max(0.0, eviction_cost(pod)) for pod in self.pods)

    @property
    def ratio(self) -> float:
        return self.price / self.cost

    @property
    def is_empty(self) -> bool:
        return self.cost <= _BASE


def price_of(of: InstanceType | None, state: StateNode | NodeClaim | Node) -> float | None:
    """The price of the first offering in the zone and of the capacity type of a node, of any reservation."""
    labels = state.labels if isinstance(state, StateNode) else state.metadata.labels
    kind = labels.get(ZONE, ""), labels.get(CAPACITY_TYPE, "")
    for one in of.offerings if of is not None else ():
        if (one.zone, one.capacity_type) == kind:
            return one.price if one.price < inf else None
    return None


class Candidates:
    """The candidates of a cluster at one time (seconds since 1970), in order of their names.

    Parameters
    ----------
    eventual : bool
        Whether pods do not matter on claims that have a termination grace period.
    nominated : bool
        Whether nominations still hold.
    """

    def __init__(self, view: ClusterView, now: float, eventual: bool = False, nominated: bool = True) -> None:
        self.view, self.now = view, now
        self._eventual = eventual
        self._nominated = view.situation.nominated if nominated else frozenset[str]()
        self._pools = {pool.name: pool for pool in view.objects.list(NodePool)}
        self.events: list[NodeEvent] = []
        self.found: list[NodeCandidate] = []
        for state in view.states:
            made = self._candidate(state)
            if isinstance(made, NodeCandidate):
                self.found.append(made)
            elif state.claim is not None:
                self.events.append(node_event(state, "DisruptionBlocked", sentence(made)))

    def _candidate(self, state: StateNode) -> NodeCandidate | str:
        """A candidate, or why a node is none."""
        claim = state.claim
        if claim is None or (why := self._node_blocker(state)):
            return "" if claim is None else why
        name = state.labels[POOL]
        types = self.view.situation.types.get(name)
        if name not in self._pools or not types:
            return with_values("NodePool not found", NodePool=name)
        assert state.node is not None
        pods = self.view.pods_of.get(state.node.name, [])
        waits = self._eventual and claim.spec.termination_grace_period is not None
        if not waits and (why := self._pod_blocker(pods)):
            return why
        wanted = state.labels.get(INSTANCE_TYPE)
        of_node = next((one for one in reversed(types) if one.name == wanted), None)
        return NodeCandidate(state, claim, self._pools[name], of_node, [*filter(is_reschedulable, pods)])

    def _node_blocker(self, state: StateNode) -> str:
        if state.node is None or state.claim is None:
            return "nodeclaim does not have an associated node"
        if is_true(state.claim, "Rebooting"):
            return "node is rebooting"
        if state.is_leaving:
            return "node is deleting or marked for deletion"
        if not state.is_initialized:
            return "node isn't initialized" + ("" if state.is_registered else " nor registered")
        if self._nominated & {state.node.name, state.claim.name}:
            return "node is nominated for a pending pod"
        if state.node.metadata.annotations.get(DO_NOT_DISRUPT) == "true":
            return f'disruption is blocked through the "{DO_NOT_DISRUPT}" annotation'
        if POOL not in state.labels:
            return with_values("node doesn't have required label", label=POOL)
        return ""

    def _pod_blocker(self, pods: Sequence[Pod]) -> str:
        for pod in pods:
            if DO_NOT_DISRUPT in pod.metadata.annotations and is_active(pod) and is_protected(pod, self.now):
                return with_values(f'pod has "{DO_NOT_DISRUPT}" annotation', Pod=pod.key)
        for pod in pods:
            if not is_active(pod) or tolerates_disruption(pod) or owned_by(pod, "Node", "v1"):
                continue
            matching = self.view.budgets.of(pod)
            keys = f"[{' '.join(budget.key for budget in matching)}]"
            if len(matching) > 1:
                return f"eviction does not support multiple PDBs (PodDisruptionBudget(s)={keys})"
            for budget in matching:
                if not goes_unready(pod, budget) and not budget.status.disruptions_allowed:
                    return with_values("pdb prevents pod evictions", PodDisruptionBudget=keys)
        return ""

    # ---- which of them a method takes up -------------------------------------------------------------------

    def empty(self) -> list[NodeCandidate]:
        return [one for one in self.found if self._is_empty(one)]

    def drifted(self) -> list[NodeCandidate]:
        return [
            one for one in self.found if one.pool.spec.replicas is None and self._drifted(one) is not None
        ]

    def drifted_first(self, candidates: Iterable[NodeCandidate]) -> list[NodeCandidate]:
        """Candidates by the time since when they are drifted, those without pods before others."""
        return sorted(candidates, key=lambda one: (bool(one.pods), self._drifted(one)))

    def underutilized(self) -> list[NodeCandidate]:
        return [one for one in self.found if self._is_underutilized(one)]

    def _drifted(self, one: NodeCandidate) -> float | None:
        return drifted_since(self.view, one.pool, one.claim, self.now)

    def _refuse(self, one: NodeCandidate, why: str) -> bool:
        self.events.append(node_event(one.state, "Unconsolidatable", why))
        return False

    def _is_enabled(self, one: NodeCandidate) -> bool:
        if one.pool.spec.disruption.consolidate_after in (None, "Never"):
            return self._refuse(one, f'NodePool "{one.pool.name}" has consolidation disabled')
        return True

    def _is_empty(self, one: NodeCandidate) -> bool:
        if one.pool.spec.replicas is not None or not self._is_enabled(one):
            return False
        return one.is_empty and is_consolidatable(one.pool, one.claim, self.now_of_conditions)

    def _is_underutilized(self, one: NodeCandidate) -> bool:
        labels, pool = one.state.labels, one.pool
        if pool.spec.replicas is not None:
            return False
        if one.instance_type is None:
            return self._refuse(one, f'Instance Type "{labels.get(INSTANCE_TYPE, "")}" not found')
        for label in (CAPACITY_TYPE, ZONE):
            if label not in labels:
                return self._refuse(one, f'Node does not have label "{label}"')
        if not self._is_enabled(one) or one.is_empty:
            return False
        if pool.spec.disruption.consolidation_policy == "WhenEmpty":
            policy = "has consolidation policy WhenEmpty, but node is not empty"
            return self._refuse(one, f'NodePool "{pool.name}" {policy}')
        return is_consolidatable(pool, one.claim, self.now_of_conditions)

    @property
    def now_of_conditions(self) -> float:
        """The conditions of claims are written when a pass begins."""
        return self.view.situation.now


def by_ratio(candidates: Iterable[NodeCandidate]) -> list[NodeCandidate]:
    """Candidates in the order in which they are taken up: the most money for the least disruption first."""
    return sorted(candidates, key=lambda one: -one.ratio)


def cost_of_node(view: ClusterView, state: StateNode) -> float:
    """What it would cost to remove a node that is no candidate."""
    pods = view.pods_of.get(state.node.name, []) if state.node is not None else []
    counted = [pod for pod in pods if not is_terminal(pod) and not owned_by(pod, "DaemonSet", "apps/v1")]
    return _BASE + sum(max(0.0, eviction_cost(pod)) for pod in counted)
