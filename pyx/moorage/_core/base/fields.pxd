cimport cython
from libc.stdint cimport int32_t
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF


cdef enum:
    MOST_SLOTS = 64


@cython.final
cdef class Field:
    cdef str name
    cdef object kind
    cdef Py_ssize_t offset

    cdef object _resolve(self, object holder)

    cdef inline object of(self, object holder):
        """Return the attribute of `holder`, which may be of any type."""
        cdef PyObject* value
        if type(holder) is self.kind:
            value = (<PyObject**>(<char*><PyObject*>holder + self.offset))[0]
            if value != NULL:
                return <object>value
        return self._resolve(holder)

    cdef int _put_first(self, object holder, object value) except -1

    cdef inline int put(self, object holder, object value) except -1:
        """Set the attribute of a new struct, which nobody else has."""
        cdef PyObject** slot
        cdef PyObject* before
        if type(holder) is not self.kind:
            return self._put_first(holder, value)
        slot = <PyObject**>(<char*><PyObject*>holder + self.offset)
        before = slot[0]
        Py_INCREF(value)
        slot[0] = <PyObject*>value
        Py_XDECREF(before)
        return 0


cdef Field METADATA, NAME, NAMESPACE, UID, DELETION_TIMESTAMP, ANNOTATIONS, SPEC, NODE_NAME, STATUS
cdef Field RESOURCES, CONTAINER_STATUSES, INIT_CONTAINER_STATUSES, VOLUMES


@cython.final
cdef class Fields:
    cdef list fields
    cdef object kind
    cdef tuple excluded
    cdef int32_t n_slots  # of the fields, which all are slots; -1: some are not
    cdef Py_ssize_t[MOST_SLOTS] offsets

    cdef int _read_offsets(self, object holder) except -1
    cdef int _read_type(self, object holder) except -1
    cdef size_t hash(self, object holder) except? 0
    cdef bint are_same(self, object holder, object other) except -1


@cython.final
cdef class SpecMemo:
    cdef dict entries  # hash of the fields of a spec: the spec and its value
    cdef list hashes  # of the entries, a ring
    cdef Py_ssize_t oldest  # the index in `hashes` of the entry that was stored first
    cdef tuple latest  # the entry that was found last
    cdef Fields spec_fields, volume_fields

    cpdef object get(self, object spec)
    cpdef int put(self, object spec, object value) except -1


@cython.final
cdef class SpecRule:
    cdef object rule
    cdef SpecMemo valid


@cython.final
cdef class FieldRules:
    cdef list rules  # of _FieldRule


cdef str key_of(object obj)
cpdef tuple group_of(object pod)
