"""Why a pool makes no node for a pod, and which single changes would make one. Each is tried by a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from msgspec import structs

from moorage._core.base.resources import PodGates
from moorage._core.base.selectors import tolerates
from moorage.cluster import PodScheduler
from moorage.engine.framework.evidence import asked_by, offered
from moorage.engine.plugins.node_affinity_and_taints import REJECTING_EFFECTS
from moorage.engine.requirements import (
    changed_field,
    drop_request,
    effective_request,
    finer_constraints,
    lower,
    term_constraints,
    tolerate,
    toleration_of,
    whole,
)
from moorage.errors import either, shorten
from moorage.kube import DaemonSet, Node, NodePool, Object, Pod, Quantity, Taint
from moorage.kube.model.autoscaling import NodeClaimRequirement

from .autoscaler_protocol import AutoscalerSettings
from .karpenter.claim_template import by_weight, why_idle
from .karpenter.new_nodes_result import NewClaim
from .karpenter.provisioning import PassQuestion, pass_question, stored_pools
from .launched_nodes import launched_node
from .providers.instance_type import POOL, ZONE, InstanceType
from .providers.known_labels import CORE
from .scale_up_answer import KARPENTER, ScaleUp, price_text

MOST_AMOUNTS = 3
"""How many amounts of a resource are tried, the largest that a type leaves first."""
_NOTHING = Quantity("0")
MOST_DAEMONS = 10
"""Without how many DaemonSets, each alone, it is tried."""
NO_HELP = "no single change that was tried helps"


class Remedy(NamedTuple):
    """A change with which a pool makes a node for the pod, and the node; "" for one of a type that there is
    not."""

    change: str
    node: str = ""

    @property
    def text(self) -> str:
        return f"{self.change} ({self.node})" if self.node else self.change


class PoolRefusal(NamedTuple):
    """Why a NodePool or node group gets no node for a pod, in its autoscaler's words, and what would help."""

    pool: str
    reason: str
    remedies: tuple[Remedy, ...]
    kind: str = "NodePool"

    def lines(self) -> Iterator[str]:
        """Yield the reason, and each remedy."""
        yield f"{self.kind} {self.pool}: {self.reason}"
        for remedy in self.remedies:
            yield f"  would help: {remedy.text}"
        if not self.remedies:
            yield f"  {NO_HELP}"


def pool_refusals(scheduler: PodScheduler, autoscaling: AutoscalerSettings, pod: str) -> list[PoolRefusal]:
    """Return why no pool makes a node for a pod, in the order in which Karpenter asks the pools.

    Parameters
    ----------
    pod : str
        ``namespace/name`` of a pod without a node.
    """
    question = pass_question(scheduler, [pod], autoscaling)
    (waiting,) = (stored for stored in question.stored[Pod] if isinstance(stored, Pod) and stored.key == pod)
    tries = [_PoolPasses(scheduler, question, waiting, pool) for pool in by_weight(question.pools)]
    return [
        PoolRefusal(each.pool.name, why, tuple(each.remedies())) for each in tries if (why := each.reason())
    ]


class _PoolPasses:
    """Passes about one pod and one pool."""

    def __init__(self, scheduler: PodScheduler, question: PassQuestion, pod: Pod, pool: NodePool) -> None:
        self._question, self._pod, self.pool = question, pod, pool
        self._types = question.situation.types.get(pool.name, ())
        self._gates = scheduler.cache.state.classes.gates

    def reason(self) -> str:
        """Why the pool makes no node; "" if it makes one by itself."""
        return pool_reason(self._question, self._pod, self.pool)

    def remedies(self) -> Iterator[Remedy]:
        """Yield the changes that help."""
        if why_idle(self.pool) or not self._types:
            return
        yield from self._sizes()
        for text, pod in pod_changes(self._pod, self.pool.spec.template.spec.taints):
            yield from self._tried(text, pod=pod)
        for at, requirement in enumerate(self.pool.spec.template.spec.requirements or ()):
            yield from self._wider(at, requirement)
        for key, value in (self._pod.spec.node_selector or {}).items():
            yield from self._tried(
                f"add the label {key}={value} to the pool", pool=self._labelled(key, value)
            )
        yield from self._higher_limits()
        for daemon, claim in daemon_remedies(self._question, self._pod, self.pool, self._gates):
            yield Remedy(f"keep {daemon} off the nodes", _kind(claim))
        available = [_available(kind) for kind in self._types]
        if any(new is not old for new, old in zip(available, self._types, strict=True)):
            yield from self._tried("wait for offerings that are not available", types=available)

    def _tried(
        self,
        change: str | Callable[[NewClaim], str],
        pod: Pod | None = None,
        pool: NodePool | None = None,
        types: Sequence[InstanceType] | None = None,
    ) -> Iterator[Remedy]:
        """Yield a change, if it helps; its text may depend on the claim that it makes."""
        claim = self._claim(pod or self._pod, pool or self.pool, types or self._types)
        if claim is not None:
            yield Remedy(change if isinstance(change, str) else change(claim), _kind(claim))

    def _claim(self, pod: Pod, pool: NodePool, types: Sequence[InstanceType]) -> NewClaim | None:
        """The claim that is made for a pod."""
        return _claim_of(self._question.about(pod, pool, types), pod)

    def _sizes(self) -> Iterator[Remedy]:
        """Try smaller requests: each alone, else all of them; and a larger type."""
        names, bare = list(asked_by(self._pod, self._gates)), self._pod
        helped = [each for name in names for each in self._smaller(name)]
        yield from helped
        for name in names:
            bare = drop_request(bare, name)
        claim = self._claim(bare, self.pool, self._types)
        if claim is None:
            return
        kind, lacking = self._largest(claim, names)
        if not lacking:
            return
        if not helped and len(lacking) > 1:
            yield from self._all_smaller(kind, claim, lacking)
        capacity = {name: amount + lacking.get(name, _NOTHING) for name, amount in kind.capacity.items()}
        amounts = ", ".join(f"{name} {offered(name, whole(name, capacity[name]))}" for name in lacking)
        types = [replace(kind, capacity=capacity) if other is kind else other for other in self._types]
        if self._claim(self._pod, self.pool, types) is not None:
            yield Remedy(f"a type like {kind.name}, but with {amounts}")

    def _smaller(self, name: str) -> Iterator[Remedy]:
        """Try the largest request of a resource that a type leaves room for."""
        claim = self._claim(drop_request(self._pod, name), self.pool, self._types)
        if claim is None:
            return
        for room in _rooms(name, claim, self._types)[:MOST_AMOUNTS]:
            for text, pod in lowered(self._pod, name, room, self._gates):
                helped = [*self._tried(f"lower the request {text}", pod=pod)]
                yield from helped
                if helped:
                    return

    def _all_smaller(
        self, kind: InstanceType, claim: NewClaim, lacking: Mapping[str, Quantity]
    ) -> Iterator[Remedy]:
        """Try requests that all fit the largest type."""
        pod, texts = self._pod, []
        for name in lacking:
            smaller = [*lowered(pod, name, whole(name, _room(kind, claim, name)), self._gates)]
            if not smaller:
                return
            (text, pod), *_ = smaller
            texts.append(text)
        yield from self._tried(f"lower the requests {' and '.join(texts)}", pod=pod)

    def _largest(self, claim: NewClaim, names: Iterable[str]) -> tuple[InstanceType, dict[str, Quantity]]:
        """The type of a claim that lacks least for the pod, and what it lacks."""
        allowed, requests = {kind.name for kind in claim.types}, asked_by(self._pod, self._gates)
        lacks: list[tuple[float, int, InstanceType, dict[str, Quantity]]] = []
        for kind in (kind for kind in self._types if kind.name in allowed):
            rooms = {name: _room(kind, claim, name) for name in names}
            lacking = {name: requests[name] - room for name, room in rooms.items() if requests[name] > room}
            parts = sum(
                whole(name, each) / max(whole(name, requests[name]), 1) for name, each in lacking.items()
            )
            lacks.append((parts, len(lacks), kind, lacking))
        _, _, kind, lacking = min(lacks, key=lambda each: each[:2])
        return kind, lacking

    def _wider(self, at: int, requirement: NodeClaimRequirement) -> Iterator[Remedy]:
        """Try the pool without a requirement; tell the value that it would have to allow."""
        key = requirement.key

        def text(claim: NewClaim) -> str:
            if claim.launched is not None:
                labels = launched_node("", self.pool, *claim.launched, {}, {}).metadata.labels
                if value := labels.get(key):
                    return f"allow {key} {value} in the pool"
            return f"drop the requirement on {key} of the pool"

        path = "spec.template.spec.requirements"
        yield from self._tried(
            text, pool=changed_field(self.pool, path, lambda its: its[:at] + its[at + 1 :])
        )

    def _labelled(self, key: str, value: str) -> NodePool:
        return changed_field(self.pool, "spec.template.metadata.labels", lambda its: {**its, key: value})

    def _higher_limits(self) -> Iterator[Remedy]:
        limits = self.pool.spec.limits
        free = changed_field(self.pool, "spec.limits", lambda its: {})
        claim = self._claim(self._pod, free, self._types) if limits else None
        if claim is None or claim.launched is None:
            return
        nodes = [node for node in self._question.stored[Node] if isinstance(node, Node)]
        own = [node.status.capacity for node in nodes if node.metadata.labels.get(POOL) == self.pool.name]
        capacity = {"nodes": Quantity("1"), **claim.launched[0].capacity}
        raised = {}
        for name, limit in limits.items():
            used = [Quantity(each[name]) for each in own if name in each]
            needed = sum(used, capacity.get(name, _NOTHING)) if name != "nodes" else Quantity(len(own) + 1)
            if needed > Quantity(limit):
                raised[name] = str(needed)
        text = ", ".join(f"{name} from {limits[name]} to {amount}" for name, amount in raised.items())
        pool = changed_field(self.pool, "spec.limits", lambda its: {**its, **raised})
        text = f"raise the limit of {text}, enough for this pod alone"
        helped = [*self._tried(text, pool=pool)] if raised else []
        yield from helped or self._tried("raise the limits of the pool", pool=free)


def pool_reason(question: PassQuestion, pod: Pod, pool: NodePool) -> str:
    """Return why a pool makes no node for a pod without one; "" if it makes one."""
    if idle := why_idle(pool):
        return f"it makes no nodes for pods: {idle}"
    types = question.situation.types.get(pool.name, ())
    if not types:
        return "it has no instance types"
    answer = question.about(pod, pool, types).answer()
    return answer.errors[pod.key].text if pod.key in answer.errors else answer.ignored.get(pod.key, "")


def daemon_remedies(
    question: PassQuestion, pod: Pod, pool: NodePool, gates: PodGates
) -> Iterator[tuple[str, NewClaim]]:
    """Yield the DaemonSets without each of which a pool makes a node for a pod, with what they take of it
    that the pod asks for, and that node."""
    sets = [daemon_set for daemon_set in question.stored[DaemonSet] if isinstance(daemon_set, DaemonSet)]
    types = question.situation.types.get(pool.name, ())
    for daemon in sets[:MOST_DAEMONS]:
        others: list[Object] = [each for each in sets if each is not daemon]
        without = replace(question, stored=question.stored | {DaemonSet: others})
        claim = _claim_of(without.about(pod, pool, types), pod)
        if claim is not None:
            amounts = taken_by(daemon, pod, gates).items()
            taken = [f"{name} {offered(name, whole(name, each))}" for name, each in amounts]
            yield f"DaemonSet {daemon.key} ({', '.join(taken)} of each node)", claim


def taken_by(daemon: DaemonSet, pod: Pod, gates: PodGates) -> dict[str, Quantity]:
    """Return what a DaemonSet takes of a node of that for which a pod asks."""
    requested = asked_by(pod, gates)
    amounts = asked_by(Pod(metadata=daemon.metadata, spec=daemon.spec.template.spec), gates)
    return {name: amount for name, amount in amounts.items() if name in requested}


def _claim_of(question: PassQuestion, pod: Pod) -> NewClaim | None:
    """The claim that is made for a pod."""
    return next((claim for claim in question.answer().claims if pod.key in claim.pods), None)


def lowered(pod: Pod, name: str, room: int, gates: PodGates) -> Iterator[tuple[str, Pod]]:
    """Yield a pod whose request of a resource fits the room, with a text; nothing if that cannot be less."""
    before = effective_request(pod, name, gates)
    if room < before and (smaller := lower(pod, name, room, gates)) is not None:
        left = effective_request(smaller[0], name, gates)
        yield f"of {name} from {offered(name, before)} to {offered(name, left)}", smaller[0]


def pod_changes(pod: Pod, taints: Sequence[Taint]) -> Iterator[tuple[str, Pod]]:
    """Yield a pod that tolerates the taints of a new node, and the pod without each of its constraints."""
    tolerant, having = pod, pod.spec.tolerations
    own = [
        taint for taint in taints if taint.effect in REJECTING_EFFECTS and not tolerates(having, taint, True)
    ]
    for taint in own:
        tolerant = tolerate(tolerant, toleration_of([taint]))
    if own:
        yield f"tolerate {', '.join(taint.text for taint in own)}", tolerant
    for constraint in (*term_constraints(pod), *finer_constraints(pod)):
        yield f"drop {constraint.text} of the pod", constraint.drop(pod)


def _available(kind: InstanceType) -> InstanceType:
    """A type with all its offerings available; the type itself if they are."""
    if all(offering.available for offering in kind.offerings):
        return kind
    return replace(kind, offerings=tuple([replace(offering, available=True) for offering in kind.offerings]))


def _room(kind: InstanceType, claim: NewClaim, name: str) -> Quantity:
    """How much of a resource a type leaves besides the daemons of a claim."""
    have = kind.allocatable({}).get(name, _NOTHING) - Quantity(claim.requests.get(name, "0"))
    return have if have.sign() > 0 else _NOTHING


def _rooms(name: str, claim: NewClaim, types: Iterable[InstanceType]) -> list[int]:
    """How much of a resource types of a claim leave, each amount once, the most first."""
    allowed = {kind.name for kind in claim.types}
    return sorted(
        {whole(name, _room(kind, claim, name)) for kind in types if kind.name in allowed}, reverse=True
    )


def _kind(claim: NewClaim) -> str:
    """The cheapest node of a claim, and its price."""
    if claim.cheapest is None:
        return "of no offering that could be launched"
    each = claim.cheapest
    kind = " ".join(filter(None, (each.instance_type, each.capacity_type, each.zone)))
    return f"{kind}, {price_text(claim.price)}"


# ---- pool facts --------------------------------------------------------------------------------------------
# Facts that decide which pool new nodes are of: pools that come first, limits of nodes, and DaemonSets.

MOST_POOLS, MOST_TEXT = 2, 200
"""Of how many pools before the one that makes nodes it is told why they make none, and how long that is."""


class PoolFacts:
    """What decided about the nodes of an answer, in the cluster that has them."""

    def __init__(self, scheduler: PodScheduler, autoscaling: AutoscalerSettings, up: ScaleUp) -> None:
        self._scheduler, self._autoscaling, self._up = scheduler, autoscaling, up
        self._pools = by_weight(stored_pools(scheduler.client))

    @cached_property
    def _question(self) -> PassQuestion:
        return pass_question(self._scheduler, [], self._autoscaling)

    def lines(self) -> Iterator[str]:
        """Yield a line for each fact."""
        yield from self._earlier_pools()
        yield from self._limits()
        yield from self._zones()
        yield from self._daemons()

    def _earlier_pools(self) -> Iterator[str]:
        """Why the nodes are not of a pool that is asked before theirs."""
        new = [node for node in self._up.nodes if node.by == KARPENTER and node.pods]
        if not new:
            return
        used = {node.pool for node in self._up.nodes}
        order = [pool.name for pool in self._pools]
        first = max(new, key=lambda node: order.index(node.pool))
        at = order.index(first.pool)
        for pool in [pool for pool in self._pools[:at] if pool.name not in used][:MOST_POOLS]:
            if reason := self._reason(pool, first.pods[0]):
                weight = f"of weight {pool.spec.weight or 0} "
                yield f"NodePool {pool.name} {weight}makes no node for {first.pods[0]}: {reason}"
        weights = [pool.spec.weight or 0 for pool in self._pools]
        later = [order[place] for place in range(at + 1, len(order)) if weights[place] == weights[at]]
        if unused := [name for name in later if name not in used]:
            names = either(unused[:3]) if len(unused) <= 3 else f"{len(unused)} others"
            yield f"NodePool {first.pool} comes before {names} of equal weight: the last name is asked first"

    def _reason(self, pool: NodePool, key: str) -> str:
        if idle := why_idle(pool):
            return idle
        pod = next(pod for pod in self._question.stored[Pod] if isinstance(pod, Pod) and pod.key == key)
        waiting = structs.replace(pod, spec=structs.replace(pod.spec, node_name=""))
        return shorten(pool_reason(self._question, waiting, pool), MOST_TEXT)

    def _limits(self) -> Iterator[str]:
        """Which pools have more nodes than their limit."""
        nodes: list[Node] = self._scheduler.client.list(Node)[0]
        used = {node.pool for node in self._up.nodes}
        for pool in self._pools:
            limit = pool.spec.limits.get("nodes")
            count = sum(node.metadata.labels.get(POOL) == pool.name for node in nodes)
            if limit is not None and pool.name in used and Quantity(count) > Quantity(limit):
                yield (
                    f"NodePool {pool.name} has {count} nodes then, above its limits.nodes {limit}: Karpenter "
                    "does not count down nodes within a pass"
                )

    def _zones(self) -> Iterator[str]:
        """Which zones a spread counts although no type is offered there."""
        reasons = [pod.refusals[KARPENTER] for pod in self._up.waiting if KARPENTER in pod.refusals]
        if not reasons:
            return
        types = self._question.situation.types.values()
        offered_in = {offering.zone for each in types for kind in each for offering in kind.offerings}
        for pool in self._pools:
            named = CORE.values_of(ZONE, pool.spec.template.spec.requirements or ())
            for zone in sorted(named - offered_in):
                if any(f" {zone}: " in reason for reason in reasons):
                    yield (
                        f"Zone {zone} comes from NodePool {pool.name}, which names it: the spread counts it, "
                        "but no type is offered there"
                    )

    def _daemons(self) -> Iterator[str]:
        """Which DaemonSets take the room of the first pod that Karpenter refuses."""
        refused = [pod.pod for pod in self._up.waiting if KARPENTER in pod.refusals]
        if not refused or not self._scheduler.client.list(DaemonSet)[0]:
            return
        question, gates = self._question, self._scheduler.cache.state.classes.gates
        pod = next(pod for pod in question.stored[Pod] if isinstance(pod, Pod) and pod.key == refused[0])
        unhelped = False
        for pool in self._pools:
            if why_idle(pool) or not pool_reason(question, pod, pool):
                continue
            daemons = [daemon for daemon, _ in daemon_remedies(question, pod, pool, gates)]
            for daemon in daemons:
                yield f"NodePool {pool.name} would make a node for {pod.key} without {daemon}"
            unhelped |= not daemons
        if unhelped:
            yield from self._shared(pod)

    def _shared(self, pod: Pod) -> Iterator[str]:
        """Which devices of each node DaemonSets take beside a pod."""
        gates = self._scheduler.cache.state.classes.gates
        for daemon in self._scheduler.client.list(DaemonSet)[0]:
            for name, amount in taken_by(daemon, pod, gates).items():
                if "/" in name:
                    amounts = f"{offered(name, whole(name, amount))} of {name}"
                    yield f"DaemonSet {daemon.key} takes {amounts} of each node, beside {pod.key}"
