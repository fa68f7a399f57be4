from libc.stdint cimport int32_t, int64_t, uint64_t

from moorage._core.base cimport Buffer
from moorage._core.state cimport ClusterState


cdef class Nominations:
    cdef ClusterState state
    cdef dict rows        # by row: a list of (pod, priority), without pods in the cache
    cdef Buffer has_pods  # [row] 1 if `rows` has the row
    cdef list changed     # the rows that have changed, in order
    cdef int64_t epoch, order_cursor, source_epoch
    cdef object source, excluded_pod
    cdef Py_ssize_t cursor

    cdef list counted_pods(self, int32_t row, int32_t priority)
    cdef int replace(self, nominations) except -1
    cdef int follow(self, source, pod) except -1


cdef struct Flips:  # rows that began to reject a class with their nominated pods, or no longer do
    const int32_t* rows
    int32_t n  # MANY: more than FLIPS_LIMIT


cdef enum:
    MANY = -1


cdef class NominatedVerdicts:
    # rows: the rows that reject the class; verdicts: [row] verdict, 0 if the row is not in `rows`; places:
    # [row] index in `rows`; flipped: the memory of `flips`
    cdef Buffer rows, verdicts, places, flipped
    cdef int32_t n
    cdef Flips flips  # since the candidates were last updated
    cdef object terms
    cdef int64_t epoch, log_cursor
    cdef Py_ssize_t cursor

    cdef int set(self, int32_t row, uint64_t verdict) except -1
    cdef uint64_t get(self, int32_t row) noexcept nogil
    cdef int clear(self) except -1
