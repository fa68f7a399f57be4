from libc.stdint cimport int32_t, int64_t

from moorage._core.csrc cimport mr_constraint, mr_pod_term, mr_terms
from moorage._core.state cimport ClusterState, Counter, Domains, Matched, Shape
from moorage._core.decide.plan cimport Plan


cdef struct Versions:  # of what terms are read from
    int64_t namespaces, workloads, terms, domains


cdef class Terms:
    cdef mr_terms c
    cdef ClusterState state
    cdef Shape shape
    cdef int32_t pinned
    cdef dict labels
    cdef list memory, held, of_hosts
    cdef Versions versions
    # Per matcher of `mr_spread_filter_without` a key, and whether labels alone count a class.
    cdef list predicates
    cdef dict of_hard  # counter of a hard constraint to whether it has an empty selector
    cdef readonly str spread_error, spread_score_error
    cdef readonly dict answers

    cdef bint is_current(self) noexcept
    cdef int fill(self) except -1
    cdef int32_t domains(self) noexcept
