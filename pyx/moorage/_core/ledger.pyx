"""The ledger: every pod that the cache knows, with its class, row and state. Usage is the node table's.

State machine (kube-scheduler, cache interface): Initial → Assumed → Added → gone, with Forget and Expire from
Assumed. Initial and gone pods are not in the ledger.
"""

import heapq
from functools import partial

from moorage._core.buffers cimport Buffer, Journal

cdef enum:
    LATER = -1  # a deadline that has not been set

cdef double NEVER = LATER
cdef double INFINITY = float("inf")


cdef class Ledger:
    """Pods by number; numbers of removed pods are reused.

    A row's pods stand in the order in which they came, except that a removal moves the last one into the
    hole, as upstream's NodeInfo.RemovePod. The list of a row is copied before it is changed where a snapshot,
    a fork or an open transaction still needs it as it is.
    """

    def __cinit__(self, Journal journal):
        self.journal = journal
        self.index = {}
        self.objects = []
        self.uids = []
        self.free = []
        self.deadlines = []
        self.rows = []
        self.pod_class = Buffer(journal, sizeof(int32_t))
        self.row = Buffer(journal, sizeof(int32_t))
        self.slot = Buffer(journal, sizeof(int32_t))
        self.state = Buffer(journal, sizeof(int8_t))
        self.deadline = Buffer(journal, sizeof(double))
        self.shared = Buffer(journal, sizeof(int8_t))
        self.terminating = Buffer(journal, sizeof(int8_t))

    def __len__(self):
        return len(self.index)

    cdef Ledger clone(self, Journal journal):
        """An independent copy; pod objects and unchanged row lists are shared."""
        cdef Ledger out = Ledger(journal)
        cdef int32_t row
        for row in range(<int32_t>len(self.rows)):
            (<int8_t*>self.shared.data)[row] = 1
        out.index = self.index.copy()
        out.objects = self.objects.copy()
        out.uids = self.uids.copy()
        out.free = self.free.copy()
        out.deadlines = self.deadlines.copy()
        out.rows = self.rows.copy()
        out.pod_class.copy_from(self.pod_class)
        out.row.copy_from(self.row)
        out.slot.copy_from(self.slot)
        out.state.copy_from(self.state)
        out.deadline.copy_from(self.deadline)
        out.shared.copy_from(self.shared)
        out.terminating.copy_from(self.terminating)
        return out

    cdef int32_t find(self, str uid) except -2:
        """Number of a pod, or -1."""
        found = self.index.get(uid)
        return -1 if found is None else found

    # ---- rows ----------------------------------------------------------------------------------------------

    cdef int reserve_rows(self, Py_ssize_t rows) except -1:
        self.shared.reserve(rows)
        while len(self.rows) < rows:
            self.rows.append(None)
        return 0

    cdef list _writable(self, int32_t row):
        """The list of a row, copied first if somebody else holds it."""
        cdef list pods = self.rows[row]
        if pods is None:
            pods = []
        elif (<int8_t*>self.shared.data)[row] or self.journal.depth:
            pods = pods.copy()
        else:
            return pods
        if self.journal.depth:
            self.shared.touch(row)
            self.journal.on_undo(partial(self.rows.__setitem__, row, self.rows[row]))
        (<int8_t*>self.shared.data)[row] = 0
        self.rows[row] = pods
        return pods

    cdef list share(self, int32_t row):
        """The list of a row, which will not change any more."""
        if row >= len(self.rows) or self.rows[row] is None:
            return []
        (<int8_t*>self.shared.data)[row] = 1
        return self.rows[row]

    def pods_of(self, int32_t row):
        """Pod objects of a row, in the row's order."""
        return list(self.rows[row] or ()) if row < len(self.rows) else []

    # ---- pods ----------------------------------------------------------------------------------------------

    cdef int make_room(self, Py_ssize_t pods) except -1:
        """Have the memory for so many more pods."""
        cdef Py_ssize_t numbers = len(self.objects) + pods
        self.pod_class.reserve(numbers)
        self.row.reserve(numbers)
        self.slot.reserve(numbers)
        self.state.reserve(numbers)
        self.deadline.reserve(numbers)
        self.terminating.reserve(numbers)
        return 0

    cdef int32_t insert(self, str uid, object pod, int32_t pod_class, int32_t row, PodState state) except -1:
        """Enter a pod that is not in the ledger."""
        cdef int32_t number
        cdef list pods
        cdef bint grown = not self.free
        if grown:
            self.make_room(1)
        self.reserve_rows(row + 1)
        pods = self._writable(row)
        if grown:
            number = <int32_t>len(self.objects)
            self.objects.append(None)
            self.uids.append(None)
        else:
            number = self.free.pop()
        if self.journal.depth:
            self._touch(number)
            self.journal.on_undo(partial(self._undo_insert, number, grown))
        (<int32_t*>self.pod_class.data)[number] = pod_class
        (<int32_t*>self.row.data)[number] = row
        (<int32_t*>self.slot.data)[number] = <int32_t>len(pods)
        (<int8_t*>self.state.data)[number] = state
        (<double*>self.deadline.data)[number] = NEVER
        (<int8_t*>self.terminating.data)[number] = pod.metadata.deletion_timestamp is not None
        pods.append(pod)
        self.objects[number] = pod
        self.uids[number] = uid
        self.index[uid] = number
        return number

    cdef int _touch(self, int32_t number) except -1:
        self.pod_class.touch(number)
        self.row.touch(number)
        self.slot.touch(number)
        self.state.touch(number)
        self.deadline.touch(number)
        self.terminating.touch(number)
        return 0

    def _undo_insert(self, int32_t number, bint grown):
        del self.index[self.uids[number]]
        self.objects[number] = self.uids[number] = None
        if grown:
            self.objects.pop()
            self.uids.pop()
        else:
            self.free.append(number)

    cdef int remove(self, int32_t number) except -1:
        """Strike a pod out; its number is free again."""
        cdef int32_t row = self.row_of(number), slot = (<int32_t*>self.slot.data)[number], moved
        cdef list pods = self._writable(row)
        last = pods.pop()
        if slot < len(pods):
            moved = self.index[last.metadata.uid]
            self.slot.touch(moved)
            (<int32_t*>self.slot.data)[moved] = slot
            pods[slot] = last
        self.set_state(number, FREE)
        uid, pod = self.uids[number], self.objects[number]
        del self.index[uid]
        self.objects[number] = self.uids[number] = None
        self.free.append(number)
        if self.journal.depth:
            self.journal.on_undo(partial(self._undo_remove, number, uid, pod))
        return 0

    def _undo_remove(self, int32_t number, uid, pod):
        self.free.pop()
        self.objects[number] = pod
        self.uids[number] = uid
        self.index[uid] = number

    cdef int set_state(self, int32_t number, PodState state) except -1:
        """Change a pod's state; only assumed pods can have a deadline."""
        if self.journal.depth:
            self.state.touch(number)
            self.deadline.touch(number)
        (<int8_t*>self.state.data)[number] = state
        (<double*>self.deadline.data)[number] = NEVER
        return 0

    cdef int count(self, const unsigned char[::1] matching, bint all_pods, int32_t* pods) except -1:
        """Add to `pods`, by row, the pods of matching classes; terminating ones only with `all_pods`."""
        cdef int32_t number
        for number in range(<int32_t>len(self.objects)):
            if self.state_of(number) == FREE or not matching[self.class_of(number)]:
                continue
            if all_pods or not self.is_terminating(number):
                pods[self.row_of(number)] += 1
        return 0

    # ---- expiry --------------------------------------------------------------------------------------------

    cdef int set_deadline(self, int32_t number, double deadline) except -1:
        """An assumed pod may expire after `deadline` (seconds on the caller's clock)."""
        self.deadline.touch(number)
        (<double*>self.deadline.data)[number] = deadline
        # Entries of the heap are hints: one counts only while the pod still has that deadline.
        if deadline != INFINITY:
            heapq.heappush(self.deadlines, (deadline, number))
        return 0

    def expired(self, double now):
        """Numbers of the assumed pods whose deadline lies strictly before `now`, earliest first."""
        out = []
        taken = []
        while self.deadlines and self.deadlines[0][0] < now:
            deadline, number = entry = heapq.heappop(self.deadlines)
            taken.append(entry)
            if self.state_of(number) == ASSUMED and (<double*>self.deadline.data)[number] == deadline:
                self.deadline.touch(number)
                (<double*>self.deadline.data)[number] = NEVER
                out.append(number)
        if self.journal.depth and taken:
            self.journal.on_undo(partial(self._undo_expired, taken))
        return out

    def _undo_expired(self, taken):
        for entry in taken:
            heapq.heappush(self.deadlines, entry)

    def assumed(self):
        """UIDs of the assumed pods, sorted."""
        return sorted([uid for uid, number in self.index.items() if self.state_of(number) == ASSUMED])

    cdef list binding(self):
        """Numbers of the assumed pods without a deadline, sorted by UID."""
        return [
            number
            for number in map(self.index.__getitem__, self.assumed())
            if (<double*>self.deadline.data)[number] == NEVER
        ]
