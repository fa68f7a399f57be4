"""Devices as extended resources of nodes, for NodeResourcesFit's scores (kube-scheduler v1.36,
resource_allocation.go)."""

from __future__ import annotations

from collections.abc import Iterable

from moorage.devices.allocation.allocator import AllocatedDevices
from moorage.devices.allocation.device_pools import DeviceId, DeviceSlices, PublishedDevice
from moorage.devices.cel.cel_errors import CompileError
from moorage.devices.cel.selector import SelectorError
from moorage.objects import Node
from moorage.objects.model.resource_claims import DeviceClass

from .selector_cache import SelectorCache


class DeviceCounts:
    """Counts devices that match a class, and those of them in use.

    As upstream, generations, completeness, taints and counters do not matter, and the results of expressions
    are kept by the name of a device: later changes of its attributes go unnoticed.

    Parameters
    ----------
    selectors : SelectorCache
    """

    def __init__(self, selectors: SelectorCache) -> None:
        self._selectors = selectors
        self._matches: dict[tuple[str, DeviceId], bool] = {}

    def count(
        self, node: Node, device_class: DeviceClass, slices: DeviceSlices, allocated: AllocatedDevices
    ) -> tuple[int, int]:
        """Return the number of a node's devices of a class, and of those in use.

        Parameters
        ----------
        node : Node
        device_class : DeviceClass
        slices : DeviceSlices
        allocated : AllocatedDevices

        Returns
        -------
        (int, int)
        """
        devices = in_use = 0
        for device in self._devices(node, slices):
            if self._is_of(device_class, device):
                devices += 1
                in_use += device.id in allocated.devices or device.id in allocated.consumed
        return devices, in_use

    def _devices(self, node: Node, slices: DeviceSlices) -> Iterable[PublishedDevice]:
        for one in slices.offered(node):
            yield from (device for device in one.devices if device.is_for(node))

    def _is_of(self, device_class: DeviceClass, device: PublishedDevice) -> bool:
        for selector in device_class.spec.selectors:
            expression = "" if selector.cel is None else selector.cel.expression
            key = expression, device.id
            if key not in self._matches:
                try:
                    self._matches[key] = self._selectors.matches(expression, device)
                except (CompileError, SelectorError):
                    return False
            if not self._matches[key]:
                return False
        return True
