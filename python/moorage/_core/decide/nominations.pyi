from typing import Self

from moorage._core.state.cluster_state import ClusterState

class Nominations:
    def __new__(cls, state: ClusterState) -> Self: ...

class NominatedVerdicts: ...
