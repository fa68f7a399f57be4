"""What the plugins of a scheduler share about devices: claims, slices, classes, results of expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from moorage.kube.model.pod import Pod
from moorage.kube.model.resource_claims import DeviceClass, ResourceClaim
from moorage.kube.model.resource_slices import Device, DeviceTaintRule, ResourceSlice
from moorage.store import InformerFactory

from .allocation.device_pools import DeviceSlices
from .allocation.taint_rules import tainted
from .claims.claim_cache import ClaimCache
from .claims.claim_consumers import ClaimConsumers
from .claims.node_resources import devices_by_name
from .device_counts import DeviceCounts
from .device_demands import DeviceDemands
from .extended_resources import ExtendedRequests, ExtendedRequestsOfPods, ResourceClasses
from .features import Features
from .selector_cache import SelectorCache

if TYPE_CHECKING:
    from ..framework.plugin.handle import FrameworkHandle

_NO_CLASSES: dict[str, DeviceClass] = {}


class DeviceState:
    """Claims, slices and classes of a cluster.

    Parameters
    ----------
    resource_classes : ResourceClasses or None
        None without the feature.

    Attributes
    ----------
    claim_cache : ClaimCache
    selectors : SelectorCache
    counts : DeviceCounts
    demands : DeviceDemands
    """

    def __init__(
        self,
        informers: InformerFactory,
        features: Features,
        consumers: ClaimConsumers,
        resource_classes: ResourceClasses | None,
    ) -> None:
        self.features, self.consumers, self._resource_classes = features, consumers, resource_classes
        self.claim_cache = ClaimCache(informers.informer(ResourceClaim), features.consumable_capacity)
        self.selectors = SelectorCache(
            list_attributes=features.list_attributes,
            multiple_allocations=not features.is_stable,
            includes=features.release.lists_have_includes,
        )
        self.counts = DeviceCounts(features.list_attributes, features.release.lists_have_includes)
        self.demands = DeviceDemands(self)
        self._slices = informers.lister(ResourceSlice)
        self._classes = informers.lister(DeviceClass)
        self._rules = informers.lister(DeviceTaintRule)
        self._assumed_slices: tuple[ResourceSlice, ...] = ()
        self._known_slices: tuple[tuple[int, int], DeviceSlices] | None = None
        self._devices: tuple[DeviceSlices, dict[tuple[str, str], Device]] | None = None
        self._extended: tuple[dict[str, DeviceClass], frozenset[str]] | None = None
        self._requests = ExtendedRequestsOfPods({})
        self._by_name: tuple[int, dict[str, DeviceClass]] | None = None

    @classmethod
    def of(cls, handle: FrameworkHandle) -> DeviceState:
        """Return the state for a handle."""
        features, consumers = Features.of(handle.feature_gates), handle.shared(ClaimConsumers.of)
        classes = handle.shared(ResourceClasses.of) if features.extended_resources else None
        return cls(handle.informers, features, consumers, classes)

    def slices(self) -> DeviceSlices:
        """Return the slices of the cluster."""
        changes = self._slices.changes, self._rules.changes
        if self._known_slices is None or self._known_slices[0] != changes:
            self._known_slices = changes, DeviceSlices(self.published(), self.features)
        return self._known_slices[1]

    def devices_by_name(self) -> Mapping[tuple[str, str], Device]:
        """Return the devices of the cluster by pool and name."""
        slices = self.slices()
        if self._devices is None or self._devices[0] is not slices:
            self._devices = slices, devices_by_name(self.published())
        return self._devices[1]

    def published(self) -> Sequence[ResourceSlice]:
        """Return the slices of the cluster as objects, with the taints of rules."""
        slices = (*self._slices.list(), *self._assumed_slices)
        rules = self._rules.list() if self.features.taint_rules else ()
        return tainted(slices, rules, self.features) if rules else slices

    @contextmanager
    def assuming(
        self, claims: Iterable[ResourceClaim] = (), slices: Iterable[ResourceSlice] = ()
    ) -> Iterator[None]:
        """Let the plugins see claims in other states, and more slices, inside the context.

        Parameters
        ----------
        claims : iterable of ResourceClaim
            Replace those of their names, or are added.
        slices : iterable of ResourceSlice
            Are added.
        """
        saved, more, known = self.claim_cache.save(), self._assumed_slices, self._known_slices
        try:
            for claim in claims:
                if self.claim_cache.find(claim.key) is None:
                    self.claim_cache.add(claim)
                else:
                    self.claim_cache.assume(claim)
            if added := tuple(slices):
                self._assumed_slices, self._known_slices = more + added, None
            yield
        finally:
            self.claim_cache.undo(saved)
            self._assumed_slices, self._known_slices = more, known

    @property
    def classes_version(self) -> int:
        """A number that grows whenever a class changes."""
        return self._classes.changes

    def class_of(self) -> Callable[[str], DeviceClass | None]:
        """Return a function from the name of a class to the class, or None."""
        return self.classes().get

    def classes(self) -> dict[str, DeviceClass]:
        """Return the classes by name."""
        changes = self._classes.changes
        if self._by_name is None or self._by_name[0] != changes:
            self._by_name = (
                changes,
                {device_class.name: device_class for device_class in self._classes.list()},
            )
        return self._by_name[1]

    def by_resource(self) -> dict[str, DeviceClass]:
        """Return the classes by the extended resource that they provide; none without the feature."""
        return _NO_CLASSES if self._resource_classes is None else self._resource_classes.by_resource

    def extended_resources(self) -> frozenset[str]:
        """Return the extended resources that classes provide."""
        by_resource = self.by_resource()
        if self._extended is None or self._extended[0] is not by_resource:
            self._extended = by_resource, frozenset(by_resource)
        return self._extended[1]

    def extended_requests(self, pod: Pod) -> ExtendedRequests | None:
        """Return what a pod requests of extended resources; None if it names no resource of a class."""
        requests = self.requests_of_pods()
        return None if requests is None else requests.of(pod)

    def requests_of_pods(self) -> ExtendedRequestsOfPods | None:
        """Return what finds the extended resources that pods request, until a class changes; None without
        such classes."""
        by_resource = self.by_resource()
        if not by_resource:
            return None
        if self._requests.classes is not by_resource:
            self._requests = ExtendedRequestsOfPods(by_resource)
        return self._requests
