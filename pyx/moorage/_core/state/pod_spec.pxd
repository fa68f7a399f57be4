cpdef tuple resized(object pod)
cpdef bint uses_volumes(object pod) except -1
cpdef bint is_only_bound(object pod, object reported) except -1
