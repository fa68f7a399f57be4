"""Who holds the devices of nodes: those of device plugins, which nodes count, and those of drivers, which
claims have (Dynamic Resource Allocation).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, TypeVar

from msgspec import UNSET, UnsetType

from moorage.cluster import PodScheduler
from moorage.controllers.store_control import workloads_of
from moorage.document import Count, Document
from moorage.kube import DeviceClass, Pod, ResourceClaim
from moorage.kube.model.resource_claims import OF_DEVICE_CLASS
from moorage.kube.model.resource_slices import Device
from moorage.kube.workloads.ownership import Workload, Workloads
from moorage.store import find_object

from .driver_devices import DriverDevices, Key, ListedDevice

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
_SAME_CHIPS = frozenset(f"aws.amazon.com/{name}" for name in ("neuron", "neuroncore", "neurondevice"))
"""The device plugin of AWS counts each chip as each of these; kube-scheduler counts them apart."""
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
    """Those that claims for one each would get, one after the other. Left out where several claims can share
    a device, and of devices that no ResourceSlice lists."""
    holders: tuple[DeviceShare, ...]
    """Those with the most devices first."""
    instead_of: tuple[str, ...] = ()
    """Resources and models of the node whose free devices are parts of the same ones: who takes some leaves
    fewer of the others."""


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
        chips = sorted(_SAME_CHIPS & {*table.allocatable}) if name in _SAME_CHIPS else ()
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
            labels = {} if node is None else node.metadata.labels
            model = next((labels[label] for label in MODEL_LABELS if label in labels), "")
            same = [each for each in chips if each != name and table.column("allocatable", each)[row]]
            others = tuple([f"{each} {model}".strip() for each in same])
            yield DeviceUse(name, model, table.row_name(row), total, free, _holders(held), others)


# ---- drivers: devices of slices, and claims that have them -------------------------------------------------


def _of_drivers(scheduler: PodScheduler, workloads: Workloads) -> Iterator[DeviceUse]:
    devices = DriverDevices(scheduler.client)

    def holders(keys: Iterable[Key]) -> tuple[DeviceShare, ...]:
        return _holders(
            Counter(
                (user, _class_name(claim, result.request))
                for key in keys
                for claim, result in devices.held.get(key, ())
                for user in _users(scheduler, claim, workloads)
            )
        )

    listed = {each.key for each in devices.listed}
    unlisted = defaultdict[str, list[Key]](list)
    for key in devices.held:
        if key not in listed:
            unlisted[key[0]].append(key)
    for driver, keys in unlisted.items():
        yield DeviceUse(driver, UNLISTED, "", len(keys), UNSET, holders(keys))
    groups = defaultdict[tuple[str, str, str], list[ListedDevice]](list)
    for each in devices.listed:
        groups[each.key[0], _model(each.device), each.node].append(each)
    takeable = {key: devices.takeable(group) for key, group in groups.items()}
    wholes = {key: set[Key]().union(*[each.wholes for each in group]) for key, group in takeable.items()}
    for key, group in groups.items():
        others = [other for other, its in wholes.items() if other != key and its & wholes[key]]
        is_shared = any(each.device.allow_multiple_allocations for each in group)
        free = UNSET if is_shared else len(takeable[key])
        names = tuple([f"{driver} {model}".strip() for driver, model, _ in others])
        yield DeviceUse(*key, len(group), free, holders(each.key for each in group), names)


def _model(device: Device) -> str:
    texts = {name.rpartition("/")[2]: value.string for name, value in device.attributes.items()}
    parts = (next((text for name in names if (text := texts.get(name))), "") for names in MODEL_ATTRIBUTES)
    return " ".join(filter(None, parts))


def _users(scheduler: PodScheduler, claim: ResourceClaim, workloads: Workloads) -> Iterable[Workload]:
    """The workloads of the pods for which a claim is reserved; the claim itself without any."""
    users = dict[Workload, None]()
    for user in claim.status.reserved_for:
        pod = find_object(scheduler.client, Pod, user.name, claim.namespace)
        users[Workload(claim.namespace, "Pod", user.name) if pod is None else workloads.of(pod)] = None
    return users or (Workload(claim.namespace, "ResourceClaim", claim.name),)


def _class_name(claim: ResourceClaim, name: str) -> str:
    """The class of a request, or of a subrequest as REQUEST/SUBREQUEST."""
    for request in claim.spec.devices.requests:
        if request.exactly is not None and request.name == name:
            return request.exactly.device_class_name
        for sub in request.first_available:
            if f"{request.name}/{sub.name}" == name:
                return sub.device_class_name
    return ""
