from libc.stdint cimport int32_t

from moorage._core.buffers cimport Buffer
from moorage._core.csrc cimport mr_candidates, mr_search


cdef class Candidates:
    cdef mr_candidates c
    cdef Buffer totals, blocks, supers, fits, counts

    cdef int build(self, const mr_search* search) except -1
