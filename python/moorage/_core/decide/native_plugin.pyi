from collections.abc import Callable, Mapping
from typing import Self

from moorage._core.decide.external import External
from moorage._core.decide.plan import KERNELS as KERNELS
from moorage._core.state.cluster_state import ClusterState

ABI_MAJOR: int
OWN_COLUMNS: tuple[str, ...]
FAILURES: tuple[str, ...]

def capsule_address(capsule: object, source: str) -> int: ...

class NativeExternal(External):
    @property
    def reason(self) -> str: ...
    @property
    def filters(self) -> bool: ...
    @property
    def scores(self) -> bool: ...
    @property
    def weight(self) -> int: ...
    def __new__(
        cls,
        address: int,
        source: str,
        keep: object,
        explain: Callable[[str, str, str, str, int], BaseException],
        arguments: Mapping[str, object],
    ) -> Self: ...

class NativeView:
    def __new__(cls, plugin: NativeExternal, state: ClusterState) -> Self: ...
