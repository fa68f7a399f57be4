"""What the stores of a BinderCache have in common. What is called for every pod is theirs in the core."""

from moorage.errors import CacheError

from moorage._core.base.fields cimport METADATA, UID


cdef str uid_of(object pod):
    """What stores know a pod by."""
    cdef str uid = UID.of(METADATA.of(pod))
    if not uid:
        raise CacheError("cannot get cache key for pod with empty UID")
    return uid


cdef class BinderStore:
    """A part of a BinderCache.

    Its methods are called by the cache, under its lock. The ledger and the node table of `state` are common
    to all stores, and its journal takes back what else they hold.
    """

    def __cinit__(self, ClusterState state not None, handler, *rest):
        self.state = state
        self.handler = handler

    def __init__(self, ClusterState state not None, handler):
        pass  # all is there

    def clone(self, ClusterState state not None):
        """An independent copy over a copy of the state."""
        return type(self)(state, self.handler)
