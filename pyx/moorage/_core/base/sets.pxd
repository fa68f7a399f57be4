from libc.stdint cimport int16_t, int32_t

from moorage._core.base.buffers cimport Buffer, Journal
from moorage._core.csrc cimport mr_port
from moorage._core.base.symbols cimport Symbols


cdef class TaintSets:
    cdef object lock
    cdef dict ids
    cdef readonly list sets
    cdef dict verdicts

    cpdef int32_t intern(self, tuple taints) except -1
    cdef Buffer verdicts_of(self, tuple tolerations)


cdef class PortSets:
    cdef object lock
    cdef Symbols symbols
    cdef dict ids, moves, conflicts
    cdef readonly list sets
    cdef Buffer ports, first, count
    cdef int32_t used
    cdef readonly int32_t any_ip

    cpdef int32_t intern(self, frozenset ports) except -1
    cdef int _make(self, frozenset ports) except -1
    cdef Buffer conflicts_of(self, tuple ports, const mr_port* wanted)
    cdef bint holds(self, int32_t set_id, tuple ports) except -1
    cdef int32_t moved(self, int32_t set_id, tuple ports, bint adding) except -1
    cdef int32_t without(self, int32_t set_id, set ports) except -1
