from libc.stdint cimport int32_t, int64_t

from moorage._core.base cimport Buffer
from moorage._core.csrc cimport mr_budgets, mr_pod_entry
from moorage._core.state cimport Ledger, PodClasses


cdef class Budgets:
    cdef mr_budgets c
    cdef PodClasses classes
    cdef tuple objects
    cdef list rules, exempt_names
    cdef dict by_namespace, set_ids
    cdef list sets
    cdef Buffer of_class, of_pod, first, count, members, only, allowed, taken
    cdef int32_t known, n_members
    cdef bint exempts, has_several
    cdef readonly int64_t version

    cdef int set(self, tuple budgets) except -1
    cdef int follow(self) except -1
    cdef int exempt(self, Ledger ledger, const mr_pod_entry* pods, int32_t n) except -1
