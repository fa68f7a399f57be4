from moorage._core.state cimport ClusterState


cdef class BoundPods:
    cdef list held, nodes


cdef BoundPods pods_with_numbers(ClusterState state, list numbers)
