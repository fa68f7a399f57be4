"""Resource claims, their templates and device classes (resource.k8s.io/v1)."""

from typing import Any

from msgspec import field

from .meta import (
    Condition,
    Int64,
    Object,
    ObjectMeta,
    Resources,
    Struct,
    Time,
    is_native,
)
from .pod import NodeSelector

API_VERSION = "resource.k8s.io/v1"
EXACT_COUNT = "ExactCount"
ALL = "All"

OF_DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"
"""Prefix of the extended resource that each DeviceClass provides without naming one."""


def is_extended(name: str) -> bool:
    """Whether a resource may be one of a device class: it has a domain, and not Kubernetes' own."""
    return name.startswith(OF_DEVICE_CLASS) or not (is_native(name) or name.startswith("requests."))


EXTENDED_CLAIM = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of a claim that serves the extended resources of its pod."""


class CELDeviceSelector(Struct, frozen=True):
    """A CEL expression about a device."""

    expression: str = ""


class DeviceSelector(Struct, frozen=True):
    """A condition that a device must meet."""

    cel: CELDeviceSelector | None = None


class OpaqueDeviceConfiguration(Struct, frozen=True):
    """Parameters for a driver, which the scheduler only passes on."""

    driver: str = ""
    parameters: Any = None


class DeviceToleration(Struct, frozen=True):
    """A toleration of device taints."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class CapacityRequirements(Struct, frozen=True):
    """The capacity of a device that a request needs, by name."""

    requests: Resources = {}


class DeviceSubRequest(Struct, frozen=True):
    """One alternative of a request with `firstAvailable`."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: Int64 = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class ExactDeviceRequest(Struct, frozen=True):
    """A request without alternatives."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: Int64 = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(Struct, frozen=True):
    """A request for devices: exact, or a list of alternatives of which the first available is taken."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Struct, frozen=True):
    """A condition that the devices of several requests meet together."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaimConfiguration(Struct, frozen=True):
    """Parameters for a driver, for some requests of a claim; for all where `requests` is empty."""

    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(Struct, frozen=True):
    """The devices that a claim asks for."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(Struct, frozen=True):
    """Spec of a resource claim."""

    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(Struct, frozen=True):
    """A device that was allocated for a request.

    Attributes
    ----------
    request : str
        Name of the request, or ``request/subrequest``.
    consumed_capacity : dict of str to quantity
        What a share of the device takes of its capacity; only of devices for several allocations.
    """

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = field(default=None, name="shareID")
    consumed_capacity: Resources = {}


class DeviceAllocationConfiguration(Struct, frozen=True):
    """Parameters for a driver, with where they come from."""

    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(Struct, frozen=True):
    """The allocated devices and the parameters for their drivers."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(Struct, frozen=True):
    """What a claim was given."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: Time | None = None


class ResourceClaimConsumerReference(Struct, frozen=True):
    """Who uses a claim."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocatedDeviceStatus(Struct, frozen=True):
    """What a driver reports about an allocated device."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = field(default=None, name="shareID")
    conditions: tuple[Condition, ...] = ()


class ResourceClaimStatus(Struct, frozen=True):
    """Status of a resource claim."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(Object, frozen=True):
    """A claim for devices."""

    kind: str = "ResourceClaim"
    api_version: str = API_VERSION
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Struct, frozen=True):
    """The claims that are made from a template."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Object, frozen=True):
    """A template of resource claims."""

    kind: str = "ResourceClaimTemplate"
    api_version: str = API_VERSION
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceClassConfiguration(Struct, frozen=True):
    """Parameters for a driver, for all devices of a class."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(Struct, frozen=True):
    """Spec of a device class."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(Object, frozen=True):
    """A class of devices."""

    kind: str = "DeviceClass"
    api_version: str = API_VERSION
    spec: DeviceClassSpec = DeviceClassSpec()


KINDS = (ResourceClaim, ResourceClaimTemplate, DeviceClass)
"""The kinds of this module that files are decoded to."""
