"""NodeInfo: one node of a cache, as a view of its row or as a copy; maps of copies that follow the cache."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Self

from moorage._core.state.cluster_state import ClusterState
from moorage._core.state.pod_class import PodClasses, Shape
from moorage._core.state.row_copies import RowCopies
from moorage.errors import CacheError
from moorage.objects import Node, Pod, Taint

Images = dict[str, tuple[int, int]]
Ports = frozenset[tuple[str, str, int]]

NOT_FOUND = 'nodeinfo not found for node name "{}"'


@dataclass
class Resource:
    """Amounts: millicores, bytes, pods; scalar resources in their own units."""

    milli_cpu: int = 0
    memory: int = 0
    ephemeral_storage: int = 0
    allowed_pod_number: int = 0
    scalar_resources: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ImageStateSummary:
    """An image on a node: its size in bytes, and how many nodes had it when the node was set (v1.13); in a
    `Snapshot` and for plugins, when the node was last copied for scheduling (v1.36)."""

    size: int
    num_nodes: int


class NodeInfoLists:
    """Lists that derive from the pods of a node."""

    pods: list[Pod]

    @property
    def pods_with_affinity(self) -> list[Pod]:
        """Pods with pod affinity or anti-affinity, even if it holds no terms."""
        return [pod for pod in self.pods if has_pod_affinity(pod)]

    @property
    def pods_with_required_anti_affinity(self) -> list[Pod]:
        """Pods with required anti-affinity terms."""
        return [pod for pod in self.pods if has_required_anti_affinity(pod)]


class NodeInfo(NodeInfoLists):
    """A read-only view of the node of one name: nothing is copied until an attribute is read.

    Each attribute is consistent in itself, also beside a thread that writes; two attributes may differ by a
    write in between, those of a `clone` never. Once the node is gone, and its last pod with it, `name` and
    `node` (None) can be read, and all else is a CacheError; a later node of the same name is shown again.

    Parameters
    ----------
    source : ClusterState or RowCopies
        The state of a cache, or a snapshot.
    name : str
    images : callable, optional
        The images of a row, where not the source's `images_of`.

    Attributes
    ----------
    node : Node or None
        None for a ghost: a node that is gone, or that its pods came before.
    pods : list of Pod
        In the row's order, assumed ones included, each with its node name.
    requested, nonzero_requested, allocatable : Resource
    used_ports : frozenset of (ip, protocol, port)
    image_states : dict of str to ImageStateSummary
    taints : tuple of Taint
    generation : int
        Grows with every change of the node or of its pods.
    """

    def __init__(
        self, source: ClusterState | RowCopies, name: str, images: Callable[[int], Images] | None = None
    ) -> None:
        self.name = name
        self._source = source
        self._images = images or source.images_of

    def __repr__(self) -> str:
        return f"<NodeInfo {self.name}>"

    def _row(self) -> int:
        row = self._source.find_row(self.name)
        if row is None:
            raise CacheError(NOT_FOUND.format(self.name))
        return row

    @property
    def node(self) -> Node | None:
        with self._source.lock:
            row = self._source.find_row(self.name)
            return None if row is None else self._source.table.objects[row]

    @property
    def pods(self) -> list[Pod]:  # type: ignore[override]
        with self._source.lock:
            return self._source.pods_of(self._row())

    def _resource(self, which: int, ledger: int = 0) -> Resource:
        """0 allocatable, 1 requested, 2 non-zero requested; of one ledger."""
        with self._source.lock:
            table, row = self._source.table, self._row()
            amounts = table.row_amounts(row, ledger)
            others = table.row_others(row, ledger) if which < 2 else {}
        out = Resource(amounts[2 * which], amounts[2 * which + 1])
        for name, pair in others.items():
            if name == "ephemeral-storage":
                out.ephemeral_storage = pair[which]
            elif pair[which]:
                out.scalar_resources[name] = pair[which]
        if which == 0:
            out.allowed_pod_number = amounts[7]
        return out

    @property
    def allocatable(self) -> Resource:
        return self._resource(0)

    @property
    def requested(self) -> Resource:
        return self._resource(1)

    @property
    def nonzero_requested(self) -> Resource:
        return self._resource(2)

    @property
    def used_ports(self) -> Ports:
        with self._source.lock:
            return self._source.table.row_ports(self._row())

    @property
    def image_states(self) -> dict[str, ImageStateSummary]:
        with self._source.lock:
            images = self._images(self._row())
        return {name: ImageStateSummary(*state) for name, state in images.items()}

    @property
    def taints(self) -> tuple[Taint, ...]:
        node = self.node
        return node.spec.taints if node is not None else ()

    @property
    def generation(self) -> int:
        with self._source.lock:
            return self._source.table.row_generation(self._row())

    def clone(self) -> NodeInfoClone:
        """A copy that pods can be added to and removed from, at the same generation."""
        with self._source.lock:
            return NodeInfoClone(
                self.name,
                self.node,
                self.pods,
                self.requested,
                self.nonzero_requested,
                self.allocatable,
                self.used_ports,
                self.image_states,
                self.taints,
                self.generation,
                self._source.classes,
            )


@dataclass
class NodeInfoClone(NodeInfoLists):
    """A copy of a NodeInfo, for what-if questions; attributes as `NodeInfo`."""

    name: str
    node: Node | None
    pods: list[Pod]
    requested: Resource
    nonzero_requested: Resource
    allocatable: Resource
    used_ports: Ports
    image_states: dict[str, ImageStateSummary]
    taints: tuple[Taint, ...]
    generation: int
    classes: PodClasses = field(repr=False)
    follower: Follower | None = field(default=None, repr=False, compare=False, kw_only=True)
    """Keeps the map that this is an entry of."""

    def add_pod(self, pod: Pod) -> None:
        """Account for one more pod.

        Parameters
        ----------
        pod : Pod
        """
        self._account(pod, 1)
        self.used_ports |= self._host_ports(pod)
        self.pods.append(pod)

    def remove_pod(self, pod: Pod) -> None:
        """Take a pod back; the last one moves into its place, as in upstream's NodeInfo.RemovePod.

        Parameters
        ----------
        pod : Pod
            Found by its UID.

        Raises
        ------
        CacheError
            The pod is not among `pods`.
        """
        for at, held in enumerate(self.pods):
            if held.metadata.uid == pod.metadata.uid:
                last = self.pods.pop()
                if at < len(self.pods):
                    self.pods[at] = last
                self._account(pod, -1)
                self.used_ports -= self._host_ports(pod)
                return
        raise CacheError(f"no corresponding pod {pod.name} in pods of node {self.name}")

    def _host_ports(self, pod: Pod) -> Ports:
        names = self.classes.symbols.names
        shape = self.classes.shape_of(self.classes.intern(pod))
        return frozenset((names[ip] or "", names[protocol] or "", port) for ip, protocol, port in shape.ports)

    def _account(self, pod: Pod, sign: int) -> None:
        charge(self.classes.shape_of(self.classes.intern(pod)), sign, self.requested, self.nonzero_requested)

    def clone(self) -> Self:
        """Another copy."""
        return replace(
            self,
            pods=list(self.pods),
            requested=copy_of(self.requested),
            nonzero_requested=copy_of(self.nonzero_requested),
            allocatable=copy_of(self.allocatable),
            image_states=dict(self.image_states),
            follower=None,
        )


def charge(shape: Shape, sign: int, requested: Resource, nonzero_requested: Resource) -> None:
    """Account for a pod of a shape.

    Parameters
    ----------
    shape : Shape
    sign : int
        1, or -1 to take it back.
    requested, nonzero_requested : Resource
        Changed in place.
    """
    for into, amounts in ((requested, shape.requests), (nonzero_requested, shape.nonzero_requests)):
        into.milli_cpu += sign * amounts[0]
        into.memory += sign * amounts[1]
    for name, value in shape.other_requests.items():
        if name == "ephemeral-storage":
            requested.ephemeral_storage += sign * value
        else:
            scalars = requested.scalar_resources
            scalars[name] = scalars.get(name, 0) + sign * value


def copy_of(amounts: Resource) -> Resource:
    """A copy of amounts that can be changed."""
    return replace(amounts, scalar_resources=dict(amounts.scalar_resources))


def has_pod_affinity(pod: Pod) -> bool:
    """True where pod affinity or anti-affinity is set, even without terms."""
    affinity = pod.spec.affinity
    return affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity) is not None


def has_required_anti_affinity(pod: Pod) -> bool:
    """True for a pod with required anti-affinity terms."""
    affinity = pod.spec.affinity
    return bool(affinity and affinity.pod_anti_affinity and affinity.pod_anti_affinity.required)


# ---- maps of NodeInfos -------------------------------------------------------------------------------------

NodeInfoMap = MutableMapping[str, NodeInfoClone]


class Follower:
    """Keeps one map of node name to NodeInfo up to date with the change log of a cluster.

    The entries of the map refer to the follower, so it lives as long as the map, and a copied map or one of
    another cache is recognised.

    Parameters
    ----------
    infos : map of str to NodeInfoClone
    state : ClusterState
    """

    def __init__(self, infos: NodeInfoMap, state: ClusterState) -> None:
        self.infos = infos
        self.state = state
        self.size = 0  # of the map after the last update
        self.cursor = -1

    @classmethod
    def of(cls, infos: NodeInfoMap, state: ClusterState) -> Follower:
        """The follower of a map, or a new one where the map has none of this state or was changed."""
        first = next(iter(infos.values()), None)
        follower = first.follower if first is not None else None
        if follower is None or follower.infos is not infos or follower.state is not state:
            return cls(infos, state)
        return follower if follower.size == len(infos) else cls(infos, state)

    def update(self) -> None:
        """Bring the map up to date."""
        log, table = self.state.log, self.state.table
        rows = None if self.cursor < 0 else log.rows_since(self.cursor)
        self.cursor = log.head
        has_new_nodes = [self._update_row(row) for row in (range(table.used) if rows is None else rows)]
        if rows is None or any(has_new_nodes):  # else the names are the same
            for name in [name for name in self.infos if table.find_row(name) is None]:
                del self.infos[name]
        self.size = len(self.infos)

    def _update_row(self, row: int) -> bool:
        """Replace the entry of a row unless it has the row's generation; whether the row has another node."""
        table = self.state.table
        name = table.row_name(row) if row < table.used else None
        if name is None:
            return True
        before = self.infos.get(name)
        state = before.follower.state if before is not None and before.follower is not None else None
        if before is None or state is not self.state or before.generation != table.row_generation(row):
            self.infos[name] = info = NodeInfo(self.state, name).clone()
            info.follower = self
        return before is None
