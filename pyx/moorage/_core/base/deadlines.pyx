"""A binary heap of deadlines whose changes a journal can undo."""


cdef class Deadlines:
    """A priority queue of pod numbers: earliest deadline first, of equal deadlines the smallest number.

    Parameters
    ----------
    journal : Journal
        Records the changes.
    """

    def __cinit__(self, Journal journal not None):
        self.heap = Buffer(journal, sizeof(Deadline))
        self.count = Buffer(journal, sizeof(int32_t), 1)

    cdef Deadlines clone(self, Journal journal):
        """Return an independent copy."""
        cdef Deadlines out = Deadlines(journal)
        out.heap.copy_from(self.heap)
        out.count.copy_from(self.count)
        return out

    cdef int reserve(self, Py_ssize_t items) except -1:
        """Make room for `items` more deadlines."""
        return self.heap.reserve(self.size() + items)

    cdef int push(self, Deadline item) except -1:
        """Add a deadline."""
        cdef int32_t at = self.size()
        self.reserve(1)
        self.count.touch(0)
        self.count.int32()[0] = at + 1
        return _rise(self, at, item)

    cdef int pop(self) except -1:
        """Remove the earliest deadline; the heap must not be empty."""
        cdef Deadline* heap = <Deadline*>self.heap.data
        cdef bint kept = self.heap.journal.depth != 0
        cdef int32_t at = 0, child = 1, n = self.size() - 1
        self.count.touch(0)
        self.count.int32()[0] = n
        while child < n:  # move the hole to a leaf first: the last item, which fills it, rarely rises far
            child += child + 1 < n and is_earlier(heap[child + 1], heap[child])
            if kept:
                self.heap.touch(at)
            heap[at] = heap[child]
            at = child
            child = 2 * at + 1
        return _rise(self, at, heap[n])


cdef int _rise(Deadlines deadlines, int32_t at, Deadline item) except -1:
    """Insert an item on the path from the free place `at` to the root (sift up)."""
    cdef Deadline* heap = <Deadline*>deadlines.heap.data
    cdef bint kept = deadlines.heap.journal.depth != 0
    cdef int32_t parent
    while at > 0:
        parent = (at - 1) // 2
        if not is_earlier(item, heap[parent]):
            break
        if kept:
            deadlines.heap.touch(at)
        heap[at] = heap[parent]
        at = parent
    deadlines.heap.touch(at)
    heap[at] = item


cdef inline bint is_earlier(Deadline a, Deadline b) noexcept:
    """Whether `a` comes before `b`."""
    return a.when < b.when or (a.when == b.when and a.number < b.number)
