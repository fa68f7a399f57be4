from libc.stdint cimport int32_t, uint64_t

from moorage._core.base.buffers cimport Buffer
from moorage._core.csrc cimport mr_cluster, mr_found, mr_search
from moorage._core.decide.class_state cimport ClassStates
from moorage._core.decide.nominations cimport Judgements, Nominations
from moorage._core.decide.plan cimport Plan
from moorage._core.decide.pod_batch cimport PodBatch
from moorage._core.state.pod_class cimport Shape
from moorage._core.state.cluster_state cimport ClusterState
from moorage._core.decide.terms cimport Terms
from moorage._core.state.view cimport View


cdef class Search:
    cdef readonly ClusterState state
    cdef readonly Plan plan
    cdef mr_cluster cluster
    cdef mr_search search
    cdef mr_found found
    cdef object held
    cdef Buffer positions, totals, rows, scratch, lanes, seen, restricted, nominated
    cdef View listing, placement  # the nodes that are searched: those of the view, or of a placement
    cdef bint in_placement, leaves_out_nominated
    cdef dict fixed_ok
    cdef int32_t wanted_threads, shared_from
    cdef Terms terms
    cdef Buffer view_pointers
    cdef list views  # NativeView
    cdef readonly ClassStates states
    cdef dict judgements
    cdef Nominations nominations
    cdef Judgements judged
    cdef public object node_names, invalid_score, on_nominated, nominator

    cdef int _prepare(self, int32_t pod_class, int32_t node_name, int32_t pinned) except -1
    cdef int _point(self, Shape shape) except -1
    cdef Terms _terms_of(self, int32_t pod_class, int32_t pinned)
    cdef bint _asks_much(self, Shape shape) except -1
    cdef int _hold(self, Shape shape) except -1
    cdef bint _has_images(self, Shape shape) noexcept
    cdef int _set_fixed_ok(self, Shape shape) except -1
    cdef int _restrict(self, object names, int32_t pinned) except -1
    cdef tuple _scores(self, int32_t kernel, const int32_t[::1] rows)
    cdef int _fill_cluster(self) except -1
    cdef uint64_t[::1] _verdicts(self, uint64_t asked)
    cdef int32_t _follow(self, PodBatch batch, int32_t first, int32_t end) except -1
    cdef int _judge_nominated(self, int32_t pod_class) except -1
    cdef bint _judge(self, int32_t pod_class, int32_t row, list changes, object ports, uint64_t asked,
                     object on_nominated, uint64_t* verdict) except -1
    cdef int _count_unlisted(self, list changes, int32_t sign) except -1
    cdef bint _is_plain(self, list pods) except -1
    cdef Judgements _judgements_of(self, int32_t pod_class)
    cdef bint _can_follow_judgements(self, Judgements one) except -1
    cdef int _judge_row(self, int32_t row, int32_t pod_class) except -1
    cdef int _judge_plain(self, int32_t row, list pods, uint64_t* verdict) except -1
    cdef int _place_nominated(self) except -1
    cdef int32_t _place_of(self, int32_t row) noexcept
