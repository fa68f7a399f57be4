"""Autoscalers and kube-scheduler in turns: nodes come, and the scheduler decides which pods run there."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import Struct, structs

from moorage.cluster import PodScheduler
from moorage.cluster.change import with_own_uids
from moorage.cluster.node_changes import NodeCopies
from moorage.engine.scheduler import ScheduleResult
from moorage.kube import Node, NodePool, Object, Pod
from moorage.kube.apiserver.validate_object import validate
from moorage.kube.model.cluster import now_of
from moorage.kube.model.workload import DaemonSet
from moorage.kube.read.object_defaults import defaults

from .cluster_autoscaler.cluster_autoscaler import ClusterAutoscaler
from .cluster_autoscaler.flags import Memory
from .cluster_autoscaler.group_states import STABLE, TEMPLATE_LABEL, NodeTemplate, is_daemon_pod
from .cluster_autoscaler.pods_to_help import is_expendable, scale_up_delay
from .cluster_autoscaler.scale_up_pass import ScaleUpResult, first
from .group_settings import (
    GroupSettings,
    NodeGroup,
    checked_groups,
    flags_of,
    group_by_node,
    groups_of,
    nodes_of_groups,
)
from .karpenter.claim_template import idle_pools
from .karpenter.karpenter_options import KarpenterOptions
from .karpenter.new_nodes_result import NewClaim
from .karpenter.provisioning import NO_POOLS, check_type, pass_question
from .launched_nodes import claim_and_node, new_name
from .providers.instance_type import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    POOL,
    ZONE,
    Shortage,
    is_short,
    node_offered_as,
)
from .providers.pool_types import ProvidedTypes, Types
from .providers.prices import prices_by
from .scale_up_answer import (
    CLUSTER_AUTOSCALER,
    KARPENTER,
    MOST_ROUNDS,
    LatePod,
    NewNode,
    ScaleUp,
    UnplacedPod,
)

# ---- what autoscalers do in a round: the nodes they make for pods that wait, and why others get none -------

NOT_TRIGGERED = "pod didn't trigger scale-up"


@dataclass(frozen=True)
class AutoscalerSettings:
    """What autoscalers work with: types as for `Scheduler.provision`, flags of Karpenter, a seed, names
    that no node gets, and the checked node groups of cluster-autoscaler."""

    types: Types | None = None
    options: KarpenterOptions | None = None
    seed: int = 0
    past_names: frozenset[str] = frozenset()
    groups: GroupSettings | None = None

    def without(self, label: str, values: Collection[str]) -> AutoscalerSettings:
        """The same where nothing can be launched with some values of a label: a zone that is lost."""
        if self.groups is not None:
            kept = [_without_template(node_group, label, values) for node_group in self.groups.node_groups]
            self = replace(self, groups=structs.replace(self.groups, node_groups=kept))
        if label not in (ZONE, CAPACITY_TYPE, INSTANCE_TYPE):
            return self
        options = self.options or KarpenterOptions()
        unavailable = (*options.unavailable, *(frozenset([value]) for value in values))
        return replace(self, options=replace(options, unavailable=unavailable))


def _without_template(group: NodeGroup, label: str, values: Collection[str]) -> NodeGroup:
    template = group.template
    is_lost = template is not None and template.metadata.labels.get(label) in values
    return structs.replace(group, template=None) if is_lost else group


Made = tuple[dict[str, NewNode], list[Object]]
"""New nodes by name, and what was created for them."""


class RoundDecision(NamedTuple):
    """What an autoscaler does in a round.

    Attributes
    ----------
    planned : frozenset of str
        The pods that it has a place for on new nodes.
    refused : dict of str to str
        Its text about each pod that it makes no node for.
    make : callable or None
        Makes the nodes, given the number of the round; None where none come.
    pools : dict of str to str
        Pools without an instance type.
    plan : hashable
        Equal for decisions to make equal nodes for equal pods.
    """

    by: str
    planned: frozenset[str]
    refused: Mapping[str, str]
    make: Callable[[int], Made] | None
    pools: dict[str, str] = {}
    plan: Hashable = None


def autoscalers(
    scheduler: PodScheduler, autoscaling: AutoscalerSettings
) -> dict[str, Callable[[Sequence[str]], RoundDecision]]:
    """Return the autoscalers of a cluster by name: Karpenter where it has NodePools, or nothing else could
    decide, and cluster-autoscaler where node groups are known."""
    deciders: dict[str, Callable[[Sequence[str]], RoundDecision]] = {}
    if autoscaling.groups is None or scheduler.client.list(NodePool)[0]:
        deciders[KARPENTER] = lambda pods: _of_karpenter(scheduler, autoscaling, pods)
    if autoscaling.groups is not None:
        deciders[CLUSTER_AUTOSCALER] = GroupScaler(scheduler, autoscaling, autoscaling.groups).decide
    return deciders


def _of_karpenter(
    scheduler: PodScheduler, autoscaling: AutoscalerSettings, pods: Sequence[str]
) -> RoundDecision:
    question = pass_question(scheduler, pods, autoscaling.types, autoscaling.options, autoscaling.seed)
    answer = question.answer()
    idle = idle_pools(question.pools)
    claims = [claim for claim in answer.claims if claim.launched is not None]
    refused = {
        key: f"{error.text} ({idle})" if error.text == NO_POOLS and idle else error.text
        for key, error in answer.errors.items()
    }
    planned = frozenset(key for claim in claims for key in claim.pods)
    plan = frozenset(
        (claim.pool, claim.pods, *claim.requests.items(), *[of_type.name for of_type in claim.types])
        for claim in claims
    )

    def make(turn: int) -> Made:
        return make_nodes(scheduler, claims, turn, autoscaling.past_names)

    return RoundDecision(
        KARPENTER, planned, refused | answer.ignored, make if claims else None, answer.pools, plan
    )


def make_nodes(
    scheduler: PodScheduler, claims: Iterable[NewClaim], turn: int, past_names: Collection[str] = ()
) -> Made:
    """Create the nodes of claims, as they are once they are ready, and the claims. Their drivers, and so how
    many volumes they take, are those of a node of their pool and type, if there is one."""
    scheduler.sync()
    pools: dict[str, NodePool] = {pool.name: pool for pool in scheduler.client.list(NodePool)[0]}
    taken = _taken_names(scheduler, past_names)
    copies, likes = NodeCopies(scheduler.client), dict[tuple[str | None, ...], Node]()
    for node in scheduler.client.list(Node)[0]:
        likes.setdefault(_pool_and_type(node), node)
    new, new_nodes = list[Object](), dict[str, NewNode]()
    serials = dict[str, int]()
    for claim in claims:
        assert claim.launch is not None
        assert claim.launched is not None
        name = new_name(serials, claim.pool, f"{claim.pool}-{{}}".format, taken.__contains__)
        taken.add(name)
        new_nodes[name] = NewNode(
            name, claim.pool, *claim.launch[:3], claim.price, turn, is_bound=claim.launched[1].is_bound
        )
        nodes_claim, node = claim_and_node(claim, name, pools[claim.pool])
        new += [nodes_claim, node]
        if (like := likes.get(_pool_and_type(node))) is not None:
            new += copies.parts(like, node)
    return new_nodes, create(scheduler, new)


def _pool_and_type(node: Node) -> tuple[str | None, ...]:
    return tuple(map(node.metadata.labels.get, (POOL, INSTANCE_TYPE)))


def _taken_names(scheduler: PodScheduler, past_names: Collection[str]) -> set[str]:
    return {node.name for node in scheduler.client.list(Node)[0]} | {*past_names}


def create(scheduler: PodScheduler, new: Iterable[Object]) -> list[Object]:
    """Create objects with their defaults; return these."""
    objects = [*chain.from_iterable(defaults([each]) for each in new)]
    for each in objects:
        validate(each)
    for each in with_own_uids(scheduler.client, objects):
        scheduler.client.create(each)
    scheduler.sync()
    return objects


class GroupScaler:
    """cluster-autoscaler in rounds. Its loops follow one another until none of them adds nodes, and the nodes
    of all of them are there together: real ones take longer than a loop to join."""

    def __init__(
        self, scheduler: PodScheduler, autoscaling: AutoscalerSettings, settings: GroupSettings
    ) -> None:
        self._scheduler, self._autoscaling, self.settings = scheduler, autoscaling, settings
        self.groups = {node_group.name: node_group for node_group in settings.node_groups}
        self.flags = replace(flags_of(settings), scale_down_enabled=False)

    def decide(self, pods: Sequence[str]) -> RoundDecision:
        """Decide which nodes come for pods, given by key."""
        known = {pod.key: pod for pod in self._scheduler.client.list(Pod)[0]}
        waiting = [known[key] for key in pods]
        planned, new = set[str](), Counter[str]()
        for up in self.loops(waiting):
            planned |= {pod.key for pod in up.triggered}
            for growth in up.growths:
                new[growth.group] += growth.new_size - growth.size
        refused = {pod.key: why for pod in waiting if pod.key not in planned and (why := self.why(up, pod))}

        def make(turn: int) -> Made:
            return self._make(new, up.templates, turn)

        return RoundDecision(
            CLUSTER_AUTOSCALER,
            frozenset(planned),
            refused,
            make if new else None,
            plan=frozenset(new.items()),
        )

    def loops(self, waiting: Sequence[Pod]) -> Iterator[ScaleUpResult]:
        """Yield what loops do, the last of which adds nothing. All are at the time at which the pods are old
        enough."""
        scheduler, seed = self._scheduler, self._autoscaling.seed
        delay = max((scale_up_delay(pod, self.flags) for pod in waiting), default=0.0)
        now = self.now() + STABLE + delay + 1.0
        backoffs = dict.fromkeys(self._short_groups(), (math.inf, 0.0))
        memory = Memory(backoffs=backoffs)
        player = ClusterAutoscaler(groups_of(self.settings), self.flags, memory, False)
        draw = np.random.default_rng(seed).integers

        def drawn(options: int) -> int:
            return int(draw(options)) if seed else first(options)

        while True:
            up = player.run_once(scheduler, self.group_of(), now, waiting, drawn).up
            yield up
            if not up.growths:
                return

    def why(self, up: ScaleUpResult, pod: Pod) -> str:
        """Return why the last loop adds no node for a pod, as its event says it; "" where it sees room."""
        if is_expendable(pod, self.flags):
            cutoff = self.flags.expendable_pods_priority_cutoff
            return f"no node is added for a pod whose priority is below {cutoff}"
        if is_daemon_pod(pod):
            return "no node is added for a pod of a DaemonSet"
        if up.result == "NotTried":
            return "too many nodes of the cluster are not ready"
        if up.result == "LimitedByMaxNodesTotal":
            return f"{NOT_TRIGGERED}: max total nodes in cluster reached"
        if all(each.key != pod.key for each in up.to_help):
            return ""
        for left in up.remaining:
            if any(other.key == pod.key for other in left.pods):
                texts = [text for _, *texts in left.rejected.values() for text in texts]
                reasons = Counter([*texts, *left.skipped.values()])
                return f"{NOT_TRIGGERED}: {', '.join(f'{number} {text}' for text, number in reasons.items())}"
        return f"{NOT_TRIGGERED}: new nodes would take it, but no more are allowed, or they do not help"

    def now(self) -> float:
        """Return the time of the newest node or pod."""
        client = self._scheduler.client
        return now_of(chain[Object](client.list(Node)[0], client.list(Pod)[0]))

    def group_of(self) -> dict[str, str]:
        """Return the group of each node that belongs to one."""
        return group_by_node(self.settings.node_groups, self._scheduler.client.list(Node)[0])

    @property
    def _unavailable(self) -> tuple[Shortage, ...]:
        return self._autoscaling.options.unavailable if self._autoscaling.options is not None else ()

    def _is_short(self, node: Node) -> bool:
        return is_short(node_offered_as(node), self._unavailable)

    def _short_groups(self) -> list[str]:
        """The groups for which the cloud has run out of machines: cluster-autoscaler leaves them alone."""
        if not self._unavailable:
            return []
        nodes = nodes_of_groups(self.settings, self._scheduler.client.list(Node)[0])
        return [name for name, own in nodes.items() if own and all(map(self._is_short, own))]

    def sizes(self) -> Counter[str]:
        """Return how many nodes each group has."""
        return Counter(self.group_of().values())

    def new_nodes(self) -> Iterator[tuple[NodeGroup, Node, int]]:
        """Yield each group that could have a new node, that node, named as its group, and how many there may
        be."""
        nodes: list[Node] = self._scheduler.client.list(Node)[0]
        sizes, short = self.sizes(), self._short_groups()
        there, copies = {node.name: node for node in nodes}, NodeCopies(self._scheduler.client)
        for name, template in next(self.loops([])).templates.items():
            if name in short:
                continue
            group = self.groups[name]
            node = _new_node(copies, there.get(template.like), template, group, group.stem)
            yield group, node, group.max_size - sizes[name]

    def _make(self, new: Mapping[str, int], templates: Mapping[str, NodeTemplate], turn: int) -> Made:
        client, new_nodes = self._scheduler.client, dict[str, NewNode]()
        taken = _taken_names(self._scheduler, self._autoscaling.past_names)
        nodes: list[Node] = client.list(Node)[0]
        there, members = {node.name: node for node in nodes}, nodes_of_groups(self.settings, nodes)
        daemons = {daemon_set.key for daemon_set in client.list(DaemonSet)[0]}
        copies, objects, serials = NodeCopies(client), list[Object](), dict[str, int]()
        for name, number in new.items():
            group, template = self.groups[name], templates[name]
            price = self.price(group, template.node)
            for like in self._in_zones(there.get(template.like), members[name], number):
                fresh = new_name(serials, name, group.node_name, taken.__contains__)
                taken.add(fresh)
                node = _new_node(copies, like, template, group, fresh)
                objects += [node, *(() if like is None else copies.parts(like, node))]
                objects += _own_pods(template.copy(fresh), fresh, daemons)
                labels = node.metadata.labels
                kind, zone, sold = (labels.get(key, "") for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE))
                new_nodes[fresh] = NewNode(fresh, name, kind, zone, sold, price, turn, by=CLUSTER_AUTOSCALER)
        return new_nodes, create(self._scheduler, objects)

    def _in_zones(self, like: Node | None, members: Sequence[Node], number: int) -> list[Node | None]:
        """Return the nodes of a group that new ones are like; None for those of a template. The cloud keeps
        the zones of a group in balance: each node comes to the zone with the fewest of its nodes, of those
        that have machines left, whichever zone cluster-autoscaler reckons with."""
        if like is None:
            return [None] * number
        likes, sizes = {like.metadata.labels.get(ZONE, ""): like}, Counter[str]()
        for node in members:
            zone = node.metadata.labels.get(ZONE, "")
            likes.setdefault(zone, node)
            sizes[zone] += 1
        likes = {zone: each for zone, each in likes.items() if not self._is_short(each)} or likes
        turns = list[Node | None]()
        for _ in range(number):
            zone = min(likes, key=lambda each: sizes[each])
            sizes[zone] += 1
            turns.append(likes[zone])
        return turns

    def price(self, group: NodeGroup, node: Node) -> float | None:
        """Return the price of a node of a group: its own, or that of its instance type."""
        types = self._autoscaling.types
        if group.price is not None or types is None or isinstance(types, ProvidedTypes):
            return group.price
        every = chain.from_iterable(types.values()) if isinstance(types, Mapping) else types
        return prices_by(every)(node)


def _new_node(
    copies: NodeCopies, like: Node | None, template: NodeTemplate, group: NodeGroup, name: str
) -> Node:
    """A new node of a group: like one that it has, or else as its template says."""
    if like is not None:
        return copies.copy(like, name)
    node = copies.copy(template.node, name, dict(group.marks[:1]))
    del node.metadata.labels[TEMPLATE_LABEL]
    return node


def _own_pods(template: NodeTemplate, node: str, daemons: Collection[str]) -> Iterator[Pod]:
    """Yield the pods that a new node has, but for those that their DaemonSet makes."""
    for pod in template.pods:
        owner = pod.metadata.controller()
        if owner is None or owner.kind != "DaemonSet" or f"{pod.namespace}/{owner.name}" not in daemons:
            yield structs.replace(pod, spec=structs.replace(pod.spec, node_name=node))


# ---- scaling rounds ----------------------------------------------------------------------------------------


def scale_up(scheduler: PodScheduler, autoscaling: AutoscalerSettings, keep: bool = False) -> ScaleUp:
    """Place pods and make nodes in turn; see `Scheduler.scale_up`."""
    check_type("options", autoscaling.options, KarpenterOptions)
    check_type("groups", autoscaling.groups, GroupSettings)
    if autoscaling.groups is not None:
        nodes: list[Node] = scheduler.client.list(Node)[0]
        groups = checked_groups(autoscaling.groups, {node.name: node for node in nodes})
        autoscaling = replace(autoscaling, groups=groups)
    with scheduler.transaction() as transaction:
        answer = grow(scheduler, autoscaling, scheduler.run(), scheduler.run)
        if keep:
            transaction.commit()
    return answer


def grow(
    scheduler: PodScheduler,
    autoscaling: AutoscalerSettings,
    result: ScheduleResult,
    run: Callable[[], ScheduleResult],
) -> ScaleUp:
    """Make nodes for pods that a run has not placed, and run again, until nothing changes.

    Parameters
    ----------
    run : callable
        Places pods, and returns the result of all runs or of this one.
    """
    left = left_pods(scheduler, result)
    deciders = autoscalers(scheduler, autoscaling)
    rounds = _Rounds(autoscaling, left, tuple(deciders))
    while left:
        # They all see the same cluster: none of them waits for the nodes of another.
        rounds.decisions = [decide([*left]) for decide in deciders.values()]
        makers = [decision.make for decision in rounds.decisions if decision.make is not None]
        rounds.complete = not makers
        if not makers or rounds.is_in_vain() or rounds.rounds == MOST_ROUNDS:
            break
        rounds.rounds += 1
        for make in makers:
            new_nodes, objects = make(rounds.rounds)
            rounds.new_nodes |= new_nodes
            rounds.objects += objects
        left = left_pods(scheduler, run())
        rounds.take(left)
    return rounds.scale_up(scheduler)


def left_pods(scheduler: PodScheduler, result: ScheduleResult) -> dict[str, str]:
    """The pods that the scheduler has tried and not placed, with its reasons."""
    pending = scheduler.pods.pending
    return {key: failure.search_message for key, failure in result.unschedulable.items() if key in pending}


class _Rounds(Struct):
    """What the rounds have come to so far."""

    autoscaling: AutoscalerSettings
    left: dict[str, str]
    autoscalers: tuple[str, ...]
    rounds: int = 0
    decisions: list[RoundDecision] = msgspec.field(default_factory=list)
    new_nodes: dict[str, NewNode] = msgspec.field(default_factory=dict)
    tried: dict[str, None] = msgspec.field(default_factory=dict)
    late: list[LatePod] = msgspec.field(default_factory=list)
    objects: list[Object] = msgspec.field(default_factory=list)
    promised: dict[str, tuple[str, str]] = msgspec.field(default_factory=dict)
    doubled: dict[str, None] = msgspec.field(default_factory=dict)
    plans: set[Hashable] = msgspec.field(default_factory=set)
    complete: bool = True

    def take(self, left: dict[str, str]) -> None:
        """Note which pods are left after a round, of which autoscalers had planned some on new nodes."""
        self.tried |= dict.fromkeys(self.left)
        late = {key: why for key, why in self.promised.items() if key not in left}
        self.late += [LatePod(key, self.rounds, *why) for key, why in late.items()]
        planned = {key: decision.by for decision in reversed(self.decisions) for key in decision.planned}
        counts = Counter(key for decision in self.decisions for key in decision.planned)
        self.doubled |= {key: None for key in self.tried if counts[key] > 1}
        self.promised = {
            key: self.promised.get(key, (why, planned[key])) for key, why in left.items() if key in planned
        }
        if left.keys() != self.left.keys():
            self.plans.clear()
        self.left, self.complete = left, True

    def is_in_vain(self) -> bool:
        """Whether the autoscalers would make the nodes again that have not taken a pod. New nodes may change
        what they make next, such as by the pods of DaemonSets that run there; they cannot do so for ever, as
        each round makes other nodes for the same pods."""
        plan = tuple([decision.plan for decision in self.decisions])
        is_known = plan in self.plans
        self.plans.add(plan)
        return is_known

    def scale_up(self, scheduler: PodScheduler) -> ScaleUp:
        stored: list[Pod] = scheduler.client.list(Pod)[0]
        placed = {
            pod.key: pod.spec.node_name for pod in stored if pod.key in self.tried and pod.spec.node_name
        }
        on: dict[str, list[str]] = {}
        for key, node in placed.items():
            on.setdefault(node, []).append(key)
        return ScaleUp(
            self.rounds,
            tuple([node._replace(pods=tuple(on.get(node.name, ()))) for node in self.new_nodes.values()]),
            placed,
            tuple([UnplacedPod(key, self._refusals(key), why) for key, why in self.left.items()]),
            tuple(self.late),
            self.complete,
            {pool: why for decision in self.decisions for pool, why in decision.pools.items()},
            self.autoscaling.seed,
            self.autoscalers,
            tuple(self.objects),
            tuple(self.doubled),
        )

    def _refusals(self, pod: str) -> dict[str, str]:
        return {decision.by: decision.refused[pod] for decision in self.decisions if pod in decision.refused}


def make_ahead(
    scheduler: PodScheduler, autoscaling: AutoscalerSettings, change: Callable[[PodScheduler], object]
) -> ScaleUp:
    """Make the nodes that would come after a change, which itself is taken back."""
    with scheduler.transaction():
        change(scheduler)
        scheduler.sync()
        up = grow(scheduler, autoscaling, scheduler.run(), scheduler.run)
    create(scheduler, up.objects)
    return up
