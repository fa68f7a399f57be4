"""The change log: a ring buffer of (kind, id) by sequence number.

Each consumer of the log, a derived structure, keeps a cursor: the sequence number up to which it has read the
log. To refresh, it replays the entries after its cursor. A consumer whose next entries have been overwritten
rebuilds itself. An undo appends entries like any other change, so consumers need no rule for rollbacks.

Kinds of entries, and their ids:

- LOG_ROW: usage of a row of the node table (pods, requests, ports); the row.
- LOG_STATIC: static data of a node (allocatable, labels, taints, images, unschedulable); its row.
- LOG_ORDER: a node was added or removed; its row.
- LOG_NAMESPACE: labels of a namespace; 0.
- LOG_WORKLOAD: a Service, ReplicationController, ReplicaSet or StatefulSet, whose selectors PodTopologySpread
  reads; 0.
"""


cdef class ChangeLog:
    """A ring buffer of changes.

    Parameters
    ----------
    journal : Journal
        The journal of the cluster.
    capacity : int, default 65536
        Number of entries, a power of two.

    Attributes
    ----------
    head : int
        Sequence number of the newest entry; 0 for an empty log.
    capacity : int
        Number of entries.

    Raises
    ------
    ValueError
        If the capacity is not a power of two.
    """

    def __cinit__(self, Journal journal not None, int64_t capacity=1 << 16):
        if capacity < 1 or capacity & (capacity - 1):
            raise ValueError("the capacity of a change log is a power of two")
        self.capacity = capacity
        self.kinds = Buffer(journal, sizeof(uint8_t), capacity)
        self.ids = Buffer(journal, sizeof(int32_t), capacity)
        self.repeated = Buffer(Journal(), 1)
        self.kind = self.kinds.uint8()
        self.id = self.ids.int32()

    cdef ChangeLog clone(self, Journal journal):
        """Return an independent copy."""
        cdef ChangeLog out = ChangeLog(journal, self.capacity)
        out.kinds.copy_from(self.kinds)
        out.ids.copy_from(self.ids)
        out.head = self.head
        return out

    cdef void lose(self) noexcept:
        """Lose all entries, so that every consumer rebuilds itself."""
        self.head += self.capacity + 1

    cdef int repeat(self, int64_t mark) except -1:
        """Append the entries after the sequence number `mark` again, because their changes were undone."""
        cdef int64_t at, head = self.head, mask = self.capacity - 1
        cdef int32_t id, most = -1
        if mark < 0 or self.lost(mark) or 2 * (head - mark) > self.capacity:
            self.lose()
            return 0
        for at in range(mark, head):
            most = max(most, self.id[at & mask])
        self.repeated.reserve(<Py_ssize_t>most + 1)
        for at in range(mark, head):  # each row once, the few other entries as they are
            id = self.id[at & mask]
            if self.kind[at & mask] != LOG_ROW:
                self.append(<Kind>self.kind[at & mask], id)
            elif not self.repeated.data[id]:
                self.repeated.data[id] = True
                self.append(LOG_ROW, id)
        for at in range(mark, head):
            if self.kind[at & mask] == LOG_ROW:
                self.repeated.data[self.id[at & mask]] = False

    cpdef list rows_since(self, int64_t cursor, Kind least=LOG_ROW, Kind most=LOG_ORDER):
        """Return the distinct ids of the entries after a cursor.

        Parameters
        ----------
        cursor : int
            A sequence number.
        least, most : Kind
            The first and the last kind of the entries that count; by default all kinds whose id is a row.

        Returns
        -------
        list of int or None
            The ids in order of their first entry; None if entries after the cursor have been overwritten.
        """
        cdef int64_t at, mask = self.capacity - 1
        cdef dict rows = {}
        if cursor < 0 or self.lost(cursor):
            return None
        for at in range(cursor, self.head):
            if least <= self.kind[at & mask] <= most:
                rows[self.id[at & mask]] = None
        return list(rows)
