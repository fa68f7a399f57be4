from libc.stdint cimport int32_t

from moorage._core.buffers cimport Journal
from moorage._core.change_log cimport ChangeLog
from moorage._core.images cimport ImageStates
from moorage._core.ledger cimport Ledger, PodState
from moorage._core.node_table cimport NodeTable
from moorage._core.node_tree cimport NodeTree
from moorage._core.pod_class cimport PodClasses, Shape
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

    cdef int make_room_for_run(self, Shape shape, Py_ssize_t pods) except -1
    cdef int _make_room_for_node(self, int32_t symbol, object node, object images) except -1
    cdef int _make_room_for_pod(self, int32_t leaving, Shape coming, int32_t row) except -1
    cdef int _replace(self, int32_t leaving, object pod, int32_t pod_class, PodState state) except -1
    cdef int _place(self, str uid, object pod, int32_t pod_class, int32_t row, PodState state) except -1
    cdef int _take_away(self, int32_t number) except -1
    cdef int32_t _known(self, object pod) except -2
