from libc.stdint cimport int32_t, int64_t, uint64_t

from moorage._core.base.buffers cimport Buffer
from moorage._core.decide.decider cimport Decider
from moorage._core.csrc cimport mr_eviction, mr_outcomes
from moorage._core.preempt.dry_runs cimport DryRuns
from moorage._core.decide.class_state cimport ClassState
from moorage._core.state.cluster_state cimport ClusterState


cdef class Outcomes:
    cdef mr_outcomes c
    cdef Buffer codes, results, bits, winners
    cdef int64_t cursor, budgets, epoch
    cdef Py_ssize_t nominated
    cdef object terms
    cdef bint is_made

    cdef int make(self, int32_t n) except -1


cdef class Evictions:
    cdef ClusterState state
    cdef int32_t[:, ::1] places
    cdef int32_t placed
    cdef list pods

    cdef int note_victim(self, int32_t number) except -1
    cdef int note_row(self, int32_t row) except -1


cdef class Preemptor(DryRuns):
    cdef Decider decider
    cdef dict cached
    cdef int classes_limit
    cdef readonly int64_t dry_runs
    cdef int64_t moves
    cdef int32_t first
    cdef ClassState one
    cdef Outcomes outcomes
    cdef tuple target, budgets_set

    cdef int _set_target(self, int32_t pod_class, tuple budgets, int32_t node_name, int32_t pinned) except -1
    cdef int32_t _fitting_row(self, Py_ssize_t following) except -2
    cdef int32_t _row_to_clear(self, int64_t offset, int32_t percentage, int32_t least) except -2
    cdef int _try_each(self, int32_t word, uint64_t bits) except -1
    cdef int _try_word(self, int32_t word, uint64_t bits) except -1
    cdef int _clear(self, int32_t row, Evictions out) except -1
    cdef int _check_prepared(self) except -1
    cdef int _make_ready(self) except -1
    cdef int _bring_up_to_date(self) except -1
    cdef Outcomes _cached_outcomes(self)
    cdef int _follow(self) except -1
    cdef bint _can_follow(self, int64_t head) except -1
    cdef int _read_all(self) except -1
    cdef int _read_row(self, int32_t row) except -1
