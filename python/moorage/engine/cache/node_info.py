"""What a scheduling cycle reads: nodes as views or copies (NodeInfo), in a Snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, Self, TypeVar

from moorage._core.state.cluster_state import ClusterState
from moorage._core.state.pod_class import PodClasses, Shape
from moorage._core.state.row_copies import RowCopies
from moorage.errors import CacheError
from moorage.kube import Node, Pod, Taint

Images = dict[str, tuple[int, int]]
Ports = frozenset[tuple[str, str, int]]

NOT_FOUND = 'nodeinfo not found for node name "{}"'


@dataclass
class Resource:
    """Amounts of resources.

    Attributes
    ----------
    milli_cpu : int
        Cpu in millicores.
    memory, ephemeral_storage : int
        Bytes.
    allowed_pod_number : int
        Number of pods.
    scalar_resources : dict of str to int
        Other resources by name, in units (huge pages in bytes).
    """

    milli_cpu: int = 0
    memory: int = 0
    ephemeral_storage: int = 0
    allowed_pod_number: int = 0
    scalar_resources: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ImageStateSummary:
    """An image on a node.

    Attributes
    ----------
    size : int
        Bytes.
    num_nodes : int
        Number of nodes that had the image when this node was set (v1.13); in a `Snapshot` and for plugins,
        when this node was last copied for scheduling (v1.36).
    """

    size: int
    num_nodes: int


class NodeInfoLists:
    """Lists that are derived from the pods of a node."""

    pods: list[Pod]

    @property
    def pods_with_affinity(self) -> list[Pod]:
        """Return the pods with pod affinity or anti-affinity, even without terms."""
        return [pod for pod in self.pods if has_pod_affinity(pod)]

    @property
    def pods_with_required_anti_affinity(self) -> list[Pod]:
        """Return the pods with required anti-affinity terms."""
        return [pod for pod in self.pods if has_required_anti_affinity(pod)]


class NodeInfo(NodeInfoLists):
    """A read-only view of the node with a certain name; each attribute is copied when it is read.

    Reading an attribute is atomic with regard to writing threads. Two attributes can be of different moments;
    the attributes of a `clone` are of one moment. After the node and its last pod have been removed, only
    `name` and `node` (None) can be read, and other attributes raise CacheError. If a node with this name is
    added again, the view shows that node.

    Parameters
    ----------
    source : ClusterState or RowCopies
        The state of a cache, or a snapshot.
    images : callable, optional
        Returns the images of a row; by default `source.images_of`.

    Attributes
    ----------
    node : Node or None
        None for a ghost: the node was removed or not yet added, but pods name it.
    pods : list of Pod
        In the order of the row, including assumed pods, with spec.node_name set.
    requested, nonzero_requested, allocatable : Resource
    used_ports : frozenset of (str, str, int)
        (IP, protocol, port) of the host ports.
    image_states : dict of str to ImageStateSummary
        By image name.
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
        """Return the row of the node; raise CacheError if there is none."""
        row = self._source.find_row(self.name)
        if row is None:
            raise CacheError(NOT_FOUND.format(self.name))
        return row

    @property
    def node(self) -> Node | None:
        """Return the Node; None for a ghost."""
        with self._source.lock:
            row = self._source.find_row(self.name)
            return None if row is None else self._source.table.objects[row]

    @property
    def pods(self) -> list[Pod]:  # type: ignore[override]
        """Return the pods, in the order of the row."""
        with self._source.lock:
            return self._source.pods_of(self._row())

    def _resource(self, which: int, ledger: int = 0) -> Resource:
        """Return allocatable (0), requested (1) or NonZeroRequested (2) of one resource ledger."""
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
        """Return the allocatable resources."""
        return self._resource(0)

    @property
    def requested(self) -> Resource:
        """Return the sum of the requests of the pods."""
        return self._resource(1)

    @property
    def nonzero_requested(self) -> Resource:
        """Return the sum of the requests of cpu and memory, with defaults where a container has none."""
        return self._resource(2)

    @property
    def used_ports(self) -> Ports:
        """Return the host ports in use."""
        with self._source.lock:
            return self._source.table.row_ports(self._row())

    @property
    def image_states(self) -> dict[str, ImageStateSummary]:
        """Return the images on the node, by name."""
        with self._source.lock:
            images = self._images(self._row())
        return {name: ImageStateSummary(*state) for name, state in images.items()}

    @property
    def taints(self) -> tuple[Taint, ...]:
        """Return the taints of the node."""
        node = self.node
        return node.spec.taints if node is not None else ()

    @property
    def generation(self) -> int:
        """Return a number that grows with every change of the node or its pods."""
        with self._source.lock:
            return self._source.table.row_generation(self._row())

    def clone(self) -> NodeInfoClone:
        """Return a copy, at the same generation, that pods can be added to and removed from."""
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
    """A copy of a NodeInfo, for what-if questions.

    Attributes
    ----------
    classes : PodClasses
        The pod classes of the cache.

    The other attributes are as in `NodeInfo`.
    """

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

    def add_pod(self, pod: Pod) -> None:
        """Add a pod, its requests and its host ports."""
        self._account(pod, 1)
        self.used_ports |= self._host_ports(pod)
        self.pods.append(pod)

    def remove_pod(self, pod: Pod) -> None:
        """Remove a pod; the last pod moves to its place, as in NodeInfo.RemovePod of kube-scheduler v1.36.

        Parameters
        ----------
        pod : Pod
            Identified by its UID.

        Raises
        ------
        CacheError
            `pods` does not contain the pod.
        """
        for at, held in enumerate(self.pods):
            if held.metadata.uid == pod.metadata.uid:
                last = self.pods.pop()
                if at < len(self.pods):
                    self.pods[at] = last
                self._account(pod, -1)
                self.used_ports -= self._host_ports(pod)
                return
        raise CacheError(f"no corresponding pod {pod.key} in pods of node {self.name}")

    def _host_ports(self, pod: Pod) -> Ports:
        """Return the host ports of a pod."""
        names = self.classes.symbols.names
        shape = self.classes.shape_of(self.classes.intern(pod))
        return frozenset((names[ip] or "", names[protocol] or "", port) for ip, protocol, port in shape.ports)

    def _account(self, pod: Pod, sign: int) -> None:
        """Add (sign 1) or subtract (sign -1) the requests of a pod."""
        charge(self.classes.shape_of(self.classes.intern(pod)), sign, self.requested, self.nonzero_requested)

    def clone(self) -> Self:
        """Return another copy."""
        return replace(
            self,
            pods=list(self.pods),
            requested=copy_of(self.requested),
            nonzero_requested=copy_of(self.nonzero_requested),
            allocatable=copy_of(self.allocatable),
            image_states=dict(self.image_states),
        )


def charge(shape: Shape, sign: int, requested: Resource, nonzero_requested: Resource) -> None:
    """Add the requests of a pod to amounts, or subtract them.

    Parameters
    ----------
    shape : Shape
        The shape of the pod.
    sign : int
        1 to add, -1 to subtract.
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
    """Return an independent copy of amounts."""
    return replace(amounts, scalar_resources=dict(amounts.scalar_resources))


def has_pod_affinity(pod: Pod) -> bool:
    """Whether a pod has pod affinity or anti-affinity, even without terms."""
    affinity = pod.spec.affinity
    return affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity) is not None


def has_required_anti_affinity(pod: Pod) -> bool:
    """Whether a pod has required anti-affinity terms."""
    affinity = pod.spec.affinity
    return bool(affinity and affinity.pod_anti_affinity and affinity.pod_anti_affinity.required)


# ---- snapshot ----------------------------------------------------------------------------------------------

Info = TypeVar("Info", bound=NodeInfo)


class Snapshot(RowCopies):
    """A copy of the nodes of a cache, in list order, as of the last `SchedulerCache.update_snapshot`.

    Ghosts are not included. The rules are as in kube-scheduler v1.36, snapshot.go and cache.go
    UpdateSnapshot. A NodeInfo of the snapshot is a view of it, so it shows the new state after an update.
    """

    @property
    def generation(self) -> int:
        """Return the sequence number of the last change that this snapshot contains."""
        return self.cursor

    @property
    def num_nodes(self) -> int:
        """Return the number of nodes."""
        return len(self.row_list())

    @property
    def node_info_list(self) -> list[NodeInfo]:
        """Return the NodeInfos of all nodes, in list order."""
        return [NodeInfo(self, name) for name in self.names()]

    @property
    def have_pods_with_affinity_list(self) -> list[NodeInfo]:
        """Return the nodes with a pod that has pod affinity or anti-affinity, in list order."""
        return [info for info in self.node_info_list if any(map(has_pod_affinity, info.pods))]

    @property
    def have_pods_with_required_anti_affinity_list(self) -> list[NodeInfo]:
        """Return the nodes with a pod that has required anti-affinity terms, in list order."""
        return [info for info in self.node_info_list if any(map(has_required_anti_affinity, info.pods))]

    def get(self, name: str) -> NodeInfo:
        """Return the NodeInfo of a node.

        Raises
        ------
        CacheError
            The node is not in the snapshot.
        """
        if self.find_row(name) is None:
            raise CacheError(NOT_FOUND.format(name))
        return NodeInfo(self, name)


class NodeInfos(Mapping[str, Info]):
    """A mapping from node name to NodeInfo, ghosts included; each access creates a NodeInfo.

    The row with an empty name, which holds pods without a node, is left out.

    Parameters
    ----------
    state : ClusterState
        A state that does not change.
    make : callable
        Returns the NodeInfo of a node name.
    """

    def __init__(self, state: ClusterState, make: Callable[[str], Info]) -> None:
        self._names = dict.fromkeys(name for name in state.table.names if name)
        self._make = make

    def __getitem__(self, name: str) -> Info:
        if name not in self._names:
            raise KeyError(name)
        return self._make(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass(frozen=True)
class CacheDump(Generic[Info]):
    """The content of a cache at one moment (v1.13, Cache.Snapshot); independent of the cache.

    Attributes
    ----------
    assumed_pods : dict of str to bool
        True for the UID of each assumed pod.
    nodes : mapping of str to NodeInfo
        All nodes, ghosts included. The values are QosNodeInfo for a `BinderCache`.
    """

    assumed_pods: dict[str, bool]
    nodes: Mapping[str, Info]


def dump(state: ClusterState) -> CacheDump[NodeInfo]:
    """Return the content of a state, as a dump over a copy."""
    copy = state.fork()
    infos = NodeInfos(copy, lambda name: NodeInfo(copy, name))
    return CacheDump(dict.fromkeys(copy.assumed_pods(), True), infos)
