"""The ledger: every pod that the cache knows, with its class, row and state. Usage is the node table's.

State machine (kube-scheduler, cache interface): Initial → Assumed → Added → gone, with Forget and Expire from
Assumed. Initial and gone pods are not in the ledger.
"""

import heapq
from functools import partial

from moorage._core.buffers cimport Buffer, Journal
from moorage._core.chunks cimport Chunks

cdef double NEVER = float("inf")


cdef class Ledger:
    """Pods by number; numbers of removed pods are reused. A row's pods stand in the order in which they came,
    except that a removal moves the last one into the hole, as upstream's NodeInfo.RemovePod."""

    def __cinit__(self, Journal journal):
        self.journal = journal
        self.index = {}
        self.objects = []
        self.uids = []
        self.free = []
        self.deadlines = []
        self.pod_class = Buffer(journal, sizeof(int32_t))
        self.row = Buffer(journal, sizeof(int32_t))
        self.slot = Buffer(journal, sizeof(int32_t))
        self.state = Buffer(journal, sizeof(int8_t))
        self.deadline = Buffer(journal, sizeof(double))
        self.pods_on = Chunks(journal)

    def __len__(self):
        return len(self.index)

    cdef int32_t find(self, str uid) except -2:
        """Number of a pod, or -1."""
        return self.index.get(uid, -1)

    cdef int32_t insert(self, str uid, object pod, int32_t pod_class, int32_t row, PodState state) except -1:
        """Enter a pod that is not in the ledger."""
        cdef int32_t number
        cdef Buffer buffer
        if self.free:
            number = self.free.pop()
            if self.journal.depth:
                self.journal.on_undo(partial(self.free.append, number))
        else:
            number = <int32_t>len(self.objects)
            for buffer in (self.pod_class, self.row, self.slot, self.state, self.deadline):
                buffer.reserve(number + 1)
            self.objects.append(None)
            self.uids.append(None)
            if self.journal.depth:
                self.journal.on_undo(self._drop_last)
        self.pods_on.reserve(row + 1)
        for buffer in (self.pod_class, self.row, self.slot, self.state, self.deadline):
            buffer.touch(number)
        (<int32_t*>self.pod_class.data)[number] = pod_class
        (<int32_t*>self.row.data)[number] = row
        (<int32_t*>self.slot.data)[number] = self.pods_on.size(row)
        (<int8_t*>self.state.data)[number] = state
        (<double*>self.deadline.data)[number] = NEVER
        self.pods_on.append(row, number)
        self.objects[number] = pod
        self.uids[number] = uid
        self.index[uid] = number
        if self.journal.depth:
            self.journal.on_undo(partial(self._undo_insert, number))
        return number

    def _drop_last(self):
        self.objects.pop()
        self.uids.pop()

    def _undo_insert(self, int32_t number):
        del self.index[self.uids[number]]
        self.objects[number] = self.uids[number] = None

    cdef int remove(self, int32_t number) except -1:
        """Strike a pod out; its number is free again."""
        cdef int32_t row = self.row_of(number), slot = (<int32_t*>self.slot.data)[number]
        cdef int32_t moved = self.pods_on.items(row)[self.pods_on.size(row) - 1]
        self.pods_on.swap_remove(row, slot)
        self.slot.touch(moved)
        (<int32_t*>self.slot.data)[moved] = slot
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
        self.state.touch(number)
        self.deadline.touch(number)
        (<int8_t*>self.state.data)[number] = state
        (<double*>self.deadline.data)[number] = NEVER
        return 0

    def set_deadline(self, int32_t number, double deadline):
        """An assumed pod may expire after `deadline` (seconds on the caller's clock)."""
        self.deadline.touch(number)
        (<double*>self.deadline.data)[number] = deadline
        # Entries of the heap are hints: one counts only while the pod still has that deadline.
        heapq.heappush(self.deadlines, (deadline, number))

    def expired(self, double now):
        """Numbers of the assumed pods whose deadline lies strictly before `now`, earliest first."""
        out = []
        while self.deadlines and self.deadlines[0][0] < now:
            deadline, number = entry = heapq.heappop(self.deadlines)
            if self.journal.depth:
                self.deadline.touch(number)
                self.journal.on_undo(partial(heapq.heappush, self.deadlines, entry))
            if self.state_of(number) == ASSUMED and (<double*>self.deadline.data)[number] == deadline:
                (<double*>self.deadline.data)[number] = NEVER
                out.append(number)
        return out

    def pods_of(self, int32_t row):
        """Pod objects on a row, in the row's order."""
        cdef int32_t at
        self.pods_on.reserve(row + 1)
        return [self.objects[self.pods_on.items(row)[at]] for at in range(self.pods_on.size(row))]

    def assumed(self):
        """UIDs of the assumed pods, by number: an order that an undo restores."""
        return [uid for number, uid in enumerate(self.uids) if self.state_of(number) == ASSUMED]
