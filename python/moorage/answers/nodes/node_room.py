"""Room on nodes: what is allocatable, requested and free, and who holds it; also on groups of nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from functools import cache
from itertools import compress
from typing import Literal

from msgspec import UNSET, UnsetType

from moorage.autoscalers.hourly_cost import rounded
from moorage.cluster import PodScheduler
from moorage.controllers.store_control import workloads_of
from moorage.document import Amount, Count, Document
from moorage.errors import InputError, no_label
from moorage.grouped import grouped
from moorage.kube.admission.pod_requests import pod_limits
from moorage.kube.model.cluster import seconds
from moorage.kube.model.meta import whole
from moorage.kube.model.node import INSTANCE_TYPE, REJECTING_EFFECTS, SHORT_LABELS, Node
from moorage.kube.model.pod import Pod
from moorage.kube.workloads.ownership import Workload, Workloads
from moorage.lazy import NamedTuple, lazy_attribute

from ..asked_pods import free_amounts
from .driver_devices import DriverRoom, room_of_drivers
from .measured_use import MeasuredUse, measured_use, usage_by_name
from .paid_room import PaidRoom, PriceOf, price_fields, unknown_price

# ---- groups of nodes by a label; zone, region, type and pool have short names ------------------------------

POOL_LABELS = (*SHORT_LABELS["pool"], INSTANCE_TYPE)
"""Labels of pools of nodes, and last the type of machines; the first that some node has is taken."""
NAMES = {**SHORT_LABELS, "pool": POOL_LABELS}
VERSION = "version"
"""Names no label, but the version of the kubelet."""


def grouped_rows(
    scheduler: PodScheduler, by: str, more: Collection[str] = NAMES
) -> tuple[str, dict[str, list[int]]]:
    """Return the rows of the nodes with each value of a label.

    Parameters
    ----------
    by : str
        The key of a label; "zone", "region", "type" or "pool", if no node has a label of that name, and
        "version", if it is among `more`.
    more : collection of str
        What a user may have meant beside labels.

    Returns
    -------
    label : str
        Its key.
    rows : dict of str to list of int
        By value, in list order; None of the nodes without the label.

    Raises
    ------
    InputError
        No node has the label, or says its version.
    """
    objects, rows = scheduler.table.objects, scheduler.context.view_rows().tolist()
    labels = [{} if (node := objects[row]) is None else node.metadata.labels for row in rows]
    for label in (by, *NAMES.get(by, ())):
        groups = grouped((its[label], row) for row, its in zip(rows, labels, strict=True) if label in its)
        if groups:
            return label, groups
    if by == VERSION in more:
        nodes = [(node, row) for row in rows if (node := objects[row]) is not None]
        versions = ((node.status.node_info.kubelet_version, row) for node, row in nodes)
        if groups := grouped(each for each in versions if each[0]):
            return by, groups
        raise InputError("no node says the version of its kubelet, in status.nodeInfo.kubeletVersion")
    raise InputError(no_label(NAMES.get(by, (by,)), {label for its in labels for label in its}, more))


def common_value(scheduler: PodScheduler, by: str) -> Callable[[list[int]], str]:
    """Return a function of rows to the value of a label that all their nodes have; "" where they differ, or
    have none. See `grouped_rows`."""
    try:
        groups = grouped_rows(scheduler, by)[1]
    except InputError:  # no node has it
        groups = {}
    values = {row: value for value, rows in groups.items() for row in rows}

    def common(rows: list[int]) -> str:
        return only({values.get(row, "") for row in rows})

    return common


def only(values: Set[str]) -> str:
    """Return the only one of some values; "" of several."""
    return next(iter(values)) if len(values) == 1 else ""


def node_status(node: Node) -> str:
    """Return the STATUS of ``kubectl get nodes``, with pressures; "" where the input does not say it."""
    conditions = {condition.type: condition.status for condition in node.status.conditions}
    words = [{"True": "Ready", "False": "NotReady", "": ""}.get(conditions.get("Ready", ""), "Unknown")]
    words += sorted(name for name, status in conditions.items() if name in _TROUBLES and status == "True")
    words += ["SchedulingDisabled"] * node.spec.unschedulable
    return ",".join(filter(None, words))


# ---- room and who holds it ---------------------------------------------------------------------------------

FIRST = ("cpu", "memory")
PODS = "pods"
HOLDERS = 3
_TROUBLES = frozenset(("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"))
NO_LABEL, EMPTY = "(none)", "(empty)"


def shown_rank(resource: str) -> tuple[bool, str]:
    """Rank cpu and memory before other resources."""
    return resource not in FIRST, resource


class Holder(Document, frozen=True):
    """A workload that holds room on nodes."""

    namespace: str
    workload: str
    """Such as ``deployment/web``."""
    pods: Count
    """How many of its pods are there."""
    requested: dict[str, Count]
    """By resource; cpu in millicores."""


class Room(Document, frozen=True):
    """The room on a node, or on the nodes with one value of a label.

    pods, cpu and memory are always among its resources, even if no node has any yet; an extended resource is
    where some of its nodes have it.
    """

    name: str
    """Of the node, or the value of the label: "(none)" for the nodes without it, "(empty)" for an empty
    one."""
    nodes: Count
    zone: str
    """Of all its nodes; empty where they differ, or have none."""
    pool: str
    """As zone: by the label of a NodePool, else of a provider's node group, else the machine type."""
    type: str
    """As zone: the machine type."""
    schedulable: Count
    """Nodes that are not cordoned."""
    allocatable: dict[str, Count]
    """By resource; cpu in millicores."""
    requested: dict[str, Count]
    """By resource; cpu in millicores."""
    limits: dict[str, Count]
    """What the pods may use at most, of resources for which they say so."""
    free: dict[str, Count]
    """The sum of what is free on each node, of which none has less than 0, for pods without tolerations: on
    nodes that are neither cordoned nor have a taint of effect NoSchedule or NoExecute."""
    restricted: dict[str, Count]
    """What is free on the other nodes."""
    largest: dict[str, Count]
    """Requests of the largest pod that still fits: what is free on the schedulable node with room for a pod
    that has the largest part of its cpu and memory together to spare. Empty where none does."""
    taints: tuple[str, ...]
    """``KEY=VALUE:EFFECT``, of any of the nodes."""
    holders: tuple[Holder, ...]
    """The three workloads with the largest share of a resource; of selected nodes all."""
    devices: dict[str, DriverRoom]
    """By driver, those of ResourceSlices."""
    price: Amount | UnsetType = UNSET
    """Per hour, of those of its nodes whose price is known: at most."""
    idle: Amount | UnsetType = UNSET
    """The part of the price of what is not requested. A node counts by the largest of the requested shares of
    its cpu, memory, extended resources and devices."""
    use: dict[str, MeasuredUse] | UnsetType = UNSET
    """By resource, where there are metrics of some of its nodes."""
    unpriced: Count | UnsetType = UNSET
    """How many of its nodes have no known price, where some have one and some have none."""
    least: Amount | UnsetType = UNSET
    """Where price is a bound, as a spot price is not known: what they cost at least."""
    share: dict[str, Amount] | UnsetType = UNSET
    """By resource, the requested part of what is allocatable: more than 1 on nodes that are overcommitted."""
    created: str | UnsetType = UNSET
    """When the oldest of its nodes was created, where that is known."""
    status: str = ""
    """As zone: as ``kubectl get nodes`` shows it, with the pressures that the kubelet tells of."""
    version: str = ""
    """As zone: of the kubelet."""

    @property
    def fullest(self) -> float:
        """The larger of the requested shares of cpu and memory."""
        return max((self.share or {}).get(name, 0.0) for name in FIRST)


class NodesDocument(Document, frozen=True, kw_only=True):
    """The answer of ``moorage nodes``."""

    api_version: Literal["nodes.moorage.dev/v1"] = "nodes.moorage.dev/v1"
    kind: Literal["Nodes"] = "Nodes"
    by: str
    """node, or the label as given."""
    items: Sequence[Room]


def node_room(
    scheduler: PodScheduler,
    names: Sequence[str] | None = None,
    by: str = "",
    price_of: PriceOf = unknown_price,
) -> list[Room]:
    """Return the room on nodes; see `Questions.node_room`."""
    return [room.document() for room in NodeRooms(scheduler, names, price_of).by(by)]


def rows_of(scheduler: PodScheduler, names: Sequence[str] | None) -> list[int]:
    """Return the rows of nodes in list order; of all without names."""
    rows: list[int] = scheduler.context.view_rows().tolist()
    if names is None:
        return rows
    wanted = {scheduler.cache.state.find_row(name) for name in names}
    return [row for row in rows if row in wanted]


class _Held(NamedTuple):
    """What the pods of a node hold."""

    limits: Counter[str]
    """By resource; cpu in millicores."""
    pods: Counter[tuple[Workload, int]]
    """How many of each workload and class."""


class NodeRooms:
    """The room on nodes, also by several labels: the pods of a node are counted once.

    The scheduler does not change as long as it is asked.

    Parameters
    ----------
    names, price_of
        See `Questions.node_room`.
    """

    def __init__(self, scheduler: PodScheduler, names: Sequence[str] | None, price_of: PriceOf) -> None:
        scheduler.sync()
        table = scheduler.table
        self.scheduler, self.rows = scheduler, rows_of(scheduler, names)
        self.most = HOLDERS if names is None else None
        self.paid, self.usage = PaidRoom(scheduler, price_of), usage_by_name(scheduler)
        # As lists: most rooms are of one row.
        self.allocatable = {name: table.column("allocatable", name).tolist() for name in table.allocatable}
        self.requested = {name: table.column("requested", name).tolist() for name in table.allocatable}
        self.free = {name: free_amounts(scheduler, name).tolist() for name in table.allocatable}
        self.zone, self.pool = common_value(scheduler, "zone"), common_value(scheduler, "pool")
        self.type = common_value(scheduler, INSTANCE_TYPE)
        workloads, state = workloads_of(scheduler.client), scheduler.cache.state
        self._limits_of = dict[tuple[int, ...], dict[str, int]]()
        self._workload_of = dict[int, Workload]()
        self.held = cache(lambda row: self._count(state.pods_of(row), workloads))

    def by(self, label: str = "") -> list[LazyRoom]:
        """Return the room on each node, or on the nodes with each value of a label.

        Raises
        ------
        InputError
            No node has the label.
        """
        groups = {str(self.scheduler.table.row_name(row)): [row] for row in self.rows}
        if label:
            kept = set(self.rows)
            others = (VERSION, "namespace", "workload", "device")
            _, every = grouped_rows(self.scheduler, label, (*NAMES, *others))
            listed = [(name or EMPTY, every[name]) for name in sorted(every)]
            labelled = {row for its in every.values() for row in its}
            listed.append((NO_LABEL, [row for row in self.rows if row not in labelled]))
            groups = {
                name: its for name, of_value in listed if (its := [row for row in of_value if row in kept])
            }
        used = [
            name
            for name, column in self.allocatable.items()
            if name == PODS or name in FIRST or any(column[row] for row in self.rows)
        ]
        used.sort(key=shown_rank)
        return [LazyRoom(self, name, rows, used) for name, rows in groups.items()]

    def _count(self, pods: Iterable[Pod], workloads: Workloads) -> _Held:
        classes, of_class = self.scheduler.cache.state.classes, self._workload_of
        held = _Held(Counter(), Counter())
        for pod in pods:
            pod_class, spec = classes.intern(pod), pod.spec
            if (workload := of_class.get(pod_class)) is None:
                workload = workloads.of(pod)
                if pod.metadata.controller() is not None:  # which pods of a class share
                    of_class[pod_class] = workload
            held.pods[workload, pod_class] += 1
            # Pods of one template share these parts.
            parts = id(spec.containers), id(spec.init_containers), id(spec.resources), id(spec.overhead)
            if (limits := self._limits_of.get(parts)) is None:
                limits = {name: whole(name, amount) for name, amount in pod_limits(pod).items()}
                self._limits_of[parts] = limits
            if limits:
                held.limits.update(limits)
        return held

    @staticmethod
    def sums(columns: Mapping[str, list[int]], rows: list[int], names: list[str]) -> dict[str, int]:
        """Return the sums of columns over rows."""
        return {name: sum([columns[name][row] for row in rows]) for name in names}

    def use(self, rows: list[int]) -> dict[str, MeasuredUse] | UnsetType:
        """Return what is measured of nodes."""
        names = (f"Node {self.scheduler.table.row_name(row)}" for row in rows)
        needs = ({name: column[row] for name, column in self.requested.items()} for row in rows)
        return measured_use(self.usage, zip(names, needs, strict=True)) if self.usage else UNSET


class LazyRoom:
    """The room on nodes, with the attributes of `Room`; those that a usual table does not show are computed
    when they are read."""

    def __init__(self, of: NodeRooms, name: str, rows: list[int], names: list[str]) -> None:
        self._of, self._rows, objects = of, rows, of.scheduler.table.objects
        self._names = [
            each for each in names if "/" not in each or any(of.allocatable[each][row] for row in rows)
        ]
        self._objects = nodes = [node for row in rows if (node := objects[row]) is not None]
        self._open = [row for row, node in zip(rows, nodes, strict=True) if not node.spec.unschedulable]
        is_free = [
            not (
                node.spec.unschedulable
                or any(taint.effect in REJECTING_EFFECTS for taint in node.spec.taints)
            )
            for node in nodes
        ]
        closed = [row for row, yes in zip(rows, is_free, strict=True) if not yes]
        self.name, self.nodes, self.schedulable = name, len(rows), len(self._open)
        self.zone, self.pool, self.type = of.zone(rows), of.pool(rows), of.type(rows)
        self.allocatable, self.requested = (
            of.sums(columns, rows, self._names) for columns in (of.allocatable, of.requested)
        )
        self.free, self.restricted = (
            of.sums(of.free, each, self._names) for each in ([*compress(rows, is_free)], closed)
        )
        self.devices = room_of_drivers(of.paid.devices.get(node.name, {}) for node in nodes)
        known = [paid for row in rows if (paid := of.paid.of(row)) is not None]
        prices = price_fields([price for price, _ in known], len(rows))
        self.price, self.unpriced, self.least = (
            prices.get(each, UNSET) for each in ("price", "unpriced", "least")
        )
        self.idle = rounded(sum(price.most * idle for price, idle in known)) if known else UNSET
        self.use = of.use(rows)

    def document(self) -> Room:
        """Return the room with all that is known of it."""
        return Room.from_object(self)

    @lazy_attribute
    def limits(self) -> dict[str, int]:
        """The sums of limits, cpu in millicores."""
        limits = Counter[str]()
        for row in self._rows:
            limits.update(self._of.held(row).limits)
        return {name: limits[name] for name in self._names if name in limits}

    @lazy_attribute
    def largest(self) -> dict[str, int]:
        """What is free on the node with the largest pod that fits; nothing where none does."""
        free, (cpu, memory) = self._of.free, (self._of.free[name] for name in FIRST)
        rows = [row for row in self._open if free[PODS][row]]
        if not rows:
            return {}
        most_cpu, most_memory = (max(1, *[column[row] for row in rows]) for column in (cpu, memory))
        best = max(rows, key=lambda row: min(cpu[row] / most_cpu, memory[row] / most_memory))
        return {name: amount for name in self._names if name != PODS and (amount := free[name][best])}

    @lazy_attribute
    def holders(self) -> tuple[Holder, ...]:
        """The workloads, those with the largest share of a resource first."""
        held, classes = Counter[tuple[Workload, int]](), self._of.scheduler.cache.state.classes
        for row in self._rows:
            held.update(self._of.held(row).pods)
        pods, requested = Counter[Workload](), dict[Workload, Counter[str]]()
        for (workload, pod_class), number in held.items():
            pods[workload] += number
            sums = requested.setdefault(workload, Counter())
            for name, need in classes.shape_of(pod_class).needs.items():
                sums[name] += number * need
        totals = self.allocatable

        def share(workload: Workload) -> float:
            needs = requested[workload].items()
            return max([0.0, *[need / totals[name] for name, need in needs if totals.get(name)]])

        first = sorted(pods, key=share, reverse=True)[: self._of.most]
        return tuple([Holder(pod.namespace, pod.text, pods[pod], dict(requested[pod])) for pod in first])

    @lazy_attribute
    def taints(self) -> tuple[str, ...]:
        """The texts of taints of any of the nodes."""
        return tuple(dict.fromkeys(taint.text for node in self._objects for taint in node.spec.taints))

    @lazy_attribute
    def share(self) -> dict[str, float]:
        """By resource, the requested part of what is allocatable."""
        return {name: self.requested[name] / total for name, total in self.allocatable.items() if total}

    @property
    def fullest(self) -> float:
        """The larger of the requested shares of cpu and memory."""
        return max(self.share.get(name, 0.0) for name in FIRST)

    @lazy_attribute
    def created(self) -> str | UnsetType:
        """When the oldest node was created."""
        store = self._of.scheduler.store
        undated = frozenset[str]() if store is None else store.undated
        dated = (node for node in self._objects if node.metadata.uid not in undated)
        times = (node.metadata.creation_timestamp for node in dated)
        return min((time for time in times if time and seconds(time) > 0), default=UNSET)

    @lazy_attribute
    def status(self) -> str:
        """What `node_status` says of all nodes alike."""
        return only({node_status(node) for node in self._objects})

    @lazy_attribute
    def version(self) -> str:
        """The version of the kubelet that all nodes have."""
        return only({node.status.node_info.kubelet_version for node in self._objects})
