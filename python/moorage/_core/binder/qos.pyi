from collections.abc import Iterable, Mapping, Sequence

from moorage._core.state.cluster_state import ClusterState
from moorage.kube.model.pod import Pod

def describe(
    state: ClusterState, name: str, allocatable: Sequence[Mapping[str | int, int]], held: bool
) -> None: ...
def misfits(
    state: ClusterState, pod: Pod, name: str, without: Iterable[Pod] = (), ignore_pods_limit: bool = False
) -> list[str]: ...
