"""The one mechanism for "what changed": a ring of (sequence, kind, id).

Everything derived keeps a cursor, the sequence number up to which it has read, and replays what came after
it. A consumer that fell behind the ring rebuilds. An undo appends entries like any other change, so no
consumer ever sees a rollback.

Kinds: ROW (usage of a row: pods, requests, ports), STATIC (static data of a node: allocatable, labels,
taints, images, unschedulable), ORDER (a node came or went; id is its row), NAMESPACE, WORKLOAD (what selects
pods).
"""


cdef class ChangeLog:
    """Ring of changes.

    Parameters
    ----------
    journal : Journal
    capacity : int
        Entries, a power of two.

    Raises
    ------
    ValueError
        For another capacity.
    """

    def __cinit__(self, Journal journal not None, int64_t capacity=1 << 16):
        if capacity < 1 or capacity & (capacity - 1):
            raise ValueError("the capacity of a change log is a power of two")
        self.capacity = capacity
        self.kinds = Buffer(journal, sizeof(uint8_t), capacity)
        self.ids = Buffer(journal, sizeof(int32_t), capacity)
        self.repeated = Buffer(Journal(), 1)
        self.kind = <uint8_t*>self.kinds.data
        self.id = <int32_t*>self.ids.data

    cdef ChangeLog clone(self, Journal journal):
        """An independent copy."""
        cdef ChangeLog out = ChangeLog(journal, self.capacity)
        out.kinds.copy_from(self.kinds)
        out.ids.copy_from(self.ids)
        out.head = self.head
        return out

    cdef int repeat(self, int64_t mark) except -1:
        """Log once more what was logged since `mark`, because it has been undone."""
        cdef int64_t at, head = self.head, mask = self.capacity - 1
        cdef int32_t id, most = -1
        if self.lost(mark) or 2 * (head - mark) > self.capacity:
            self.head += self.capacity + 1  # every consumer rebuilds
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
        """The rows that entries after a cursor are about.

        Parameters
        ----------
        cursor : int
            A sequence number.
        least, most : Kind
            The kinds of the entries that count.

        Returns
        -------
        list of int, or None
            Each row once; None where some entries were overwritten.
        """
        cdef int64_t at, mask = self.capacity - 1
        cdef dict rows = {}
        if self.lost(cursor):
            return None
        for at in range(cursor, self.head):
            if least <= self.kind[at & mask] <= most:
                rows[self.id[at & mask]] = None
        return list(rows)
