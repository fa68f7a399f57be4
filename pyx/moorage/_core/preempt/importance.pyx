"""Importance: the pods of each row in the order of preemption, the most important first.

Higher priority comes first, then the earlier start (kube-scheduler v1.36, MoreImportantPod). Pods that have
not started are the youngest. Equal pods stay in the order of the row. A row is sorted when it is first read,
and again after the change log has named it.
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from moorage.errors import InputError

from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint64_t

from moorage._core.base cimport LOG_ORDER, Buffer, Journal
from moorage._core.csrc cimport MR_NOT_STARTED, mr_class_usage, mr_pod_entry, mr_sort_pod_entries, mr_pod_span
from moorage._core.state cimport Ledger, NodeTable, PodClasses, PodRecord, Shape

cdef int64_t SUMMAND = <int64_t>1 << 50  # thousands of these can be added without overflow

cdef extern from *:
    int ctz "__builtin_ctzll"(unsigned long long word) noexcept nogil

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def start_time(pod):
    """Return when a pod was started.

    Parameters
    ----------
    pod : Pod

    Returns
    -------
    int
        Microseconds since 1970. A pod that was not started is the youngest (INT64_MAX), as upstream takes the
        present time for it.

    Raises
    ------
    InputError
        The field is not a time.
    """
    text = pod.status.start_time
    if text is None:
        return MR_NOT_STARTED
    try:
        return _microseconds(text)
    except ValueError as error:
        raise InputError(f"pod {pod.key}: status.startTime {text!r} is not a time") from error


@lru_cache(1 << 16)
def _microseconds(text):
    """Microseconds since 1970 of an RFC 3339 time. UTC is assumed where there is no offset."""
    start = datetime.fromisoformat(text)
    return ((start if start.tzinfo else start.replace(tzinfo=UTC)) - EPOCH) // MICROSECOND


cdef class Importance:
    """The sorted pods of every row.

    They are derived from the ledger: a fork starts without them, and transactions do not undo them.

    Parameters
    ----------
    table : NodeTable
    classes : PodClasses
    ledger : Ledger
    """

    def __cinit__(self, NodeTable table not None, PodClasses classes not None, Ledger ledger not None):
        cdef Journal journal = Journal()
        self.table, self.classes, self.ledger = table, classes, ledger
        self.log = table.log
        self.entries = Buffer(journal, sizeof(mr_pod_entry))
        self.spans = Buffer(journal, sizeof(mr_pod_span))
        self.scratch = Buffer(journal, sizeof(mr_pod_entry))
        self.usages = Buffer(journal, sizeof(mr_class_usage))
        self.cursor = self.log.head
        self.adds_up = True

    cdef int follow(self) except -1:
        """Mark changed rows to be read again, and read new classes."""
        cdef int64_t at, last = self.log.capacity - 1
        cdef int32_t row
        if self.known < len(self.classes.keys):
            _read_classes(self)
        self.spans.reserve(self.table.used)
        if self.log.lost(self.cursor):
            _forget(self)
        else:
            for at in range(self.cursor, self.log.head):
                row = self.log.id[at & last]
                if self.log.kind[at & last] <= LOG_ORDER and row < self.spans.capacity:
                    self.spans_of()[row].is_read = False
        self.cursor = self.log.head
        return 0

    cdef mr_pod_entry* pods_of(self, int32_t row, int32_t* n) except NULL:
        """The pods of a row and their number. Valid until another row is read."""
        cdef mr_pod_span* span = self.spans_of() + row
        # A row is logged when a pod is counted on it, before the pod is in the ledger.
        if not span.is_read or span.count != self.ledger.pods_on(row):
            self._read(row)
        n[0] = span.count
        return <mr_pod_entry*>self.entries.data + span.first

    cdef int32_t read_all(self, const int32_t* order, uint64_t bits) except -1:
        """Read the rows at some positions of an order; return the largest number of pods on one of them."""
        cdef uint64_t left = bits
        cdef int32_t row, most = 0, moves = self.moves
        cdef mr_pod_span* spans = self.spans_of()
        while left:
            row = order[ctz(left)]
            left &= left - 1
            if not spans[row].is_read or spans[row].count != self.ledger.pods_on(row):
                self._read(row)
            most = max(most, spans[row].count)
            if moves != self.moves:  # `_forget` has dropped the rows that were read before
                left, moves = bits, self.moves
        return most

    cdef int _read(self, int32_t row) except -1:
        """Read and sort the pods of a row."""
        cdef mr_pod_span* span = self.spans_of() + row
        cdef int32_t n = self.ledger.pods_on(row), at, number = 0
        cdef mr_pod_entry* pods
        cdef PodRecord* record
        _make_room(self, row, n)
        self.scratch.reserve(n)
        pods = <mr_pod_entry*>self.entries.data + span.first
        if n:
            number = self.ledger.row(row).first
        for at in range(n):
            record = self.ledger.record(number)
            pods[at].number, pods[at].pod_class = number, record.pod_class
            pods[at].start = _start_of(self, number) if record.start == INT64_MIN else record.start
            number = record.after
        mr_sort_pod_entries(pods, n, <mr_pod_entry*>self.scratch.data, self.usages_of())
        span.count, span.is_read = n, True
        return 0


cdef int _forget(Importance importance) except -1:
    """Mark all rows as changed, and compact their memory."""
    cdef Py_ssize_t row
    for row in range(importance.spans.capacity):
        importance.spans_of()[row].room = importance.spans_of()[row].is_read = 0
    importance.used = importance.lost = 0
    importance.moves += 1
    return 0


cdef int _read_classes(Importance importance) except -1:
    """Read the requests and priorities of new classes."""
    cdef Shape shape
    cdef mr_class_usage* usage
    cdef int32_t pod_class
    importance.usages.reserve(len(importance.classes.keys))
    for pod_class in range(importance.known, <int32_t>len(importance.classes.keys)):
        shape = importance.classes.shape(pod_class)
        usage = <mr_class_usage*>importance.usages.data + pod_class
        usage.cpu, usage.memory, usage.priority = shape.c.cpu, shape.c.memory, shape.c.priority
        usage.shape = &shape.c
        importance.adds_up &= 0 <= usage.cpu <= SUMMAND and 0 <= usage.memory <= SUMMAND
        importance.known = pod_class + 1
    return 0


cdef int _make_room(Importance importance, int32_t row, int32_t pods) except -1:
    """Make room for a number of pods in the span of a row."""
    cdef mr_pod_span* span = importance.spans_of() + row
    cdef int32_t room = pods + pods // 4 + 1
    if pods <= span.room:
        return 0
    if importance.used + room > importance.entries.capacity and 2 * importance.lost > importance.used:
        _forget(importance)
    importance.entries.reserve(importance.used + room)
    importance.lost += span.room
    span.first, span.room = <int32_t>importance.used, room
    importance.used += room
    return 0


cdef int64_t _start_of(Importance importance, int32_t number) except? -1:
    """When a pod was started, in microseconds since 1970; the pod's record caches it."""
    cdef PodRecord* record = importance.ledger.record(number)
    importance.ledger.pods.touch(number)  # a rollback restores records to the byte
    record.start = start_time(importance.ledger.model_of(number))
    return record.start
