from libc.stdint cimport int32_t, int64_t, uint8_t

from moorage._core.base.buffers cimport Buffer, Journal

cpdef enum Kind:
    LOG_ROW = 0
    LOG_STATIC = 1
    LOG_ORDER = 2
    LOG_NAMESPACE = 3
    LOG_WORKLOAD = 4


cdef class ChangeLog:
    cdef ChangeLog clone(self, Journal journal)
    cdef void lose(self) noexcept
    cdef int repeat(self, int64_t mark) except -1
    cpdef list rows_since(self, int64_t cursor, Kind least=?, Kind most=?)
    cdef readonly int64_t head, capacity
    cdef Buffer kinds, ids, repeated
    cdef uint8_t* kind
    cdef int32_t* id

    cdef inline int64_t append(self, Kind kind, int32_t id) noexcept nogil:
        """Append an entry: the object `id` of a kind changed. Return the sequence number, from 1."""
        cdef int64_t slot = self.head & (self.capacity - 1)
        self.kind[slot] = <uint8_t>kind
        self.id[slot] = id
        self.head += 1
        return self.head

    cdef inline bint lost(self, int64_t cursor) noexcept nogil:
        """Whether entries after `cursor` have been overwritten, so that the consumer must rebuild."""
        return self.head - cursor > self.capacity
