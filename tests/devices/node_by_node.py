"""The core's search for devices on one node after the other, over slices without a cluster."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from tests.doors.engine import (
    AllocatedDevices,
    AllocationRules,
    ClaimRequests,
    ClaimResult,
    DeviceSearch,
    Features,
    PoolsInvalidError,
    Wanted,
    claim_results,
)

from moorage.engine.devices import DeviceSlices, SelectorCache
from moorage.kube import DeviceClass, Node


class Allocator:
    """Allocates claims on the nodes of one cycle."""

    def __init__(
        self,
        slices: DeviceSlices,
        features: Features,
        allocated: AllocatedDevices,
        class_of: Callable[[str], DeviceClass | None],
        selectors: SelectorCache,
    ) -> None:
        self.slices, self.allocated = slices, allocated
        self.rules = AllocationRules(features, class_of, selectors)
        self.available: dict[Hashable, Any] = {}
        self.views: dict[Hashable, Any] = {}

    def allocate(self, node: Node, claims: Sequence[ClaimRequests]) -> list[ClaimResult] | None:
        """Find devices for all claims on a node."""
        pools, features = self.slices.pools_of(node), self.rules.features
        key = self.slices.view_key(node, pools)
        if key not in self.views:
            self.views[key] = self.slices.new_view(node, pools, False)
        view = self.views[key]
        view.load(self.allocated)
        wanted = Wanted(claims, self.rules)
        found = DeviceSearch(wanted, view, features, 0, self.available).find()
        if found is not None:
            return claim_results(claims, view, found, self.rules.class_of, features)
        if any(pool.is_invalid for pool in view.pools):
            raise PoolsInvalidError
        return None
