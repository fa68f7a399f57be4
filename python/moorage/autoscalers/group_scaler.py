"""cluster-autoscaler over the cluster of a scheduler: its loops, and the nodes that they add."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain

import numpy as np
from msgspec import structs

from moorage.cluster import PodScheduler
from moorage.cluster.node_changes import NodeCopies
from moorage.errors import InputError
from moorage.kube import Node, Object, Pod
from moorage.kube.model.cluster import now_of
from moorage.kube.model.workload import DaemonSet

from .autoscaler_protocol import AutoscalerSettings, Made, RoundDecision
from .cluster_autoscaler.cluster_autoscaler import ClusterAutoscaler
from .cluster_autoscaler.flags import Memory, ScaledGroup
from .cluster_autoscaler.group_states import STABLE, TEMPLATE_LABEL, NodeTemplate, is_daemon_pod
from .cluster_autoscaler.pods_to_help import is_expendable, scale_up_delay
from .cluster_autoscaler.scale_up_pass import ScaleUpResult, first
from .group_settings import GroupSettings, NodeGroup, flags_of, group_by_node, groups_of, nodes_of_groups
from .hourly_cost import HourlyCost
from .karpenter.karpenter_options import KarpenterOptions
from .node_maker import NodeMaker
from .node_prices import NodePrices, stored_prices
from .providers.instance_type import ZONE, Shortage, is_short, node_offered_as
from .scale_up_answer import CLUSTER_AUTOSCALER

NOT_TRIGGERED = "pod didn't trigger scale-up"


class GroupScaler:
    """cluster-autoscaler over the cluster of a scheduler, with checked groups. In rounds its loops follow one
    another until none of them adds nodes, and the nodes of all of them are there together: real ones take
    longer than a loop to join.

    Attributes
    ----------
    provided : list of ScaledGroup
        The same as cluster-autoscaler knows them.
    """

    name = CLUSTER_AUTOSCALER

    def __init__(
        self, scheduler: PodScheduler, autoscaling: AutoscalerSettings, past_names: set[str] | None = None
    ) -> None:
        self.scheduler, self.autoscaling = scheduler, autoscaling
        self.settings = settings = autoscaling.groups or GroupSettings()
        self._past_names = set[str]() if past_names is None else past_names
        self.groups = {node_group.name: node_group for node_group in settings.node_groups}
        self.flags, self.provided = flags_of(settings), groups_of(settings)
        if "price" in settings.expanders:
            self.provided = [self._with_price(group) for group in self.provided]

    def player(self, memory: Memory, removes: bool = False) -> ClusterAutoscaler:
        """Return what plays loops, which may remove nodes."""
        flags = replace(self.flags, scale_down_enabled=removes)
        return ClusterAutoscaler(self.provided, flags, memory, False)

    def decide(self, pods: Sequence[str]) -> RoundDecision:
        """Decide which nodes come for pods, given by key."""
        known = {pod.key: pod for pod in self.scheduler.client.list(Pod)[0]}
        waiting = [known[key] for key in pods]
        planned, new = set[str](), Counter[str]()
        for up in self.loops(waiting):
            planned |= {pod.key for pod in up.triggered}
            for growth in up.growths:
                new[growth.group] += growth.new_size - growth.size
        refused = {pod.key: why for pod in waiting if pod.key not in planned and (why := self.why(up, pod))}
        make, plan = partial(self._make, new, up.templates) if new else None, frozenset(new.items())
        return RoundDecision(CLUSTER_AUTOSCALER, frozenset(planned), refused, make, plan=plan)

    def loops(self, waiting: Sequence[Pod]) -> Iterator[ScaleUpResult]:
        """Yield what loops do, the last of which adds nothing. All are at the time at which the pods are old
        enough."""
        scheduler, seed = self.scheduler, self.autoscaling.seed
        delay = max((scale_up_delay(pod, self.flags) for pod in waiting), default=0.0)
        now = self.now() + STABLE + delay + 1.0
        backoffs = dict.fromkeys(self._short_groups(), (math.inf, 0.0))
        player = self.player(Memory(backoffs=backoffs))
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
        client = self.scheduler.client
        return now_of(chain[Object](client.list(Node)[0], client.list(Pod)[0]))

    def group_of(self) -> dict[str, str]:
        """Return the group of each node that belongs to one."""
        return group_by_node(self.settings.node_groups, self.scheduler.client.list(Node)[0])

    @property
    def _unavailable(self) -> tuple[Shortage, ...]:
        options = self.autoscaling.options or KarpenterOptions()
        return options.without(self.scheduler.context.lost_domains).unavailable

    def _is_short(self, node: Node) -> bool:
        return is_short(node_offered_as(node), self._unavailable)

    def _short_groups(self) -> list[str]:
        """The groups for which the cloud has run out of machines: cluster-autoscaler leaves them alone."""
        if not self._unavailable:
            return []
        nodes = nodes_of_groups(self.settings, self.scheduler.client.list(Node)[0])
        return [name for name, own in nodes.items() if own and all(map(self._is_short, own))]

    def sizes(self) -> Counter[str]:
        """Return how many nodes each group has."""
        return Counter(self.group_of().values())

    def _make(self, new: Mapping[str, int], templates: Mapping[str, NodeTemplate], turn: int) -> Made:
        client, maker = self.scheduler.client, NodeMaker(self.scheduler, turn, self._past_names)
        nodes: list[Node] = client.list(Node)[0]
        there, members = {node.name: node for node in nodes}, nodes_of_groups(self.settings, nodes)
        daemons = {daemon_set.key for daemon_set in client.list(DaemonSet)[0]}
        for name, number in new.items():
            group, template = self.groups[name], templates[name]
            price = self.price(group, template.node)
            for like in self._in_zones(there.get(template.like), members[name], number):
                fresh = maker.names.new(name, group.stem)
                node = group_node(maker.copies, group, fresh, template.node, like)
                maker.add(node, like, name, price, CLUSTER_AUTOSCALER)
                maker.objects += _own_pods(template.copy(fresh), fresh, daemons)
        return maker.create()

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

    def price(self, group: NodeGroup, node: Node) -> HourlyCost:
        """Return the price of a node of a group, which may not have the group's label yet."""
        return HourlyCost(group.price, group.price) if group.price is not None else self._prices.of(node)

    def _with_price(self, group: ScaledGroup) -> ScaledGroup:
        """A group as the expander price needs it: at the price of its nodes, if it names none."""
        if group.price is not None:
            return group
        members = nodes_of_groups(self.settings, self.scheduler.client.list(Node)[0])[group.name]
        node = members[0] if members else group.template
        price = HourlyCost() if node is None else self._prices.of(node)
        if not price.is_known:
            text = f"the expander price needs the price of node group {group.name}, and nothing says it"
            raise InputError(f"{text}: add price to the group", path="expander")
        return replace(group, price=price.most)

    @cached_property
    def _prices(self) -> NodePrices:
        return stored_prices(self.autoscaling.types, self.scheduler.client)


def group_node(
    copies: NodeCopies, group: NodeGroup, name: str, template: Node, like: Node | None = None
) -> Node:
    """Return a new node of a group: like one that it has, or else as a template says."""
    if like is not None:
        return copies.copy(like, name)
    node = copies.copy(template, name, dict(group.marks[:1]))
    node.metadata.labels.pop(TEMPLATE_LABEL, None)
    return node


def _own_pods(template: NodeTemplate, node: str, daemons: Collection[str]) -> Iterator[Pod]:
    """Yield the pods that a new node has, but for those that their DaemonSet makes."""
    for pod in template.pods:
        owner = pod.metadata.controller()
        if owner is None or owner.kind != "DaemonSet" or f"{pod.namespace}/{owner.name}" not in daemons:
            yield structs.replace(pod, spec=structs.replace(pod.spec, node_name=node))
