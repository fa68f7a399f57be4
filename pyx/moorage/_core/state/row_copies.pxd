from libc.stdint cimport int32_t, int64_t

from moorage._core.base.buffers cimport Buffer
from moorage._core.state.node_table cimport NodeTable
from moorage._core.state.cluster_state cimport ClusterState
from moorage._core.state.view cimport View

cdef struct Pair:
    char* to
    const char* origin
    Py_ssize_t size


cdef class RowCopies:
    cdef readonly object lock
    cdef readonly ClusterState source
    cdef readonly NodeTable table
    cdef readonly View view
    cdef readonly int64_t cursor
    cdef list pods
    cdef Buffer pairs, sizes
    cdef int64_t epoch
    cdef int32_t n_pairs, rows
    cdef int64_t moves

    cdef int _prepare(self) except -1
    cdef int _copy(self, int32_t row) except -1
    cdef int _check_row(self, int32_t row) except -1
