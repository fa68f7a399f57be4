cimport cython
from libc.stdint cimport int32_t, int64_t

from moorage._core.base cimport Buffer, IntLists, Journal, StringIndex


@cython.final
cdef class Replicas:
    cdef object template
    cdef str base
    cdef readonly str prefix
    cdef int32_t count
    cdef readonly int32_t id, first

    cdef str uid(self, int32_t ordinal)
    cdef str key(self, int32_t ordinal)
    cdef object make(self, int32_t ordinal)


@cython.final
cdef class Templates:
    cdef Journal journal
    cdef list entries, free
    cdef dict by_prefix, strays
    cdef IntLists members
    cdef Buffer living

    cdef Templates clone(self, Journal journal)
    cdef int32_t find(self, str uid) except -2
    cdef int find_range(self, Replicas wanted, StringIndex index, int32_t* out) except -1
    cdef int note_stray(self, str uid) except -1
    cdef int reserve(self, Py_ssize_t pods) except -1
    cdef Replicas prepare(self, object template, int64_t first, int64_t count, StringIndex index)
    cdef int enter(self, Replicas replicas) except -1
    cdef int leave(self, int32_t id, int32_t ordinal) except -1

    cdef inline Replicas entry(self, int32_t id):
        """Return the replicas with an id."""
        return self.entries[id]

    cdef inline int32_t* numbers(self, int32_t id) noexcept:
        """Return the numbers of the pods in ordinal order; -1 for a pod that has left."""
        return self.members.items(id)


cdef Replicas replicas_of(object template, int64_t first, int64_t count, int32_t id=?)
cdef tuple split_uid(str uid)
