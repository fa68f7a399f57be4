from libc.stdint cimport int32_t, int64_t, uint64_t

from moorage._core.buffers cimport Buffer
from moorage._core.candidates cimport Candidates
from moorage._core.pod_class cimport Shape
from moorage._core.search cimport Search


cpdef enum TieBreak:
    FIRST = 0
    RANDOM = 1
    GO_HEAP = 2


cdef class Cycle(Search):
    cdef readonly TieBreak tie_break
    cdef readonly int32_t percentage
    cdef public int32_t start
    cdef readonly bint failed
    cdef uint64_t random
    cdef public bint keeps_candidates
    cdef readonly int64_t from_candidates
    cdef Candidates candidates
    cdef Buffer counted

    cdef int32_t _wanted(self) noexcept
    cdef bint _looked_at(self, int32_t row, int32_t start) noexcept
    cdef int32_t _decide(self, int32_t wanted) noexcept nogil
    cdef int32_t _decide_in_run(self, int32_t wanted) noexcept nogil
    cdef bint _suits_candidates(self, int32_t wanted, int32_t pods) noexcept
    cdef int32_t _decide_among_candidates(self, int32_t wanted) noexcept nogil
    cdef int32_t _place_one_by_one(self, int32_t pod_class, int32_t node_name, int32_t pinned,
                                   int32_t[::1] rows) except -1
    cdef int32_t _run(self, Shape shape, int32_t wanted, bint kept, int32_t* rows, int32_t n) noexcept nogil
    cdef int _count(self, int32_t pod_class) except -1
    cdef void _fail_alike(self, int64_t pods) noexcept nogil
