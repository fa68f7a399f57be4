"""What the pods of namespaces and of workloads request, use, and cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import pod_requests
from moorage.cluster import PodScheduler
from moorage.cluster.amounts import of_quota
from moorage.controllers.api_server import admission_of
from moorage.controllers.store_control import workloads_of
from moorage.document import Amount, Count, Document
from moorage.kube import Pod
from moorage.kube.admission.pod_requests import pod_limits
from moorage.kube.model.meta import total, whole
from moorage.kube.model.policy import ResourceQuota
from moorage.kube.workloads.ownership import Workload

from .device_use import HeldDevices, device_use, held_devices
from .measured_use import MeasuredUse, measured_use, usage_by_name
from .node_room import rows_of
from .paid_room import PaidRoom, PriceOf, price_fields, unknown_price


class UseOfQuota(Document, frozen=True):
    """How much of a quota is used of a resource: cpu in millicores, memory and storage in bytes."""

    used: Count
    hard: Count


class Quota(Document, frozen=True):
    """The use of a quota, which counts all pods."""

    name: str
    resources: dict[str, UseOfQuota]


class UseOfPods(Document, frozen=True, kw_only=True):
    """What some pods request, use and cost together."""

    pods: Count
    """That have a node."""
    requests: dict[str, Count]
    """By resource, cpu in millicores."""
    limits: dict[str, Count]
    """As requests."""
    devices: tuple[HeldDevices, ...]
    """GPUs and other extended resources, and devices of drivers."""
    use: dict[str, MeasuredUse] | UnsetType = UNSET
    """By resource, where there are metrics of some of the pods."""
    price: Amount | UnsetType = UNSET
    """Per hour, of nodes whose price is known: what is not idle of it, split by the largest of the shares
    that each pod requests of cpu, memory and extended resources."""
    unpriced: Count | UnsetType = UNSET
    """How many of its pods are on nodes without a known price, where some are and some are not."""
    least: Amount | UnsetType = UNSET
    """Where price is a bound, as a spot price is not known: what it is at least."""


class NamespaceUse(UseOfPods, frozen=True):
    """What the pods of a namespace request, and its quotas."""

    name: str
    quotas: tuple[Quota, ...]


class WorkloadUse(UseOfPods, frozen=True):
    """What the pods of a workload request on how many nodes."""

    namespace: str
    workload: str
    """Such as ``deployment/web``."""
    nodes: Count


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


class _Totals:
    """What pods request, use and cost together."""

    def __init__(self, scheduler: PodScheduler, price_of: PriceOf) -> None:
        rows = scheduler.context.view_rows().tolist()
        self._usage = usage_by_name(scheduler)
        self._prices = {pod.key: part for pod, part in PaidRoom(scheduler, price_of).parts(rows)}

    def of(self, pods: Sequence[Pod], devices: tuple[HeldDevices, ...]) -> dict[str, Any]:
        """Return the fields that uses of namespaces and of workloads share."""
        prices = [self._prices[pod.key] for pod in pods if pod.key in self._prices]
        return {
            "pods": len(pods),
            "requests": _sum(map(pod_requests, pods)),
            "limits": _sum(map(pod_limits, pods)),
            "devices": devices,
            "use": measured_use(self._usage, map(_requested, pods)),
            **price_fields(prices, len(pods)),
        }


def _requested(pod: Pod) -> tuple[str, dict[str, int]]:
    return pod.full_name, {name: whole(name, amount) for name, amount in pod_requests(pod).items()}


def namespace_use(
    scheduler: PodScheduler, only: str = "", price_of: PriceOf = unknown_price
) -> list[NamespaceUse]:
    """Return what namespaces request, and their quotas; see `Questions.namespace_use`."""
    scheduler.sync()
    pods = defaultdict[str, list[Pod]](list)
    for pod in scheduler.cache.state.pods():
        pods[pod.namespace].append(pod)
    listed: list[ResourceQuota] = scheduler.client.list(ResourceQuota)[0]
    devices = held_devices(device_use(scheduler), lambda share: share.namespace)
    names = {only} if only else {*pods, *devices, *(quota.namespace for quota in listed)}
    admission, totals = admission_of(scheduler.client), _Totals(scheduler, price_of)
    return [
        NamespaceUse(
            name=name,
            quotas=tuple(
                [
                    Quota(
                        quota.name,
                        {
                            name: UseOfQuota(*(whole(of_quota(name), amount) for amount in amounts))
                            for name, amounts in quota.use().items()
                        },
                    )
                    for quota in admission.quotas_of(name)
                ]
            ),
            **totals.of(pods[name], devices.get(name, ())),
        )
        for name in sorted(names)
    ]


def workload_use(
    scheduler: PodScheduler, nodes: Sequence[str] | None = None, price_of: PriceOf = unknown_price
) -> list[WorkloadUse]:
    """Return what the workloads with pods on nodes request there, those with the largest share of all room
    first; see `Questions.workload_use`."""
    scheduler.sync()
    state, table = scheduler.cache.state, scheduler.table
    rows, totals = rows_of(scheduler, nodes), _Totals(scheduler, price_of)
    of_rows = {scheduler.table.row_name(row) for row in rows} | ({""} if nodes is None else set())
    devices_here = (use for use in device_use(scheduler) if use.node in of_rows)
    devices = held_devices(devices_here, lambda share: (share.namespace, share.workload))
    pods, used = defaultdict[Workload, list[Pod]](list), defaultdict[Workload, set[int]](set)
    workloads = workloads_of(scheduler.client)
    for row in rows:
        for pod in state.pods_of(row):
            workload = workloads.of(pod)
            pods[workload].append(pod)
            used[workload].add(row)
    uses = [
        WorkloadUse(
            namespace=workload.namespace,
            workload=workload.text,
            nodes=len(used[workload]),
            **totals.of(its, devices.get((workload.namespace, workload.text), ())),
        )
        for workload, its in pods.items()
    ]
    whole = {name: max(int(table.column("allocatable", name)[rows].sum()), 1) for name in table.allocatable}

    def share(use: WorkloadUse) -> float:
        amounts = ((name, amount) for name, amount in use.requests.items() if name in whole)
        return max((amount / whole[name] for name, amount in amounts), default=0.0)

    return sorted(uses, key=lambda use: (-share(use), use.namespace, use.workload))


def _sum(amounts: Iterable[Mapping[str, Quantity]]) -> dict[str, int]:
    return {name: whole(name, amount) for name, amount in sorted(total(amounts).items())}
