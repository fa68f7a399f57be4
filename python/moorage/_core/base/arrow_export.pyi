import numpy as np
import numpy.typing as npt

class ArrowColumn:
    def __init__(
        self,
        name: str,
        format: str,
        length: int,
        nulls: int,
        buffers: tuple[npt.NDArray[np.uint8] | None, ...],
    ) -> None: ...

def schema_capsule(columns: tuple[ArrowColumn, ...]) -> object: ...
def array_capsule(columns: tuple[ArrowColumn, ...]) -> object: ...
def stream_capsule(columns: tuple[ArrowColumn, ...]) -> object: ...
