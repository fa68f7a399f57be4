"""The pods that are being preempted, each with a deadline. Texts are Gödel's, pkg/binder/cache."""

from moorage.errors import CacheCorruptedError, CacheError

from libc.stdint cimport int32_t

from moorage._core.services.binder_store cimport BinderStore, uid_of
from moorage._core.base.fields cimport METADATA, NODE_NAME, SPEC, UID
from moorage._core.state.ledger cimport ADDED
from moorage._core.state.cluster_state cimport ClusterState


cdef class DeletedMarkers(BinderStore):
    """Preemptor and deadline by the victim's UID; a victim has one preemptor.

    Parameters
    ----------
    state, handler
        Of a store.
    node_name_of : callable
        The node of a pod whose spec names none.
    """

    cdef dict markers  # (the preemptor's UID, seconds on the clock) by UID
    cdef object node_name_of

    def __init__(self, ClusterState state not None, handler, node_name_of):
        super().__init__(state, handler)
        self.markers = {}
        self.node_name_of = node_name_of

    def clone(self, ClusterState state not None):
        """An independent copy."""
        cdef DeletedMarkers out = super().clone(state)
        out.markers = self.markers.copy()
        return out

    def mark_pod_to_delete(self, pod, preemptor):
        """A confirmed pod is to be deleted for a preemptor; one that is marked gets that preemptor."""
        cdef str owner = uid_of(preemptor), uid = uid_of(pod)
        cdef int32_t number = self.state.ledger.find(uid)
        if number < 0 or self.state.ledger.state_of(number) != ADDED:
            raise CacheError(f"pod {uid} is not found in binder cache, so cannot be marked to delete")
        held = self.state._node_of(number)
        node_name = NODE_NAME.of(SPEC.of(pod)) or self.node_name_of(pod)
        if held != node_name:
            raise CacheCorruptedError(f"pod {uid} was added to {held} but marked on {node_name}")
        deadline = self.handler.clock() + self.handler.deleted_marker_ttl
        self.state.journal.put(self.markers, uid, (owner, deadline))

    def remove_delete_pod_marker(self, pod, preemptor):
        """Take a preemptor's marker back; CacheError where it is another one's."""
        self.remove_delete_pod_marker_by_key(uid_of(pod), uid_of(preemptor))

    cpdef remove_delete_pod_marker_by_key(self, str pod_key, str preemptor_key):
        """`remove_delete_pod_marker` by UIDs."""
        marker = self.markers.get(pod_key)
        if marker is None:
            return
        if marker[0] != preemptor_key:
            raise CacheError(f"Pod Marker isn't set by this preemptor {preemptor_key}")
        self.state.journal.drop(self.markers, pod_key)

    def is_pod_marked_to_delete(self, pod):
        """Whether a pod is marked as preempted."""
        return uid_of(pod) in self.markers

    def leave(self, pod):
        """Remove the marker of a pod that is gone."""
        self.state.journal.drop(self.markers, UID.of(METADATA.of(pod)))

    def clean(self, double now):
        """Drop the markers whose time is over."""
        for uid in [uid for uid, (_, deadline) in self.markers.items() if deadline < now]:
            self.state.journal.drop(self.markers, uid)
