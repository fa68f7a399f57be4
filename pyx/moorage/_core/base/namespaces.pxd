from libc.stdint cimport int64_t

from moorage._core.base.buffers cimport Journal
from moorage._core.base.change_log cimport ChangeLog


cdef class Namespaces:
    cdef Journal journal
    cdef ChangeLog log
    cdef readonly dict labels
    cdef readonly int64_t version

    cdef Namespaces clone(self, Journal journal, ChangeLog log)
    cpdef dict labels_of(self, str name)
    cpdef frozenset selected(self, selector)
