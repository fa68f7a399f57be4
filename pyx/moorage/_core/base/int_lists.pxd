from libc.stdint cimport int32_t, int64_t

from moorage._core.base.buffers cimport Buffer, Journal
from moorage._core.base.debug cimport debug_below


cdef class IntLists:
    cdef Buffer arena, first, count, room, state

    cdef inline int32_t size(self, Py_ssize_t row) noexcept nogil:
        """Return the number of items of the list of a row."""
        debug_below(row, self.count.capacity, b"list")
        return self.count.int32()[row]

    cdef inline int32_t* items(self, Py_ssize_t row) noexcept nogil:
        """Return the items of the list of a row, valid until a list grows."""
        debug_below(row, self.first.capacity, b"list")
        return self.arena.int32() + self.first.int32()[row]

    cdef IntLists clone(self, Journal journal)
    cdef int touch_items(self, Py_ssize_t row) except -1
    cdef Py_ssize_t nbytes(self) noexcept
    cdef void touch_items_reserved(self, Py_ssize_t row) noexcept nogil
    cdef int touch_item(self, Py_ssize_t row, Py_ssize_t at) except -1
    cdef int reserve(self, Py_ssize_t rows) except -1
    cdef int reserve_items(self, Py_ssize_t items) except -1
    cdef int append(self, Py_ssize_t row, int32_t value) except -1
    cdef int remove(self, Py_ssize_t row, Py_ssize_t at) except -1
    cdef int flip_bit(self, Py_ssize_t row, int32_t bit) except -1
    cdef int32_t count_bits(self, Py_ssize_t row, int32_t limit) noexcept
    cdef int resize(self, Py_ssize_t row, int32_t items) except -1
    cdef int assign(self, Py_ssize_t row, const int32_t* values, int32_t items) except -1
