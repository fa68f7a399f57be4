cimport cython
from libc.stdint cimport int32_t

from moorage._core.base.buffers cimport Buffer, Journal

cdef struct Deadline:
    double when  # seconds since the epoch
    int32_t number  # of a pod in the ledger


@cython.final
cdef class Deadlines:
    cdef Buffer heap, count

    cdef Deadlines clone(self, Journal journal)
    cdef int reserve(self, Py_ssize_t items) except -1
    cdef int push(self, Deadline item) except -1
    cdef int pop(self) except -1

    cdef inline int32_t size(self) noexcept:
        """Return the number of deadlines."""
        return self.count.int32()[0]

    cdef inline Deadline first(self) noexcept:
        """Return the earliest deadline; the heap must not be empty."""
        return (<Deadline*>self.heap.data)[0]
