"""Room on nodes: what is allocatable, requested and free, who holds it, and what namespaces and groups of
nodes have of it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import numpy as np

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import ZERO, pod_requests
from moorage.autoscalers.group_labels import PROVIDER_LABELS
from moorage.cluster import PodScheduler
from moorage.controllers.store_control import admission_of
from moorage.document import Count, Document
from moorage.errors import InputError, no_label
from moorage.kube import Pod
from moorage.kube.admission.pod_requests import pod_limits
from moorage.kube.admission.resource_quotas import QuotaUsage
from moorage.kube.model.node import ZONE, Node
from moorage.kube.model.policy import ResourceQuota
from moorage.kube.model.workload import Job, ReplicaSet
from moorage.kube.workloads.ownership import Workload, Workloads

from .asked_pods import free_amounts

# ---- groups of nodes by a label; zone, region and pool have short names ------------------------------------

POOL_LABELS = (
    "karpenter.sh/nodepool",
    *PROVIDER_LABELS,
    "node.kubernetes.io/instance-type",
)
"""Labels of pools of nodes, and last the type of machines; the first that some node has is taken."""
NAMES = {
    "zone": (ZONE,),
    "region": ("topology.kubernetes.io/region",),
    "pool": POOL_LABELS,
}


def grouped_rows(scheduler: PodScheduler, by: str) -> tuple[str, dict[str, list[int]]]:
    """Return the rows of the nodes with each value of a label.

    Parameters
    ----------
    by : str
        The key of a label; "zone", "region" or "pool", if no node has a label of that name.

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
    raise InputError(no_label(NAMES.get(by, (by,)), {label for its in labels for label in its}))


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
    schedulable: Count
    """Nodes that are not cordoned."""
    allocatable: dict[str, Count]
    """By resource; cpu in millicores."""
    requested: dict[str, Count]
    """By resource; cpu in millicores."""
    free: dict[str, Count]
    """The sum of what is free on each node, of which none has less than 0."""
    largest: dict[str, Count]
    """Requests of the largest pod that still fits: what is free on the schedulable node with room for a pod
    that has the largest part of its cpu and memory together to spare. Empty where none does."""
    taints: tuple[str, ...]
    """``KEY=VALUE:EFFECT``, of any of the nodes."""
    holders: tuple[Holder, ...]
    """The three workloads with the largest share of a resource; of selected nodes all."""


class NodesDocument(Document, frozen=True, kw_only=True):
    """The answer of ``moorage nodes``."""

    api_version: Literal["nodes.moorage.dev/v1"] = "nodes.moorage.dev/v1"
    kind: Literal["Nodes"] = "Nodes"
    by: str
    """node, or the label as given."""
    items: Sequence[Room]


def node_room(scheduler: PodScheduler, names: Sequence[str] | None = None, by: str = "") -> list[Room]:
    """Return the room on nodes; see `Scheduler.node_room`."""
    scheduler.sync()
    rows: list[int] = scheduler.context.view_rows().tolist()
    if names is not None:
        wanted = {scheduler.cache.state.find_row(name) for name in names}
        rows = [row for row in rows if row in wanted]
    groups = {str(scheduler.table.row_name(row)): [row] for row in rows}
    if by:
        kept = set(rows)
        every = grouped_rows(scheduler, by)[1]
        listed = [(name or EMPTY, every[name]) for name in sorted(every)]
        labelled = {row for its in every.values() for row in its}
        listed.append((NO_LABEL, [row for row in rows if row not in labelled]))
        groups = {name: its for name, of_value in listed if (its := [row for row in of_value if row in kept])}
    return _Rooms(scheduler, HOLDERS if names is None else None).of(groups)


class _Rooms:
    """The columns of a node table, and the workloads of its pods."""

    def __init__(self, scheduler: PodScheduler, most: int | None) -> None:
        self.scheduler, self.most, table = scheduler, most, scheduler.table
        self.allocatable = {name: table.column("allocatable", name) for name in table.allocatable}
        self.requested = {name: table.column("requested", name) for name in table.allocatable}
        self.free = {name: free_amounts(scheduler, name) for name in table.allocatable}
        self.zone, self.pool = common_value(scheduler, "zone"), common_value(scheduler, "pool")
        self.workloads = Workloads([*scheduler.client.list(ReplicaSet)[0], *scheduler.client.list(Job)[0]])

    def of(self, groups: dict[str, list[int]]) -> list[Room]:
        """Return the room on the rows of each group."""
        every = np.array([row for rows in groups.values() for row in rows], dtype=np.intp)
        used = [
            name
            for name, column in self.allocatable.items()
            if name == PODS or name in FIRST or (column[every] | self.requested[name][every]).any()
        ]
        used.sort(key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
        return [self._room(name, rows, used) for name, rows in groups.items()]

    def _room(self, name: str, rows: list[int], names: list[str]) -> Room:
        columns = self.allocatable, self.requested, self.free
        allocatable, requested, free = ({name: int(of[name][rows].sum()) for name in names} for of in columns)
        nodes = [node for row in rows if (node := self.scheduler.table.objects[row]) is not None]
        taints = dict.fromkeys(taint for node in nodes for taint in _taints(node))
        schedulable = [row for row, node in zip(rows, nodes, strict=True) if not node.spec.unschedulable]
        largest = self._largest(schedulable, names)
        holders = self._holders(rows, allocatable)
        counts = len(rows), self.zone(rows), self.pool(rows), len(schedulable)
        return Room(name, *counts, allocatable, requested, free, largest, tuple(taints), holders)

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


def _taints(node: Node) -> list[str]:
    return [
        f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
        for taint in node.spec.taints
    ]


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


def _use_of(quota: QuotaUsage) -> Quota:
    return Quota(quota.name, {name: UseOfQuota(*amounts) for name, amounts in quota.use().items()})


def _sum(amounts: Iterable[Mapping[str, Quantity]]) -> dict[str, str]:
    total: dict[str, Quantity] = {}
    for amounts_of_pod in amounts:
        for name, amount in amounts_of_pod.items():
            total[name] = total.get(name, ZERO) + amount
    return {name: str(amount) for name, amount in sorted(total.items())}
