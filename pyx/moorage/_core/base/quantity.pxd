from libc.stdint cimport int64_t


cdef class Quantity:
    cdef object _unscaled
    cdef int _scale, _format
    cdef bint _fast
    cdef str _text

    cpdef object value(self)
    cpdef object milli_value(self)
    cpdef int sign(self) except -2
    cdef object scaled(self, int scale)
    cpdef object amount(self, int scale, bint saturates)
    cpdef object nanos(self)


cdef Quantity compared(Quantity q, Quantity other)
cpdef Quantity parse(object raw)
cpdef int64_t parse_value(object raw) except? -1
cpdef int64_t parse_milli(object raw) except? -1
cdef object parse_int64(str text)
