"""BinderStore: the base class of the stores of a BinderCache that are called for every pod."""

from moorage.errors import CacheError

from moorage._core.base cimport METADATA, UID


cdef str uid_of(object pod):
    """The UID of a pod; CacheError if it has none."""
    cdef str uid = UID.of(METADATA.of(pod))
    if not uid:
        raise CacheError("cannot get cache key for pod with empty UID")
    return uid


cdef class BinderStore:
    """A part of a BinderCache.

    The cache calls its methods under the cache's lock. All stores share the ledger and the node table of
    `state`; the journal of `state` undoes their changes.

    Parameters
    ----------
    state : ClusterState
    handler : CacheHandler
        Has the clock and the time limits.
    """

    def __cinit__(self, ClusterState state not None, handler, *rest):
        self.state = state
        self.handler = handler

    def __init__(self, ClusterState state not None, handler):
        pass  # `__cinit__` has set everything

    def clone(self, ClusterState state not None):
        """Return an independent copy.

        Parameters
        ----------
        state : ClusterState
            A copy of this store's state.

        Returns
        -------
        BinderStore
            A store of the same type.
        """
        return type(self)(state, self.handler)
