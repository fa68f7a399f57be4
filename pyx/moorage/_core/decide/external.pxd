from libc.stdint cimport int32_t

from moorage._core.base.buffers cimport Buffer
from moorage._core.csrc cimport mr_cluster, mr_external
from moorage._core.state.cluster_state cimport ClusterState


cdef class ExternalView:
    cdef void* data

    cdef int set_pod(self, int32_t pod_class) except -1
    cdef int bind_cluster(self, const mr_cluster* cluster) except -1
    cdef int set_other_pod(self, int32_t pod_class) except -1
    cdef int notify_pod_change(self, int32_t row, bint adds) except -1
    cdef tuple scores(self, const int32_t[::1] rows)
    cdef object take_failure(self)


cdef class External:
    cdef mr_external c
    cdef readonly str name
    cdef readonly bint is_native
    cdef public object error

    cdef ExternalView view(self, ClusterState state)


cdef class Views:
    cdef Buffer pointers
    cdef list views, names

    cdef int set_pod(self, int32_t pod_class) except -1
    cdef int bind_cluster(self, const mr_cluster* cluster) except -1
    cdef bint set_other_pod(self, int32_t pod_class, int32_t other) except -1
    cdef int notify_pod_change(self, int32_t row, bint adds) except -1
    cdef tuple scores(self, str plugin, const int32_t[::1] rows)


cdef class PythonExternal(External):
    cdef readonly object filter, score
