from libc.stdint cimport int32_t, int64_t

from moorage._core.base cimport Buffer, Journal
from moorage._core.csrc cimport mr_cluster, mr_counter, mr_matched
from moorage._core.state.ledger cimport Ledger
from moorage._core.state.node_table cimport NodeTable
from moorage._core.state.pod_class cimport PodClasses, Shape
from moorage._core.state.view cimport View


cdef class TopologyKey:
    cdef str label
    cdef int32_t column, last, last_value
    cdef dict ids
    cdef Buffer domain


cdef class Eligibility:
    cdef tuple tolerations
    cdef Shape shape
    cdef int32_t pinned
    cdef Py_ssize_t n_columns
    cdef Buffer columns, counts


cdef class Counter:
    cdef mr_counter c
    cdef TopologyKey topology
    cdef Eligibility eligibility
    cdef Matched matched
    cdef Buffer pods, nodes


cdef class Matched:
    cdef mr_matched c
    cdef tuple key, attributes
    cdef object matches
    cdef bint all_pods
    cdef list counters
    cdef Buffer pods, pointers


cdef class Domains:
    cdef View view
    cdef NodeTable table
    cdef PodClasses classes
    cdef Ledger ledger
    cdef Journal journal
    cdef mr_cluster cluster
    cdef bint is_pointed  # whether all pointers are current, for `rows` rows
    cdef int64_t undone
    cdef Py_ssize_t rows
    cdef dict topologies, eligibilities, matched, counters, spare
    cdef dict latest  # counters by what they have besides the pods: the newest of each
    cdef dict classes_of, matched_of  # by attribute, see `attributes`
    cdef list by_class
    cdef Py_ssize_t n_classes, nbytes
    cdef int64_t cursor  # the sequence number up to which the change log has been read
    cdef int64_t epoch  # grows when counters are dropped
    cdef public Py_ssize_t limit

    cdef int refresh(self) except -1
    cdef bint exceeds_limit(self) noexcept
    cdef int clear(self) except -1
    cdef int point(self) except -1
    cdef int make_room(self, int32_t pod_class) except -1
    cdef int pod_moved(self, int32_t pod_class, bint terminating, int32_t row, int32_t sign) except -1
    cdef list matched_by(self, int32_t pod_class)
    cdef list attributes(self, int32_t pod_class)
    cdef TopologyKey topology(self, str label)
    cdef Eligibility eligibility(self, tuple labels, Shape shape, int32_t pinned, object tolerations)
    cdef Matched matching(self, tuple matcher, bint all_pods)
    cdef Counter counter(self, Matched matched, TopologyKey topology, Eligibility eligibility, bint absent)
