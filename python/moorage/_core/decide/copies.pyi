import numpy as np
import numpy.typing as npt

from moorage._core.decide.pod_batch import PodBatch
from moorage._core.decide.search import Search
from moorage._core.state.cluster_state import ClusterState

def filters_rows_alone(search: Search, batch: PodBatch) -> bool: ...
def account_copies(
    state: ClusterState, batch: PodBatch, rows: npt.NDArray[np.int32], copies: npt.NDArray[np.int32]
) -> None: ...
