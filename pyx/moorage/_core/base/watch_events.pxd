cimport cython
from libc.stdint cimport int64_t


cpdef enum Cause:
    """What a store was asked to do, as far as the change follows from that alone."""
    OTHER = 0      # the change may be any
    BOUND = 1      # a pod without a node got one, and the condition PodScheduled
    EVICTED = 2    # a pod got the condition DisruptionTarget, and was then deleted: two events
    NOMINATED = 3  # status.nominatedNodeName and conditions of a pod were set
    CONDITION = 4  # a condition was set


@cython.final
cdef class WatchEvent:
    cdef readonly str type
    cdef readonly Cause cause
    cdef object _object, _old, _make, _argument
    cdef str _key, _version  # without a version its number counts
    cdef int64_t _number

    cdef object read(self)
    cdef object before(self)
    cdef object held(self)
    cdef str name(self)


@cython.final
cdef class Notice:
    cdef object _old, _new
    cdef readonly bint is_initial
    cdef readonly Cause cause


@cython.final
cdef class ObjectMap:
    cdef dict held

    cdef object find(self, key)
    cdef tuple _victim(self, object pod, object condition)


cdef object made(object held)
cdef str _key_of(object held)
cdef object _identity(object held)
cdef bint _is_same(object held, object other) noexcept
cdef object _uid(object held)
cdef Notice _notice(object old, object new, Cause cause)
