"""What the stores of a BinderCache have in common. What is called for every pod is theirs in the core."""

from functools import partial

from moorage.errors import CacheError

from moorage._core.base.fields cimport METADATA, UID


cdef str uid_of(object pod):
    """What stores know a pod by."""
    cdef str uid = UID.of(METADATA.of(pod))
    if not uid:
        raise CacheError("cannot get cache key for pod with empty UID")
    return uid


cdef class Undo:
    """How to take back what stores wrote while transactions are open; a Participant of the cache."""

    def __cinit__(self):
        self.depth = 0
        self.actions = []

    def save(self):
        """A transaction begins; what `undo` needs."""
        self.depth += 1
        return len(self.actions)

    def undo(self, saved):
        """Be as at `save`, in the reverse order of what was written."""
        while len(self.actions) > saved:
            self.actions.pop()()
        self.depth -= 1

    def release(self, saved):
        """Keep what was written."""
        self.depth -= 1
        if not self.depth:
            self.actions.clear()

    def clone(self):
        """For a fork, which has no transaction open."""
        return Undo()

    cdef int on_undo(self, action) except -1:
        """Have something done if the transaction is taken back; there must be one."""
        self.actions.append(action)

    cpdef put(self, dict table, key, value):
        """``table[key] = value``."""
        if self.depth:
            if key in table:
                self.on_undo(partial(table.__setitem__, key, table[key]))
            else:
                self.on_undo(partial(table.__delitem__, key))
        table[key] = value

    cpdef drop(self, dict table, key):
        """``del table[key]``, if it is there."""
        if key not in table:
            return
        if self.depth:
            self.on_undo(partial(table.__setitem__, key, table[key]))
        del table[key]


cdef class BinderStore:
    """A part of a BinderCache.

    Its methods are called by the cache, under its lock. The ledger and the node table of `state` are common
    to all stores; what else a store holds it writes through `undo`.
    """

    def __cinit__(self, ClusterState state not None, handler, Undo undo not None, *rest):
        self.state = state
        self.handler = handler
        self.undo = undo

    def __init__(self, ClusterState state not None, handler, Undo undo not None):
        pass  # all is there

    def clone(self, ClusterState state not None, Undo undo not None):
        """An independent copy over a copy of the state."""
        return type(self)(state, self.handler, undo)
