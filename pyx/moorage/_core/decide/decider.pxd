from libc.stdint cimport int32_t, int64_t, uint64_t

from moorage._core.base cimport Buffer
from moorage._core.csrc cimport mr_changes, mr_cluster, mr_decision, mr_search, mr_terms
from moorage._core.decide.class_state cimport Candidates, ClassSearch, ClassState, ClassStates
from moorage._core.decide.plan cimport Plan
from moorage._core.decide.search cimport Search
from moorage._core.state cimport ClusterState


cdef enum:
    FAILED = -2  # in place of a position: a plugin failed


cpdef enum TieBreak:
    """How one of the nodes with the largest total is chosen."""
    FIRST = 0    # the first in the order of the search
    RANDOM = 1   # a uniformly random one, as kube-scheduler up to v1.34
    GO_HEAP = 2  # the root of Go's container/heap after heap.Init, as kube-scheduler v1.36


cdef class BareRows:
    cdef Buffer rows, wide, others, pointers, zeros

    cdef int apply(self, const int32_t* rows, int32_t n, int32_t used, int32_t resources, mr_cluster* cluster,
                   mr_terms* terms) except -1


cdef class Decider:
    cdef readonly Search search
    cdef readonly ClusterState state
    cdef ClassStates states
    cdef readonly TieBreak tie_break
    cdef public int32_t percentage
    cdef int32_t rotation  # upstream's nextStartNodeIndex
    cdef readonly bint failed
    cdef uint64_t random
    cdef public bint keeps_candidates, has_extenders
    cdef readonly int64_t from_candidates, from_scans
    cdef Py_ssize_t undo_bytes  # of the journal, at most, for one placement
    cdef BareRows bare
    cdef Candidates scan  # the blocks of a scan

    cdef int32_t _choose(self, ClassSearch* class_search, int64_t following) noexcept nogil
    cdef ClassState _prepare_class(self, int32_t pod_class, int32_t node_name, int32_t pinned)
    cdef int _collect_counters(self, ClassState class_state, int32_t pod_class) except -1
    cdef object _feasible_positions(self)
    cdef int _save(self) except -1
    cdef int _begin_run(self, Py_ssize_t pods) except -1
