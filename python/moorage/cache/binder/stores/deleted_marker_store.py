"""DeletedMarkerStore: the pods that are being preempted, each with a deadline."""

from __future__ import annotations

from moorage._core.services.binder_store import Undo
from moorage._core.services.deleted_markers import DeletedMarkers
from moorage._core.state.cluster_state import ClusterState
from moorage.objects.model.godel import node_name_of

from ..cache_handler import CacheHandler
from .common import Store, StoreName


class DeletedMarkerStore(DeletedMarkers, Store):
    """Markers by the victim's UID."""

    name = StoreName.DELETED_MARKER

    def __init__(self, state: ClusterState, handler: CacheHandler, undo: Undo) -> None:
        super().__init__(state, handler, undo, node_name_of)
