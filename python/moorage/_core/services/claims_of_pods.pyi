from collections.abc import Callable
from typing import Any

from moorage._core.base.indexed_objects import Reader
from moorage._core.decide.pod_batch import Alike
from moorage.devices.device_demands import AskingClaim
from moorage.errors import MoorageError
from moorage.framework.profiles.in_core import VolumesOfBatch
from moorage.objects.model.pod import Pod
from moorage.objects.model.resource_claims import ResourceClaim

class ClaimError(MoorageError): ...

def pod_claims(
    pod: Pod, find: Callable[[str], ResourceClaim | None], of_group: bool = False
) -> list[ResourceClaim]: ...
def claims_by_use(
    pod: Pod, find: Callable[[str], ResourceClaim | None], of_group: bool = False
) -> list[tuple[str, ResourceClaim]]: ...
def claim_keys(pod: Pod) -> list[str]: ...
def is_owned_by_group(claim: ResourceClaim, group: str) -> bool: ...

class AlikePods(Alike):
    def __init__(
        self,
        pod: Pod,
        asking: list[AskingClaim],
        claims: Reader,
        in_flight: dict[str, Any],
        batch: VolumesOfBatch,
    ) -> None: ...
