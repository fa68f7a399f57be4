from libc.stdint cimport int32_t

from moorage._core.base.buffers cimport Buffer
from moorage._core.csrc cimport mr_cluster, mr_terms


cdef class BareRows:
    cdef Buffer rows, wide, others, pointers, zeros

    cdef int show(self, const int32_t* rows, int32_t n, int32_t used, int32_t resources, mr_cluster* cluster,
                  mr_terms* terms) except -1
