"""Which nodes come and which pods run then: the answer of autoscalers and kube-scheduler in turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from moorage.document import Amount, Count, Document, Positive
from moorage.errors import number_of
from moorage.grouped import by_count
from moorage.kube import Object
from moorage.table import Table, Tabular

from .cluster_autoscaler import flags
from .hourly_cost import HourlyCost, price_text
from .karpenter.karpenter_options import VERSION as KARPENTER_VERSION
from .karpenter.new_nodes_result import LaunchChoice, Launched

MOST_ROUNDS = 10
"""Where the engines disagree without an end, nodes would come for ever."""
KARPENTER, CLUSTER_AUTOSCALER, SCHEDULER = "Karpenter", "cluster-autoscaler", "kube-scheduler"
REFUSERS = [KARPENTER, CLUSTER_AUTOSCALER, f"{KARPENTER} and {CLUSTER_AUTOSCALER}", SCHEDULER]
VERSIONS = {KARPENTER: KARPENTER_VERSION, CLUSTER_AUTOSCALER: flags.VERSION}


class NewNode(Document, frozen=True):
    """A node that comes, of a NodePool or a node group."""

    name: str
    by: Annotated[str, Meta(extra_json_schema={"enum": [KARPENTER, CLUSTER_AUTOSCALER]})] = msgspec.field(
        name="autoscaler"
    )
    pool: str
    """The NodePool or node group."""
    instance_type: str
    zone: str
    capacity_type: str
    price: Amount | None = msgspec.field(name="pricePerHour")
    """Per hour, at most; null if it is not known."""
    round: Count
    pods: tuple[str, ...] = ()
    least: Amount | UnsetType = msgspec.field(name="leastPerHour", default=UNSET)
    """Where the price is a bound, as a spot price is not known, or the provider chooses: the least."""
    choices: Positive | UnsetType = UNSET
    """Where the provider chooses: among how many instance types at most, of which the cheapest is named."""
    zones: tuple[str, ...] | UnsetType = UNSET
    """Where it chooses the zone: in which the node may come."""
    chosen: str | UnsetType = UNSET
    """Where the provider chooses: who does, and how, such as ``EC2 chooses among``."""

    @property
    def kind(self) -> str:
        """Instance type, capacity type and zone; first the group of one of cluster-autoscaler."""
        group = "" if self.by == KARPENTER else self.pool
        return " ".join(filter(None, (group, self.instance_type, self.capacity_type, self.zone)))

    @property
    def kind_name(self) -> str:
        """The name of nodes like this one: the group, or such as ``default.m5.large.spot.us-east-1a``. Types
        and zones are labels, which have characters that names of nodes do not."""
        parts = self.pool, self.instance_type, self.capacity_type, self.zone
        name = ".".join(filter(None, parts)).lower().replace("_", "-")
        labels = (part.strip("-") for part in name.split("."))
        return ".".join(filter(None, labels)) if self.by == KARPENTER else self.pool

    @property
    def choice(self) -> LaunchChoice:
        """Among what the provider chooses, of which one is simulated."""
        return LaunchChoice(self.chosen or "", self.choices or 1, self.zones or ())

    @property
    def cost(self) -> HourlyCost:
        """What it costs per hour."""
        return HourlyCost.of(self.least, self.price)


class UnplacedPod(Document, frozen=True):
    """A pod that has no node at the end."""

    pod: str
    refused_by: Annotated[str, Meta(extra_json_schema={"enum": REFUSERS})]
    """Which autoscalers; kube-scheduler where one of them has a node for the pod."""
    karpenter: str
    cluster_autoscaler: str
    """Its text, if it refuses the pod."""
    scheduler: str

    @property
    def refusals(self) -> dict[str, str]:
        """The texts of the autoscalers that refuse it."""
        texts = zip(VERSIONS, (self.karpenter, self.cluster_autoscaler), strict=True)
        return {who: text for who, text in texts if text}

    @property
    def reason(self) -> str:
        """Who refuses the pod, and why."""
        if self.refusals:
            return "; ".join(f"{who}: {why}" for who, why in self.refusals.items())
        return f"{SCHEDULER}: {self.scheduler}; the autoscaler sees room for it and makes no other node"


class LatePod(Document, frozen=True):
    """A pod that did not fit the nodes that an autoscaler made for it."""

    pod: str
    round: Annotated[int, Meta(ge=2)]
    """In which it has found a node."""
    scheduler: str
    """Why it did not get the node that was made for it."""
    by: Annotated[str, Meta(extra_json_schema={"enum": [KARPENTER, CLUSTER_AUTOSCALER]})] = KARPENTER
    """The autoscaler that made a node for it."""


class ScaleUpDocument(Document, frozen=True, kw_only=True):
    """The nodes that autoscalers make, as documents have them."""

    karpenter_version: str | None
    """Null if there is no NodePool."""
    cluster_autoscaler_version: str | None
    """Null if no node group is given."""
    seed: int
    rounds: Count
    """In how many autoscalers made nodes."""
    complete: bool
    """Whether the rounds ended because no autoscaler makes another node."""
    price: Amount | None = msgspec.field(name="pricePerHour")
    """Of the new nodes, at most; null if the price of one is not known."""
    newly_placed: Count
    """Pods that the first run left and that have a node now; placed of the document counts all."""
    nodes: tuple[NewNode, ...]
    waiting: tuple[UnplacedPod, ...]
    """Pods that have no node at the end."""
    late: tuple[LatePod, ...]
    """Pods that needed another round."""
    least: Amount | UnsetType = msgspec.field(name="leastPerHour", default=UNSET)
    """Where the price is a bound: the least."""


@dataclass(frozen=True, repr=False)
class ScaleUp(Tabular):
    """Which nodes come, and which pods run then.

    Attributes
    ----------
    rounds : int
        In how many autoscalers made nodes.
    nodes : tuple of NewNode
    placed : dict of str to str
        Node by pod, of those that had none before the first round.
    waiting : tuple of UnplacedPod
    late : tuple of LatePod
    complete : bool
        Whether it ended by itself, not because of a bound on rounds.
    pools : dict of str to str
        Pools without an instance type, with Karpenter's event.
    autoscalers : tuple of str
        Who made nodes.
    objects : tuple of Object
        The nodes with what describes them, as they were created.
    doubled : tuple of str
        Pods for which several autoscalers made nodes at once.
    """

    rounds: int
    nodes: tuple[NewNode, ...]
    placed: dict[str, str]
    waiting: tuple[UnplacedPod, ...]
    late: tuple[LatePod, ...]
    complete: bool
    pools: dict[str, str] = field(default_factory=dict)
    seed: int = 0
    autoscalers: tuple[str, ...] = (KARPENTER,)
    objects: tuple[Object, ...] = ()
    doubled: tuple[str, ...] = ()

    @property
    def price(self) -> float | None:
        """Per hour, of the new nodes, at most; None if the price of one is not known."""
        return price_sum(self.nodes).shown[0]

    @property
    def least(self) -> float | UnsetType:
        """Per hour, of the new nodes, at least, where that is less than the price."""
        return price_sum(self.nodes).shown[1]

    def headline(self) -> str:
        """Return how many nodes come, at what price, and how many pods still wait."""
        pods = number_of(len(self.placed), "pod finds", "pods find")
        left = number_of(len(self.waiting), "waits", "wait")
        rounds = f"{self.rounds} round" + "s" * (self.rounds != 1)
        who = " and ".join(map(with_version, self.autoscalers))
        return f"{who}: {nodes_text(self.nodes, f' in {rounds}')}; {pods} a node, {left}"

    def remarks(self) -> list[str]:
        """Return who refuses the first pods that wait, which pods came late, and what that costs."""
        return [f"{pod.pod}: {pod.reason}" for pod in self.waiting[:5]] + [*self.late_lines()]

    def late_lines(self) -> Iterator[str]:
        """Yield what the engines disagree about: pods that did not get the nodes made for them."""
        for late_pod in self.late[:1]:
            pods, keys = number_of(len(self.late), "pod needs", "pods need"), {each.pod for each in self.late}
            late_nodes = [node for node in self.nodes if node.round > 1 and not keys.isdisjoint(node.pods)]
            price = more_text(*[node.cost for node in late_nodes])
            rounds = "a second round" if all(each.round == 2 for each in self.late) else "more rounds"
            yield (
                f"{pods} {rounds}, {price} of it: {late_pod.by} had a node for "
                f"{late_pod.pod}, but kube-scheduler placed others there first ({late_pod.scheduler})"
            )
        unused = [node for node in self.nodes if not node.pods]
        planned = next((waiting for waiting in self.waiting if not waiting.refusals), None)
        if unused and planned is not None:
            nodes = number_of(len(unused), "new node takes", "new nodes take")
            price = more_text(*[node.cost for node in unused])
            yield (
                f"{nodes} no pod that waits, {price}: {unused[0].by} counts on it "
                f"for {planned.pod}, and kube-scheduler refuses ({planned.scheduler})"
            )
        if self.doubled:
            pods = number_of(len(self.doubled), "pod has", "pods have")
            who = " and of ".join(self.autoscalers)
            yield f"{pods} new nodes of {who}, such as {self.doubled[0]}: both accept them, and neither waits"
        if not self.complete:
            why = "that is the most" if self.rounds == MOST_ROUNDS else "its last nodes took no pod"
            yield f"ended after round {self.rounds}: {' and '.join(self.autoscalers)} would go on, but {why}"

    def table(self, limit: int | None = None) -> Table:
        """Return one row for each new node: name, pool, type, zone, capacity type, price, round, pods."""
        nodes = self.nodes[:limit]
        columns = ("name", "pool", "instance_type", "zone", "capacity_type", "price", "round", "by")
        columns_of_nodes: dict[str, Any] = {name: [getattr(node, name) for node in nodes] for name in columns}
        return Table(columns_of_nodes | {"pods": [len(node.pods) for node in nodes]})

    def document(self) -> ScaleUpDocument:
        """Return the answer as its document."""
        return ScaleUpDocument.from_object(self, **versions(self.autoscalers), newly_placed=len(self.placed))


def versions(autoscalers: Collection[str]) -> dict[str, str | None]:
    """Return the versions of those autoscalers that decide, by the fields of documents."""
    fields = {"karpenter_version": KARPENTER, "cluster_autoscaler_version": CLUSTER_AUTOSCALER}
    return {field: VERSIONS[name] if name in autoscalers else None for field, name in fields.items()}


def with_version(autoscaler: str) -> str:
    """Return an autoscaler with the version whose decisions are simulated."""
    return f"{autoscaler} {VERSIONS[autoscaler]}"


def price_sum(nodes: Iterable[NewNode]) -> HourlyCost:
    """Return the price of nodes per hour."""
    return HourlyCost.total(node.cost for node in nodes)


def kinds_of(nodes: Iterable[NewNode], names_pools: bool = False) -> str:
    """Return how many nodes there are of each kind, the most frequent first; with the NodePool, if asked."""
    counts = Counter(
        node.kind + f" of NodePool {node.pool}" * (names_pools and node.by == KARPENTER) for node in nodes
    )
    return ", ".join(f"{count} {kind}" for kind, count in by_count(counts).items())


def nodes_text(nodes: Sequence[NewNode], rounds: str = "") -> str:
    """Return how many nodes come, of which kinds, at what price."""
    kinds = f" ({kinds_of(nodes)})" if nodes else ""
    number = number_of(len(nodes), "new node", "new nodes")
    return f"{number}{kinds}{rounds}, {nodes_price(nodes)}"


def nodes_price(nodes: Sequence[NewNode | Launched]) -> str:
    """Return the price of nodes per hour, and among what the provider chooses, if it does."""
    chosen = chosen_text(nodes)
    return more_text(*[node.cost for node in nodes]) + (f" ({chosen})" if chosen else "")


def more_text(*prices: HourlyCost) -> str:
    """Return a sum of prices per hour; it says so if that is only a bound."""
    total = HourlyCost.total(prices)
    if not total.is_known:
        return "at unknown prices"
    unknown = "spot price unknown, " * any(price.least == 0 < price.most for price in prices)
    return f"{unknown}{total.text()} more"


def saved_text(saved: HourlyCost, unit: str = "") -> str:
    """Return what is saved per hour; "" if that is not known."""
    return saved.text(price_text, unit) if saved.is_known else ""


def chosen_text(nodes: Iterable[NewNode | Launched]) -> str:
    """Say among what a provider chooses, how, and what is simulated; "" where just that may come."""
    chosen = [each for each in nodes if each.choice.is_open]
    if not chosen:
        return ""
    types = max(each.choice.types for each in chosen)
    zones = max(len(each.choice.zones) for each in chosen)
    sets = [f"{count} {noun}" for count, noun in ((types, "types"), (zones, "zones")) if count > 1]
    names = {f"{each.instance_type} in {each.zone}" if types > 1 else each.zone for each in chosen}
    which, verb = (names.pop(), "is") if len(names) == 1 else ("the named", "are")
    cheapest = ", the cheapest," * any(each.cost.shown[1] is not UNSET and types > 1 for each in chosen)
    hows = "; ".join(dict.fromkeys(each.choice.how for each in chosen))
    return f"{hows} {' in '.join(sets)}; {which}{cheapest} {verb} simulated"
