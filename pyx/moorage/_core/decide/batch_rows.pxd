from libc.stdint cimport int32_t

from moorage._core.decide.pod_batch cimport PodBatch
from moorage._core.state cimport ClusterState


cdef class Placements:
    cdef Py_ssize_t n
    cdef int32_t* data  # [pod] row or -1; points to `own` until `rows` is read, then to the array
    cdef int32_t* own
    cdef int32_t* symbols  # [pod] symbol of the node's name; NULL before `note_names`
    cdef object array
    cdef ClusterState state
    cdef readonly PodBatch batch
    cdef readonly dict failures

    cdef int _check(self, Py_ssize_t first, Py_ssize_t end) except -1
    cdef list _which(self, Py_ssize_t first, Py_ssize_t end, bint have_node)
    cpdef int resize(self, Py_ssize_t n) except -1
    cpdef int note_names(self) except -1


cdef class Sink:
    cpdef int enter(self, PodBatch batch, Placements out, int32_t first, int32_t end) except -1
