cimport cython


@cython.final
cdef class Bracket:
    cdef object lock, work, __weakref__
    cdef bint holds

    cdef int _end(self, bint failed) except -1
