from libc.stdint cimport int16_t, int32_t, int64_t, uint64_t

from moorage._core.buffers cimport Buffer
from moorage._core.csrc cimport mr_cluster, mr_found, mr_search
from moorage._core.plan cimport Plan
from moorage._core.pod_class cimport Shape
from moorage._core.state cimport ClusterState
from moorage._core.terms cimport Terms


cpdef enum TieBreak:
    FIRST = 0
    RANDOM = 1
    GO_HEAP = 2


cdef class Cycle:
    cdef readonly ClusterState state
    cdef readonly Plan plan
    cdef readonly TieBreak tie_break
    cdef readonly int32_t percentage
    cdef public int32_t start
    cdef uint64_t random
    cdef mr_cluster cluster
    cdef mr_search search
    cdef mr_found found
    cdef object held
    cdef Buffer positions, totals, rows, scratch, seen, fixed_ok, restricted, nominated, counted
    cdef Terms terms
    cdef dict known_terms
    cdef readonly list nominations

    cdef int _prepare(self, int32_t pod_class, int32_t node_name, int32_t pinned) except -1
    cdef int _point(self, Shape shape) except -1
    cdef Terms _terms_of(self, int32_t pod_class, int32_t pinned)
    cdef int _set_terms(self, int32_t pod_class, int32_t pinned) except -1
    cdef int _hold(self, Shape shape) except -1
    cdef bint _has_images(self, Shape shape) noexcept
    cdef int _set_fixed_ok(self, Shape shape) except -1
    cdef int32_t _wanted(self) noexcept
    cdef int32_t _decide(self, int32_t wanted) noexcept nogil
    cdef int32_t _place_one_by_one(self, int32_t pod_class, int32_t node_name, int32_t pinned,
                                   int32_t[::1] rows) except -1
    cdef int32_t _run(self, Shape shape, int32_t wanted, int32_t* rows, int32_t n) noexcept nogil
    cdef int _count(self, int32_t pod_class) except -1
    cdef void _fail_alike(self, int64_t pods) noexcept nogil
    cdef int _restrict(self, object names, int32_t pinned) except -1
    cdef int _judge_nominated(self) except -1
