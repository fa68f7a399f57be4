"""Nominations: the nominated pods of each row, and the filter verdicts with these pods.

kube-scheduler v1.36, backend/queue/nominator.go and RunFilterPluginsWithNominatedPods. A nominated pod counts
on its row for pods of at most its priority. A pod that is in the cache counts only on the node where it is.
"""

from libc.stdint cimport INT32_MAX

from moorage._core.base cimport LOG_ORDER, METADATA, UID, Buffer, ChangeLog, Journal
from moorage._core.state cimport Shape

cdef enum:
    CHANGED_LIMIT = 1 << 14  # the longest list of changed rows
    FLIPS_LIMIT = 1 << 10    # the longest list of flipped rows


cdef class Nominations:
    """The nominated pods of a cluster.

    Readers follow it by a cursor into the list of changed rows. When its epoch grows, any row may have
    changed, and cursors are void.

    Parameters
    ----------
    state : ClusterState
    """

    def __cinit__(self, ClusterState state not None):
        self.state = state
        self.rows = {}
        self.has_pods = Buffer(Journal(), 1)
        self.changed = []
        self.source_epoch = -1

    cdef list counted_pods(self, int32_t row, int32_t priority):
        """The nominated pods of a row that count for a pod of some priority, as a list of (pod, class)."""
        cdef list there = self.rows.get(row)
        if there is None:
            return []
        uid = None if self.excluded_pod is None else self.excluded_pod.metadata.uid
        return [(pod, self.state.classes.intern(pod)) for pod, its in there
                if its >= priority and (uid is None or pod.metadata.uid != uid)]

    cdef int replace(self, nominations) except -1:
        """Replace all nominations by tuples (row, pods). They count for pods of any priority."""
        cdef int32_t row
        listed = tuple(nominations)
        self.source = self.excluded_pod = None
        if not self.rows and not listed:
            return 0
        _clear_rows(self)
        for row, pods in listed:
            _set(self, row, list(pods), True)

    cdef int follow(self, source, pod) except -1:
        """Apply the changes of a `PodNominator`. The nomination of `pod`, the next one, does not count."""
        cdef list changes = source.changes
        if not _is_current(self, source):
            _read_all(self, source)
        else:
            for at in range(self.cursor, len(changes)):
                _read(self, source, changes[at])
        self.cursor = len(changes)
        if self.excluded_pod is not pod:
            for excluded in (self.excluded_pod, pod):
                name = None if excluded is None else source.nodes.get(UID.of(METADATA.of(excluded)))
                row = self.state.table.find_row(name) if name else None
                if row is not None:
                    _note_change(self, row)
            self.excluded_pod = pod


cdef int _read_all(Nominations nominations, source) except -1:
    """Read all nominations of a `PodNominator`, and register it with the ledger for changes."""
    nominations.source, nominations.source_epoch = source, source.epoch
    nominations.state.ledger.watched, nominations.state.ledger.moved = source.nodes, source.changes
    nominations.order_cursor = nominations.state.log.head
    _clear_rows(nominations)
    for name in source.nominated_nodes():
        _read(nominations, source, name)


cdef int _read(Nominations nominations, source, str name) except -1:
    """Read the nominations of a node, if it is in the view."""
    row = nominations.state.table.find_row(name)
    if row is not None and nominations.state.table.is_present(row):
        _set(nominations, row, list(source.by_node.get(name, {}).values()), False)


cdef int _set(Nominations nominations, int32_t row, list pods, bint always) except -1:
    """Replace the nominations of a row. `always`: they count for pods of any priority."""
    cdef Shape shape
    cdef int32_t pod_class
    cdef list there = []
    for pod in pods:
        if nominations.state.has_pod(pod):
            continue
        pod_class = nominations.state.classes.intern(pod)  # before `Terms` chooses counters by known terms
        shape = nominations.state.classes.shape(pod_class)
        there.append((pod, INT32_MAX if always else shape.c.priority))
    if there:
        nominations.rows[row] = there
    else:
        nominations.rows.pop(row, None)
    nominations.has_pods.reserve(row + 1)
    nominations.has_pods.data[row] = bool(there)
    return _note_change(nominations, row)


cdef int _clear_rows(Nominations nominations) except -1:
    """Remove all nominations."""
    for row in nominations.rows:
        nominations.has_pods.data[<int32_t>row] = 0
    nominations.rows = {}
    nominations.epoch += 1


cdef bint _is_current(Nominations nominations, source) except -1:
    """Whether only nominations have changed since the last call, and no node was added or removed."""
    cdef ChangeLog log = nominations.state.log
    cdef int64_t at
    if nominations.source is not source or nominations.source_epoch != source.epoch \
            or nominations.state.ledger.watched is not source.nodes or log.lost(nominations.order_cursor):
        return False
    for at in range(nominations.order_cursor, log.head):
        if log.kind[at & (log.capacity - 1)] == LOG_ORDER:
            return False
    nominations.order_cursor = log.head
    return True


cdef int _note_change(Nominations nominations, int32_t row) except -1:
    """Add a row to the changed rows."""
    if len(nominations.changed) >= CHANGED_LIMIT:
        nominations.changed.clear()
        nominations.epoch += 1
    nominations.changed.append(row)


cdef class NominatedVerdicts:
    """The verdicts of rows that reject a class with their nominated pods.

    They are valid at `epoch` and `cursor` of the nominations, and at `log_cursor` of the change log.
    """

    def __cinit__(self):
        cdef Journal journal = Journal()
        self.rows = Buffer(journal, sizeof(int32_t))
        self.verdicts = Buffer(journal, sizeof(uint64_t))
        self.places = Buffer(journal, sizeof(int32_t))
        self.flipped = Buffer(journal, sizeof(int32_t), FLIPS_LIMIT)
        self.flips.rows = self.flipped.int32()
        self.epoch = -1

    cdef int set(self, int32_t row, uint64_t verdict) except -1:
        """Set the verdict of a row; 0: the row does not reject the class."""
        cdef uint64_t* verdicts
        cdef int32_t* rows
        cdef int32_t* places
        self.verdicts.reserve(row + 1)
        self.places.reserve(row + 1)
        self.rows.reserve(self.n + 1)
        verdicts, rows = self.verdicts.uint64(), self.rows.int32()
        places = self.places.int32()
        if (verdict != 0) != (verdicts[row] != 0):
            _note_flip(self, row)
        if verdict and not verdicts[row]:
            rows[self.n], places[row] = row, self.n
            self.n += 1
        elif verdicts[row] and not verdict:
            self.n -= 1
            rows[places[row]] = rows[self.n]
            places[rows[self.n]] = places[row]
        verdicts[row] = verdict

    cdef uint64_t get(self, int32_t row) noexcept nogil:
        """The verdict of a row; 0 if it does not reject the class."""
        return self.verdicts.uint64()[row] if row < self.verdicts.capacity else 0

    cdef int clear(self) except -1:
        """Remove all verdicts."""
        cdef int32_t at
        for at in range(self.n):
            _note_flip(self, self.rows.int32()[at])
            self.verdicts.uint64()[self.rows.int32()[at]] = 0
        self.n = 0


cdef int _note_flip(NominatedVerdicts nominated_verdicts, int32_t row) except -1:
    """Add a row to the flipped rows."""
    if nominated_verdicts.flips.n == FLIPS_LIMIT:
        nominated_verdicts.flips.n = MANY
    if nominated_verdicts.flips.n != MANY:
        nominated_verdicts.flipped.int32()[nominated_verdicts.flips.n] = row
        nominated_verdicts.flips.n += 1
