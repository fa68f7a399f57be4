"""Nominations: the pods that are nominated to nodes, by row, and which rows have changed.

kube-scheduler v1.36, backend/queue/nominator.go. A nominated pod counts on its row for pods of at most its
priority, unless it is in the cache by now: then it counts where it is.
"""

from libc.stdint cimport INT32_MAX

from moorage._core.base cimport LOG_ORDER, Buffer, ChangeLog, Journal
from moorage._core.state cimport Shape

cdef enum:
    CHANGED_LIMIT = 1 << 14  # changed rows that are listed
    FLIPS_LIMIT = 1 << 10


cdef class Nominations:
    """The nominated pods of a cluster. Readers keep a cursor into `changed`, and the `epoch`, which grows
    where any row may have changed."""
    # rows: row to a list of (pod, class, priority), without pods in the cache

    def __cinit__(self, ClusterState state not None):
        self.state = state
        self.rows = {}
        self.has_pods = Buffer(Journal(), 1)
        self.changed = []
        self.source_epoch = -1

    cdef list counted_pods(self, int32_t row, int32_t priority):
        """The pods of a row that count for a pod of this priority, as (pod, class)."""
        cdef list there = self.rows.get(row)
        if there is None:
            return []
        uid = None if self.excluded_pod is None else self.excluded_pod.metadata.uid
        return [(pod, pod_class) for pod, pod_class, its in there
                if its >= priority and (uid is None or pod.metadata.uid != uid)]

    cdef int replace(self, nominations) except -1:
        """These are all, (row, pods) each, and count for any pod."""
        cdef int32_t row
        listed = list(nominations)
        self.source = self.excluded_pod = None
        if not self.rows and not listed:
            return 0
        _clear_rows(self)
        for row, pods in listed:
            _set(self, row, list(pods), True)

    cdef int follow(self, source, pod) except -1:
        """Take over what has changed in a `PodNominator`; the next question is about `pod`, which does not
        count for itself."""
        cdef list changes = source.changes
        if not _is_current(self, source):
            _read_all(self, source)
        else:
            for at in range(self.cursor, len(changes)):
                _read(self, source, changes[at])
        self.cursor = len(changes)
        if self.excluded_pod is not pod:
            for excluded in (self.excluded_pod, pod):
                name = None if excluded is None else source.nominated_node(excluded)
                row = self.state.table.find_row(name) if name else None
                if row is not None:
                    _note_change(self, row)
            self.excluded_pod = pod


cdef int _read_all(Nominations nominations, source) except -1:
    nominations.source, nominations.source_epoch = source, source.epoch
    nominations.state.ledger.watched, nominations.state.ledger.moved = source.nodes, source.changes
    nominations.order_cursor = nominations.state.log.head
    _clear_rows(nominations)
    for name in source.nominated_nodes():
        _read(nominations, source, name)


cdef int _read(Nominations nominations, source, str name) except -1:
    """The pods of a node, if a cycle sees it."""
    row = nominations.state.table.find_row(name)
    if row is not None and nominations.state.table.is_present(row):
        _set(nominations, row, source.nominated_pods_for_node(name), False)


cdef int _set(Nominations nominations, int32_t row, list pods, bint always) except -1:
    """These are nominated to a row; `always`: they count for pods of any priority."""
    cdef Shape shape
    cdef int32_t pod_class
    cdef list there = []
    for pod in pods:
        if nominations.state.has_pod(pod):
            continue
        pod_class = nominations.state.classes.intern(pod)  # its terms must be known when counters are chosen
        shape = nominations.state.classes.shape(pod_class)
        there.append((pod, pod_class, INT32_MAX if always else shape.c.priority))
    if there:
        nominations.rows[row] = there
    else:
        nominations.rows.pop(row, None)
    nominations.has_pods.reserve(row + 1)
    nominations.has_pods.data[row] = bool(there)
    return _note_change(nominations, row)


cdef int _clear_rows(Nominations nominations) except -1:
    """Nobody is nominated to any row."""
    for row in nominations.rows:
        nominations.has_pods.data[<int32_t>row] = 0
    nominations.rows = {}
    nominations.epoch += 1


cdef bint _is_current(Nominations nominations, source) except -1:
    """Whether only what a nominator lists has changed since the last time: no node came or went."""
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
    if len(nominations.changed) >= CHANGED_LIMIT:
        nominations.changed.clear()
        nominations.epoch += 1
    nominations.changed.append(row)


cdef class NominatedVerdicts:
    """What the filters say of rows to pods of a class with the pods there that are nominated, where they
    reject it. As of `epoch` and `cursor` of the nominations, and of `log_cursor` of the change log."""
    # rows: those with a rejection; verdicts: of every row, 0 where there is none; places: that among `rows`;
    # flipped: the memory of `flips`

    def __cinit__(self):
        cdef Journal journal = Journal()
        self.rows = Buffer(journal, sizeof(int32_t))
        self.verdicts = Buffer(journal, sizeof(uint64_t))
        self.places = Buffer(journal, sizeof(int32_t))
        self.flipped = Buffer(journal, sizeof(int32_t), FLIPS_LIMIT)
        self.flips.rows = <int32_t*>self.flipped.data
        self.epoch = -1

    cdef int set(self, int32_t row, uint64_t verdict) except -1:
        """Note the verdict of a row."""
        cdef uint64_t* verdicts
        cdef int32_t* rows
        cdef int32_t* places
        self.verdicts.reserve(row + 1)
        self.places.reserve(row + 1)
        self.rows.reserve(self.n + 1)
        verdicts, rows = <uint64_t*>self.verdicts.data, <int32_t*>self.rows.data
        places = <int32_t*>self.places.data
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
        """The verdict of a row, 0 where it does not reject the pod."""
        return (<uint64_t*>self.verdicts.data)[row] if row < self.verdicts.capacity else 0

    cdef int clear(self) except -1:
        """Forget every verdict."""
        cdef int32_t at
        for at in range(self.n):
            _note_flip(self, (<int32_t*>self.rows.data)[at])
            (<uint64_t*>self.verdicts.data)[(<int32_t*>self.rows.data)[at]] = 0
        self.n = 0


cdef int _note_flip(NominatedVerdicts nominated_verdicts, int32_t row) except -1:
    if nominated_verdicts.flips.n == FLIPS_LIMIT:
        nominated_verdicts.flips.n = MANY
    if nominated_verdicts.flips.n != MANY:
        (<int32_t*>nominated_verdicts.flipped.data)[nominated_verdicts.flips.n] = row
        nominated_verdicts.flips.n += 1
