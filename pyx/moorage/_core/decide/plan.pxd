from libc.stdint cimport int32_t, uint64_t

from moorage._core.base cimport Buffer
from moorage._core.csrc cimport mr_plan
from moorage._core.state cimport NodeTable, Shape


cdef class Plan:
    cdef mr_plan c
    cdef readonly list filters, scores, externals, begins, follows
    cdef dict weights  # of the scores, by name
    cdef tuple default_constraints
    cdef readonly bint needs_python, system_defaulted, ignore_preferred, narrows, narrows_to_named
    cdef int hard_pod_affinity_weight
    cdef frozenset ignored, ignored_groups
    cdef dict masks  # by the id of a shape: its requests that are ignored, as bits
    cdef readonly frozenset delegated, scored
    cdef readonly list fit  # names of the resources that NodeResourcesFit scores
    cdef dict devices  # the arrays to which `c.fit` points
    cdef Shape added
    cdef Buffer external_memory, points
    cdef object with_skipped
    cdef Plan completed  # the result of `complete`

    cpdef Plan complete(self)
    cdef bint narrows_for(self, Shape shape) noexcept
    cdef uint64_t ignored_of(self, Shape shape) except? 1
    cdef uint64_t delegated_of(self, Shape shape) except? 1
    cdef int kernel_of(self, plugin) except -1
    cdef int32_t number(self, str plugin) except -1
