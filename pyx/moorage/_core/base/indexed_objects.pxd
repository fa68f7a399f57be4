cimport cython

from moorage._core.base.watch_events cimport ObjectMap


@cython.final
cdef class Mark:
    cdef list changes
    cdef Mark later
    cdef object __weakref__


@cython.final
cdef class UndoLog:
    cdef object newest

    cdef list changes(self)
    cdef list take(self, Mark mark)


@cython.final
cdef class OrderedMap:
    cdef dict held
    # Number of each key in the order of the additions; None until a removal may be undone.
    cdef dict numbers
    cdef long long next
    cdef bint is_sorted
    cdef object owner

    cdef OrderedMap copy(self, object owner)
    cdef int set(self, key, value, list changes, str index, str group) except -1
    cdef int drop(self, key, list changes, str index, str group) except -1
    cdef int restore(self, key, before, long long number) except -1
    cdef dict in_order(self)


@cython.final
cdef class Index:
    cdef str name
    cdef object function
    cdef bint is_lasting
    cdef bint is_read
    cdef OrderedMap groups
    cdef list pending  # (key, old, new)


@cython.final
cdef class IndexedObjects:
    cdef ObjectMap objects
    cdef OrderedMap order
    cdef dict indexes
    cdef UndoLog log
    cdef object owner

    cdef Index built(self, str name)
    cdef dict _keys(self, str name, value)
    cdef OrderedMap group(self, Index index, str value)
    cdef int _enter(self, Index index, key, old, new, list changes) except -1
    cdef int _change(self, Index index, key, old, new, list changes) except -1
    cdef int _settle(self, Index index) except -1
    cdef int _undo(self, tuple change) except -1


@cython.final
cdef class Reader:
    cdef object find
    cdef IndexedObjects contents
    cdef dict assumed

    cdef object read(self, key)
