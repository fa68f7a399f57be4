from libc.stdint cimport int32_t, uint8_t

from moorage._core.base.buffers cimport Buffer
from moorage._core.csrc cimport mr_candidates, mr_changes, mr_search


cdef class Candidates:
    cdef mr_candidates c
    cdef object terms
    cdef Buffer totals, bucket, blocks, supers, fits, counts, keys, hashes, feasible, member

    cdef Py_ssize_t nbytes(self) noexcept
    cdef int point(self, const mr_search* search, object terms) except -1
    cdef int build(self, const mr_changes* changes, int32_t* lanes, uint8_t* seen) except -1
    cdef int _reserve(self, int32_t stride) except -1
