from libc.stdint cimport int32_t, int64_t

from moorage._core.base cimport Buffer
from moorage._core.csrc cimport mr_budgets, mr_pod_entry
from moorage._core.preempt.importance cimport Importance
from moorage._core.state cimport PodClasses


cdef class Budgets:
    cdef mr_budgets c
    cdef PodClasses classes
    cdef tuple objects
    # rules: (namespace, selector) of each budget; exempt_names: the names of the pods that its status lists
    cdef list rules, exempt_names
    # by_namespace: lists of (index of a budget, its matcher); set_ids: the number of each set of budgets
    cdef dict by_namespace, set_ids
    cdef list sets  # tuples of indices of budgets
    cdef Buffer of_class, of_pod, first, count, members, only, allowed, taken
    cdef int32_t known, n_members
    cdef bint exempts      # a budget lists disrupted pods
    cdef bint has_several  # a set has more than one budget
    cdef int64_t version  # grows with each change of the budgets

    cdef int set(self, tuple budgets) except -1
    cdef int follow(self) except -1
    cdef int exempt(self, Importance importance, const mr_pod_entry* entries, int32_t n) except -1
