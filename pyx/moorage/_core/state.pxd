from libc.stdint cimport int32_t, int64_t

from moorage._core.buffers cimport Journal
from moorage._core.change_log cimport ChangeLog
from moorage._core.images cimport ImageStates
from moorage._core.ledger cimport Ledger, PodState
from moorage._core.node_table cimport NodeTable
from moorage._core.node_tree cimport NodeTree
from moorage._core.pod_class cimport PodClasses
from moorage._core.symbols cimport Symbols
from moorage._core.view cimport View


cdef class ClusterState:
    cdef readonly Symbols symbols
    cdef readonly Journal journal
    cdef readonly ChangeLog log
    cdef readonly NodeTable table
    cdef readonly NodeTree tree
    cdef readonly ImageStates images
    cdef readonly View view
    cdef readonly PodClasses classes
    cdef readonly Ledger ledger
    cdef dict zones

    cdef int _place(self, str uid, object pod, int32_t pod_class, int32_t row, PodState state) except -1
    cdef int _take_away(self, int32_t number) except -1
    cdef int32_t _known(self, object pod) except -2
    cdef int32_t _row_for(self, object pod) except -1
    cdef int _release_if_empty(self, int32_t row) except -1
