from libc.stdint cimport int32_t, int64_t

from moorage._core.decide.chooser cimport Chooser
from moorage._core.state.pod_class cimport Shape
from moorage._core.decide.prepared cimport Ready


cdef class Cycle(Chooser):
    cdef int32_t placed
    cdef int64_t* marks

    cdef bint _looked_at(self, int32_t row, int32_t start) noexcept
    cdef int32_t _most(self, int32_t pods) except -1
    cdef int _make_room(self, int32_t pods) except -1
    cdef bint _place_group(self, Ready* one, int32_t pinned, int32_t* rows, int32_t* nexts,
                           int32_t n) noexcept nogil
    cdef int32_t _run(self, Ready* one, int32_t* rows, int32_t* nexts, int32_t n) noexcept nogil
    cdef int32_t _run_on_node(self, Ready* one, int32_t pinned, int32_t* rows, int32_t* nexts,
                              int32_t n) noexcept nogil
    cdef void _tell(self, int32_t placed, int32_t* nexts) noexcept nogil
    cdef void _keep(self, Ready* one, int32_t row) noexcept nogil
    cdef void _put(self, Ready* one, int32_t row) noexcept nogil
    cdef int32_t _place_one_by_one(self, int32_t pod_class, int32_t node_name, int32_t pinned,
                                   int32_t[::1] rows, int32_t* nexts) except -1
    cdef void _fail_alike(self, int32_t pods, int32_t* nexts) noexcept nogil
