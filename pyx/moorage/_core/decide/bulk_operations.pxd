from moorage._core.state cimport ClusterState


cdef void prefetch_pod(ClusterState state, object pods, Py_ssize_t at, bint is_whole) noexcept
