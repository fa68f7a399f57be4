"""PodStore: pods, assumed and confirmed. They are the ledger's, which charges the node that a pod is on."""

from __future__ import annotations

from moorage._core.services.binder_pods import BinderPods
from moorage._core.services.binder_store import Undo
from moorage._core.state.cluster_state import ClusterState
from moorage.errors import CacheError
from moorage.objects.model.godel import node_name_of
from moorage.objects.model.pod import Pod

from ..cache_handler import CacheHandler
from .common import Store, StoreName


class PodStore(BinderPods, Store):
    """Pods by UID."""

    name = StoreName.POD

    def __init__(self, state: ClusterState, handler: CacheHandler, undo: Undo) -> None:
        super().__init__(state, handler, undo, node_name_of)

    def get_pod(self, pod: Pod) -> Pod:
        held = self.find_named(pod)
        if held is None:
            self.find(pod)  # an empty UID has a text of its own
            raise CacheError(f"pod {pod.metadata.uid} does not exist in binder cache")
        return held
