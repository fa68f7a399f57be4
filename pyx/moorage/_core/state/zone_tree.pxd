from libc.stdint cimport int32_t

from moorage._core.base cimport Journal


cdef class NodeTree:
    cdef Journal journal
    cdef dict tree
    cdef readonly list zones
    cdef readonly Py_ssize_t num_nodes
    cdef dict last_index
    cdef Py_ssize_t zone_index

    cdef NodeTree clone(self, Journal journal)
    cpdef int add(self, str zone, int32_t node) except -1
    cpdef int remove(self, str zone, int32_t node) except -1
    cpdef int32_t next(self) except -1
    cpdef list list(self)
