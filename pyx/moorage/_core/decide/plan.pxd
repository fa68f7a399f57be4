from libc.stdint cimport int32_t, uint64_t

from moorage._core.base.buffers cimport Buffer
from moorage._core.csrc cimport mr_plan
from moorage._core.state.node_table cimport NodeTable
from moorage._core.state.pod_class cimport Shape


cdef class Plan:
    cdef mr_plan c
    cdef readonly list filters
    cdef readonly list scores
    cdef readonly dict weights
    cdef readonly list externals
    cdef readonly bint needs_python
    cdef readonly tuple default_constraints
    cdef readonly bint system_defaulted
    cdef readonly int hard_pod_affinity_weight
    cdef readonly bint ignore_preferred
    cdef frozenset ignored, ignored_groups
    cdef dict masks
    cdef Shape added
    cdef Buffer external_memory, points

    cdef uint64_t ignored_of(self, Shape shape) except? 1
    cdef int kernel_of(self, plugin) except -1
    cdef int32_t number(self, str plugin) except -1
