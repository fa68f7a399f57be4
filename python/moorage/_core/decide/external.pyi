from collections.abc import Callable

import numpy as np
import numpy.typing as npt

_Rows = npt.NDArray[np.int32]
_Scores = npt.NDArray[np.int64]

class External:
    @property
    def name(self) -> str: ...
    @property
    def is_native(self) -> bool: ...

class PythonExternal(External):
    @property
    def begin(self) -> Callable[[int], object] | None: ...
    @property
    def follow(self) -> Callable[[], object] | None: ...
    @property
    def examine(self) -> Callable[..., tuple[_Scores, _Scores]]: ...
    node_error: type[BaseException] | tuple[()]
    def __init__(
        self,
        name: str,
        filter: Callable[[_Rows], npt.ArrayLike] | None = None,
        score: Callable[[_Rows], npt.ArrayLike] | None = None,
        begin: Callable[[int], object] | None = None,
        follow: Callable[[], object] | None = None,
        examine: Callable[..., tuple[_Scores, _Scores]] | None = None,
    ) -> None: ...
