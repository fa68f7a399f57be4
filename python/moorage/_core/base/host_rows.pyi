import numpy as np
import numpy.typing as npt

def next_possible(
    order: npt.NDArray[np.int32],
    first: int,
    columns: tuple[npt.NDArray[np.float64], npt.NDArray[np.int32], npt.NDArray[np.int32]],
    amounts: tuple[float, ...],
    agreed: bytes | bytearray,
    allowed: bytes | None,
) -> int: ...
