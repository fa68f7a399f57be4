"""Why a pool makes no node for a pod, and which single changes would make one. Each is tried by a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial, reduce
from itertools import chain, product
from typing import Any

from msgspec import structs

from moorage._core.base.resources import PodGates
from moorage.cluster import PodScheduler
from moorage.cluster.amounts import asked_by, offered
from moorage.cluster.helpful_changes import (
    HelpfulChange,
    Kind,
    ObjectEdit,
    both,
    changes_for_new_node,
    edited,
    gone,
    lowered,
    of_pod,
    of_settings,
    tried,
)
from moorage.cluster.requirements import changed_field, drop_request, whole
from moorage.errors import either, examples, shorten
from moorage.kube import DaemonSet, Node, NodePool, Pod, Quantity
from moorage.kube.model.autoscaling import NODE_CLASSES, NodeClaimRequirement

from .autoscaler_protocol import AutoscalerSettings
from .karpenter.claim_template import by_weight, why_idle
from .karpenter.new_nodes_result import NewClaim
from .karpenter.provisioning import room_kept, stored_pools
from .launched_nodes import launched_node
from .node_class_changes import STORAGE, NodeClassChanges
from .pool_scaler import PassQuestion, PoolScaler
from .providers.instance_type import POOL, ZONE, InstanceType
from .providers.known_labels import CORE
from .scale_up_answer import KARPENTER, ScaleUp, nodes_price
from .trial import Trial

MOST_AMOUNTS = 3
"""How many amounts of a resource are tried, the largest that a type leaves first."""
_NOTHING = Quantity("0")
MOST_DAEMONS = 10
"""Without how many DaemonSets, each alone, it is tried."""


def pool_trials(
    scheduler: PodScheduler, autoscaling: AutoscalerSettings, pod: str
) -> Iterator[NodePoolTrial]:
    """Yield the trials of the pools for a pod without a node (``namespace/name``), in the order in which
    Karpenter asks the pools."""
    question, gates = PoolScaler(scheduler, autoscaling).question([pod]), scheduler.cache.state.classes.gates
    (waiting,) = (stored for stored in question.stored[Pod] if isinstance(stored, Pod) and stored.key == pod)
    classes = NodeClassChanges(autoscaling.types, scheduler.client, waiting, gates)
    for pool in by_weight(question.pools):
        yield NodePoolTrial(question, waiting, pool, classes)


class NodePoolTrial(Trial[PassQuestion]):
    """Passes of Karpenter about one pod and one pool.

    Parameters
    ----------
    classes : NodeClassChanges
        Those of the pod.
    """

    kind = NodePool.__name__

    def __init__(self, question: PassQuestion, pod: Pod, pool: NodePool, classes: NodeClassChanges) -> None:
        super().__init__(pool.name, pod, classes.gates)
        self._question, self._pool, self._classes = question, pool, classes
        self._types = question.situation.types.get(pool.name, ())

    @contextmanager
    def changed(self, edits: Sequence[ObjectEdit]) -> Iterator[PassQuestion]:
        """Return the question with changes; those of settings are of the types."""
        types = self._types
        for edit in edits:
            types = edit.change(types) if edit.about is None else types
            types = self._classes.types_after(edit, self._pool) if edit.about in NODE_CLASSES else types
        question = self._question.about(self._pod, self._pool, types)
        yield replace(question, stored=edited(question.stored, edits, self._pod.key))

    def _claim(self, *edits: ObjectEdit) -> NewClaim | None:
        """The claim that is made for the pod after changes."""
        with self.changed(edits) as question:
            return self._made(question)

    def _made(self, question: PassQuestion) -> NewClaim | None:
        return next((claim for claim in question.answer().claims if self._pod.key in claim.pods), None)

    def _gain(self, question: PassQuestion) -> dict[str, str]:
        claim = self._made(question)
        return {} if claim is None else {"node": _kind(claim)}

    def reason(self) -> str:
        """Return why the pool makes no node for the pod without one; "" if it makes one by itself."""
        if idle := why_idle(self._pool):
            return f"it makes no nodes for pods: {idle}"
        if not self._types:
            return "it has no instance types"
        answer, key = self._question.about(self._pod, self._pool, self._types).answer(), self._pod.key
        return answer.errors[key].text if key in answer.errors else answer.ignored.get(key, "")

    def changes(self) -> Iterator[HelpfulChange]:
        """Yield the changes that help."""
        pool = self._pool
        if why_idle(pool) or not self._types:
            return
        of_class = [each for change in self._classes.of(pool, self._types) for each in self._tried(change)]
        yield from of_class
        yield from self._sizes(has_disk=any(each.kind == Kind.TYPE for each in of_class))
        for change in changes_for_new_node(self._pod, pool.spec.template.spec.taints):
            yield from self._tried(change)
        for at, requirement in enumerate(pool.spec.template.spec.requirements or ()):
            yield from self._wider(at, requirement)
        for key, value in (self._pod.spec.node_selector or {}).items():
            label = self._of_pool("spec.template.metadata.labels", {key: value}.__ror__)
            yield from self._try(Kind.POOL, f"add the label {key}={value} to the pool", label)
        yield from self._higher_limits()
        yield from self.without_daemons()
        if any(not offering.available for kind in self._types for offering in kind.offerings):
            every = of_settings(lambda types: [*map(_available, types)])
            yield from self._try(Kind.OFFERINGS, "wait for offerings that are not available", every)

    def _of_pool(self, path: str, change: Callable[[Any], Any]) -> ObjectEdit:
        return ObjectEdit(NodePool, self._pool.key, partial(changed_field, path=path, change=change))

    def _sizes(self, has_disk: bool) -> Iterator[HelpfulChange]:
        """Try smaller requests: each alone, else all of them; and a larger type, unless a larger disk is all
        that it takes."""
        names = list(asked_by(self._pod, self._gates))
        helped = [each for name in names for each in self._smaller(name)]
        yield from helped
        claim = self._claim(*(of_pod(partial(drop_request, resource=name)) for name in names))
        if claim is None:
            return
        kind, lacking = self._largest(claim, names)
        if not lacking or (has_disk and {*lacking} == {STORAGE}):
            return
        if not helped and len(lacking) > 1:
            yield from self._all_smaller(kind, claim, lacking)
        have = kind.capacity
        capacity = {**have, **{name: have.get(name, _NOTHING) + amount for name, amount in lacking.items()}}
        amounts = ", ".join(f"{name} {offered(name, whole(name, capacity[name]))}" for name in lacking)
        types = [replace(kind, capacity=capacity) if other is kind else other for other in self._types]
        change = HelpfulChange(
            Kind.TYPE, f"a type like {kind.name}, but with {amounts}", (of_settings(lambda _: types),)
        )
        yield from (structs.replace(each, node="") for each in self._tried(change))

    def _smaller(self, name: str) -> Iterator[HelpfulChange]:
        """Try the largest request of a resource that a type leaves room for."""
        claim = self._claim(of_pod(partial(drop_request, resource=name)))
        for room in [] if claim is None else _rooms(name, claim, self._types)[:MOST_AMOUNTS]:
            for change in lowered(self._pod, name, room, self._gates):
                helped = [*self._tried(change)]
                yield from helped
                if helped:
                    return

    def _all_smaller(
        self, kind: InstanceType, claim: NewClaim, lacking: Iterable[str]
    ) -> Iterator[HelpfulChange]:
        """Try requests that all fit the largest type."""
        rooms = {name: whole(name, _room(kind, claim, name)) for name in lacking}
        smaller = [[*lowered(self._pod, name, room, self._gates)] for name, room in rooms.items()]
        if all(smaller):
            yield from self._tried(reduce(both, chain.from_iterable(smaller)))

    def _largest(self, claim: NewClaim, names: Iterable[str]) -> tuple[InstanceType, dict[str, Quantity]]:
        """The type of a claim that lacks least for the pod, and what it lacks."""
        allowed, requests = {kind.name for kind in claim.types}, asked_by(self._pod, self._gates)
        lacks: list[tuple[float, int, InstanceType, dict[str, Quantity]]] = []
        for kind in (kind for kind in self._types if kind.name in allowed):
            lacking = {name: requests[name] - _room(kind, claim, name) for name in names}
            if "memory" in lacking:  # of which pages are taken
                pages = [lacking[name] for name in names if name.startswith("hugepages-")]
                lacking["memory"] = sum((each for each in pages if each.sign() > 0), lacking["memory"])
            lacking = {name: each for name, each in lacking.items() if each.sign() > 0}
            parts = sum(
                whole(name, each) / max(whole(name, requests[name]), 1) for name, each in lacking.items()
            )
            lacks.append((parts, len(lacks), kind, lacking))
        _, _, kind, lacking = min(lacks, key=lambda each: each[:2])
        return kind, lacking

    def _wider(self, at: int, requirement: NodeClaimRequirement) -> Iterator[HelpfulChange]:
        """Try the pool without a requirement; tell the value that it would have to allow."""
        key = requirement.key

        def gain_of(question: PassQuestion) -> dict[str, str]:
            claim, gain = self._made(question), self._gain(question)
            if claim is not None and claim.launched is not None:
                labels = launched_node("", self._pool, *claim.launched[:2], {}, {}).metadata.labels
                if value := labels.get(key):
                    gain["text"] = f"allow {key} {value} in the pool"
            return gain

        edit = self._of_pool("spec.template.spec.requirements", lambda its: its[:at] + its[at + 1 :])
        text = f"drop the requirement on {key} of the pool"
        yield from tried(self, HelpfulChange(Kind.POOL, text, (edit,)), gain_of)

    def _higher_limits(self) -> Iterator[HelpfulChange]:
        limits, free = self._pool.spec.limits, self._of_pool("spec.limits", lambda its: {})
        claim = self._claim(free) if limits else None
        if claim is None or claim.launched is None:
            return
        nodes = [node for node in self._question.stored[Node] if isinstance(node, Node)]
        own = [node.status.capacity for node in nodes if node.metadata.labels.get(POOL) == self._pool.name]
        capacity = {"nodes": Quantity("1"), **claim.launched.kind.capacity}
        raised = {}
        for name, limit in limits.items():
            used = [Quantity(each[name]) for each in own if name in each]
            needed = sum(used, capacity.get(name, _NOTHING)) if name != "nodes" else Quantity(len(own) + 1)
            if needed > Quantity(limit):
                raised[name] = str(needed)
        text = ", ".join(f"{name} from {limits[name]} to {amount}" for name, amount in raised.items())
        edit = self._of_pool("spec.limits", lambda its: {**its, **raised})
        text = f"raise the limit of {text}, enough for this pod alone"
        helped = [*self._try(Kind.LIMIT, text, edit)] if raised else []
        yield from helped or self._try(Kind.LIMIT, "raise the limits of the pool", free)

    def without_daemons(self) -> Iterator[HelpfulChange]:
        """Yield the DaemonSets without each of which the pool makes a node for the pod, with what they take
        of it that the pod asks for."""
        sets = [each for each in self._question.stored[DaemonSet] if isinstance(each, DaemonSet)]
        for daemon in sets[:MOST_DAEMONS]:
            amounts = taken_by(daemon, self._pod, self._gates).items()
            taken = ", ".join(f"{name} {offered(name, whole(name, each))}" for name, each in amounts)
            text = f"keep DaemonSet {daemon.key} ({taken} of each node) off the nodes"
            yield from self._try(Kind.DAEMONS, text, ObjectEdit(DaemonSet, daemon.key, gone))


def taken_by(daemon: DaemonSet, pod: Pod, gates: PodGates) -> dict[str, Quantity]:
    """Return what a DaemonSet takes of a node of that for which a pod asks."""
    requested = asked_by(pod, gates)
    amounts = asked_by(Pod(metadata=daemon.metadata, spec=daemon.spec.template.spec), gates)
    return {name: amount for name, amount in amounts.items() if name in requested}


def _available(kind: InstanceType) -> InstanceType:
    """A type with all its offerings available."""
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
    """The node that comes for a claim, and its price."""
    if claim.launched is None:
        return "of no offering that could be launched"
    return f"{claim.launched.named}, {nodes_price([claim.launched])}"


# ---- pool facts --------------------------------------------------------------------------------------------
# Facts that decide which pool new nodes are of: pools that come first, limits of nodes, and DaemonSets.

MOST_POOLS, MOST_TEXT = 2, 200
"""Of how many pools before the one that makes nodes it is told why they make none, and how long that is."""


class PoolFacts:
    """What decided about the nodes of an answer, in the cluster that has them."""

    def __init__(self, scheduler: PodScheduler, autoscaling: AutoscalerSettings, up: ScaleUp) -> None:
        self._scheduler, self._autoscaling, self._up = scheduler, autoscaling, up
        self._gates = scheduler.cache.state.classes.gates
        self._pools = by_weight(stored_pools(scheduler.client))

    def _trial(self, pod: Pod, pool: NodePool) -> NodePoolTrial:
        classes = NodeClassChanges(self._autoscaling.types, self._scheduler.client, pod, self._gates)
        return NodePoolTrial(self._question, pod, pool, classes)

    @cached_property
    def _question(self) -> PassQuestion:
        return PoolScaler(self._scheduler, self._autoscaling).question([])

    def lines(self) -> Iterator[str]:
        """Yield a line for each fact."""
        yield from self._earlier_pools()
        yield from self._limits()
        yield from self._domains()
        yield from self._daemons()
        yield from room_kept(self._question.view())

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
        return shorten(self._trial(waiting, pool).reason(), MOST_TEXT)

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

    def _domains(self) -> Iterator[str]:
        """Which domains a spread counts although no type is offered there, or the pool that names them makes
        no node for the pod."""
        first = next((pod for pod in self._up.waiting if KARPENTER in pod.refusals), None)
        if first is None or "topology spread" not in (reason := first.refusals[KARPENTER]):
            return
        question = self._question
        pods = (pod for pod in question.stored[Pod] if isinstance(pod, Pod))
        pod = next(pod for pod in pods if pod.key == first.pod)
        types = chain.from_iterable(question.situation.types.values())
        offered_in = {offering.zone for kind in types for offering in kind.offerings}
        keys = {each.topology_key: None for each in pod.spec.topology_spread_constraints}
        for key, pool in product([key for key in keys if f"key={key} " in reason], self._pools):
            named = CORE.values_of(key, pool.spec.template.spec.requirements or ())
            counted = {value for value in named if f" {value}: " in reason}
            closed = counted - offered_in if key == ZONE else set()
            for zone in sorted(closed):
                yield (
                    f"Zone {zone} comes from NodePool {pool.name}, which names it: the spread counts it, "
                    "but no type is offered there"
                )
            if counted - closed and self._trial(pod, pool).reason():
                yield (
                    f"{key} {examples(sorted(counted - closed), 3)} are of NodePool {pool.name}, which makes "
                    f"no node for {pod.key}: the spread counts them, whatever nodeAffinityPolicy says"
                )

    def _daemons(self) -> Iterator[str]:
        """Which DaemonSets take the room of the first pod that Karpenter refuses."""
        refused = [pod.pod for pod in self._up.waiting if KARPENTER in pod.refusals]
        if not refused or not self._scheduler.client.list(DaemonSet)[0]:
            return
        question = self._question
        pod = next(pod for pod in question.stored[Pod] if isinstance(pod, Pod) and pod.key == refused[0])
        unhelped = False
        for pool in self._pools:
            trial = self._trial(pod, pool)
            if why_idle(pool) or not trial.reason():
                continue
            changes = [*trial.without_daemons()]
            for change in changes:
                yield f"NodePool {pool.name} would make a node for {pod.key} if you {change.text}"
            unhelped |= not changes
        if unhelped:
            yield from self._shared(pod)

    def _shared(self, pod: Pod) -> Iterator[str]:
        """Which devices of each node DaemonSets take beside a pod."""
        for daemon in self._scheduler.client.list(DaemonSet)[0]:
            for name, amount in taken_by(daemon, pod, self._gates).items():
                if "/" in name:
                    amounts = f"{offered(name, whole(name, amount))} of {name}"
                    yield f"DaemonSet {daemon.key} takes {amounts} of each node, beside {pod.key}"
