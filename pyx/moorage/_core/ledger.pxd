from libc.stdint cimport int8_t, int32_t

from moorage._core.buffers cimport Buffer, Journal
from moorage._core.chunks cimport Chunks

cdef enum PodState:
    FREE = 0
    ASSUMED = 1
    ADDED = 2


cdef class Ledger:
    cdef Journal journal
    cdef dict index
    cdef readonly list objects
    cdef list uids, free, deadlines
    cdef Buffer pod_class, row, slot, state, deadline
    cdef readonly Chunks pods_on

    cdef int32_t find(self, str uid) except -2
    cdef int make_room(self, Py_ssize_t pods, Py_ssize_t rows) except -1
    cdef int32_t insert(self, str uid, object pod, int32_t pod_class, int32_t row, PodState state) except -1
    cdef int remove(self, int32_t number) except -1
    cdef int set_state(self, int32_t number, PodState state) except -1

    cdef inline PodState state_of(self, int32_t number) noexcept:
        return <PodState>(<int8_t*>self.state.data)[number]

    cdef inline int32_t row_of(self, int32_t number) noexcept:
        return (<int32_t*>self.row.data)[number]

    cdef inline int32_t class_of(self, int32_t number) noexcept:
        return (<int32_t*>self.pod_class.data)[number]
