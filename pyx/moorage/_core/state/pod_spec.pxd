cpdef bint uses_volumes(object pod) except -1
