from moorage._core.state cimport ClusterState

cdef str uid_of(object pod)


cdef class BinderStore:
    cdef readonly ClusterState state
    cdef readonly object handler
