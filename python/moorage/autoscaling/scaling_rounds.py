"""Both engines in turn: Karpenter makes nodes, and kube-scheduler decides which pods run there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Any, NamedTuple

from msgspec.structs import replace as with_fields

from moorage.changes.change import with_own_uids
from moorage.errors import number_of
from moorage.objects import Node, NodeClaim, NodePool, Object, Pod
from moorage.objects.read.object_defaults import defaults
from moorage.objects.validate.validate_object import validate
from moorage.scheduler import PodScheduler, ScheduleResult
from moorage.tables import Table, Tabular

from .instance_types.instance_type import InstanceType, Offering
from .instance_types.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from .karpenter.karpenter_options import VERSION, KarpenterOptions
from .karpenter.new_nodes_result import NewClaim, Provisioning
from .launched_nodes import claim_and_node
from .pending_provisioning import Types, check_options, provision_pods

MOST_ROUNDS = 10
"""Where the engines disagree without an end, nodes would come for ever."""
KARPENTER, SCHEDULER = "Karpenter", "kube-scheduler"


class NewNode(NamedTuple):
    """A node that comes; its price per hour is None if it is not known."""

    name: str
    pool: str
    instance_type: str
    zone: str
    capacity_type: str
    price: float | None
    round: int
    pods: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Instance type, capacity type and zone."""
        return " ".join(filter(None, (self.instance_type, self.capacity_type, self.zone)))

    def to_dict(self) -> dict[str, Any]:
        """Return the node as a JSON value."""
        return {
            "name": self.name,
            "pool": self.pool,
            "instanceType": self.instance_type,
            "zone": self.zone,
            "capacityType": self.capacity_type,
            "pricePerHour": self.price,
            "round": self.round,
            "pods": list(self.pods),
        }


class WaitingPod(NamedTuple):
    """A pod that has no node at the end: Karpenter's text, if it refuses it, and the scheduler's."""

    pod: str
    karpenter: str
    scheduler: str

    @property
    def refused_by(self) -> str:
        """Karpenter, or kube-scheduler where Karpenter has a node for the pod."""
        return KARPENTER if self.karpenter else SCHEDULER

    @property
    def reason(self) -> str:
        """Who refuses the pod, and why."""
        if self.karpenter:
            return f"{KARPENTER}: {self.karpenter}"
        return f"{SCHEDULER}: {self.scheduler}; Karpenter sees room for it and makes no other node"

    def to_dict(self) -> dict[str, str]:
        """Return the pod as a JSON value."""
        return {
            "pod": self.pod,
            "refusedBy": self.refused_by,
            "karpenter": self.karpenter,
            "scheduler": self.scheduler,
        }


class LatePod(NamedTuple):
    """A pod that did not fit the nodes that Karpenter made for it: the scheduler's reason, and the round in
    which it found a node."""

    pod: str
    round: int
    scheduler: str


@dataclass(frozen=True, repr=False)
class ScaleUp(Tabular):
    """Which nodes come, and which pods run then.

    Attributes
    ----------
    rounds : int
        In how many Karpenter made nodes.
    nodes : tuple of NewNode
    placed : dict of str to str
        Node by pod, of those that had none before the first round.
    waiting : tuple of WaitingPod
    late : tuple of LatePod
    complete : bool
        Whether it ended by itself, not because of a bound on rounds.
    pools : dict of str to str
        Pools without an instance type, with Karpenter's event.
    """

    rounds: int
    nodes: tuple[NewNode, ...]
    placed: dict[str, str]
    waiting: tuple[WaitingPod, ...]
    late: tuple[LatePod, ...]
    complete: bool
    pools: dict[str, str] = field(default_factory=dict)
    seed: int = 0
    karpenter_version: str = VERSION

    @property
    def price(self) -> float | None:
        """Per hour, of the new nodes; None if the price of one is not known."""
        return _sum(node.price for node in self.nodes)

    @property
    def late_price(self) -> float | None:
        """Per hour, of the nodes that came after the first round and run pods that others were made for."""
        late = {one.pod for one in self.late}
        return _sum(node.price for node in self.nodes if node.round > 1 and not late.isdisjoint(node.pods))

    def kinds(self) -> str:
        """Return how many nodes come of each kind, the most frequent first."""
        counts = Counter(node.kind for node in self.nodes)
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return ", ".join(f"{count} {kind}" for kind, count in ordered)

    def headline(self) -> str:
        """Return how many nodes come, at what price, and how many pods still wait."""
        kinds = f" ({self.kinds()})" if self.nodes else ""
        nodes = number_of(len(self.nodes), "new node", "new nodes")
        pods = number_of(len(self.placed), "pod finds", "pods find")
        left = number_of(len(self.waiting), "waits", "wait")
        rounds = f"{self.rounds} round" + "s" * (self.rounds != 1)
        return (
            f"Karpenter {self.karpenter_version}: {nodes}{kinds} in {rounds}, {price_text(self.price)}; "
            f"{pods} a node, {left}"
        )

    def remarks(self) -> list[str]:
        """Return who refuses the first pods that wait, which pods came late, and what that costs."""
        return [f"{one.pod}: {one.reason}" for one in self.waiting[:5]] + [*self.late_lines()]

    def late_lines(self) -> Iterator[str]:
        """Yield what the engines disagree about: pods that did not get the nodes made for them."""
        for one in self.late[:1]:
            pods = number_of(len(self.late), "pod needs", "pods need")
            rounds = "a second round" if all(each.round == 2 for each in self.late) else "more rounds"
            yield (
                f"{pods} {rounds}, {price_text(self.late_price)} of it: Karpenter had a node for "
                f"{one.pod}, but kube-scheduler placed others there first ({one.scheduler})"
            )
        if not self.complete:
            why = "that is the most" if self.rounds == MOST_ROUNDS else "its last nodes took no pod"
            yield f"ended after round {self.rounds}: Karpenter would go on, but {why}"

    def table(self, limit: int | None = None) -> Table:
        """Return one row for each new node: name, pool, type, zone, capacity type, price, round, pods."""
        nodes = self.nodes[:limit]
        columns = NewNode._fields[:-1]
        found: dict[str, Any] = {name: [getattr(node, name) for node in nodes] for name in columns}
        return Table(found | {"pods": [len(node.pods) for node in nodes]})

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as a JSON value."""
        return {
            "karpenterVersion": self.karpenter_version,
            "seed": self.seed,
            "rounds": self.rounds,
            "complete": self.complete,
            "pricePerHour": self.price,
            "placed": len(self.placed),
            "nodes": [one.to_dict() for one in self.nodes],
            "waiting": [one.to_dict() for one in self.waiting],
            "late": [one._asdict() for one in self.late],
        }


def _sum(prices: Iterator[float | None]) -> float | None:
    total = 0.0
    for price in prices:
        if price is None:
            return None
        total += price
    return total


def price_text(price: float | None) -> str:
    """Return a price per hour with two digits that count."""
    if price is None:
        return "at unknown prices"
    return f"{price:.2f} $/h more" if not price or price >= 0.1 else f"{price:.2g} $/h more"


@dataclass(frozen=True)
class Growth:
    """With what nodes come: types as for `Scheduler.provision`, flags, a seed; names that no node gets."""

    types: Types | None = None
    options: KarpenterOptions | None = None
    seed: int = 0
    past_names: frozenset[str] = frozenset()

    def without(self, label: str, values: Collection[str]) -> Growth:
        """The same where nothing can be launched with some values of a label: a zone that is lost."""
        if self.types is None:
            return self
        by_pool = self.types if isinstance(self.types, Mapping) else {"": self.types}
        left = {pool: [_without(one, label, values) for one in of] for pool, of in by_pool.items()}
        return replace(self, types=left if isinstance(self.types, Mapping) else left[""])


def _without(kind: InstanceType, label: str, values: Collection[str]) -> InstanceType:
    def is_left(one: Offering) -> bool:
        labels = {ZONE: one.zone, CAPACITY_TYPE: one.capacity_type, INSTANCE_TYPE: kind.name}
        return labels.get(label) not in values

    return replace(kind, offerings=tuple(filter(is_left, kind.offerings)))


def scale_up(scheduler: PodScheduler, growth: Growth, keep: bool = False) -> ScaleUp:
    """Place pods and make nodes in turn; see `Scheduler.scale_up`."""
    check_options(growth.options)
    with scheduler.transaction() as transaction:
        answer = grow(scheduler, growth, scheduler.run(), scheduler.run)
        if keep:
            transaction.commit()
    return answer


def grow(
    scheduler: PodScheduler, growth: Growth, result: ScheduleResult, run: Callable[[], ScheduleResult]
) -> ScaleUp:
    """Make nodes for pods that a run has not placed, and run again, until nothing changes.

    Parameters
    ----------
    run : callable
        Places pods, and returns the result of all runs or of this one.
    """
    left = left_pods(scheduler, result)
    found = _Found(growth, left)
    while left:
        found.answer = answer = provision_pods(scheduler, [*left], growth.types, growth.options, growth.seed)
        claims = [claim for claim in answer.claims if claim.launched is not None]
        found.complete = not claims
        if not claims or found.is_stalled or found.rounds == MOST_ROUNDS:
            break
        found.rounds += 1
        found.made |= make_nodes(scheduler, claims, found.rounds, growth.past_names)
        left = left_pods(scheduler, run())
        found.take(left, {key for claim in claims for key in claim.pods})
    return found.scale_up(scheduler)


def left_pods(scheduler: PodScheduler, result: ScheduleResult) -> dict[str, str]:
    """The pods that the scheduler has tried and not placed, with its reasons."""
    pending = scheduler.pods.pending
    return {key: failure.search_message for key, failure in result.unschedulable.items() if key in pending}


@dataclass
class _Found:
    """What the rounds have come to so far."""

    growth: Growth
    left: dict[str, str]
    rounds: int = 0
    answer: Provisioning = field(default_factory=Provisioning)
    made: dict[str, NewNode] = field(default_factory=dict)
    tried: dict[str, None] = field(default_factory=dict)
    late: list[LatePod] = field(default_factory=list)
    promised: dict[str, str] = field(default_factory=dict)
    is_stalled: bool = False
    complete: bool = True

    def take(self, left: dict[str, str], planned: Container[str]) -> None:
        """Note which pods are left after a round, of which Karpenter had planned some on new nodes."""
        self.tried |= dict.fromkeys(self.left)
        self.late += [LatePod(key, self.rounds, why) for key, why in self.promised.items() if key not in left]
        self.promised = {key: self.promised.get(key, why) for key, why in left.items() if key in planned}
        self.is_stalled = left.keys() == self.left.keys()  # the new nodes took no pod
        self.left, self.complete = left, True

    def scale_up(self, scheduler: PodScheduler) -> ScaleUp:
        stored: list[Pod] = scheduler.client.list(Pod)[0]
        placed = {
            pod.key: pod.spec.node_name for pod in stored if pod.key in self.tried and pod.spec.node_name
        }
        on: dict[str, list[str]] = {}
        for key, node in placed.items():
            on.setdefault(node, []).append(key)
        refused = {key: error.text for key, error in self.answer.errors.items()} | self.answer.ignored
        return ScaleUp(
            self.rounds,
            tuple([node._replace(pods=tuple(on.get(node.name, ()))) for node in self.made.values()]),
            placed,
            tuple([WaitingPod(key, refused.get(key, ""), why) for key, why in self.left.items()]),
            tuple(self.late),
            self.complete,
            self.answer.pools,
            self.growth.seed,
        )


def make_nodes(
    scheduler: PodScheduler, claims: Iterable[NewClaim], turn: int, past_names: Collection[str] = ()
) -> dict[str, NewNode]:
    """Create the nodes of claims, as they are once they are ready, and the claims."""
    client = scheduler.client
    scheduler.sync()
    pools: dict[str, NodePool] = {pool.name: pool for pool in client.list(NodePool)[0]}
    taken = {node.name for node in client.list(Node)[0]} | {*past_names}
    new, made = list[Object](), dict[str, NewNode]()
    for claim in claims:
        assert claim.cheapest is not None
        names = (f"{claim.pool}-{number}" for number in count(1))
        name = next(name for name in names if name not in taken)
        taken.add(name)
        made[name] = NewNode(name, claim.pool, *claim.cheapest[:3], claim.price, turn)
        new += claim_and_node(claim, name, pools[claim.pool])
    for one in new:
        validate(one)
    for one in with_own_uids(client, [*chain.from_iterable(defaults([one]) for one in new)]):
        client.create(one)
    scheduler.sync()
    return made


def make_ahead(scheduler: PodScheduler, growth: Growth, change: Callable[[PodScheduler], object]) -> ScaleUp:
    """Make the nodes that would come after a change, which itself is taken back."""
    client = scheduler.client
    with scheduler.transaction():
        change(scheduler)
        scheduler.sync()
        up = grow(scheduler, growth, scheduler.run(), scheduler.run)
        kinds: tuple[type[Object], ...] = (NodeClaim, Node)
        made = [client.get(kind, node.name) for node in up.nodes for kind in kinds]
    for one in made:
        fresh = with_fields(one.metadata, uid="", resource_version="")
        (own,) = with_own_uids(client, [with_fields(one, metadata=fresh)])
        client.create(own)
    scheduler.sync()
    return up
