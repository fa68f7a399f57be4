from libc.stdint cimport int32_t, int64_t, uint64_t

from moorage._core.base cimport Buffer, ChangeLog
from moorage._core.csrc cimport (
    mr_class_usage, mr_is_sorted_for, mr_pod_entry, mr_pod_span, mr_unit,
)
from moorage._core.state cimport Ledger, NodeTable, PodClasses


cdef class UnitIndex:
    cdef NodeTable table
    cdef PodClasses classes
    cdef Ledger ledger
    cdef object source, whole, unit_of, answers
    cdef bint ranks_members  # whether single pods of groups go before other pods
    cdef list keys, members  # by unit: key of the group, and its members
    cdef dict stale, touched  # units that have changed, and rows to read again, as keys
    cdef dict on_row          # by row: number of its pods, and the units that it has pods of
    cdef list changed      # rows with pods of a unit that has changed, in order
    cdef int64_t epoch     # grows when all rows may have changed; positions in `changed` are void then
    cdef int64_t stamp     # of the row that `Importance` reads
    cdef dict unsettled    # units whose equal members are in no certain order, as keys
    cdef Buffer priorities  # by symbol of a pod group: 0 if unread, `OWN`, or that of the group plus `BIAS`
    cdef Buffer units, of_symbol, seen

    cdef bint use(self, object source) except -1
    cdef int32_t priority_of(self, int32_t number, int32_t own) except? -1
    cdef int note(self, int32_t row) except -1
    cdef int note_all(self) except -1
    cdef list refresh(self)
    cdef int settle(self, int32_t unit) except -1
    cdef int settle_all(self) except -1

    cdef inline mr_unit* all(self) noexcept:
        """The units; NULL if each pod is one by itself."""
        return <mr_unit*>self.units.data if self.keys else NULL


cdef class Importance:
    cdef NodeTable table
    cdef PodClasses classes
    cdef Ledger ledger
    cdef ChangeLog log
    cdef UnitIndex units
    cdef Buffer entries, spans, scratch, usages
    cdef Py_ssize_t used, lost  # entries that spans have taken, and those of them that no span uses any more
    cdef int32_t known, moves   # classes in `usages`; how often `_forget` has dropped all spans
    cdef int32_t priority       # of the preemptor
    cdef int64_t cursor
    cdef bint ties_by_uid       # equal pods are ordered by their UIDs, as since v1.38
    cdef bint adds_up           # requests of all classes can be added without overflow

    cdef int follow(self) except -1
    cdef int read_classes_anew(self) except -1
    cdef int use(self, object source, int32_t priority) except -1
    cdef mr_pod_entry* pods_of(self, int32_t row, int32_t* n) except NULL
    cdef int32_t read_all(self, const int32_t* order, uint64_t bits) except -1
    cdef int _read(self, int32_t row) except -1
    cdef int order_ties(self, mr_pod_entry* entries, int32_t n) except -1
    cdef int32_t enter(self, mr_pod_entry* entries, int32_t row) except -1
    cdef int _refresh_units(self) except -1
    cdef list pods_in(self, const mr_pod_entry* entry)

    cdef inline bint is_read(self, int32_t row) noexcept:
        """Whether the pods of a row have been read, and are sorted for the preemptor. (A row is logged when a
        pod is counted on it, before the pod is in the ledger.)"""
        cdef mr_pod_span* span = self.spans_of() + row
        return span.read == self.ledger.pods_on(row) + 1 and mr_is_sorted_for(
            self.priority, <mr_pod_entry*>self.entries.data + span.first, span)

    cdef inline mr_pod_span* spans_of(self) noexcept:
        """The span of each row in `entries`."""
        return <mr_pod_span*>self.spans.data

    cdef inline mr_class_usage* usages_of(self) noexcept:
        """The requests and the priority of the pods of each class."""
        return <mr_class_usage*>self.usages.data


cdef int64_t start_of(Ledger ledger, int32_t number) except? -1
