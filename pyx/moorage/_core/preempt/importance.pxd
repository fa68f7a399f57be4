from libc.stdint cimport int32_t, int64_t, uint64_t

from moorage._core.base cimport Buffer, ChangeLog
from moorage._core.csrc cimport mr_class_usage, mr_pod_entry, mr_pod_span
from moorage._core.state cimport Ledger, NodeTable, PodClasses


cdef class Importance:
    cdef NodeTable table
    cdef PodClasses classes
    cdef Ledger ledger
    cdef ChangeLog log
    cdef Buffer entries, spans, scratch, usages
    cdef Py_ssize_t used, lost  # entries that spans have taken, and those of them that no span uses any more
    cdef int32_t known, moves   # classes in `usages`; how often `_forget` has dropped all spans
    cdef int64_t cursor
    cdef bint adds_up           # requests of all classes can be added without overflow

    cdef int follow(self) except -1
    cdef mr_pod_entry* pods_of(self, int32_t row, int32_t* n) except NULL
    cdef int32_t read_all(self, const int32_t* order, uint64_t bits) except -1
    cdef int _read(self, int32_t row) except -1

    cdef inline mr_pod_span* spans_of(self) noexcept:
        """The span of each row in `entries`."""
        return <mr_pod_span*>self.spans.data

    cdef inline mr_class_usage* usages_of(self) noexcept:
        """The requests and the priority of the pods of each class."""
        return <mr_class_usage*>self.usages.data
