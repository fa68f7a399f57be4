"""DeletedMarkerStore: which pods somebody preempts, until when."""

from __future__ import annotations

from typing import Self

from moorage._core import binder_pods
from moorage._core.state import ClusterState
from moorage.errors import CacheError
from moorage.objects.godel import node_name_of
from moorage.objects.pod import Pod

from ..cache_handler import CacheHandler
from .common import Store, StoreName, Undo

Marker = tuple[str, float]
"""The UID of the preemptor, and until when (seconds on the clock)."""


def _uid(pod: Pod) -> str:
    uid = pod.metadata.uid
    if not uid:
        raise CacheError("cannot get cache key for pod with empty UID")
    return uid


class DeletedMarkerStore(Store):
    """Markers by the victim's UID; a victim has one preemptor."""

    name = StoreName.DELETED_MARKER

    def __init__(self, state: ClusterState, handler: CacheHandler, undo: Undo) -> None:
        super().__init__(state, handler, undo)
        self._markers: dict[str, Marker] = {}

    def clone(self, state: ClusterState, undo: Undo) -> Self:
        out = super().clone(state, undo)
        out._markers = self._markers.copy()
        return out

    def mark_pod_to_delete(self, pod: Pod, preemptor: Pod) -> None:
        """A confirmed pod is to be deleted for a preemptor; one that is marked gets that preemptor."""
        owner, node_name = _uid(preemptor), pod.spec.node_name or node_name_of(pod)
        binder_pods.check_victim(self.state, pod, node_name)
        handler = self.handler
        marker = owner, handler.clock() + handler.deleted_marker_ttl
        self.undo.put(self._markers, pod.metadata.uid, marker)

    def remove_delete_pod_marker(self, pod: Pod, preemptor: Pod) -> None:
        uid, owner = pod.metadata.uid, preemptor.metadata.uid
        self.remove_delete_pod_marker_by_key(uid or _uid(pod), owner or _uid(preemptor))

    def remove_delete_pod_marker_by_key(self, pod_key: str, preemptor_key: str) -> None:
        marker = self._markers.get(pod_key)
        if marker is None:
            return
        if marker[0] != preemptor_key:
            raise CacheError(f"Pod Marker isn't set by this preemptor {preemptor_key}")
        self.undo.drop(self._markers, pod_key)

    def is_pod_marked_to_delete(self, pod: Pod) -> bool:
        return _uid(pod) in self._markers

    def leave(self, uid: str) -> None:
        """A pod is no more."""
        if uid in self._markers:
            self.undo.drop(self._markers, uid)

    def clean(self, now: float) -> None:
        """Drop the markers whose time is over."""
        for uid in [uid for uid, (_, deadline) in self._markers.items() if deadline < now]:
            self.undo.drop(self._markers, uid)
