from libc.stdint cimport int64_t

from moorage._core.csrc cimport mr_external


cdef class External:
    cdef mr_external c  # its functions, for the kernels
    cdef readonly str name
    cdef readonly bint is_native
    cdef public object error
    cdef readonly int64_t failures


cdef class PythonExternal(External):
    cdef readonly object filter, score, begin, follow, examine
    cdef public object node_error
