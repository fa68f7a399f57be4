from libc.stdint cimport int64_t

from moorage._core.base.buffers cimport Journal
from moorage._core.base.change_log cimport ChangeLog


cdef class Workloads:
    cdef Journal journal
    cdef ChangeLog log
    cdef dict services, controllers
    cdef readonly int64_t version

    cdef Workloads clone(self, Journal journal, ChangeLog log)
    cpdef object selector_of(self, str namespace, dict labels, tuple owner)
