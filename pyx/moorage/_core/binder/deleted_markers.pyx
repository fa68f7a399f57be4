# cython: auto_pickle=False
"""DeletedMarkers: marks on pods that are being preempted. Texts of errors are Gödel's (pkg/binder/cache)."""

from moorage.errors import CacheCorruptedError, CacheError

from libc.stdint cimport int32_t

from moorage._core.binder.binder_store cimport BinderStore, uid_of
from moorage._core.base cimport METADATA, NODE_NAME, SPEC, UID
from moorage._core.state cimport ADDED, ClusterState


cdef class DeletedMarkers(BinderStore):
    """The preemptor and the deadline of each marked pod, by the pod's UID.

    Parameters
    ----------
    state : ClusterState
    handler : CacheHandler
        Has the clock and the time limits.
    node_name_of : callable
        Returns the node of a pod whose spec has no node name.
    """

    cdef dict markers  # (the preemptor's UID, seconds on the clock) by UID
    cdef object node_name_of

    def __init__(self, ClusterState state not None, handler, node_name_of):
        super().__init__(state, handler)
        self.markers = {}
        self.node_name_of = node_name_of

    def clone(self, ClusterState state not None):
        """Return an independent copy.

        Parameters
        ----------
        state : ClusterState
            A copy of this store's state.

        Returns
        -------
        DeletedMarkers
        """
        cdef DeletedMarkers out = super().clone(state)
        out.markers = self.markers.copy()
        return out

    def mark_pod_to_delete(self, pod, preemptor):
        """Mark a bound pod as a victim. A pod that is marked already gets the new preemptor.

        Parameters
        ----------
        pod, preemptor : Pod

        Raises
        ------
        CacheError
            The pod is not bound in this cache, or one of the pods has no UID.
        CacheCorruptedError
            The pod is on another node.
        """
        cdef str owner = uid_of(preemptor), uid = uid_of(pod)
        cdef int32_t number = self.state.ledger.find(uid)
        if number < 0 or self.state.ledger.state_of(number) != ADDED:
            raise CacheError(f"pod {pod.key} is not found in binder cache, so cannot be marked to delete")
        added_to = self.state._node_of(number)
        node_name = NODE_NAME.of(SPEC.of(pod)) or self.node_name_of(pod)
        if added_to != node_name:
            raise CacheCorruptedError(f"pod {pod.key} was added to {added_to} but marked on {node_name}")
        deadline = self.handler.clock() + self.handler.deleted_marker_ttl
        self.state.journal.put(self.markers, uid, (owner, deadline))

    def remove_delete_pod_marker(self, pod, preemptor):
        """Remove the marker of a pod.

        Parameters
        ----------
        pod, preemptor : Pod

        Raises
        ------
        CacheError
            Another preemptor has set the marker, or one of the pods has no UID.
        """
        self.remove_delete_pod_marker_by_key(uid_of(pod), uid_of(preemptor))

    cpdef remove_delete_pod_marker_by_key(self, str pod_key, str preemptor_key):
        """Remove the marker of a pod. A pod without a marker is ignored.

        Parameters
        ----------
        pod_key, preemptor_key : str
            The UIDs of the pod and of the preemptor.

        Raises
        ------
        CacheError
            Another preemptor has set the marker.
        """
        marker = self.markers.get(pod_key)
        if marker is None:
            return
        if marker[0] != preemptor_key:
            raise CacheError(f"Pod Marker isn't set by this preemptor {preemptor_key}")
        self.state.journal.drop(self.markers, pod_key)

    def is_pod_marked_to_delete(self, pod):
        """Whether a pod has a marker.

        Parameters
        ----------
        pod : Pod

        Returns
        -------
        bool

        Raises
        ------
        CacheError
            The pod has no UID.
        """
        return uid_of(pod) in self.markers

    def leave(self, pod):
        """Remove the marker of a pod that leaves the cache, if it has one.

        Parameters
        ----------
        pod : Pod
        """
        self.state.journal.drop(self.markers, UID.of(METADATA.of(pod)))

    def clean(self, double now):
        """Remove the markers whose deadline has passed.

        Parameters
        ----------
        now : float
            The time in seconds.
        """
        for uid in [uid for uid, (_, deadline) in self.markers.items() if deadline < now]:
            self.state.journal.drop(self.markers, uid)
