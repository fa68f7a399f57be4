cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, uint32_t


cdef struct IndexSlot:
    PyObject* key  # owned; NULL: the slot is free
    int32_t value
    uint32_t hash  # the lower bits of the hash of the key


@cython.final
cdef class StringIndex:
    cdef IndexSlot* slots
    cdef bytes memory
    cdef Py_ssize_t capacity, used  # the capacity is a power of two

    cpdef StringIndex clone(self)
    cpdef int reserve(self, Py_ssize_t keys) except -1
    cdef int _grow(self, Py_ssize_t capacity) except -1
    cpdef int32_t find(self, str key, int32_t absent) noexcept
    cdef void prefetch(self, PyObject* key) noexcept
    cdef IndexSlot* slot_for(self, str key) except NULL
    cpdef bint claim(self, str key, int32_t value) except -1
    cpdef int put(self, str key, int32_t value) except -1
    cpdef void remove(self, str key) noexcept
