from libc.stdint cimport int32_t

from moorage._core.base cimport Buffer, IntLists, Journal, Symbols

cdef struct TreeTotals:
    int32_t nodes, zones  # `zones`: how many zones have nodes
    int32_t turn  # the zone, by its place in the order, whose turn is next


cpdef str zone_key(dict labels)


cdef class NodeTree:
    cdef Journal journal
    cdef dict numbers  # of zones by key
    cdef list keys  # of zones by number
    cdef IntLists nodes  # by the number of their zone
    cdef Buffer order, reached, totals  # `order`: numbers of zones; `reached`: how far each has been iterated

    cdef NodeTree clone(self, Journal journal)
    cpdef int add(self, str zone, int32_t node) except -1
    cpdef int remove(self, str zone, int32_t node) except -1
    cpdef bint has(self, str zone, int32_t node) except -1
    cpdef int32_t next(self) except -1
    cpdef int reset_exhausted(self) except -1
    cdef int write(self, int32_t* out) except -1
    cpdef list list(self)

    cdef inline int32_t size(self) noexcept:
        """Return the number of nodes."""
        return (<TreeTotals*>self.totals.data).nodes


cdef class NodeNames:
    cdef readonly NodeTree _core
    cdef readonly Symbols _symbols
    cdef readonly object _lock
