"""Facts that decide which pool or group new nodes are of: pools that come first, limits of nodes, DaemonSets,
and what templates lack."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice, product

from moorage.autoscalers.autoscaler_protocol import AutoscalerSettings
from moorage.autoscalers.judge import Judge
from moorage.autoscalers.karpenter.claim_template import why_idle
from moorage.autoscalers.karpenter.provisioning import room_kept
from moorage.autoscalers.karpenter.short_refusals import short_refusal
from moorage.autoscalers.node_class_changes import NO_ZONE
from moorage.autoscalers.pool_refusals import NodePoolTrial, limited_amounts, taken_by
from moorage.autoscalers.providers.instance_type import ZONE
from moorage.autoscalers.providers.known_labels import CORE
from moorage.autoscalers.scale_up_answer import CLUSTER_AUTOSCALER, KARPENTER, ScaleUp
from moorage.cluster import PodScheduler
from moorage.cluster.amounts import offered
from moorage.errors import either, examples, shorten
from moorage.kube import DaemonSet, Node, Pod, Quantity
from moorage.kube.model.meta import whole

MOST_POOLS, MOST_TEXT = 2, 200
"""Of how many pools before the one that makes nodes it is told why they make none, and how long that is."""


class PoolFacts:
    """What decided which pool or group the nodes of an answer are of, in the cluster that has them."""

    def __init__(self, scheduler: PodScheduler, autoscaling: AutoscalerSettings, up: ScaleUp) -> None:
        self._judge, self._scheduler, self._up = Judge(scheduler, autoscaling), scheduler, up

    def of_pools(self) -> Iterator[str]:
        """Yield a line for each fact about NodePools."""
        yield from self._earlier_pools()
        yield from self._limits()
        yield from self._domains()
        yield from self._zones()
        yield from self._around_pod()
        yield from room_kept(self._judge.question.view())

    def of_groups(self) -> Iterator[str]:
        """Yield which empty groups would get a node for the first pod that waits with a label or amount
        more."""
        refused = next((pod.pod for pod in self._up.waiting if CLUSTER_AUTOSCALER in pod.refusals), None)
        for trial in self._judge.groups(refused) if refused else ():
            if text := trial.lacking():
                yield f"node group {trial.name} has no node, and its template lacks {text}, for {refused}"

    def _earlier_pools(self) -> Iterator[str]:
        """Why the nodes are not of a pool that is asked before theirs."""
        new = [node for node in self._up.nodes if node.by == KARPENTER and node.pods]
        if not new:
            return
        used = {node.pool for node in self._up.nodes}
        pools = self._judge.question.pools
        order = [pool.name for pool in pools]
        first = max(new, key=lambda node: order.index(node.pool))
        at = order.index(first.pool)
        earlier = self._judge.pools(first.pods[0])[:at]
        reasons = ((each.pool, why) for each in earlier if (why := self._why_not(each, each.name in used)))
        for pool, reason in islice(reasons, MOST_POOLS):
            yield f"NodePool {pool.name} of weight {pool.spec.weight or 0} makes {reason}"
        weights = [pool.spec.weight or 0 for pool in pools]
        later = [order[place] for place in range(at + 1, len(order)) if weights[place] == weights[at]]
        if unused := [name for name in later if name not in used]:
            names = either(unused[:3]) if len(unused) <= 3 else f"{len(unused)} others"
            yield f"NodePool {first.pool} comes before {names} of equal weight: the last name is asked first"

    def _why_not(self, trial: NodePoolTrial, is_used: bool) -> str:
        """Why a pool makes no node for a pod that has one of a later pool; "" if that is not known. A pool
        that is used refuses it for more than its labels and taints: for a limit, or for preferences."""
        about = f"node for {trial.pod.key}"
        reason = why_idle(trial.pool) or trial.reason()
        if not reason:
            given_up = "only without its preferences, with which Karpenter asks every pool first"
            return f"a {about} {given_up}" if trial.gives_up_preferences else ""
        for change in trial.higher_limits():
            return f"no {about} unless you {change.text}"
        return "" if is_used else f"no {about}: {shorten(short_refusal(reason), MOST_TEXT)}"

    def _limits(self) -> Iterator[str]:
        """Which pools have more nodes than their limit."""
        nodes: list[Node] = self._scheduler.client.list(Node)[0]
        used = {node.pool for node in self._up.nodes}
        for pool in self._judge.question.pools:
            limit = pool.spec.limits.get("nodes")
            if limit is None or pool.name not in used:
                continue
            count = limited_amounts(pool, nodes)["nodes"]
            if count > Quantity(limit):
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
        trials = self._judge.pools(first.pod)
        types = chain.from_iterable(self._judge.question.situation.types.values())
        offered_in = {offering.zone for kind in types for offering in kind.offerings}
        keys = {each.topology_key: None for each in trials[0].pod.spec.topology_spread_constraints}
        for key, trial in product([key for key in keys if f"key={key} " in reason], trials):
            pool = trial.pool
            named = CORE.values_of(key, pool.spec.template.spec.requirements or ())
            counted = {value for value in named if f" {value}: " in reason}
            closed = counted - offered_in if key == ZONE else set()
            for zone in sorted(closed):
                yield (
                    f"Zone {zone} comes from NodePool {pool.name}, which names it: the spread counts it, "
                    "but no type is offered there"
                )
            if counted - closed and trial.reason():
                yield (
                    f"{key} {examples(sorted(counted - closed), 3)} are of NodePool {pool.name}, which makes "
                    f"no node for {first.pod}: the spread counts them, whatever nodeAffinityPolicy says"
                )

    def _zones(self) -> Iterator[str]:
        """That the first pod that Karpenter refuses asks for several zones."""
        first = next((pod for pod in self._up.waiting if KARPENTER in pod.refusals), None)
        if first is not None and NO_ZONE in first.refusals[KARPENTER]:
            yield from self._judge.pools(first.pod)[0].classes.zones_apart()

    def _around_pod(self) -> Iterator[str]:
        """Which limits and DaemonSets keep nodes from the first pod that Karpenter refuses."""
        refused = [pod.pod for pod in self._up.waiting if KARPENTER in pod.refusals]
        unhelped: Pod | None = None
        for trial in self._judge.pools(refused[0]) if refused else ():
            if why_idle(trial.pool) or not trial.reason():
                continue
            changes = [*trial.around_pod()]
            for change in changes:
                yield f"NodePool {trial.name} would make a node for {refused[0]} if you {change.text}"
            if not changes:
                unhelped = trial.pod
        if unhelped is not None:
            yield from self._shared(unhelped)

    def _shared(self, pod: Pod) -> Iterator[str]:
        """Which devices of each node DaemonSets take beside a pod."""
        for daemon in self._scheduler.client.list(DaemonSet)[0]:
            for name, amount in taken_by(daemon, pod, self._scheduler.cache.state.classes.gates).items():
                if "/" in name:
                    amounts = f"{offered(name, whole(name, amount))} of {name}"
                    yield f"DaemonSet {daemon.key} takes {amounts} of each node, beside {pod.key}"
