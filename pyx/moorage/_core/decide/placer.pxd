from libc.stdint cimport int32_t, int64_t

from moorage._core.base.buffers cimport Buffer
from moorage._core.decide.class_state cimport ClassSearch
from moorage._core.decide.decider cimport Decider
from moorage._core.decide.pod_batch cimport Placements, PodBatch, PodSpan, Sink
from moorage._core.decide.search cimport Search
from moorage._core.state.cluster_state cimport ClusterState


cdef class Placer:
    cdef readonly Search search
    cdef readonly Decider decider
    cdef ClusterState state
    cdef int32_t placed
    cdef readonly int32_t unplaced
    cdef Buffer searches  # of the runs that are placed together

    cpdef int32_t _place(self, PodBatch batch, Placements out, int32_t first, int32_t end, Sink sink,
                         object on_unschedulable) except -1
    cdef int32_t _together_until(self, PodBatch batch, int32_t first, int32_t end) noexcept
    cdef bint _prepare_all(self, PodBatch batch, int32_t first, int32_t end) except -1
    cdef int32_t _place_runs(self, PodBatch batch, Placements out, int32_t first, int32_t end, Sink sink,
                             object on_unschedulable) except -1
    cdef bint _is_stopped(self, ClassSearch* one, int32_t at, object on_unschedulable) except -1
    cdef bint _is_known(self, ClassSearch* one) noexcept nogil
    cdef bint _is_whole(self, ClassSearch* one) noexcept nogil
    cdef bint _place_equal(self, ClassSearch* one, int32_t pinned, int32_t* rows, int32_t n) noexcept nogil
    cdef int32_t _run(self, ClassSearch* one, int32_t* rows, int32_t n) noexcept nogil
    cdef int32_t _run_on_node(self, ClassSearch* one, int32_t pinned, int32_t* rows,
                              int32_t n) noexcept nogil
    cdef void _put(self, ClassSearch* one, int32_t row) noexcept nogil
    cdef void _save_row(self, ClassSearch* one, int32_t row) noexcept nogil
    cdef int32_t _place_run(self, PodBatch batch, Placements out, int32_t first, int32_t end, Sink sink,
                            object on_unschedulable) except -1
    cdef int32_t _place_each(self, const PodSpan* span, int32_t* rows, int32_t n) except -1
    cdef void _skip(self, int64_t pods) noexcept nogil
