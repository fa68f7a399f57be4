from libc.stdint cimport int32_t, int64_t

from moorage._core.csrc cimport mr_shape
from moorage._core.base cimport Buffer, SpecMemo, Symbols


cdef class Shape:
    cdef mr_shape c
    cdef list memory
    cdef readonly int32_t id
    cdef readonly str namespace, preferred_error, terms_error
    cdef readonly tuple key, tolerations, ports, others, containers, node_affinity, spread, terms, features
    cdef readonly frozenset carried
    cdef readonly object node_names
    cdef readonly bint has_node_affinity, is_pinned, has_preferred, names_conflict
    cdef readonly int32_t priority
    cdef readonly int32_t ledger  # the resource ledger of the node table that its pods are charged to
    cdef readonly bint may_preempt  # preemptionPolicy is not Never


cdef class InternedClass:
    cdef int64_t owner  # `PodClasses.number`
    cdef int32_t pod_class


cdef class PodClasses:
    cdef object lock
    cdef int64_t number  # differs between all objects of a process, and before and after `begin_anew`
    cdef object users  # the weak set of the states that share it
    cdef readonly Symbols symbols, resources, label_keys, images
    cdef dict shape_ids, class_ids, memo, term_ids, label_sets
    cdef dict rests  # the number of the last part of `Shape.key`
    cdef dict anywhere  # the shape of a spec in the namespace where it was read last
    cdef dict around  # the shape of a spec with other resources of its only container; see `_around_requests`
    cdef dict terms_by_label  # label: the numbers of the terms of whose labels it is one, ascending
    cdef SpecMemo recent  # namespace, resizes, parts, class and shape of the last pod of a template
    cdef readonly list shapes, keys, interned, terms
    cdef readonly object gates, ledger_of
    cdef readonly int32_t lowest_priority
    cdef bint sums_may_wrap  # of requests of one resource besides cpu and memory, on a row
    cdef Buffer priorities  # of the pods of each class, int32; see `priority_of`

    cpdef int32_t intern(self, pod) except -1
    cpdef int32_t pinned_symbol(self, int32_t pod_class, pod) except -1
    cdef int32_t intern_after(self, pod, before) except -1
    cdef bint knows(self, pod) except -1
    cdef int remember(self, pod, int32_t pod_class) except -1
    cdef bint has_volumes(self, int32_t pod_class) except -1
    cpdef int32_t with_plugins(self, int32_t pod_class) except -1
    cpdef bint asks_plugins(self, int32_t pod_class) except -1
    cdef int check(self, int32_t pod_class) except -1
    cdef int begin_anew(self) except -1
    cdef Shape shape(self, int32_t pod_class)
    cdef dict labels(self, int32_t pod_class)
    cdef list terms_that_may_match(self, int32_t pod_class)

    cdef inline int32_t priority_of(self, int32_t pod_class) noexcept:
        """Return the priority of the pods of a class. Classes that other threads add can move the memory."""
        return self.priorities.int32()[pod_class]
