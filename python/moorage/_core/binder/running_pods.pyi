from collections.abc import Callable

from moorage._core.binder.binder_store import BinderStore
from moorage._core.state.cluster_state import ClusterState
from moorage.compat.binder_stores import CacheHandler
from moorage.kube.model.pod import Pod

class RunningPods(BinderStore):
    def __init__(
        self,
        state: ClusterState,
        handler: CacheHandler,
        unit_key: Callable[[Pod], str],
        group: str,
        single: str,
    ) -> None: ...
    def enter(self, pod: Pod) -> None: ...
    def leave(self, pod: Pod) -> None: ...
    def leave_all(self, pods: list[Pod]) -> None: ...
    def running(self, key: str) -> tuple[str, ...]: ...
