cdef str invalid(str path, object value, str detail)
cdef str key_detail(str key)
cdef str syntax_error(str key, str op, tuple values)
