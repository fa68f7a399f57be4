"""Room on nodes: what is allocatable, requested and free, who holds it, and what namespaces and groups of
nodes have of it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import ZERO, pod_requests
from moorage.autoscalers.group_labels import PROVIDER_LABELS
from moorage.cluster import PodScheduler
from moorage.controllers.store_control import admission_of
from moorage.errors import InputError, no_label
from moorage.kube import Pod
from moorage.kube.apiserver.pod_requests import pod_limits
from moorage.kube.model.node import ZONE, Node
from moorage.kube.model.policy import ResourceQuota
from moorage.kube.model.workload import Job, ReplicaSet
from moorage.kube.workloads.ownership import Workload, Workloads

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


class Holder(Struct, frozen=True):
    """A workload that holds room on nodes.

    Attributes
    ----------
    namespace : str
    workload : str
        Such as ``deployment/web``.
    pods : int
        How many of its pods are there.
    requested : dict of str to int
        What they request, by resource: cpu in millicores, others in their own units.
    """

    namespace: str
    workload: str
    pods: int
    requested: dict[str, int]


class Room(Struct, frozen=True):
    """The room on a node, or on the nodes with one value of a label.

    Attributes
    ----------
    name : str
        Of the node, or the value of the label: "(none)" for the nodes without it, "(empty)" for an empty one.
    nodes : int
    zone, pool : str
        That of all its nodes; "" where they differ, or have none.
    schedulable : int
        How many of the nodes are not cordoned.
    allocatable, requested, free : dict of str to int
        By resource: cpu in millicores, others in their own units. pods, cpu and memory are always there, even
        if no node has any yet. Free is the sum over the nodes, of which none has less than 0.
    largest : dict of str to int
        The requests of the largest pod that still fits: what is free on the schedulable node with room for a
        pod that has the largest part of its cpu and memory together to spare. Empty where no pod fits.
    taints : tuple of str
        ``KEY=VALUE:EFFECT``, of any of the nodes.
    holders : tuple of Holder
        The workloads there, those with the largest share of a resource first.
    """

    name: str
    nodes: int
    zone: str
    pool: str
    schedulable: int
    allocatable: dict[str, int]
    requested: dict[str, int]
    free: dict[str, int]
    largest: dict[str, int]
    taints: tuple[str, ...]
    holders: tuple[Holder, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the room as a JSON value."""
        holders = [asdict(holder) for holder in self.holders]
        return asdict(self) | {"taints": list(self.taints), "holders": holders}


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
        allocatable = {name: int(self.allocatable[name][rows].sum()) for name in names}
        requested = {name: int(self.requested[name][rows].sum()) for name in names}
        free = {name: sum(self._free(name, row) for row in rows) for name in names}
        nodes = [node for row in rows if (node := self.scheduler.table.objects[row]) is not None]
        taints = dict.fromkeys(taint for node in nodes for taint in _taints(node))
        schedulable = [row for row, node in zip(rows, nodes, strict=True) if not node.spec.unschedulable]
        largest = self._largest(schedulable, names)
        holders = self._holders(rows, allocatable)
        counts = len(rows), self.zone(rows), self.pool(rows), len(schedulable)
        sums = allocatable, requested, free
        return Room(name, *counts, *sums, largest, tuple(taints), holders)

    def _free(self, resource: str, row: int) -> int:
        return max(int(self.allocatable[resource][row]) - int(self.requested[resource][row]), 0)

    def _largest(self, rows: list[int], names: list[str]) -> dict[str, int]:
        """Return what is free on the node with the largest pod that fits; nothing where none does."""
        rows = [row for row in rows if self._free(PODS, row)]
        if not rows:
            return {}
        most = {name: max(self._free(name, row) for row in rows) or 1 for name in FIRST}
        best = max(rows, key=lambda row: min(self._free(name, row) / most[name] for name in FIRST))
        return {name: amount for name in names if name != PODS and (amount := self._free(name, best))}

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


class NamespaceUse(Struct, frozen=True):
    """What the pods of a namespace request that have a node, and its quotas, which count all pods.

    Attributes
    ----------
    name : str
    pods : int
    requests, limits : dict of str to str
        Quantities by resource.
    quotas : dict of str to (dict of str to (str, str))
        By quota and resource, what is used and what is allowed.
    """

    name: str
    pods: int
    requests: dict[str, str]
    limits: dict[str, str]
    quotas: dict[str, dict[str, tuple[str, str]]]

    def to_dict(self) -> dict[str, Any]:
        """Return the use as a JSON value."""
        quotas = [
            {
                "name": quota,
                "resources": {name: {"used": used, "hard": hard} for name, (used, hard) in its.items()},
            }
            for quota, its in self.quotas.items()
        ]
        return asdict(self) | {"quotas": quotas}


def namespace_use(scheduler: PodScheduler, only: str = "") -> list[NamespaceUse]:
    """Return the use of namespaces that have a pod with a node or a quota, by name.

    Parameters
    ----------
    only : str, optional
        The one namespace to return.
    """
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
            {quota.name: quota.use() for quota in admission.quotas_of(name)},
        )
        for name in sorted(names)
    ]


def _sum(amounts: Iterable[Mapping[str, Quantity]]) -> dict[str, str]:
    total: dict[str, Quantity] = {}
    for amounts_of_pod in amounts:
        for name, amount in amounts_of_pod.items():
            total[name] = total.get(name, ZERO) + amount
    return {name: str(amount) for name, amount in sorted(total.items())}
