"""What autoscalers make: nodes with their names, and the objects that describe them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain
from typing import Any

from moorage.cluster import PodScheduler
from moorage.cluster.change import with_own_uids
from moorage.cluster.node_changes import NodeCopies
from moorage.kube import Node, NodeClaim, NodePool, Object
from moorage.kube.admission.validate_object import validate
from moorage.kube.read.object_defaults import defaults
from moorage.store import ObjectClient

from .autoscaler_protocol import Made
from .karpenter.new_nodes_result import NewClaim
from .launched_nodes import claim_and_node
from .providers.instance_type import CAPACITY_TYPE, INSTANCE_TYPE, POOL, ZONE
from .scale_up_answer import NewNode


class NodeNames:
    """Names of new nodes, which no node or claim has; they are numbered by pool or group.

    Parameters
    ----------
    past : collection of str
        Names that no node gets.
    serials : dict of str to int
        The last number of each pool or group, which is kept up to date.
    """

    def __init__(
        self, client: ObjectClient, past: Collection[str] = (), serials: dict[str, int] | None = None
    ) -> None:
        self._taken = {obj.name for kind in (Node, NodeClaim) for obj in client.list(kind)[0]} | {*past}
        self._serials = {} if serials is None else serials

    def new(self, of: str, stem: str) -> str:
        """Return the name of a new node of a pool or group: of the number after the last one, or of the first
        after it that is not taken."""
        while True:
            number = self._serials[of] = self._serials.get(of, 0) + 1
            if (name := f"{stem}-{number}") not in self._taken:
                self._taken.add(name)
                return name


class NodeMaker:
    """Makes nodes of one round, all at once."""

    def __init__(self, scheduler: PodScheduler, turn: int, past_names: Collection[str] = ()) -> None:
        scheduler.sync()
        self._scheduler, self._turn = scheduler, turn
        self.names, self.copies = NodeNames(scheduler.client, past_names), NodeCopies(scheduler.client)
        self.objects, self._new_nodes = list[Object](), dict[str, NewNode]()

    def add(self, node: Node, like: Node | None, pool: str, price: float | None, **details: Any) -> None:
        """Add a node of a pool or group, with objects as those that describe a node which it is like."""
        self.objects += [node, *(() if like is None else self.copies.parts(like, node))]
        labels = node.metadata.labels
        kind, zone, sold = (labels.get(key, "") for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE))
        self._new_nodes[node.name] = NewNode(node.name, pool, kind, zone, sold, price, self._turn, **details)

    def create(self) -> Made:
        """Create the nodes, and all other objects."""
        return self._new_nodes, create(self._scheduler, self.objects)


def make_nodes(
    scheduler: PodScheduler, claims: Iterable[NewClaim], turn: int, past_names: Collection[str] = ()
) -> Made:
    """Create the nodes of claims, as they are once they are ready, and the claims. Their drivers, and so how
    many volumes they take, are those of a node of their pool and type, if there is one."""
    maker, likes = NodeMaker(scheduler, turn, past_names), dict[tuple[str | None, ...], Node]()
    pools: dict[str, NodePool] = {pool.name: pool for pool in scheduler.client.list(NodePool)[0]}
    for node in scheduler.client.list(Node)[0]:
        likes.setdefault(_pool_and_type(node), node)
    for claim in claims:
        assert claim.launched is not None
        pool, is_bound = pools[claim.pool], claim.launched[1].is_bound
        nodes_claim, node = claim_and_node(claim, maker.names.new(pool.name, pool.name), pool)
        maker.objects.append(nodes_claim)
        maker.add(node, likes.get(_pool_and_type(node)), pool.name, claim.price, is_bound=is_bound)
    return maker.create()


def _pool_and_type(node: Node) -> tuple[str | None, ...]:
    return tuple(map(node.metadata.labels.get, (POOL, INSTANCE_TYPE)))


def create(scheduler: PodScheduler, new: Iterable[Object]) -> list[Object]:
    """Create objects with their defaults; return these."""
    objects = [*chain.from_iterable(defaults([each]) for each in new)]
    for each in objects:
        validate(each)
    for each in with_own_uids(scheduler.client, objects):
        scheduler.client.create(each)
    scheduler.sync()
    return objects
