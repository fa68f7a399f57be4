from libc.stdint cimport int32_t, int64_t, uint8_t

from moorage._core.base cimport Buffer, ItemLocation
from moorage._core.csrc cimport *
from moorage._core.state cimport NodeTable, PodClasses, Shape, View
from moorage._core.decide.nominations cimport Flips, NominatedVerdicts
from moorage._core.decide.terms cimport NodeDevices, Terms, VolumeDemand


cdef struct Undo:  # an array of which a transaction saves items before a placement
    ItemLocation location
    const mr_counter* counter  # [domain] counts, item 0 their sum; NULL: the array has one item for each row


cdef struct ClassSearch:  # what placing pods of a class without Python reads
    mr_search search
    mr_local local             # of `search`, if `by_totals`
    const mr_shape* shape
    mr_candidates* candidates  # NULL: no candidates are cached
    mr_matched** counted       # the counts that include pods of the class; NULL at the end
    Undo* undo                 # arrays of which an open transaction saves items before a placement
    int32_t n_undo
    void* owner                # the ClassState
    int32_t wanted             # the number of feasible nodes to find
    int32_t is_ready           # `search` can be reused; see ClassState.is_made_of
    int32_t by_node            # each pod of the class is pinned to a node
    int32_t by_totals          # the total of a row depends on that row alone; see mr_scan_suits
    Flips* flips               # rows to update candidates at besides those of the change log; NULL: none
    int64_t credit, last       # see candidates_pay_off
    int64_t failed, scope      # the head of the change log when a pod was unschedulable, or -1; its scope


cdef class Candidates:
    cdef mr_candidates c
    cdef object terms  # the Terms that `c` was built from
    cdef Buffer memory

    cdef int point(self, const mr_search* search, object terms) except -1
    cdef int build(self, const mr_changes* changes, int32_t* lanes, uint8_t* seen) except -1
    cdef int make_room(self, const mr_search* search) except -1


cdef bint candidates_pay_off(ClassSearch* class_search, int64_t head, int64_t following) noexcept nogil


cdef class ClassState:
    cdef ClassSearch c
    cdef int32_t pod_class, node_name, pinned
    cdef mr_search source       # the search of the profile that `c.search` was made from
    cdef bint keeps_candidates  # of the decider that made it
    cdef Shape shape
    cdef Candidates candidates
    # charged: its bytes in `ClassStates.used_bytes`; undo_bytes: of the journal, for one placement
    cdef Py_ssize_t charged, undo_bytes
    cdef bint is_kept  # False: dropped from `ClassStates`
    cdef Buffer counted, order, undo, verdicts, named
    cdef mr_verdict_histogram histogram
    cdef int64_t named_by       # the static version of the view that `named` is of
    cdef int32_t named_scarce   # `mr_search.scarce` that it is of
    cdef int named_state        # NOT_CACHED, CACHED or NOT_NEEDED
    cdef object held, histogram_terms  # held: references to memory that `c.search` points to
    cdef NominatedVerdicts nominated_verdicts
    cdef Terms terms
    cdef VolumeDemand volumes  # that the candidates were built for, or None
    cdef public object passes, failure

    cdef bint is_made_of(self, const mr_search* search, int64_t version) noexcept nogil
    cdef int cache_named(self, mr_search* search, View view) except -1
    cdef int copy_order(self, mr_search* search) except -1
    cdef dict rejections(self, const mr_changes* changes, object terms)
    cdef NominatedVerdicts verdicts_with_nominated(self)
    cdef int count_nominated(self, dict counts, const int32_t* positions) except -1
    cdef int count(self, list matched) except -1
    cdef Py_ssize_t watch(self, NodeTable table, list matched) except -1
    cdef Py_ssize_t nbytes(self) except -1


cdef class ClassStates:
    cdef PodClasses classes
    # By target the states that the current run does not need, that used least recently first. An OrderedDict:
    # to find the first item of a dict takes the longer, the more were deleted before it.
    cdef object idle
    cdef ClassState latest
    cdef list in_use    # the states that the current run needs, at most one for each class
    cdef Buffer places  # [class] index in `in_use`, if the state there is of the class
    cdef public Py_ssize_t most_bytes
    cdef readonly Py_ssize_t used_bytes
    cdef public int64_t scope
    cdef dict demands
    cdef int64_t scopes  # the number of scopes opened so far
    cdef int64_t generation  # of the classes that all of this is about

    cdef ClassState get(self, int32_t pod_class, int32_t node_name, int32_t pinned)
    cdef ClassState find(self, tuple target)
    cdef ClassState used(self, int32_t pod_class)
    cdef VolumeDemand demand_of(self, int32_t pod_class)
    cdef const mr_volume_demand* point_to_demand(self, int32_t pod_class) except? NULL
    cdef NodeDevices devices_of(self, int32_t pod_class)
    cdef int use(self, ClassState class_state) except -1
    cdef int release(self) except -1
    cdef bint is_failed(self, const ClassSearch* class_search, int64_t head) noexcept nogil
    cdef void note_failure(self, ClassSearch* class_search, int64_t head) noexcept nogil
    cdef int charge(self, ClassState class_state) except -1
    cdef int follow(self) except -1
