from libc.stdint cimport int32_t, int64_t, uint8_t

from moorage._core.csrc cimport mr_constraint, mr_pod_term, mr_terms, mr_volume_demand
from moorage._core.state cimport ClusterState, Counter, Domains, Matched, Shape
from moorage._core.decide.plan cimport Plan


cdef struct Versions:  # of the inputs of terms
    int64_t namespaces, workloads, terms, domains


cdef class Terms:
    cdef mr_terms c
    cdef ClusterState state
    cdef Shape shape
    cdef int32_t pod_class, pinned
    cdef Py_ssize_t possible  # number of all terms that may select the pod
    cdef dict labels
    # memory: of the arrays of `c`; held: the Counter objects that `c` points to; of_hosts: tuples (index,
    # Matched) of soft constraints over the label of the host name
    cdef list memory, held, of_hosts
    cdef Versions versions
    # The matchers of hard constraints and filtering terms (see NO_PODS), in the order of `mr_matchers`.
    cdef list predicates
    cdef dict of_hard   # Counter of a hard constraint: whether its selector is empty
    cdef readonly str spread_error, spread_score_error
    cdef readonly dict answers

    cdef bint is_empty(self) noexcept
    cdef Py_ssize_t nbytes(self) except -1
    cdef bint is_current(self) except -1
    cdef int fill(self) except -1
    cdef int32_t domains(self) noexcept


cdef class NodeDevices:
    cdef uint8_t* fits
    cdef int32_t rows  # that `fits` has
    # Whether `fits` decides. Else plugins have to schedule the pods: a search for devices fails with an
    # error, or nodes have different scores.
    cdef bint is_decisive

    cdef int refresh(self) except -1
    cdef int take(self, int32_t pod, int32_t row) except -1
    cdef bint decides(self, int32_t pod) except -1


cdef class VolumeDemand:
    cdef mr_volume_demand c
    cdef readonly NodeDevices devices
    cdef readonly int32_t rows
    cdef object held  # the arrays that `c` points to
