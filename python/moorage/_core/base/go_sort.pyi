import numpy as np
import numpy.typing as npt

def sort_order(keys: npt.NDArray[np.float64], order: npt.NDArray[np.int32], changed: int = -1) -> None: ...
