from moorage._core.state cimport ClusterState


cdef class BoundPods:
    cdef readonly list held, nodes


cdef BoundPods pods_with_numbers(ClusterState state, list numbers)
