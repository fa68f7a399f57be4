"""What autoscalers make: nodes with their names, and the objects that describe them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from msgspec import UNSET

from moorage.cluster import PodScheduler
from moorage.cluster.change import with_own_uids
from moorage.cluster.node_changes import NodeCopies
from moorage.kube import Node, NodeClaim, Object
from moorage.kube.admission.validate_object import validate
from moorage.kube.read.object_defaults import defaults
from moorage.store import ObjectClient

from .autoscaler_protocol import Made
from .hourly_cost import HourlyCost
from .karpenter.new_nodes_result import LaunchChoice
from .providers.instance_type import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from .scale_up_answer import NewNode


class NodeNames:
    """Names of new nodes, which no node or claim has; they are numbered by pool or group.

    Parameters
    ----------
    taken : set of str
        Names that no node gets; it notes here those that it has seen.
    serials : dict of str to int
        The last number of each pool or group, which is kept up to date.
    """

    def __init__(self, client: ObjectClient, taken: set[str], serials: dict[str, int] | None = None) -> None:
        taken |= {obj.name for kind in (Node, NodeClaim) for obj in client.list(kind)[0]}
        self._taken = taken
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

    def __init__(self, scheduler: PodScheduler, turn: int, past_names: set[str]) -> None:
        scheduler.sync()
        self._scheduler, self._turn = scheduler, turn
        self.names, self.copies = NodeNames(scheduler.client, past_names), NodeCopies(scheduler.client)
        self.objects, self._new_nodes = list[Object](), dict[str, NewNode]()

    def add(
        self,
        node: Node,
        like: Node | None,
        pool: str,
        cost: HourlyCost,
        by: str,
        choice: LaunchChoice | None = None,
    ) -> None:
        """Add a node of a pool or group, with objects as those that describe a node which it is like."""
        self.objects += [node, *(() if like is None else self.copies.parts(like, node))]
        labels = node.metadata.labels
        kind, zone, sold = (labels.get(key, "") for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE))
        (price, least), (how, types, zones) = cost.shown, choice or LaunchChoice()
        self._new_nodes[node.name] = NewNode(
            node.name,
            by,
            pool,
            kind,
            zone,
            sold,
            price,
            self._turn,
            least=least,
            choices=types if types > 1 else UNSET,
            zones=zones if len(zones) > 1 else UNSET,
            chosen=how if types > 1 or len(zones) > 1 else UNSET,
        )

    def create(self) -> Made:
        """Create the nodes, and all other objects."""
        return self._new_nodes, create(self._scheduler, self.objects)


def create(scheduler: PodScheduler, new: Iterable[Object]) -> list[Object]:
    """Create objects with their defaults; return these."""
    objects = [*chain.from_iterable(defaults([each]) for each in new)]
    for each in objects:
        validate(each)
    for each in with_own_uids(scheduler.client, objects):
        scheduler.client.create(each)
    scheduler.sync()
    return objects
