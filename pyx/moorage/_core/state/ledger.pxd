cimport cython
from libc.stdint cimport INT64_MIN, int8_t, int32_t, int64_t

from moorage._core.base cimport Buffer, Deadlines, Journal, StringIndex, Symbols, debug_below
from moorage._core.state.pod_class cimport PodClasses
from moorage._core.state.templates cimport Replicas, Templates

cdef extern from "math.h":
    const double INFINITY

cdef extern from *:
    void prefetch "__builtin_prefetch"(const void* address) noexcept nogil

cdef enum:
    AHEAD = 8  # prefetch distance in pods

cdef enum PodState:
    FREE = 0
    ASSUMED = 1
    ADDED = 2
    MARKED = 3  # assumed, and named already by the batch of pods that is being checked

cdef struct PodRecord:
    double deadline
    int64_t start  # in microseconds since 1970, MR_NOT_STARTED; INT64_MIN: `Importance` has not read it yet
    int32_t row, before, after  # list links; `after` of a free number: the next free number, plus 1
    int32_t pod_class
    int32_t origin, ordinal  # origin: id of its Replicas, plus 1; 0 for a pod with an object
    int8_t state, terminating
    int32_t group  # symbol of the pod's group, 0 for none

cdef struct NewPod:  # what the ledger reads of a pod before it changes anything
    int64_t place  # the slot of its UID in `index`; -1: it has none yet
    int64_t start
    int32_t pod_class, row, group
    int8_t state, terminating

cdef struct RowRecord:
    int32_t first, last, count, shared  # `shared`: whether `row_pods` can hold a RowPods for the row

cdef struct Totals:
    int32_t used, free, alive  # `free`: the first free number, plus 1


@cython.final
cdef class RowPods:
    cdef list pods, ordinals
    cdef bint is_filled

    cdef list read(self)


@cython.final
cdef class ClassLists:
    cdef int64_t entered, undone, readings  # `readings`: how often pods were counted at this moment
    cdef int32_t[::1] starts, numbers  # the numbers of a class are those from its start to that of the next

    cdef int fill(self, Ledger ledger) except -1
    cdef int32_t first(self, int32_t pod_class) noexcept


@cython.final
cdef class Ledger:
    cdef Journal journal
    cdef Symbols symbols
    cdef StringIndex index
    cdef dict watched
    cdef list moved, objects, row_pods
    cdef Templates templates
    cdef Deadlines deadlines
    cdef Buffer pods, rows, totals
    cdef int32_t found  # where the last search of `has_any` ended
    cdef int64_t entered  # number of pods that have entered; an undo does not lower it
    cdef ClassLists lists

    cdef Ledger clone(self, Journal journal)
    cdef int32_t find(self, str uid) except -2
    cdef str uid_of(self, int32_t number)
    cdef object object_of(self, int32_t number)
    cdef object model_of(self, int32_t number)
    cdef int reserve_rows(self, Py_ssize_t rows) except -1
    cdef int make_room(self, Py_ssize_t pods, bint are_replicas=*) except -1
    cdef RowPods share(self, int32_t row, RowPods before=*)
    cdef list read(self, RowPods shared, int32_t row)
    cdef int32_t insert(self, object pod, int32_t pod_class, int32_t row, PodState state) except -1
    cdef int describe(self, object pod, NewPod* out) except -1
    cdef int32_t enter(self, object pod, const NewPod* new) except -1
    cdef int insert_replicas(self, Replicas replicas, int32_t pod_class, const int32_t[::1] rows) except -1
    cdef int remove(self, int32_t number) except -1
    cdef int confirm(self, int32_t number, object pod=?) except -1
    cdef int _fill(self, int32_t row) except -1
    cdef int set_deadline(self, int32_t number, double deadline) except -1
    cdef list expired(self, double now)
    cdef list binding(self)
    cdef bint has_any(self, const unsigned char[::1] matching) noexcept
    cdef int count(self, set classes, bint all_pods, int32_t* pods) except -1
    cdef int classify_anew(self, PodClasses classes) except -1

    cdef inline int _fill_shared(self, int32_t row) except -1:
        """Fill in the shared pod list of a row; must be called before the pods of the row change."""
        return self._fill(row) if self.row(row).shared else 0

    cdef inline Totals* sums(self) noexcept:
        """Return how many numbers of pods are in use, or free."""
        return <Totals*>self.totals.data

    cdef inline RowRecord* row(self, int32_t row) noexcept:
        """Return the record of a row."""
        debug_below(row, self.rows.capacity, b"row of the ledger")
        return <RowRecord*>self.rows.data + row

    cdef inline PodRecord* record(self, int32_t number) noexcept:
        """Return the record of a pod."""
        debug_below(number, self.pods.capacity, b"pod of the ledger")
        return <PodRecord*>self.pods.data + number

    cdef inline int32_t pods_on(self, int32_t row) noexcept:
        """Return the number of pods on a row."""
        return self.row(row).count if 0 <= row < self.rows.capacity else 0

    cdef inline PodState state_of(self, int32_t number) noexcept:
        """Return the state of a pod."""
        return <PodState>self.record(number).state

    cdef inline int32_t row_of(self, int32_t number) noexcept:
        """Return the row of a pod."""
        return self.record(number).row

    cdef inline int32_t class_of(self, int32_t number) noexcept:
        """Return the class of a pod."""
        return self.record(number).pod_class

    cdef inline bint is_terminating(self, int32_t number) noexcept:
        """Whether a pod has a deletionTimestamp."""
        return self.record(number).terminating
