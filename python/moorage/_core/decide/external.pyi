from collections.abc import Callable
from typing import Self

import numpy as np
import numpy.typing as npt

from moorage._core.state.cluster_state import ClusterState

_Rows = npt.NDArray[np.int32]

class ExternalView: ...

class External:
    error: BaseException | None
    @property
    def name(self) -> str: ...
    @property
    def is_native(self) -> bool: ...

class Views:
    def __new__(cls, externals: list[External], state: ClusterState) -> Self: ...
    def raise_failure(self) -> None: ...

class PythonExternal(External):
    @property
    def filter(self) -> Callable[[_Rows], npt.ArrayLike] | None: ...
    @property
    def score(self) -> Callable[[_Rows], npt.ArrayLike] | None: ...
    def __init__(
        self,
        name: str,
        filter: Callable[[_Rows], npt.ArrayLike] | None = None,
        score: Callable[[_Rows], npt.ArrayLike] | None = None,
    ) -> None: ...
