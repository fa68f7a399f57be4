from moorage._core.state.cluster_state cimport ClusterState

cdef str uid_of(object pod)


cdef class Undo:
    cdef readonly Py_ssize_t depth
    cdef readonly list actions

    cdef int on_undo(self, action) except -1
    cpdef put(self, dict table, key, value)
    cpdef drop(self, dict table, key)


cdef class BinderStore:
    cdef readonly ClusterState state
    cdef readonly object handler
    cdef readonly Undo undo
