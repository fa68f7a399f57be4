"""Nodes that could go, by the conditions that Karpenter writes on claims and the budgets of pools: what
they cost, what it costs to move their pods, and why the others are none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from datetime import UTC, datetime, timedelta
from functools import cached_property
from math import inf

from msgspec import Struct

from moorage._core.provision.label_requirements import go_integer
from moorage.kube import Node, NodeClaim, NodePool, Pod
from moorage.kube.admission.rules.job_rules import parse_schedule
from moorage.kube.go_texts import parse_duration
from moorage.kube.model.autoscaling import ProviderNodeClass
from moorage.kube.model.cluster import seconds
from moorage.kube.model.meta import condition_of, share
from moorage.kube.model.pod import DELETION_COST
from moorage.kube.workloads.ownership import is_active

from ..providers.instance_type import CAPACITY_TYPE, INSTANCE_TYPE, POOL, RESERVED, ZONE, InstanceType
from .cluster_view import ClusterView
from .existing_nodes import StateNode, is_true
from .pod_shape import PodShape, with_values
from .pod_validation import (
    DO_NOT_DISRUPT,
    GROUP,
    goes_unready,
    is_protected,
    is_reschedulable,
    is_terminal,
    moves_now,
    owned_by,
    tolerates_disruption,
)
from .type_columns import KnownType

# ---- claim conditions --------------------------------------------------------------------------------------
# What Karpenter's controller writes on claims: whether they could be consolidated, and whether they drifted.
# Rules: Karpenter v1.15.0, pkg/controllers/nodeclaim/disruption/consolidation.go and drift.go.

HASH, HASH_VERSION = f"{GROUP}/nodepool-hash", f"{GROUP}/nodepool-hash-version"
_OF_CORE = ("NodePoolDrifted", "RequirementsDrifted", "InstanceTypeNotFound", "")
"""Reasons that Karpenter finds out anew; others come from its provider."""


def consolidate_after(pool: NodePool) -> float | None:
    """Seconds that a node must have been left alone; None where nodes are never consolidated."""
    text = pool.spec.disruption.consolidate_after
    return None if text is None or text == "Never" else parse_duration(text) / 1e9


def is_fresh(pool: NodePool | None, state: StateNode, now: float) -> bool:
    """Whether pods came or went on a node so lately that it is left alone."""
    after = consolidate_after(pool) if pool is not None else None
    return after is not None and 0 < after > now - state.last_change and is_ready(state)


def is_ready(state: StateNode) -> bool:
    """Whether a claim says that its node has been initialized."""
    return state.claim is not None and is_true(state.claim, "Initialized")


def consolidatable_at(pool: NodePool, state: StateNode) -> float:
    """When a node may be consolidated if no pod comes or goes (seconds since 1970); infinite for never."""
    after = consolidate_after(pool)
    return float("inf") if after is None else state.last_change + after


def nodes_of_pools(view: ClusterView) -> Iterator[tuple[NodePool, StateNode]]:
    """Yield the nodes that have a claim and are not leaving, each after its pool."""
    pools = {pool.name: pool for pool in view.objects.list(NodePool)}
    for state in view.states:
        pool = pools.get(state.labels.get(POOL, ""))
        if state.claim is not None and pool is not None and not state.is_leaving:
            yield pool, state


def young_nodes(view: ClusterView) -> dict[str, float]:
    """When consolidateAfter is over (seconds since 1970), by the names of nodes where it is not yet."""
    nodes, now = nodes_of_pools(view), view.situation.now
    return {state.name: consolidatable_at(pool, state) for pool, state in nodes if is_fresh(pool, state, now)}


def expires_at(claim: NodeClaim) -> float:
    """When a claim expires, whatever budgets say (seconds since 1970); infinite for never."""
    created, after = claim.metadata.creation_timestamp, claim.spec.expire_after
    if not created or after is None or after == "Never":
        return inf
    return seconds(created) + parse_duration(after) / 1e9


def is_consolidatable(pool: NodePool, state: StateNode, now: float) -> bool:
    """The condition Consolidatable."""
    claim = state.claim
    assert claim is not None
    if pool.spec.replicas is not None or claim.metadata.deletion_timestamp is not None:
        return is_true(claim, "Consolidatable")
    never = consolidate_after(pool) is None
    return not never and not is_fresh(pool, state, now) and is_ready(state)


def drifted_since(view: ClusterView, pool: NodePool, state: StateNode, now: float) -> float | None:
    """Since when the condition Drifted holds (seconds since 1970); None if it does not."""
    claim = state.claim
    assert claim is not None
    is_old = now > state.offered_until
    types, classes = view.situation.types.get(pool.name), view.objects.node_classes()
    parts = pool, types, classes, is_old
    if claim.metadata.deletion_timestamp is None and not state.kept(
        "drift",
        parts,
        lambda: is_true(claim, "Launched") and bool(_drift_reason(view, pool, claim, is_old)),
    ):
        return None
    before = condition_of(claim.status.conditions, "Drifted")
    begun = before.last_transition_time if before is not None and before.status == "True" else None
    return seconds(begun) if begun else now


def _drift_reason(view: ClusterView, pool: NodePool, claim: NodeClaim, is_old: bool) -> str:
    """Why a claim is not as its pool would make it now; "" if it is."""
    if _has_other_hash(claim, pool, HASH, HASH_VERSION):
        return "NodePoolDrifted"
    labels = view.vocabulary.of_labels(claim.metadata.labels)
    if labels.refusal(view.policies_of(pool), undefined=False):
        return "RequirementsDrifted"
    if is_old and not _is_offered(view, view.types_of(pool.name), claim):
        return "InstanceTypeNotFound"
    # what a provider compares besides, such as images and subnets, only it knows
    reference = pool.spec.template.spec.node_class_ref
    for each in view.objects.node_classes():
        key = f"{reference.group}/{each.kind.lower()}-hash"
        is_own = (each.kind, each.name) == (reference.kind, reference.name)
        if is_own and _has_other_hash(claim, each, key, f"{key}-version"):
            return "NodeClassDrift"
    drifted = condition_of(claim.status.conditions, "Drifted")
    is_told = drifted is not None and drifted.status == "True" and drifted.reason not in _OF_CORE
    return drifted.reason if drifted is not None and is_told else ""


def _has_other_hash(claim: NodeClaim, of: NodePool | ProviderNodeClass, name: str, version: str) -> bool:
    """Whether a claim was made of another template, as far as hashes of the same version tell."""
    mine, theirs = claim.metadata.annotations, of.metadata.annotations
    is_known = all(key in notes for key in (name, version) for notes in (mine, theirs))
    return is_known and mine[version] == theirs[version] and mine[name] != theirs[name]


def _is_offered(view: ClusterView, types: Sequence[KnownType], claim: NodeClaim) -> bool:
    """Whether the provider still has the type and the offering of a claim."""
    labels = claim.metadata.labels
    of_claim = next((kind for kind in types if kind.name == labels.get(INSTANCE_TYPE)), None)
    if of_claim is None:
        return False
    required = view.vocabulary.of_labels(labels)
    if labels.get(CAPACITY_TYPE) == RESERVED:  # may have become on-demand since
        kinds = view.vocabulary.key(CAPACITY_TYPE).one_of(RESERVED, "on-demand")
        required = required.having(kinds)
        for label in view.vocabulary.known_labels.reservation_labels:
            required = required.without(label)
    return any(not required.refusal(offering.requirements, undefined=True) for offering in of_claim.offerings)


# ---- nodes that could go: what they cost, what it costs to move their pods, and why the others are none ----
# Rules: Karpenter v1.15.0, pkg/controllers/disruption/types.go (NewCandidate),
# pkg/controllers/state/statenode.go and pkg/utils/disruption.

DISRUPTION_COST = f"{GROUP}/disruption-cost"
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
    pods, moving : list of Pod
        Those that need another node, and those of them that can move now.
    needs : Counter of PodShape
        What of the latter runs.
    """

    state: StateNode
    claim: NodeClaim
    pool: NodePool
    instance_type: InstanceType | None
    pods: list[Pod]
    moving: list[Pod]
    needs: Counter[PodShape]

    @property
    def name(self) -> str:
        return self.state.name

    @cached_property
    def capacity_type(self) -> str:
        return self.state.labels.get(CAPACITY_TYPE, "")

    @cached_property
    def names_capacity_type(self) -> bool:
        """Whether a pod that moves asks for a capacity type."""
        return any(CAPACITY_TYPE in shape.constraints.requirements.by_key for shape in self.needs)

    @cached_property
    def price(self) -> float:
        """Per hour; 0 if it is not known."""
        return price_of(self.instance_type, self.state) or 0.0

    @cached_property
    def cost(self) -> float:
        """What the disruption costs: at least 1."""
        return _BASE + sum(max(0.0, eviction_cost(pod)) for pod in self.pods)

    @cached_property
    def ratio(self) -> float:
        return self.price / self.cost

    @property
    def is_empty(self) -> bool:
        return self.cost <= _BASE


def price_of(of: InstanceType | None, state: StateNode | NodeClaim | Node) -> float | None:
    """The price of the first offering in the zone and of the capacity type of a node, of any reservation."""
    labels = state.labels if isinstance(state, StateNode) else state.metadata.labels
    kind = labels.get(ZONE, ""), labels.get(CAPACITY_TYPE, "")
    for offering in of.offerings if of is not None else ():
        if (offering.zone, offering.capacity_type) == kind:
            return offering.price if offering.price < inf else None
    return None


class Candidates:
    """The candidates of a cluster at one time (seconds since 1970), in order of their names.

    Parameters
    ----------
    eventual : bool
        Whether pods do not matter on claims that have a termination grace period.

    Attributes
    ----------
    found, to_go : list of NodeCandidate
        All, and those that a method takes up.
    """

    def __init__(self, view: ClusterView, now: float, eventual: bool = False, nominated: bool = True) -> None:
        self.view, self.now = view, now
        self._eventual = eventual
        self._nominated = view.situation.nominated if nominated else frozenset[str]()
        self._pools = {pool.name: pool for pool in view.objects.list(NodePool)}
        self.events: list[NodeEvent] = []
        self.found: list[NodeCandidate] = []
        self.to_go: list[NodeCandidate] = []
        for state in view.states:
            candidate = self._candidate(state)
            if isinstance(candidate, NodeCandidate):
                self.found.append(candidate)
            elif state.claim is not None:
                self.events.append(node_event(state, "DisruptionBlocked", sentence(candidate)))

    def untouched(self) -> Candidates:
        """The same candidates, of which no method has taken up or refused any."""
        candidates = copy(self)
        candidates.events, candidates.to_go = [*self.events], []
        return candidates

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
        view, pool, pods = self.view, self._pools[name], self.view.pods_of.get(state.node.name, [])
        waits = self._eventual and claim.spec.termination_grace_period is not None
        moment = self.now if state.node.name in view.protected else 0.0
        parts = pool, types, view.budgets, view.book, moment, pods

        def make() -> NodeCandidate | str:
            if not waits and (why := self._pod_blocker(pods)):
                return why
            wanted = state.labels.get(INSTANCE_TYPE)
            of_node = next((kind for kind in reversed(types) if kind.name == wanted), None)
            moving = [pod for pod in pods if moves_now(pod, view.budgets, self.now)]
            needs = Counter(view.book.shape(pod) for pod in moving if pod.status.phase != "Pending")
            every = [*filter(is_reschedulable, pods)]
            return NodeCandidate(state, claim, pool, of_node, every, moving, needs)

        return state.kept(("candidate", waits), parts, make)

    def _node_blocker(self, state: StateNode) -> str:
        if state.node is None or state.claim is None:
            return "nodeclaim does not have an associated node"
        if state.is_rebooting:
            return "node is rebooting"
        if state.is_leaving:
            return "node is deleting or marked for deletion"
        if not state.is_initialized:
            return "node isn't initialized" + ("" if state.is_registered else " nor registered")
        if state.node.name in self._nominated or state.claim.name in self._nominated:
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

    # ---- what methods ask of them --------------------------------------------------------------------------

    def refuse(self, candidate: NodeCandidate, why: str) -> bool:
        """Note why a candidate is not taken up; return False."""
        self.events.append(node_event(candidate.state, "Unconsolidatable", why))
        return False

    def is_enabled(self, candidate: NodeCandidate) -> bool:
        """Whether nodes of its pool are consolidated at all."""
        if candidate.pool.spec.disruption.consolidate_after in (None, "Never"):
            return self.refuse(candidate, f'NodePool "{candidate.pool.name}" has consolidation disabled')
        return True

    def is_consolidatable(self, candidate: NodeCandidate) -> bool:
        """The condition Consolidatable, which is written when a pass begins."""
        return is_consolidatable(candidate.pool, candidate.state, self.view.situation.now)

    def drifted_since(self, candidate: NodeCandidate) -> float | None:
        """Since when the condition Drifted holds; None if it does not."""
        return drifted_since(self.view, candidate.pool, candidate.state, self.now)


def by_ratio(candidates: Iterable[NodeCandidate]) -> list[NodeCandidate]:
    """Candidates in the order in which they are taken up: the most money for the least disruption first."""
    return sorted(candidates, key=lambda candidate: -candidate.ratio)


def cost_of_node(view: ClusterView, state: StateNode) -> float:
    """What it would cost to remove a node that is no candidate."""
    pods = view.pods_of.get(state.node.name, []) if state.node is not None else []
    counted = [pod for pod in pods if not is_terminal(pod) and not owned_by(pod, "DaemonSet", "apps/v1")]
    return _BASE + sum(max(0.0, eviction_cost(pod)) for pod in counted)


# ---- times of a cron schedule, in UTC, as github.com/robfig/cron/v3 reads them (ParseStandard) -------------


def next_hit(schedule: str, after: float, until: float) -> float:
    """The first time of a schedule after one and until another moment (seconds since 1970); infinite if there
    is none.

    Raises
    ------
    ValueError
        The schedule is malformed.
    """
    fields = parse_schedule(schedule)
    if not fields:
        raise ValueError(f"no times of day: {schedule}")
    minutes, hours, days, months, weekdays = fields
    first = int(after) // 60 * 60 + 60
    last = int(until) // 60 * 60
    day = datetime.fromtimestamp(first, UTC).replace(hour=0, minute=0)
    while day.timestamp() <= last:
        in_month, in_week = day.day in days.values, day.isoweekday() % 7 in weekdays.values
        both = in_month and in_week if days.is_any or weekdays.is_any else in_month or in_week
        if both and day.month in months.values:
            start = int(day.timestamp())
            times = (start + hour * 3600 + minute * 60 for hour in hours.values for minute in minutes.values)
            if hits := [time for time in times if first <= time <= last]:
                return float(min(hits))
        day += timedelta(days=1)
    return inf


# ---- how many nodes of a pool may go at once ---------------------------------------------------------------
# Rules: Karpenter v1.15.0, pkg/apis/v1/nodepool.go and pkg/controllers/disruption/helpers.go.

UNLIMITED = 2**31 - 1
_YEAR = 366 * 86400.0


def allowed_by_budgets(pool: NodePool, nodes: int, reason: str, now: float) -> int:
    """The fewest nodes that an active budget about a reason allows; none if a schedule is malformed."""
    allowed = UNLIMITED
    for budget in pool.spec.disruption.budgets or ():
        if budget.schedule is not None or budget.duration is not None:
            began = now - parse_duration(budget.duration or "0") / 1e9
            try:
                active = next_hit(budget.schedule or "", began, now) < inf
            except ValueError:
                return 0
            if not active:
                continue
        if budget.reasons is None or reason in budget.reasons:
            limit = budget.nodes if budget.nodes.endswith("%") else int(budget.nodes)
            allowed = min(allowed, share(limit, nodes))
    return allowed


def outside_windows(pools: Iterable[NodePool], reason: str, now: float) -> Iterator[str]:
    """Yield which pools have a budget about a reason with a schedule, and none that limits it now (seconds
    since 1970)."""
    for pool in pools:
        about = [each for each in pool.spec.disruption.budgets or () if reason in (each.reasons or (reason,))]
        has_window = any(each.schedule is not None for each in about)
        if has_window and allowed_by_budgets(pool, 1, reason, now) == UNLIMITED:
            yield (
                f"No budget of NodePool {pool.name} limits {reason} at that time: one with a schedule limits "
                "only while its window lasts."
            )


def next_change(pool: NodePool, now: float) -> float:
    """When a budget with a schedule may begin or cease to hold, within a year; infinite without any."""
    times = [inf]
    for budget in pool.spec.disruption.budgets or ():
        if budget.schedule is not None and budget.duration is not None:
            lasts = parse_duration(budget.duration) / 1e9
            with suppress(ValueError):
                times += [
                    next_hit(budget.schedule, now, now + _YEAR),
                    next_hit(budget.schedule, now - lasts, now) + lasts,
                ]
    return min(times)


def count_nodes(states: Iterable[StateNode]) -> tuple[Counter[str], Counter[str]]:
    """By pool, how many nodes are initialized, and how many of these are going or not ready."""
    there = [(state.labels.get(POOL, ""), state.is_going) for state in states if state.counts]
    return Counter(pool for pool, _ in there), Counter(pool for pool, is_going in there if is_going)
