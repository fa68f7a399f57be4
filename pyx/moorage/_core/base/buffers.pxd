from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from moorage._core.base.debug cimport debug_below


cdef class Buffer


cdef enum:
    ALIGNMENT = 64
    HEADER = 16  # bytes that the journal adds to each before-image, sizeof(Header)


cdef struct ItemLocation:
    char* data
    int32_t itemsize, buffer


cdef class Journal:
    cdef readonly int depth
    # Number of times that the memory of a buffer of this journal moved or a buffer was added. Code that keeps
    # an address over several calls compares this number.
    cdef int64_t moves
    cdef readonly int64_t undone
    cdef list buffers, actions
    cdef object memory
    cdef char* data
    cdef Py_ssize_t used, capacity

    cdef Buffer adopt(self, Buffer buffer)
    cdef void _put(self, int32_t buffer, int64_t offset, int32_t nbytes, const char* before) noexcept nogil
    cdef int reserve(self, Py_ssize_t nbytes) except -1
    cdef void save_reserved(self, const ItemLocation* items, Py_ssize_t item) noexcept nogil
    cdef int save(self, int32_t buffer, int64_t offset, int32_t nbytes, const char* before) except -1
    cdef int on_undo(self, object action) except -1
    cpdef int put(self, table, key, value) except -1
    cpdef int drop(self, dict table, key) except -1
    cdef int _check(self, Py_ssize_t mark) except -1


cdef class Buffer:
    cdef char* data
    cdef readonly Py_ssize_t itemsize, capacity
    cdef object memory
    cdef Journal journal
    cdef int32_t number

    cdef int reserve(self, Py_ssize_t items) except -1
    cdef char* reserved(self, Py_ssize_t items) except NULL
    cdef int copy_from(self, Buffer other) except -1
    cdef int touch(self, Py_ssize_t item) except -1
    cdef ItemLocation location(self) noexcept
    cdef void touch_reserved(self, Py_ssize_t first, Py_ssize_t items=*) noexcept nogil
    cdef int touch_range(self, Py_ssize_t first, Py_ssize_t items) except -1

    # The items of a column of numbers. They move when the buffer grows.
    cdef inline uint8_t* uint8(self) noexcept nogil:
        return <uint8_t*>self.data

    cdef inline int32_t* int32(self) noexcept nogil:
        debug_below(self.itemsize % <Py_ssize_t>sizeof(int32_t), 1, b"size of items of a column of int32")
        return <int32_t*>self.data

    cdef inline int64_t* int64(self) noexcept nogil:
        debug_below(self.itemsize % <Py_ssize_t>sizeof(int64_t), 1, b"size of items of a column of int64")
        return <int64_t*>self.data

    cdef inline uint64_t* uint64(self) noexcept nogil:
        debug_below(self.itemsize % <Py_ssize_t>sizeof(uint64_t), 1, b"size of items of a column of uint64")
        return <uint64_t*>self.data


cdef bytes zeroed_memory(Py_ssize_t nbytes)
cdef inline char* aligned(bytes memory) noexcept:
    """Return the first 64-byte boundary of some memory."""
    cdef char* address = <char*>memory
    return address + (ALIGNMENT - <Py_ssize_t>address % ALIGNMENT) % ALIGNMENT

cdef void* allocate(list owner, Py_ssize_t itemsize, Py_ssize_t items) except? NULL
