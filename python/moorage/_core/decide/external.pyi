from collections.abc import Callable

import numpy as np
import numpy.typing as npt

_Rows = npt.NDArray[np.int32]

class External:
    error: BaseException | None
    @property
    def name(self) -> str: ...
    @property
    def is_native(self) -> bool: ...

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
