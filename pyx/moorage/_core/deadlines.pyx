"""A heap of (deadline, number)."""

from moorage._core.buffers cimport Buffer, Journal


cdef class Deadlines:
    """Numbers by deadline, earliest first; of equal deadlines the smallest number."""

    def __cinit__(self, Journal journal):
        self.heap = Buffer(journal, sizeof(Deadline))
        self.count = Buffer(journal, sizeof(int32_t), 1)

    cdef Deadlines clone(self, Journal journal):
        """An independent copy."""
        cdef Deadlines out = Deadlines(journal)
        out.heap.copy_from(self.heap)
        out.count.copy_from(self.count)
        return out

    cdef int reserve(self, Py_ssize_t items) except -1:
        """Have the memory for so many more."""
        return self.heap.reserve(self.size() + items)

    cdef int push(self, Deadline item) except -1:
        cdef int32_t at = self.size(), parent
        cdef Deadline* heap
        self.reserve(1)
        heap = <Deadline*>self.heap.data
        self.count.touch(0)
        (<int32_t*>self.count.data)[0] = at + 1
        while at > 0:
            parent = (at - 1) // 2
            if not is_earlier(item, heap[parent]):
                break
            self.heap.touch(at)
            heap[at] = heap[parent]
            at = parent
        self.heap.touch(at)
        heap[at] = item
        return 0

    cdef int pop(self) except -1:
        """Take the earliest away; there must be one."""
        cdef Deadline* heap = <Deadline*>self.heap.data
        cdef int32_t at = 0, child = 1, n = self.size() - 1
        self.count.touch(0)
        (<int32_t*>self.count.data)[0] = n
        while child < n:
            if child + 1 < n and is_earlier(heap[child + 1], heap[child]):
                child += 1
            if not is_earlier(heap[child], heap[n]):
                break
            self.heap.touch(at)
            heap[at] = heap[child]
            at = child
            child = 2 * at + 1
        self.heap.touch(at)
        heap[at] = heap[n]
        return 0


cdef inline bint is_earlier(Deadline one, Deadline other) noexcept:
    return one.when < other.when or (one.when == other.when and one.number < other.number)
