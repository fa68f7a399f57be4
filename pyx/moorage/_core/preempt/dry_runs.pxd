from libc.stdint cimport int32_t, int64_t

from moorage._core.preempt.budgets cimport Budgets
from moorage._core.base cimport Buffer
from moorage._core.csrc cimport mr_eviction, mr_preemptor, mr_pod_entry
from moorage._core.preempt.importance cimport Importance
from moorage._core.decide.search cimport Search
from moorage._core.state cimport ClusterState


cdef class DryRun:
    cdef ClusterState state
    cdef readonly object rows, verdicts, violations
    cdef list numbers


cdef class DryRuns:
    cdef Search search  # of the profile
    cdef readonly ClusterState state
    cdef mr_preemptor c
    cdef Importance importance
    cdef Budgets budgets
    cdef dict matches
    cdef Buffer removed, removed_with, victims, violating, costs, nominated, evicted
    cdef int32_t pods_limit
    cdef int64_t generation  # of the classes that what is kept is about

    cdef int _begin(self, int32_t pod_class, int32_t pinned, tuple budgets, object groups) except -1
    cdef int _read_classes_anew(self) except -1
    cdef int _run(self, int32_t row, mr_eviction* out) except -1
    cdef int _follow_rows(self, bint has_budgets) except -1
    cdef int _make_room_for(self, int32_t entries) except -1
    cdef list _victims(self, int32_t row, const mr_eviction* result)

    cdef inline bint _is_victim(self, int32_t at, const mr_eviction* result) noexcept:
        """Whether an entry of the row that was tried last is a victim, by its index in the row."""
        return self.c.victims[(at - result.first) // 64] >> ((at - result.first) % 64) & 1

    cdef inline bint _violates(self, int32_t at, const mr_eviction* result) noexcept:
        """Whether the eviction of an entry of the row that was tried last violates a budget."""
        return self.c.budgets != NULL and (
            self.c.violating[(at - result.first) // 64] >> ((at - result.first) % 64) & 1)
