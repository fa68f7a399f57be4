from libc.stdint cimport int64_t

from moorage._core.base cimport ChangeLog, Journal, Kind


cdef class Versioned:
    cdef Journal journal
    cdef ChangeLog log
    cdef int64_t version  # grows with every change, including an undo

    cdef int _write(self, dict table, object key, object value, Kind kind) except -1


cdef class Namespaces(Versioned):
    cdef dict labels

    cdef Namespaces clone(self, Journal journal, ChangeLog log)
    cdef dict labels_of(self, str name)
    cdef frozenset selected(self, selector)


cdef class Workloads(Versioned):
    cdef dict services, controllers

    cdef Workloads clone(self, Journal journal, ChangeLog log)
    cpdef object selector_of(self, str namespace, dict labels, tuple owner)
