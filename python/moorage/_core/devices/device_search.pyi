from collections.abc import Hashable, Sequence
from typing import Self

from moorage._core.devices.device_view import DeviceView
from moorage.engine.devices.allocator import AllocationRules
from moorage.engine.devices.claim_requests import ClaimRequests, Features
from moorage.errors import MoorageError

class SearchTimeoutError(MoorageError): ...

class Wanted:
    def __new__(cls, claims: Sequence[ClaimRequests], rules: AllocationRules) -> Self: ...
    @property
    def has_choices(self) -> bool: ...

class DeviceSearch:
    def __new__(
        cls,
        wanted: Wanted,
        view: DeviceView,
        features: Features,
        most_steps: int = 0,
        cycle: dict[Hashable, dict[tuple[str, str], int]] | None = None,
    ) -> Self: ...
    def settle(self) -> None: ...
    def find(self) -> list[tuple[list[int], list[tuple[int, int, bool]]]] | None: ...
