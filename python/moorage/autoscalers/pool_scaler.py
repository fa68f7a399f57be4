"""Karpenter over the cluster of a scheduler: what its passes are asked, and the nodes that they add."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from moorage.cluster import PodScheduler
from moorage.cluster.given_objects import pods_of
from moorage.engine.scheduler.options import check_sequence
from moorage.errors import examples
from moorage.kube import Node, NodePool, Object, Pod
from moorage.kube.model.autoscaling import CapacityBuffer, KarpenterSettings
from moorage.kube.model.cluster import now_of
from moorage.kube.read.python_values import Source

from .autoscaler_protocol import AutoscalerSettings, LastPass, Made, RoundDecision
from .karpenter.claim_template import by_weight, idle_pools, shortage_of_all
from .karpenter.cluster_view import KINDS, NO_POOLS, ClusterObjects, ClusterView, PassInput
from .karpenter.karpenter_options import KarpenterOptions, karpenter_flags, settings_in
from .karpenter.new_nodes_result import NewClaim, Provisioning
from .karpenter.pod_validation import in_short
from .karpenter.provisioning import check_type, stored_pools
from .launched_nodes import claim_and_node
from .node_maker import NodeMaker
from .providers.instance_type import INSTANCE_TYPE, POOL, InstanceType
from .providers.launchers import launched
from .providers.pool_types import KINDS as SOURCES
from .providers.pool_types import stored_types
from .scale_up_answer import KARPENTER


@dataclass(frozen=True)
class PassQuestion:
    """What a pass is asked: the objects of a scheduler's store, the pods, and types by pool."""

    stored: dict[type[Object], list[Object]]
    situation: PassInput
    options: KarpenterOptions
    last: LastPass
    source: str = ""
    notes: tuple[str, ...] = ()

    @property
    def pools(self) -> list[NodePool]:
        """The pools of the cluster, in the order in which Karpenter asks them."""
        return by_weight(pool for pool in self.stored[NodePool] if isinstance(pool, NodePool))

    def view(self) -> ClusterView:
        """The cluster as Karpenter sees it."""
        objects = ClusterObjects(chain.from_iterable(self.stored.values()))
        earlier = self.last.view
        if earlier is not None and earlier.options != self.options:
            earlier = None
        self.last.view = view = ClusterView(objects, self.situation, self.options, earlier=earlier)
        return view

    def answer(self) -> Provisioning:
        """Play the pass."""
        return self.view().provisioning

    def about(self, pod: Pod, pool: NodePool, types: Sequence[InstanceType]) -> PassQuestion:
        """The question whether one pool makes a node for one pod; both may have changed."""
        pods = [pod if other.key == pod.key else other for other in self.stored[Pod]]
        stored = self.stored | {Pod: pods, NodePool: [pool], CapacityBuffer: []}
        chosen, by_pool = frozenset([pod.key]), {pool.name: types}
        situation = replace(self.situation, types=by_pool, chosen=chosen, only_new=True)
        return replace(self, stored=stored, situation=situation).in_rounds()

    def in_rounds(self) -> PassQuestion:
        """The question what comes of the pass and those that follow it while nothing else changes."""
        return replace(self, situation=replace(self.situation, redraws=True))


class PoolScaler:
    """Karpenter over the cluster of a scheduler.

    Parameters
    ----------
    past_names : set of str, optional
        Names that no node gets, to which it adds those that it has seen.

    Attributes
    ----------
    now : float or None
        Its clock, in seconds since 1970; None for when the newest object came.
    marked : frozenset of str
        Nodes that it is about to remove.
    nominated : frozenset of str
        Nodes on which pods are expected that wait.
    """

    name = KARPENTER

    def __init__(
        self, scheduler: PodScheduler, autoscaling: AutoscalerSettings, past_names: set[str] | None = None
    ) -> None:
        check_type("options", autoscaling.options, KarpenterOptions)
        self.scheduler, self.client, self.autoscaling = scheduler, scheduler.client, autoscaling
        self._past_names = set[str]() if past_names is None else past_names
        self.now: float | None = None
        self.marked = self.nominated = frozenset[str]()

    def question(self, pods: Sequence[Source] | None) -> PassQuestion:
        """What a pass would be asked about pods as for `Questions.provision`. Types that a question before
        with these settings was about are not read again."""
        if pods is not None:
            check_sequence(pods)
        self.scheduler.sync()
        autoscaling, last, client = self.autoscaling, self.autoscaling.last, self.client
        stored: dict[type[Object], list[Object]] = {kind: list(client.list(kind)[0]) for kind in KINDS}
        pools = [*stored_pools(client)]
        stored[NodePool] = [*pools]
        waiting: Sequence[Object] = stored[Pod]
        if pods is not None:
            known = {pod.key: pod for pod in stored[Pod]}  # a file of that name is not looked for
            waiting = pods_of(client, [known.get(pod, pod) if isinstance(pod, str) else pod for pod in pods])
            stored[Pod] += [pod for pod in waiting if pod.key not in known]
        chosen = frozenset(
            pod.key
            for pod in waiting
            if isinstance(pod, Pod) and not (pod.spec.node_name or pod.spec.scheduling_gates)
        )
        kinds: tuple[type[Object], ...] = (Node, *SOURCES)
        sources: list[object] = [autoscaling.types, *(client.list(kind)[0] for kind in kinds)]
        if last.types is None or last.sources != sources:
            last.sources, last.types = sources, stored_types(autoscaling.types, client)
        types = last.types
        flags = autoscaling.options or karpenter_flags(settings_in(client.list(KarpenterSettings)[0]))
        flags = flags.without(self.scheduler.context.lost_domains)
        options = replace(flags, seed=autoscaling.seed, provider=flags.provider | types.provider)
        now = now_of(chain.from_iterable(stored.values())) if self.now is None else self.now
        gone = [pool.name for pool in pools if shortage_of_all(pool, flags.unavailable)]
        by_pool = {name: () if name in gone else kinds for name, kinds in types.by_pool.items()}
        situation = PassInput(by_pool, now, self.marked, chosen, nominated=self.nominated, launcher=launched)
        return PassQuestion(stored, situation, options, last, types.source, types.notes)

    def decide(self, pods: Sequence[str]) -> RoundDecision:
        """Decide which nodes come for pods, given by key."""
        question = self.question(pods)
        answer = question.in_rounds().answer()
        idle = idle_pools(question.pools)
        claims = [claim for claim in answer.claims if claim.launched is not None]
        refused = {
            key: f"{error.text} ({idle})" if error.text == NO_POOLS and idle else error.text
            for key, error in answer.errors.items()
        }
        refused |= {key: in_short(text) for key, text in answer.ignored.items()}
        for claim in answer.claims:
            if claim.launched is None:
                refused |= dict.fromkeys(claim.pods, unlaunched(claim, question.situation.types[claim.pool]))
        planned = frozenset(key for claim in claims for key in claim.pods)
        plan = frozenset(
            (claim.pool, claim.pods, *claim.requests.items(), *[of_type.name for of_type in claim.types])
            for claim in claims
        )
        make = partial(self.make, claims) if claims else None
        room = {pod.key for pod in question.last.view.buffers[0]} if question.last.view is not None else set()
        pools, existing = answer.pools, [name for name, keys in answer.existing.items() if {*keys} - room]
        return RoundDecision(KARPENTER, planned, refused, make, pools, plan, existing)

    def make(self, claims: Iterable[NewClaim], turn: int) -> Made:
        """Create the nodes of claims, as they are once they are ready, and the claims. Their drivers, and so
        how many volumes they take, are those of a node of their pool and type, if there is one."""
        client, likes = self.client, dict[tuple[str | None, ...], Node]()
        maker = NodeMaker(self.scheduler, turn, self._past_names)
        pools: dict[str, NodePool] = {pool.name: pool for pool in client.list(NodePool)[0]}
        for node in client.list(Node)[0]:
            likes.setdefault(_pool_and_type(node), node)
        for claim in claims:
            assert claim.launched is not None
            pool = pools[claim.pool]
            nodes_claim, node = claim_and_node(claim, maker.names.new(pool.name, pool.name), pool)
            maker.objects.append(nodes_claim)
            like = likes.get(_pool_and_type(node))
            maker.add(node, like, pool.name, claim.launched.cost, KARPENTER, claim.launched.choice)
        return maker.create()


def unlaunched(claim: NewClaim, types: Iterable[InstanceType]) -> str:
    """Return why no instance comes of a claim that Karpenter makes all the same."""
    names = {each.name for each in claim.types}
    imageless = [
        kind.name
        for kind in types
        if kind.name in names and any(each.available and not each.may_come for each in kind.offerings)
    ]
    why = f"no type of NodePool {claim.pool} can be launched"
    if len(imageless) == len(names):
        why = f"the node class of NodePool {claim.pool} has no image for {examples(imageless, 3)}"
    return f"a NodeClaim is made in vain: {why}"


def _pool_and_type(node: Node) -> tuple[str | None, ...]:
    return tuple(map(node.metadata.labels.get, (POOL, INSTANCE_TYPE)))
