"""Facts that decide which pool new nodes are of: pools that come first, limits of nodes, and DaemonSets."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from msgspec import structs

from moorage.cluster import PodScheduler
from moorage.engine.framework.evidence import offered
from moorage.engine.requirements import whole
from moorage.errors import either, shorten
from moorage.kube import DaemonSet, Node, NodePool, Pod, Quantity

from .instance_types.labels import POOL, ZONE
from .instance_types.node_class_states import stored_pools
from .karpenter.claims.claim_template import by_weight, why_idle
from .pending_provisioning import PassQuestion, pass_question
from .pool_refusals import daemon_remedies, pool_reason, taken_by
from .providers.registrations import CORE
from .scale_up_answer import KARPENTER, ScaleUp
from .scalers import Growth

MOST_POOLS, MOST_TEXT = 2, 200
"""Of how many pools before the one that makes nodes it is told why they make none, and how long that is."""


class PoolFacts:
    """What decided about the nodes of an answer, in the cluster that has them."""

    def __init__(self, scheduler: PodScheduler, growth: Growth, up: ScaleUp) -> None:
        self._scheduler, self._growth, self._up = scheduler, growth, up
        self._pools = by_weight(stored_pools(scheduler.client))

    @cached_property
    def _question(self) -> PassQuestion:
        growth = self._growth
        return pass_question(self._scheduler, [], growth.types, growth.options, growth.seed)

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
        for pool in [one for one in self._pools[:at] if one.name not in used][:MOST_POOLS]:
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
        pod = next(one for one in self._question.stored[Pod] if isinstance(one, Pod) and one.key == key)
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
        reasons = [one.refusals[KARPENTER] for one in self._up.waiting if KARPENTER in one.refusals]
        if not reasons:
            return
        types = self._question.situation.types.values()
        offered_in = {one.zone for each in types for kind in each for one in kind.offerings}
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
        refused = [one.pod for one in self._up.waiting if KARPENTER in one.refusals]
        if not refused or not self._scheduler.client.list(DaemonSet)[0]:
            return
        question, gates = self._question, self._scheduler.cache.state.classes.gates
        pod = next(one for one in question.stored[Pod] if isinstance(one, Pod) and one.key == refused[0])
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
