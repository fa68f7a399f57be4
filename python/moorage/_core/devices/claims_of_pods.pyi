from collections.abc import Callable, Iterable
from typing import Any

from moorage._core.base.indexed_objects import Reader
from moorage._core.base.quantity import Quantity
from moorage._core.decide.pod_batch import RepeatedNeeds
from moorage.engine.devices.device_demands import AskingClaim, PlacedPod
from moorage.engine.devices.device_pools import DeviceId
from moorage.engine.framework.claim_plugins import ClaimsOfBatch
from moorage.errors import MoorageError
from moorage.kube.model.pod import Pod
from moorage.kube.model.resource_claims import (
    AllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
)

FINALIZER: str
EXTENDED_CLAIM: str

class ClaimError(MoorageError): ...
class ClaimWriteError(MoorageError): ...

def pod_claims(
    pod: Pod, find: Callable[[str], ResourceClaim | None], of_group: bool = False, kind: str = "Pod"
) -> list[ResourceClaim]: ...
def claims_by_use(
    pod: Pod, find: Callable[[str], ResourceClaim | None], of_group: bool = False, kind: str = "Pod"
) -> list[tuple[str, ResourceClaim]]: ...
def claim_keys(pod: Pod) -> list[str]: ...
def is_owned_by_group(claim: ResourceClaim, group: str) -> bool: ...
def reserved(
    claim: ResourceClaim,
    allocation: AllocationResult | None,
    user: ResourceClaimConsumerReference,
    time: str | None = None,
) -> ResourceClaim: ...
def reserve_together(
    pods: Iterable[tuple[Pod, PlacedPod]],
    find: Callable[[PlacedPod], list[AllocationResult]],
    user_of: Callable[[Pod], ResourceClaimConsumerReference],
    time: str | None = None,
) -> tuple[dict[str, ResourceClaim], dict[int, ResourceClaim], list[int]]: ...

class ObservedClaims:
    changed: set[DeviceId] | None
    def __init__(self, counts_shares: bool) -> None: ...
    @property
    def devices(self) -> set[DeviceId]: ...
    @property
    def consumed(self) -> dict[DeviceId, dict[str, Quantity]]: ...
    @property
    def negative(self) -> dict[DeviceId, int]: ...
    @property
    def changes(self) -> int: ...
    @property
    def extended(self) -> dict[str, list[str]]: ...
    def copy(self) -> ObservedClaims: ...
    def restore(self, saved: ObservedClaims) -> None: ...
    def note(self, allocation: AllocationResult) -> None: ...
    def add(self, allocation: AllocationResult) -> None: ...
    def observe(self, key: str, claim: ResourceClaim | None) -> None: ...
    def observe_all(self, keys: Iterable[str | None], claims: Iterable[ResourceClaim]) -> None: ...

class RepeatedClaims(RepeatedNeeds):
    def __init__(
        self,
        pod: Pod,
        asking: list[AskingClaim],
        claims: Reader,
        in_flight: dict[str, Any],
        batch: ClaimsOfBatch,
    ) -> None: ...
