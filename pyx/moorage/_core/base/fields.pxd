cimport cython
from cpython.object cimport PyObject


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


cdef Field METADATA, UID, DELETION_TIMESTAMP, SPEC, NODE_NAME, NAMESPACE, ANNOTATIONS, STATUS
cdef Field RESOURCES, ALLOCATED_RESOURCES, CONTAINER_STATUSES, INIT_CONTAINER_STATUSES
