"""Room on nodes: what is allocatable, requested and free, who holds it, and what namespaces and groups of
nodes have of it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, compress
from typing import Any, Literal

import numpy as np
from msgspec import UNSET, UnsetType

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import ZERO, pod_requests
from moorage.autoscalers.group_labels import PROVIDER_LABELS
from moorage.autoscalers.providers.instance_type import CAPACITY_TYPE, INSTANCE_TYPE, InstanceType
from moorage.autoscalers.providers.pool_types import ProvidedTypes, Types, stored_types
from moorage.autoscalers.providers.prices import prices_by
from moorage.cluster import PodScheduler
from moorage.controllers.store_control import admission_of, workloads_of
from moorage.document import Amount, Count, Document
from moorage.errors import InputError, no_label
from moorage.kube import Pod
from moorage.kube.admission.pod_requests import pod_limits
from moorage.kube.admission.resource_quotas import QuotaUsage
from moorage.kube.model.node import ZONE, Node
from moorage.kube.model.policy import ResourceQuota
from moorage.kube.workloads.ownership import Workload
from moorage.notes import RoutineNote
from moorage.store import ObjectClient

from ..asked_pods import free_amounts

# ---- groups of nodes by a label; zone, region and pool have short names ------------------------------------

POOL_LABELS = (
    "karpenter.sh/nodepool",
    *PROVIDER_LABELS,
    INSTANCE_TYPE,
)
"""Labels of pools of nodes, and last the type of machines; the first that some node has is taken."""
NAMES = {
    "zone": (ZONE,),
    "region": ("topology.kubernetes.io/region",),
    "pool": POOL_LABELS,
}


def grouped_rows(
    scheduler: PodScheduler, by: str, more: Iterable[str] = NAMES
) -> tuple[str, dict[str, list[int]]]:
    """Return the rows of the nodes with each value of a label.

    Parameters
    ----------
    by : str
        The key of a label; "zone", "region" or "pool", if no node has a label of that name.
    more : iterable of str
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
        No node has the label.
    """
    objects, rows = scheduler.table.objects, scheduler.context.view_rows().tolist()
    labels = [{} if (node := objects[row]) is None else node.metadata.labels for row in rows]
    for label in (by, *NAMES.get(by, ())):
        groups: dict[str, list[int]] = {}
        for row, its in zip(rows, labels, strict=True):
            if label in its:
                groups.setdefault(its[label], []).append(row)
        if groups:
            return label, groups
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
        of_rows = {values.get(row, "") for row in rows}
        return of_rows.pop() if len(of_rows) == 1 else ""

    return common


# ---- room and who holds it ---------------------------------------------------------------------------------

FIRST = ("cpu", "memory")
PODS = "pods"
HOLDERS = 3
NO_LABEL, EMPTY = "(none)", "(empty)"


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

    pods, cpu and memory are always among its resources, even if no node has any yet.
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
    price: Amount | UnsetType = UNSET
    """Per hour, of those of its nodes whose price is known."""
    idle: Amount | UnsetType = UNSET
    """The part of the price of what is not requested. A node counts by the larger of the requested shares of
    its cpu and memory."""


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
    price_of: Callable[[Node], float | None] = lambda node: None,
) -> list[Room]:
    """Return the room on nodes; see `Scheduler.node_room`."""
    scheduler.sync()
    rows = _rows_of(scheduler, names)
    groups = {str(scheduler.table.row_name(row)): [row] for row in rows}
    if by:
        kept = set(rows)
        every = grouped_rows(scheduler, by, (*NAMES, "namespace", "workload", "device"))[1]
        listed = [(name or EMPTY, every[name]) for name in sorted(every)]
        labelled = {row for its in every.values() for row in its}
        listed.append((NO_LABEL, [row for row in rows if row not in labelled]))
        groups = {name: its for name, of_value in listed if (its := [row for row in of_value if row in kept])}
    return _Rooms(scheduler, HOLDERS if names is None else None, price_of).of(groups)


def _rows_of(scheduler: PodScheduler, names: Sequence[str] | None) -> list[int]:
    """The rows of nodes in list order; of all without names."""
    rows: list[int] = scheduler.context.view_rows().tolist()
    if names is None:
        return rows
    wanted = {scheduler.cache.state.find_row(name) for name in names}
    return [row for row in rows if row in wanted]


class _Rooms:
    """The columns of a node table, and the workloads of its pods."""

    def __init__(
        self, scheduler: PodScheduler, most: int | None, price_of: Callable[[Node], float | None]
    ) -> None:
        self.scheduler, self.most, table = scheduler, most, scheduler.table
        self.price_of = price_of
        self.allocatable = {name: table.column("allocatable", name) for name in table.allocatable}
        self.requested = {name: table.column("requested", name) for name in table.allocatable}
        self.free = {name: free_amounts(scheduler, name) for name in table.allocatable}
        self.zone, self.pool = common_value(scheduler, "zone"), common_value(scheduler, "pool")
        self.type = common_value(scheduler, INSTANCE_TYPE)
        self.workloads = workloads_of(scheduler.client)

    def of(self, groups: dict[str, list[int]]) -> list[Room]:
        """Return the room on the rows of each group."""
        every = np.array([row for rows in groups.values() for row in rows], dtype=np.intp)
        used = [
            name
            for name, column in self.allocatable.items()
            if name == PODS or name in FIRST or column[every].any()
        ]
        used.sort(key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
        return [self._room(name, rows, used) for name, rows in groups.items()]

    def _room(self, name: str, rows: list[int], names: list[str]) -> Room:
        nodes = [node for row in rows if (node := self.scheduler.table.objects[row]) is not None]
        allocatable, requested = (self._sums(of, rows, names) for of in (self.allocatable, self.requested))
        is_open = [not (node.spec.unschedulable or _repels(node)) for node in nodes]
        free = self._sums(self.free, [*compress(rows, is_open)], names)
        restricted = self._sums(
            self.free, [row for row, yes in zip(rows, is_open, strict=True) if not yes], names
        )
        taints = dict.fromkeys(taint for node in nodes for taint in _taints(node))
        schedulable = [row for row, node in zip(rows, nodes, strict=True) if not node.spec.unschedulable]
        largest = self._largest(schedulable, names)
        holders = self._holders(rows, allocatable)
        about = len(rows), self.zone(rows), self.pool(rows), self.type(rows), len(schedulable)
        amounts = allocatable, requested, self._limits(rows, names), free, restricted, largest
        return Room(name, *about, *amounts, tuple(taints), holders, *self._price(rows, nodes))

    @staticmethod
    def _sums(columns: Mapping[str, Any], rows: list[int], names: list[str]) -> dict[str, int]:
        return {name: int(columns[name][rows].sum()) for name in names}

    def _limits(self, rows: list[int], names: list[str]) -> dict[str, int]:
        """Return the sums of limits, cpu in millicores."""
        limits = Counter[str]()
        for row in rows:
            for pod in self.scheduler.cache.state.pods_of(row):
                for name, amount in pod_limits(pod).items():
                    limits[name] += _counted(name, amount)
        return {name: limits[name] for name in names if name in limits}

    def _price(self, rows: list[int], nodes: list[Node]) -> tuple[float, float] | tuple[()]:
        """Return what nodes cost, and how much of it is idle; nothing where no price is known."""
        whole, idle, is_known = 0.0, 0.0, False
        for row, node in zip(rows, nodes, strict=True):
            price = self.price_of(node)
            if price is not None:
                shares = [
                    self.requested[name][row] / total
                    for name in FIRST
                    if (total := self.allocatable[name][row])
                ]
                whole, idle, is_known = whole + price, idle + price * max(1 - max(shares, default=0), 0), True
        return (float(whole), float(idle)) if is_known else ()

    def _largest(self, rows: list[int], names: list[str]) -> dict[str, int]:
        """Return what is free on the node with the largest pod that fits; nothing where none does."""
        rows = [row for row in rows if self.free[PODS][row]]
        if not rows:
            return {}
        free = [self.free[name][rows] for name in FIRST]
        best = rows[np.min([column / max(column.max(), 1) for column in free], axis=0).argmax()]
        return {name: amount for name in names if name != PODS and (amount := int(self.free[name][best]))}

    def _holders(self, rows: list[int], allocatable: dict[str, int]) -> tuple[Holder, ...]:
        """Return the workloads, those with the largest share of a resource first."""
        state = self.scheduler.cache.state
        pods, requested = Counter[Workload](), dict[Workload, Counter[str]]()
        for row in rows:
            for pod in state.pods_of(row):
                workload = self.workloads.of(pod)
                pods[workload] += 1
                needs = state.classes.shape_of(state.classes.intern(pod)).needs
                requested.setdefault(workload, Counter()).update(needs)

        def share(workload: Workload) -> float:
            needs = requested[workload].items()
            return max(
                (need / allocatable[name] for name, need in needs if allocatable.get(name)), default=0.0
            )

        first = sorted(pods, key=lambda pod: -share(pod))[: self.most]
        return tuple([Holder(pod.namespace, pod.text, pods[pod], dict(requested[pod])) for pod in first])


def _repels(node: Node) -> bool:
    return any(taint.effect in ("NoSchedule", "NoExecute") for taint in node.spec.taints)


def _taints(node: Node) -> list[str]:
    return [
        f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
        for taint in node.spec.taints
    ]


# ---- what nodes cost per hour -----------------------------------------------------------------------------

_REGION, _EKS_CAPACITY = "topology.kubernetes.io/region", "eks.amazonaws.com/capacityType"


def node_prices(client: ObjectClient, types: Types | None) -> tuple[Callable[[Node], float | None], str]:
    """Return what a node costs, None if that is not known, and where prices are from.

    Without types it is what those of the NodePools cost, and what AWS lists on demand, where the region of a
    node is in its list.
    """
    every: Iterable[InstanceType] = stored_types(types, client).every()  # also checks them
    if types is not None and not isinstance(types, ProvidedTypes):
        every = chain.from_iterable(types.values()) if isinstance(types, Mapping) else types
    of_types = prices_by(every)
    nodes: list[Node] = client.list(Node)[0]
    others = [node for node in nodes if of_types(node) is None and not _is_spot(node)]
    listed, date = _listed_by_aws(others) if types is None else ({}, "")
    short = f"prices that AWS lists on demand ({date})"
    source = RoutineNote(f"Prices are those{short.removeprefix('prices')}.", short) if listed else ""
    if types is not None and nodes and not any(of_types(node) is not None for node in nodes):
        source = "No node has a price: the instance types that are given have none of their types and zones."
    return (lambda node: listed[node.name] if node.name in listed else of_types(node)), source


def _is_spot(node: Node) -> bool:
    labels = node.metadata.labels
    return "spot" in (labels.get(CAPACITY_TYPE, "").lower(), labels.get(_EKS_CAPACITY, "").lower())


def _listed_by_aws(nodes: Sequence[Node]) -> tuple[dict[str, float], str]:
    """The prices on demand of nodes in regions of AWS of which there is a list, and its date."""
    regions = {
        node.name: node.metadata.labels.get(_REGION, "")
        for node in nodes
        if node.spec.provider_id.startswith("aws:")
    }
    if not regions:
        return {}, ""
    from moorage.autoscalers.providers.aws.ec2_answers import DATE, price_list

    lists = {region: price_list(region) for region in {*regions.values()}}
    prices = dict[str, float]()
    for node in nodes:
        listed = lists.get(regions.get(node.name, ""))
        kind = node.metadata.labels.get(INSTANCE_TYPE, "")
        if listed is not None and listed.region == regions[node.name] and kind in listed.prices:
            prices[node.name] = listed.prices[kind]
    return prices, DATE


# ---- namespaces and their quotas ---------------------------------------------------------------------------


class UseOfQuota(Document, frozen=True):
    """How much of a quota is used of a resource, as quantities."""

    used: str
    hard: str


class Quota(Document, frozen=True):
    """The use of a quota, which counts all pods."""

    name: str
    resources: dict[str, UseOfQuota]


class NamespaceUse(Document, frozen=True):
    """What the pods of a namespace request, and its quotas."""

    name: str
    pods: Count
    """That have a node."""
    requests: dict[str, str]
    """Quantities by resource."""
    limits: dict[str, str]
    """Quantities by resource."""
    quotas: tuple[Quota, ...]


class WorkloadUse(Document, frozen=True):
    """What the pods of a workload request on how many nodes."""

    namespace: str
    workload: str
    """Such as ``deployment/web``."""
    pods: Count
    """That have a node."""
    nodes: Count
    requests: dict[str, str]
    """Quantities by resource."""
    limits: dict[str, str]
    """Quantities by resource."""


class WorkloadsDocument(Document, frozen=True, kw_only=True):
    """The answer of ``moorage nodes --by workload``."""

    api_version: Literal["nodes.moorage.dev/v1"] = "nodes.moorage.dev/v1"
    kind: Literal["Workloads"] = "Workloads"
    items: Sequence[WorkloadUse]


class NamespacesDocument(Document, frozen=True, kw_only=True):
    """The answer of ``moorage nodes --by namespace``."""

    api_version: Literal["nodes.moorage.dev/v1"] = "nodes.moorage.dev/v1"
    kind: Literal["Namespaces"] = "Namespaces"
    items: Sequence[NamespaceUse]


def namespace_use(scheduler: PodScheduler, only: str = "") -> list[NamespaceUse]:
    """Return what namespaces request, and their quotas; see `Scheduler.namespace_use`."""
    scheduler.sync()
    pods = defaultdict[str, list[Pod]](list)
    for pod in scheduler.cache.state.pods():
        pods[pod.namespace].append(pod)
    listed: list[ResourceQuota] = scheduler.client.list(ResourceQuota)[0]
    names = {only} if only else {*pods, *(quota.namespace for quota in listed)}
    admission = admission_of(scheduler.client)
    return [
        NamespaceUse(
            name,
            len(pods[name]),
            _sum(pod_requests(pod) for pod in pods[name]),
            _sum(pod_limits(pod) for pod in pods[name]),
            tuple([_use_of(quota) for quota in admission.quotas_of(name)]),
        )
        for name in sorted(names)
    ]


def workload_use(scheduler: PodScheduler, nodes: Sequence[str] | None = None) -> list[WorkloadUse]:
    """Return what the workloads with pods on nodes request there, those with the largest share of all room
    first."""
    scheduler.sync()
    state, table = scheduler.cache.state, scheduler.table
    rows = _rows_of(scheduler, nodes)
    pods, used = defaultdict[Workload, list[Pod]](list), defaultdict[Workload, set[int]](set)
    workloads = workloads_of(scheduler.client)
    for row in rows:
        for pod in state.pods_of(row):
            workload = workloads.of(pod)
            pods[workload].append(pod)
            used[workload].add(row)
    uses = [
        WorkloadUse(
            workload.namespace,
            workload.text,
            len(its),
            len(used[workload]),
            _sum(map(pod_requests, its)),
            _sum(map(pod_limits, its)),
        )
        for workload, its in pods.items()
    ]
    whole = {name: max(int(table.column("allocatable", name)[rows].sum()), 1) for name in table.allocatable}

    def share(use: WorkloadUse) -> float:
        amounts = ((name, Quantity(text)) for name, text in use.requests.items() if name in whole)
        return max((_counted(name, amount) / whole[name] for name, amount in amounts), default=0.0)

    return sorted(uses, key=lambda use: (-share(use), use.namespace, use.workload))


def _counted(name: str, amount: Quantity) -> int:
    return amount.milli_value() if name == "cpu" else amount.value()


def _use_of(quota: QuotaUsage) -> Quota:
    return Quota(quota.name, {name: UseOfQuota(*amounts) for name, amounts in quota.use().items()})


def _sum(amounts: Iterable[Mapping[str, Quantity]]) -> dict[str, str]:
    total: dict[str, Quantity] = {}
    for amounts_of_pod in amounts:
        for name, amount in amounts_of_pod.items():
            total[name] = total.get(name, ZERO) + amount
    return {name: str(amount) for name, amount in sorted(total.items())}
