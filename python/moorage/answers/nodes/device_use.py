"""Who holds the devices of nodes: those of device plugins, which nodes count, and those of drivers, which
claims have (Dynamic Resource Allocation).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Literal, TypeVar

from msgspec import UNSET, UnsetType

from moorage._core.base.quantity import Quantity
from moorage._core.base.quantity import parse as amount_of
from moorage.cluster import PodScheduler
from moorage.controllers.store_control import workloads_of
from moorage.document import Count, Document
from moorage.kube import DeviceClass, Pod, ResourceClaim, ResourceSlice
from moorage.kube.model.node import Node
from moorage.kube.model.resource_claims import OF_DEVICE_CLASS, DeviceRequest
from moorage.kube.model.resource_slices import Device, ResourceSliceSpec
from moorage.kube.workloads.ownership import Workload, Workloads
from moorage.store import find_object

T = TypeVar("T")
MODEL_LABELS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "gpu.intel.com/product",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "kubernetes.azure.com/accelerator",
)
"""Labels in which nodes tell the model of their devices."""
MODEL_ATTRIBUTES = (("productName", "model"), ("profile", "type"))
"""Attributes in which devices tell their model, and which part of a device they are: the first of each that
is there; a domain may stand before."""
_NO_DEVICES = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})


class DeviceShare(Document, frozen=True):
    """A workload that holds devices on a node."""

    namespace: str
    workload: str
    """Such as ``deployment/web``."""
    devices: Count
    class_name: str = ""
    """The DeviceClass by which it asked for them; empty for devices of a device plugin."""


class DeviceUse(Document, frozen=True):
    """The devices of one resource or driver, and one model, on a node."""

    resource: str
    """An extended resource, hugepages, or the driver of devices that claims get."""
    model: str
    """As labels of the node, or attributes of the devices tell it; empty where they do not."""
    node: str
    """Empty for devices that several nodes can use."""
    devices: Count
    free: Count | UnsetType
    """Those that could be given, each by itself: parts of one device take room from one another. Left out
    where several claims can share a device, and of devices that no ResourceSlice lists."""
    holders: tuple[DeviceShare, ...]
    """Those with the most devices first."""


class HeldDevices(Document, frozen=True):
    """Devices of one resource or driver, and one model, that a workload or a namespace holds."""

    resource: str
    model: str
    class_name: str
    devices: Count


UNLISTED = "(in no ResourceSlice)"
"""The model of devices that claims have and no slice lists."""


class DevicesDocument(Document, frozen=True, kw_only=True):
    """The answer of ``moorage nodes --by device``."""

    api_version: Literal["nodes.moorage.dev/v1"] = "nodes.moorage.dev/v1"
    kind: Literal["Devices"] = "Devices"
    items: Sequence[DeviceUse]


def device_use(scheduler: PodScheduler) -> list[DeviceUse]:
    """Return the devices of all nodes, by resource, model and node."""
    scheduler.sync()
    workloads = workloads_of(scheduler.client)
    uses = [*_of_plugins(scheduler, workloads), *_of_drivers(scheduler, workloads)]
    return sorted(uses, key=lambda use: (use.resource, use.model, use.node))


def held_devices(
    uses: Iterable[DeviceUse], key_of: Callable[[DeviceShare], T]
) -> dict[T, tuple[HeldDevices, ...]]:
    """Return what is held of each resource, model and class, by a key of the holders."""
    held = defaultdict[T, Counter[tuple[str, str, str]]](Counter)
    for use in uses:
        for share in use.holders:
            held[key_of(share)][use.resource, use.model, share.class_name] += share.devices
    return {key: tuple([HeldDevices(*name, count) for name, count in of.items()]) for key, of in held.items()}


def _holders(held: Counter[tuple[Workload, str]]) -> tuple[DeviceShare, ...]:
    ordered = sorted(held.items(), key=lambda item: (-item[1], item[0][0].namespace, item[0][0].text))
    return tuple([DeviceShare(of.namespace, of.text, count, name) for (of, name), count in ordered])


# ---- device plugins: amounts of nodes ----------------------------------------------------------------------


def _of_plugins(scheduler: PodScheduler, workloads: Workloads) -> Iterator[DeviceUse]:
    table, state = scheduler.table, scheduler.cache.state
    classes: list[DeviceClass] = scheduler.client.list(DeviceClass)[0]
    of_drivers = {device_class.spec.extended_resource_name for device_class in classes}
    for name in table.allocatable:
        if name in _NO_DEVICES or name.startswith("attachable-volumes-"):
            continue
        allocatable, requested = (table.column(kind, name) for kind in ("allocatable", "requested"))
        is_of_driver = name in of_drivers or name.startswith(OF_DEVICE_CLASS)
        for row in scheduler.context.view_rows().tolist():
            total = int(allocatable[row])
            # Pods may hold devices of a plugin that has failed.
            if not total and (is_of_driver or not requested[row]):
                continue
            held = Counter[tuple[Workload, str]]()
            for pod in state.pods_of(row):
                need = state.classes.shape_of(state.classes.intern(pod)).needs.get(name, 0)
                if need:
                    held[workloads.of(pod), ""] += need
            node = table.objects[row]
            free = max(total - int(requested[row]), 0)
            yield DeviceUse(name, _model_of_node(node), table.row_name(row), total, free, _holders(held))


def _model_of_node(node: Node | None) -> str:
    labels = {} if node is None else node.metadata.labels
    return next((labels[label] for label in MODEL_LABELS if label in labels), "")


# ---- drivers: devices of slices, and claims that have them -------------------------------------------------


def _of_drivers(scheduler: PodScheduler, workloads: Workloads) -> Iterator[DeviceUse]:
    specs: list[ResourceSliceSpec] = [each.spec for each in scheduler.client.list(ResourceSlice)[0]]
    held = _users_by_device(scheduler, workloads)
    newest = defaultdict[_Pool, int](int)
    for spec in specs:
        newest[_pool(spec)] = max(newest[_pool(spec)], spec.pool.generation)
    specs = [spec for spec in specs if spec.pool.generation == newest[_pool(spec)]]
    left = _counters_left(specs, held)
    groups = defaultdict[tuple[str, str, str], list[tuple[_Pool, Device]]](list)
    for spec in specs:
        for device in spec.devices:
            key = spec.driver, _model(device), device.node_name or spec.node_name or ""
            groups[key].append((_pool(spec), device))
    listed = {(*pool, device.name) for devices in groups.values() for pool, device in devices}
    unlisted = defaultdict[str, list[list[tuple[Workload, str]]]](list)
    for name, users in held.items():
        if name not in listed:
            unlisted[name[0]].append(users)
    for driver, users_of in unlisted.items():
        yield DeviceUse(
            driver, UNLISTED, "", len(users_of), UNSET, _holders(Counter(chain.from_iterable(users_of)))
        )
    for key, devices in groups.items():
        holders = Counter[tuple[Workload, str]]()
        for pool, device in devices:
            holders.update(held.get((*pool, device.name), ()))
        free = [
            all(
                amount_of(counter.value) <= left[*pool, uses.counter_set, name]
                for uses in device.consumes_counters
                for name, counter in uses.counters.items()
            )
            for pool, device in devices
            if (*pool, device.name) not in held
        ]
        is_shared = any(device.allow_multiple_allocations for _, device in devices)
        yield DeviceUse(*key, len(devices), UNSET if is_shared else sum(free), _holders(holders))


_Pool = tuple[str, str]
"""A driver, and the name of a pool."""


def _pool(spec: ResourceSliceSpec) -> _Pool:
    return spec.driver, spec.pool.name


def _counters_left(
    specs: Sequence[ResourceSliceSpec], held: Mapping[tuple[str, str, str], object]
) -> dict[tuple[str, str, str, str], Quantity]:
    """By pool, set and name, what devices that are held leave of counters."""
    left = {
        (*_pool(spec), counters.name, name): amount_of(counter.value)
        for spec in specs
        for counters in spec.shared_counters
        for name, counter in counters.counters.items()
    }
    for spec in specs:
        for device in spec.devices:
            if (*_pool(spec), device.name) in held:
                for uses in device.consumes_counters:
                    for name, counter in uses.counters.items():
                        left[*_pool(spec), uses.counter_set, name] -= amount_of(counter.value)
    return left


def _model(device: Device) -> str:
    texts = {name.rpartition("/")[2]: value.string for name, value in device.attributes.items()}
    parts = (next((text for name in names if (text := texts.get(name))), "") for names in MODEL_ATTRIBUTES)
    return " ".join(filter(None, parts))


def _users_by_device(
    scheduler: PodScheduler, workloads: Workloads
) -> dict[tuple[str, str, str], list[tuple[Workload, str]]]:
    """By driver, pool and name, who holds a device, and the class by which it asked."""
    held: dict[tuple[str, str, str], list[tuple[Workload, str]]] = {}
    claims: list[ResourceClaim] = scheduler.client.list(ResourceClaim)[0]
    for claim in claims:
        if claim.status.allocation is None:
            continue
        users = [*_users(scheduler, claim, workloads)]
        classes = dict(_classes(claim.spec.devices.requests))
        for result in claim.status.allocation.devices.results:
            if not result.admin_access:
                name = classes.get(result.request, "")
                key = result.driver, result.pool, result.device
                held.setdefault(key, []).extend((user, name) for user in users)
    return held


def _users(scheduler: PodScheduler, claim: ResourceClaim, workloads: Workloads) -> Iterable[Workload]:
    """The workloads of the pods for which a claim is reserved; the claim itself without any."""
    users = dict[Workload, None]()
    for user in claim.status.reserved_for:
        pod = find_object(scheduler.client, Pod, user.name, claim.namespace)
        users[Workload(claim.namespace, "Pod", user.name) if pod is None else workloads.of(pod)] = None
    return users or (Workload(claim.namespace, "ResourceClaim", claim.name),)


def _classes(requests: Sequence[DeviceRequest]) -> Iterator[tuple[str, str]]:
    for request in requests:
        if request.exactly is not None:
            yield request.name, request.exactly.device_class_name
        for sub in request.first_available:
            yield f"{request.name}/{sub.name}", sub.device_class_name
