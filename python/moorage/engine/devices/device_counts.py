"""Devices as extended resources of nodes, for NodeResourcesFit's scores (kube-scheduler v1.36,
resource_allocation.go)."""

from __future__ import annotations

from collections.abc import Iterable

from moorage.kube import Node
from moorage.kube.cel.cel_errors import CompileError
from moorage.kube.model.resource_claims import DeviceClass

from .allocation.allocator import AllocatedDevices
from .allocation.device_pools import DeviceId, DeviceSlices, PublishedDevice
from .selector_cache import SelectorCache
from .selector_error import SelectorError


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
