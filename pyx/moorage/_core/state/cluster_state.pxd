from libc.stdint cimport int32_t, int64_t

from moorage._core.base cimport ChangeLog, Journal, Symbols
from moorage._core.state.domains cimport Domains
from moorage._core.state.images cimport ImageStates
from moorage._core.state.ledger cimport Ledger, NewPod, PodState
from moorage._core.state.node_table cimport NodeTable
from moorage._core.state.zone_tree cimport NodeTree
from moorage._core.state.pod_class cimport PodClasses
from moorage._core.state.view cimport View
from moorage._core.state.workloads cimport Namespaces, Workloads


cdef class ClusterState:
    cdef readonly object lock
    cdef readonly Symbols symbols
    cdef readonly Journal journal
    cdef readonly ChangeLog log
    cdef readonly NodeTable table
    cdef readonly NodeTree tree
    cdef readonly ImageStates images
    cdef readonly View view
    cdef readonly PodClasses classes
    cdef readonly Ledger ledger
    cdef readonly Namespaces namespaces
    cdef readonly Workloads workloads
    cdef readonly Domains domains
    # Zone key by name, for the nodes in the tree.
    cdef dict zones
    cdef object __weakref__

    cdef int _set_node(self, object node) except -1
    cdef int _place(self, object pod, int32_t pod_class, int32_t row, PodState state) except -1
    cdef int _put_in(self, object pod, const NewPod* new) except -1
    cpdef int _take_away(self, int32_t number) except -1
    cdef int _take_off(self, int32_t number, int32_t row, tuple ports) except -1
    cdef int _count_anew(self, int32_t which, int32_t row) except -1
    cdef int _settle(self, int32_t row) except -1
    cdef int _take_each(self, dict numbers, dict freed) except -1
    cpdef int _take_all(self, dict numbers, dict left) except -1
    cdef int32_t _known(self, object pod) except -2
    cpdef int _replace(self, int32_t number, object pod, int32_t pod_class, PodState state) except -1
    cdef int _enter(self, int32_t number, object pod, int32_t pod_class, PodState state) except -1
    cdef bint _is_confirmed_by(self, int32_t number, object pod) except -1
    cdef int _confirm(self, int32_t number, object pod) except -1
    cdef int _leave(self, int32_t number) except -1
    cdef bint _can_run_out_by(self, int32_t number) except -1
    cdef int _release_if_empty(self, int32_t row) except -1

    cdef inline str _node_of(self, int32_t number):
        """Return the name of the node of a pod, by the number of the pod in the ledger."""
        return self.symbols.names[self.table.name_column()[self.ledger.row_of(number)]]
