"""Extended resources that device classes provide (KEP-5004): names, the claim that serves them, and how many
devices of a node count.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from moorage._core.base.quantity import parse_value
from moorage._core.base.resources import pod_requests
from moorage.kube import Container, Node, Pod
from moorage.kube.cel.cel_errors import CompileError
from moorage.kube.model.meta import ObjectMeta, OwnerReference
from moorage.kube.model.pod import ContainerExtendedResourceRequest, PodSpec
from moorage.kube.model.resource_claims import (
    EXACT_COUNT,
    EXTENDED_CLAIM,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    is_extended,
)

from .allocator import AllocatedDevices
from .claim_requests import SelectorError
from .device_pools import DeviceId, DeviceSlices, PublishedDevice
from .device_properties import SelectorCache

IN_MEMORY = "<extended-resources>"
"""The name of a claim that is not written yet."""

Mappings = tuple[ContainerExtendedResourceRequest, ...]


def find_claim(pod: Pod, claims: Iterable[ResourceClaim]) -> ResourceClaim | None:
    """Return the claim that an earlier cycle has written for the extended resources of a pod."""
    for claim in claims:
        if claim.metadata.annotations.get(EXTENDED_CLAIM) == "true":
            for owner in claim.metadata.owner_references:
                if owner.controller and owner.uid == pod.metadata.uid and owner.name == pod.name:
                    return claim
    return None


_NO_REQUESTS = ResourceClaimSpec()
_ANNOTATIONS = {EXTENDED_CLAIM: "true"}


def new_claim(pod: Pod, spec: ResourceClaimSpec = _NO_REQUESTS) -> ResourceClaim:
    """Return a claim for the extended resources of a pod.

    Parameters
    ----------
    spec : ResourceClaimSpec, optional
        By default without requests.
    """
    own = pod.metadata
    owner = OwnerReference(api_version="v1", kind="Pod", name=own.name, uid=own.uid, controller=True)
    meta = ObjectMeta(
        name=IN_MEMORY,
        namespace=own.namespace,
        uid=f"{IN_MEMORY}/{own.uid}",
        generate_name=f"{own.name}-extended-resources-",
        owner_references=(owner,),
        annotations=_ANNOTATIONS,
    )
    return ResourceClaim(metadata=meta, spec=spec)


def claim_spec(
    pod: Pod, names: Iterable[str], classes: Mapping[str, DeviceClass]
) -> tuple[ResourceClaimSpec, Mappings]:
    """Return the spec of a claim with the requests for some extended resources of a pod.

    Returns
    -------
    mappings : tuple of ContainerExtendedResourceRequest
        The requests of each container.
    """
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for name in sorted(names):
        _ResourceRequests(pod, name, classes[name].name).extend(requests, mappings)
    requests.sort(key=lambda request: request.name)
    devices = DeviceClaim(requests=tuple(requests))
    return ResourceClaimSpec(devices=devices), tuple(mappings)


class ExtendedRequests(Struct, frozen=True):
    """What a pod requests of extended resources.

    Attributes
    ----------
    resources : dict of str to int
        By name; those that no device class provides as well, and none of which the pod requests zero.
    spec : ResourceClaimSpec or None
        Of the claim for them; None unless device classes provide all.
    """

    resources: dict[str, int]
    spec: ResourceClaimSpec | None
    mappings: Mappings


class ExtendedRequestsOfPods:
    """Finds what pods request of extended resources; pods whose containers request the same share the answer.

    Parameters
    ----------
    classes : dict of str to DeviceClass
        See `ResourceClasses`.
    """

    MOST = 1 << 14

    def __init__(self, classes: dict[str, DeviceClass]) -> None:
        self.classes = classes
        self._names = classes.keys()
        self._known: dict[Hashable, ExtendedRequests | None] = {}
        self._latest: tuple[PodSpec | None, ExtendedRequests | None] = None, None

    def of(self, pod: Pod) -> ExtendedRequests | None:
        """Return the requests of a pod, or None if it names no resource of a device class."""
        spec, status = pod.spec, pod.status
        if spec.overhead or spec.resources or status.container_statuses or status.init_container_statuses:
            return self._find(pod)  # these count as well
        if spec is self._latest[0]:  # most pods of a template share its spec
            return self._latest[1]
        requests = self._of_containers(pod)
        self._latest = spec, requests
        return requests

    def _of_containers(self, pod: Pod) -> ExtendedRequests | None:
        """The requests of a pod for which its containers alone count."""
        spec = pod.spec
        for container in (*spec.containers, *spec.init_containers):
            if not self._names.isdisjoint(container.resources.requests):
                break
        else:
            return None
        key = *map(_key, spec.containers), None, *map(_key, spec.init_containers)
        try:
            return self._known[key]
        except KeyError:
            if len(self._known) >= self.MOST:
                self._known.clear()
            requests = self._known[key] = self._find(pod)
            return requests

    def _find(self, pod: Pod) -> ExtendedRequests | None:
        requested = pod_requests(pod, resizes=False)
        if self.classes.keys().isdisjoint(requested):
            return None
        amounts = {name: parse_value(str(amount)) for name, amount in requested.items()}
        resources = {name: amount for name, amount in amounts.items() if amount and is_extended(name)}
        if not resources.keys() <= self.classes.keys():
            return ExtendedRequests(resources, None, ())
        return ExtendedRequests(resources, *claim_spec(pod, resources, self.classes))


def _key(container: Container) -> Hashable:
    return container.name, container.restart_policy, tuple(container.resources.requests.items())


class _ResourceRequests:
    """The requests of a pod's containers for one resource.

    Init containers that end share what later containers ask for; of what they need beyond that, only the
    largest request counts.
    """

    def __init__(self, pod: Pod, resource: str, class_name: str) -> None:
        self.containers = (*pod.spec.init_containers, *pod.spec.containers)
        self.init_containers = len(pod.spec.init_containers)
        self.resource = resource
        self.class_name = class_name

    def extend(self, requests: list[DeviceRequest], mappings: list[ContainerExtendedResourceRequest]) -> None:
        lasting: list[DeviceRequest | None] = [None] * len(self.containers)
        passing: list[int] = []
        for at, container in enumerate(self.containers):
            if at < self.init_containers and container.restart_policy != "Always":
                passing.append(at)
            else:
                lasting[at], mapped = self._request(at, container, ())
                mappings += mapped
        largest: DeviceRequest | None = None
        of_passing: list[ContainerExtendedResourceRequest] = []
        own: set[str] = set()
        for at in passing:
            request, mapped = self._request(at, self.containers[at], lasting[at:])
            of_passing += mapped
            if request is not None:
                own.add(request.name)
                if largest is None or _count(largest) < _count(request):
                    largest = request
        if largest is not None:
            requests.append(largest)
            of_passing = [
                replace(mapping, request_name=largest.name) if mapping.request_name in own else mapping
                for mapping in of_passing
            ]
        requests += [request for request in lasting if request is not None]
        mappings += of_passing

    def _request(
        self, at: int, container: Container, reusable: Sequence[DeviceRequest | None]
    ) -> tuple[DeviceRequest | None, list[ContainerExtendedResourceRequest]]:
        """The request of a container beyond what it can share, and the requests that serve it."""
        amounts = container.resources.requests
        wanted = parse_value(amounts[self.resource]) if self.resource in amounts else 0
        mappings: list[ContainerExtendedResourceRequest] = []
        if not wanted:
            return None, mappings
        shared = 0
        for request in reusable:
            if request is not None:
                shared += _count(request)
                mappings.append(self._mapping(container, request.name))
                if shared >= wanted:
                    return None, mappings
        name = f"container-{at}-request-{sorted(amounts).index(self.resource)}"
        mappings.append(self._mapping(container, name))
        exactly = ExactDeviceRequest(
            device_class_name=self.class_name, allocation_mode=EXACT_COUNT, count=wanted - shared
        )
        return DeviceRequest(name=name, exactly=exactly), mappings

    def _mapping(self, container: Container, request: str) -> ContainerExtendedResourceRequest:
        return ContainerExtendedResourceRequest(
            container_name=container.name, resource_name=self.resource, request_name=request
        )


def _count(request: DeviceRequest) -> int:
    return 0 if request.exactly is None else request.exactly.count


# ---- device counts -----------------------------------------------------------------------------------------
# Devices as extended resources of nodes, for NodeResourcesFit's scores (kube-scheduler v1.36,
# resource_allocation.go).


class DeviceCounts:
    """Counts devices that match a class, and those of them in use.

    As upstream, generations, completeness, taints and counters do not matter, no device may be shared in the
    eyes of expressions, and that an expression matched is kept by the name of a device: later changes of its
    attributes go unnoticed.

    Parameters
    ----------
    list_attributes, includes : bool, optional
        See `SelectorCache`.
    """

    def __init__(self, list_attributes: bool = False, includes: bool = True) -> None:
        self._selectors = SelectorCache(
            list_attributes=list_attributes, multiple_allocations=False, includes=includes
        )
        self._matched: set[tuple[str, DeviceId]] = set()

    def count(
        self, node: Node, device_class: DeviceClass, slices: DeviceSlices, allocated: AllocatedDevices
    ) -> tuple[int, int]:
        """Return the number of a node's devices of a class, and of those in use.

        Returns
        -------
        (int, int)
            Zeros if a selector of the class cannot be evaluated for one of the devices.
        """
        devices = in_use = 0
        try:
            for device in self._devices(node, slices):
                if self._is_of(device_class, device):
                    devices += 1
                    in_use += device.id in allocated.devices or device.id in allocated.consumed
        except (CompileError, SelectorError):
            return 0, 0
        return devices, in_use

    def _devices(self, node: Node, slices: DeviceSlices) -> Iterable[PublishedDevice]:
        for slice_ in slices.offered(node):
            yield from (device for device in slice_.devices if device.is_for(node))

    def _is_of(self, device_class: DeviceClass, device: PublishedDevice) -> bool:
        for selector in device_class.spec.selectors:
            if selector.cel is None:
                continue
            key = selector.cel.expression, device.id
            if key not in self._matched:
                if not self._selectors.matches(selector.cel.expression, device):
                    return False
                self._matched.add(key)
        return True
