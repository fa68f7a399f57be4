from cpython cimport array

from moorage._core.provision.label_requirements cimport Key, LabelRequirement, RequirementSet


cdef class Ties:
    cdef object seed
    cdef public Py_ssize_t attempt
    cdef public object turn, ways
    cdef object left, choices

    cdef first(self, mask, Key key, str topology_key)


cdef class Host:
    cdef readonly str name
    cdef readonly tuple taints
    cdef readonly RequirementSet requirements, host
    cdef readonly bint undefined
    cdef readonly Py_ssize_t place

    cpdef Host having(self, RequirementSet requirements)
    cpdef str refusal(self, RequirementSet other)


cdef class TopologyCounts:
    cdef readonly object group
    cdef Key key
    cdef str topology_key
    cdef bint on_hosts
    cdef readonly object known
    cdef object occupied
    cdef object node_filter
    cdef Py_ssize_t max_skew, min_domains, since, pods  # all of them, in all domains
    cdef int kind
    cdef array.array counts
    cdef list hosts

    cpdef int record(self, mask) except -1
    cdef int record_at(self, Py_ssize_t place) except -1
    cdef Py_ssize_t count(self, Py_ssize_t place) noexcept
    cdef bint takes(self, Py_ssize_t place, bint selects) noexcept
    cdef Py_ssize_t least(self, bint selects) noexcept
    cdef Py_ssize_t most(self, bint selects) noexcept
    cdef bint takes_host(self, Host host, LabelRequirement pods, bint selects) except -1
    cdef open_domains(self, LabelRequirement pods, bint selects)
    cdef domains(self, LabelRequirement pods, LabelRequirement nodes, bint selects, Ties ties)
    cdef Py_ssize_t minimum(self, LabelRequirement pods) except -1
    cdef LabelRequirement of_nodes(self, RequirementSet requirements)


cdef class ConstraintGroups:
    cdef list own, away
    cdef object topology, constraints
    cdef RequirementSet strict, requirements
    cdef dict owned, inverse
    cdef Py_ssize_t owned_before, inverse_before
    cdef list groups, selecting, counting

    cdef int look(self) except -1
    cdef narrow(self, Host host, RequirementSet before, Ties ties)
