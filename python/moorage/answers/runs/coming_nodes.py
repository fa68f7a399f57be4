"""Nodes that come during a run, of pools or groups of the input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import msgspec
from msgspec import UNSET, UnsetType, structs

from moorage.autoscalers.autoscaler_protocol import AutoscalerSettings
from moorage.autoscalers.group_settings import group_by_node, unknown_node
from moorage.autoscalers.hourly_cost import HourlyCost
from moorage.autoscalers.judge import Judge
from moorage.autoscalers.node_class_changes import NO_ZONE
from moorage.autoscalers.node_prices import NodePrices
from moorage.autoscalers.providers.instance_type import ZONE
from moorage.autoscalers.providers.pool_types import SEEN
from moorage.autoscalers.providers.prices import NodesPrice, at_price
from moorage.autoscalers.scale_up_answer import (
    CLUSTER_AUTOSCALER,
    KARPENTER,
    NewNode,
    ScaleUp,
    ScaleUpDocument,
    kinds_of,
    nodes_price,
    nodes_text,
    price_sum,
    with_version,
)
from moorage.autoscalers.scaling_rounds import grow, make_ahead, scale_up
from moorage.cluster import ChangingScheduler
from moorage.document import Count, Document, Positive
from moorage.engine.scheduler import ScheduleResult
from moorage.errors import examples, first_of, number_of
from moorage.grouped import grouped
from moorage.kube import Node, Pod
from moorage.lazy import NamedTuple
from moorage.notes import RoutineNote

from ..new_nodes import Asked, admitted_pods, asked_pods
from ..pool_facts import PoolFacts
from ..scheduler import Scheduler

MOST_REFUSALS = 3
"""Of how many pods that are refused in different ways it is tried what would help."""


FIRST_ROUNDS, MOST_REPLICAS = 64, 4096
"""For how many rounds of replicas nodes come first, and for how many replicas at most."""


class ComingNodes(NamedTuple):
    """With what nodes come.

    Attributes
    ----------
    draws : int
        With how many seeds the autoscalers are asked.
    sources : mapping of str to str
        By autoscaler, with what it makes nodes.
    ignored : tuple of str
        Kinds in the input that are not simulated.
    notes : tuple of str
        What is not known that pools ask for, and about where the node groups come from.
    names_pools : bool
        Whether nodes are told with their NodePool, as there are several.
    """

    autoscaling: AutoscalerSettings
    draws: int
    sources: Mapping[str, str]
    prices: NodePrices
    ignored: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    names_pools: bool = False

    @property
    def makers(self) -> list[str]:
        """Who makes nodes, and with what."""
        return [f"{with_version(name)}, {source}" for name, source in self.sources.items()]

    def grow(
        self, scheduler: Scheduler, result: ScheduleResult, run: Callable[[], ScheduleResult]
    ) -> ScaleUpReport:
        """Make nodes for the pods that a run has left, and run again."""
        waited = 0
        for at in range(1, self.draws):
            drawn = scale_up(scheduler, replace(self.autoscaling, seed=self.autoscaling.seed + at))
            waited += bool(drawn.waiting)
        nodes: list[Node] = scheduler.client.list(Node)[0]
        before = self._price_of(nodes)
        up = grow(scheduler, self.autoscaling, result, run)
        groups = self.autoscaling.groups.node_groups if self.autoscaling.groups is not None else []
        group_of = group_by_node(groups, nodes)
        known = {*group_of.values()}
        unknown = {
            group.name: unknown_node(group, nodes)
            for group in groups
            if group.template is None and group.name not in known
        }
        zones = _several_zones(known if up.waiting else {node.pool for node in up.nodes}, nodes, group_of)
        deciding = PoolFacts(scheduler, self.autoscaling, up)
        facts = [*deciding.of_pools()] if KARPENTER in self.sources else []
        facts += [*deciding.of_groups(), *_filled_by_pods(scheduler, up)]
        return ScaleUpReport(up, self, waited + bool(up.waiting), before, unknown, zones, tuple(facts))

    def _price_of(self, nodes: Sequence[Node]) -> NodesPrice | None:
        """What nodes cost; None if none has a price."""
        price = NodesPrice.of(map(self.prices.of, nodes))
        return None if nodes and price.unknown == len(nodes) else price


def _several_zones(
    groups: Iterable[str], nodes: Iterable[Node], group_of: Mapping[str, str]
) -> dict[str, list[str]]:
    """Return those node groups that have nodes in several zones, with these."""
    zones: dict[str, dict[str, None]] = {group: {} for group in sorted(groups)}
    for node in nodes:
        if (zone := node.metadata.labels.get(ZONE)) and (group := group_of.get(node.name)) in zones:
            zones[group][zone] = None
    return {group: [*names] for group, names in zones.items() if len(names) > 1}


def ahead_of_replicas(
    scheduler: Scheduler, coming: ComingNodes, shares: Sequence[tuple[Pod, int]], most: int | None
) -> list[str]:
    """Let pending pods have their nodes, and make those that would come for replicas of pods, for twice as
    many each time, until one waits; tell which."""
    before = scale_up(scheduler, coming.autoscaling, keep=True)
    rounds = most if most is not None else FIRST_ROUNDS
    while True:
        wanted = [(pod, share * rounds) for pod, share in shares]

        def create(trial: ChangingScheduler, wanted: Asked = wanted) -> None:
            for pod in admitted_pods(trial, asked_pods(wanted))[0]:
                trial.client.create(pod)

        with scheduler.transaction():
            up = make_ahead(scheduler, coming.autoscaling, create)
        replicas = sum(count for _, count in wanted)
        if up.waiting or most is not None or replicas >= MOST_REPLICAS:
            break
        rounds *= 2
    up = make_ahead(scheduler, coming.autoscaling, create)
    stops = up.waiting[0].reason if up.waiting else f"they were made for {replicas} pods (see --max-limit)"
    whole = replace(up, nodes=before.nodes + up.nodes)
    return [*made_ahead(whole.nodes, coming), f"No more nodes come: {stops}."]


def ahead_of_drain(scheduler: Scheduler, coming: ComingNodes, nodes: Sequence[str]) -> list[str]:
    """Make the nodes that would come if nodes were drained at once; tell which.

    Pods that find these nodes there take them in another order than pods for which they come, so that
    further ones may be needed.
    """
    new = list[NewNode]()
    while more := make_ahead(
        scheduler,
        coming.autoscaling,
        lambda _: scheduler.change.drain(nodes, respect_budgets=False, force=True),
    ).nodes:
        new += more
    return made_ahead(new, coming)


def made_ahead(new: Sequence[NewNode], coming: ComingNodes) -> list[str]:
    """Return which nodes come before a question is asked."""
    return [f"{'; '.join(coming.makers)}: first {nodes_text(new)}."]


def _filled_by_pods(scheduler: Scheduler, up: ScaleUp) -> Iterator[str]:
    """Yield that new nodes are filled by the number of pods rather than by their requests."""
    table, new = scheduler.table, {node.name for node in up.nodes}
    rows = [row for row, name in enumerate(table.names) if name in new] if len(new) > 1 else []
    if not rows:
        return
    sums = {
        name: (int(table.requested[name][rows].sum()), int(table.allocatable[name][rows].sum()))
        for name in ("pods", "cpu", "memory")
    }
    pods, cpu, memory = (used / max(has, 1) for used, has in sums.values())
    if pods > max(cpu, memory, 0.5):  # fewer nodes would not have the slots
        used, has = sums["pods"]
        text = f"{used} of {has} are used, with {cpu:.0%} of cpu and {memory:.0%} of memory"
        yield f"slots for pods run out first on the new nodes: {text}"


class EarlierPrice(Document, frozen=True):
    """What the nodes cost that were there before others came."""

    before: float
    """Per hour, of the nodes before, at most."""
    unknown: Count
    """How many of them have no price."""
    least: float | UnsetType = UNSET
    """Where before is a bound, as a spot price is not known: the least."""


class NewNodesDocument(ScaleUpDocument, frozen=True, kw_only=True):
    """The nodes that came in a run, as documents have them."""

    types: str
    """Where the instance types are from."""
    node_groups: str
    """Where the node groups are from; empty without any."""
    not_simulated: tuple[str, ...]
    """Kinds in the input that autoscalers heed and that are not simulated."""
    prices: EarlierPrice | None
    """Null without a file of types."""
    draws: Positive
    waited: Count = msgspec.field(name="drawsThatWait")
    """In how many draws a pod waits."""
    facts: tuple[str, ...] = msgspec.field(name="poolFacts")
    """What decided about the NodePools of new nodes, a line each."""


class ScaleUpReport(NamedTuple):
    """The nodes that came in a run, and what they cost.

    Attributes
    ----------
    waited : int
        In how many draws a pod waits.
    before : NodesPrice or None
        Of the nodes before.
    unknown : mapping of str to str
        Node groups of which there is neither a node nor a template, with what is to be said of that.
    zones : mapping of str to list of str
        Node groups that have nodes in several zones, and get new ones or could get some.
    facts : tuple of str
        What decided about their pools and groups.
    """

    up: ScaleUp
    coming: ComingNodes
    waited: int
    before: NodesPrice | None
    unknown: Mapping[str, str] = MappingProxyType({})
    zones: Mapping[str, list[str]] = MappingProxyType({})
    facts: tuple[str, ...] = ()

    @property
    def reasons(self) -> dict[str, str]:
        """Who refuses each pod that waits, and why."""
        return {waiting.pod: waiting.reason for waiting in self.up.waiting}

    def text(self) -> str:
        """Return which nodes come, at what price."""
        nodes = number_of(len(self.up.nodes), "new node", "new nodes")
        if not self.up.nodes:
            return "no new node"
        source = self.coming.sources.get(KARPENTER, "")
        is_told = source.startswith(("types:", SEEN))
        seen = f"; {source.partition(';')[0]}" if source and is_told else ""
        kinds = kinds_of(self.up.nodes, self.coming.names_pools)
        return f"{nodes} ({kinds}{seen}): {nodes_price(self.up.nodes)}"

    def lines(self) -> Iterator[str]:
        """Yield which nodes each engine makes, if there are several, prices before and after, and where the
        engines disagree."""
        for name in self.coming.sources if len(self.coming.sources) > 1 else ():
            yield f"{name}: {nodes_text([node for node in self.up.nodes if node.by == name])}"
        yield from filter(None, [self._prices()])
        yield from self.facts
        yield from self.up.late_lines()
        if self.coming.draws > 1:
            yield f"draws: in {self.waited} of {self.coming.draws} a pod waits"
        yield from self.gaps()

    def gaps(self) -> Iterator[str]:
        """Yield which pools and groups can get no node, and what is not known or simulated."""
        yield from (note for note in self.coming.notes if not isinstance(note, RoutineNote))
        if self.up.waiting and self.coming.sources.get(KARPENTER, "").startswith(SEEN):
            for pool in self.up.pools:
                yield f"NodePool {pool} has no instance types: give them with --instance-types FILE"
        for name, text in self.unknown.items():
            yield f"node group {name}: {text}"
        for name, zones in self.zones.items():
            yield (
                f"node group {name} has nodes in {examples(zones, 5)}: cluster-autoscaler takes all to "
                "be like one of them, and the cloud chooses the zone of a new one, here that with the fewest"
            )
        if self.coming.ignored:
            yield f"not simulated: {', '.join(self.coming.ignored)}"

    def _prices(self) -> str:
        new = price_sum(self.up.nodes)
        if self.before is None or not new.is_known:
            return ""
        count, unknown = self.before.nodes, self.before.unknown
        without = f", without {number_of(unknown, 'node', 'nodes')} of unknown price" if unknown else ""
        before = self.before.cost
        after = HourlyCost.total([before, new])
        return (
            f"{number_of(count, 'node', 'nodes')} {at_price(before)} before, "
            f"{count + len(self.up.nodes)} {at_price(after)} after{without}"
        )

    @property
    def source(self) -> str:
        """Who makes the nodes, and with what, in a sentence."""
        makers = [
            f"{with_version(name)} makes the new nodes, with {text}"
            for name, text in self.coming.sources.items()
        ]
        return f"{'; '.join(makers)}."

    def outcomes(self, scheduler: Scheduler, pods: Sequence[str], shown: set[str]) -> list[str]:
        """Return which new nodes pods get, or who refuses them; for those that are refused alike, why no pool
        makes a node, and what would help.

        Parameters
        ----------
        shown : set of str
            Of which refusals this was told before; new ones are added.
        """
        lines = [*self._nodes_of(pods)]
        alike = grouped((waiting.reason, waiting) for waiting in self.up.waiting if waiting.pod in pods)
        for text, of_pods in alike.items():
            names, refused = examples([each.pod for each in of_pods], 1), of_pods[0].refusals
            is_new = refused and text not in shown and len(shown) < MOST_REFUSALS
            judge = Judge(scheduler, self.coming.autoscaling)
            refusals = [*judge.refusals(of_pods[0].pod)] if is_new else []
            if not refused or "; ".join(each.reason for each in refusals) != "; ".join(refused.values()):
                lines.append(f"{names}: {text}")  # else the refusals tell it
            if is_new:
                shown.add(text)
                lines.append(f"Why no node comes for {names}, and what would help, each tried alone:")
                if NO_ZONE in text:
                    lines += judge.pools(of_pods[0].pod)[0].classes.zones_apart()
                lines += [line for refusal in refusals for line in refusal.lines()]
        return lines

    def _nodes_of(self, pods: Sequence[str]) -> Iterator[str]:
        for name in self.up.autoscalers:
            new = {node.name: node for node in self.up.nodes if node.by == name}
            running = [pod for pod in pods if self.up.placed.get(pod) in new]
            nodes = [new[key] for key in dict.fromkeys(self.up.placed[pod] for pod in running)]
            if nodes:
                node, several = nodes[0], f"{len(nodes)} nodes ({kinds_of(nodes)})"
                which = f"{node.name} ({node.kind})" if len(nodes) == 1 else several
                runs = f"where {'it runs' if len(running) == 1 else 'they run'}: {nodes_price(nodes)}"
                yield f"{first_of(running, 1)}: {with_version(name)} makes {which}, {runs}"

    def document(self) -> NewNodesDocument:
        """Return the answer as its document."""
        before, coming = self.before, self.coming
        return NewNodesDocument.from_object(
            self,
            **structs.asdict(self.up.document()),
            types=coming.sources.get(KARPENTER, ""),
            node_groups=coming.sources.get(CLUSTER_AUTOSCALER, ""),
            not_simulated=coming.ignored,
            prices=None if before is None else EarlierPrice(before.price, before.unknown, before.least),
            draws=coming.draws,
        )
