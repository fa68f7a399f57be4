from libc.stdint cimport int32_t, int64_t, uint8_t

from moorage._core.base.buffers cimport Buffer
from moorage._core.base.string_index cimport StringIndex


cdef class Symbols:
    cdef object lock
    cdef StringIndex ids
    cdef readonly list names
    cdef Buffer numbers, are_numbers, texts
    cdef Py_ssize_t n_texts

    cpdef int32_t intern(self, str text) except -1
    cdef int32_t _make(self, str text) except -1
    cpdef int32_t find(self, str text) except -1
    cdef int check(self, int32_t symbol) except -1
    cdef int sync_texts(self) except -1
