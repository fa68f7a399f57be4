from libc.stdint cimport int32_t, uint64_t

from moorage._core.base cimport Buffer
from moorage._core.csrc cimport mr_cluster, mr_found, mr_search
from moorage._core.decide.class_state cimport ClassStates
from moorage._core.decide.nominations cimport NominatedVerdicts, Nominations
from moorage._core.decide.plan cimport Plan
from moorage._core.state cimport ClusterState, Shape, View
from moorage._core.decide.terms cimport Terms


cdef class Search:
    cdef readonly ClusterState state
    cdef readonly Plan plan  # of pods that no plugin is asked about which is skipped for others
    cdef Plan current  # of the prepared pod
    cdef mr_cluster cluster
    cdef mr_search search
    cdef mr_found found
    cdef object held  # references to memory that forks share
    cdef Shape shape  # of the prepared pod
    cdef Buffer port_conflicts  # that `search.pod.ports` points to
    cdef Buffer positions, totals, rows, scratch, lanes, seen, restricted, view_pointers
    # The searched nodes: `listing` is the cluster's view, or `placement`, a view of some of its rows.
    cdef View listing, placement
    # leaves_out_nominated: `_prepare` ignores nominated pods
    cdef bint in_placement, leaves_out_nominated
    cdef dict fixed_ok  # tolerations to the memory of `search.fixed_ok`
    cdef int32_t wanted_threads, shared_from  # the properties `threads` and `parallel_from`
    cdef Terms terms  # of the prepared pod; None if it has none
    cdef list views  # of NativeView, in the order of the plan's native plugins
    cdef readonly ClassStates states
    cdef Nominations nominations
    cdef public object node_names, invalid_score, on_nominated, nominator
    cdef readonly bint is_placing  # `Placer.place` runs, whose pods plugins do not know

    cdef int _prepare(self, int32_t pod_class, int32_t node_name, int32_t pinned) except -1
    cpdef Plan plan_of(self, int32_t pod_class)
    cdef int reserve_found(self, Py_ssize_t nodes) except -1
    cdef Terms _terms_of(self, int32_t pod_class, int32_t pinned)
    cdef tuple _scores_of(self, int32_t kernel, const int32_t[::1] rows)
