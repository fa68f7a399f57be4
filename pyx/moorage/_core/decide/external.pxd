from libc.stdint cimport int64_t

from moorage._core.csrc cimport mr_external


cdef class External:
    cdef mr_external c  # its functions, for the kernels
    cdef readonly str name
    cdef readonly bint is_native
    cdef object error  # of its last call, until it is raised
    cdef int64_t failures  # of all plugins, up to its own last one


cdef class PythonExternal(External):
    cdef object filter, score
    cdef readonly object begin, follow, examine
    cdef public object node_error
