cimport cython
from libc.stdint cimport int64_t


@cython.final
cdef class WatchEvent:
    cdef readonly str type
    cdef bint is_binding
    cdef object _object, _previous, _make, _argument
    cdef str _key, _version  # without a version its number counts
    cdef int64_t _number

    cdef object read(self)
    cdef object before(self)
    cdef object subject(self)
    cdef object nearly(self)
    cdef object kept(self)
    cdef str name(self)


@cython.final
cdef class Notice:
    cdef object _old, _new
    cdef readonly bint is_initial


@cython.final
cdef class ObjectMap:
    cdef dict held

    cdef object find(self, key)
    cdef tuple _victim(self, object pod, object condition)
    cdef int _evict(self, str key, object held, bint changes, object condition, object make, object remove,
                    int64_t version, list events) except -1


cdef object made(object held)
cdef str _key_of(object held)
cdef object _likeness(object held)
cdef object _uid(object held)
cdef Notice _notice(object old, object new)
