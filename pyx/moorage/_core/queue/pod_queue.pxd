from libc.stdint cimport int64_t

from moorage._core.base cimport Notice
from moorage._core.queue.backoff_queue cimport BackoffQueue
from moorage._core.queue.entrance cimport Entrance
from moorage._core.queue.in_flight cimport InFlight
from moorage._core.queue.queued_pods cimport QueuedGroupInfo, QueuedPodInfo, Waiting
from moorage._core.queue.unschedulable_pods cimport UnschedulablePods


cdef class PodQueue:
    cdef readonly dict infos, groups
    cdef public object now
    cdef public tuple fired
    cdef readonly object lock
    cdef readonly int waiting
    cdef object changed      # a condition of the lock
    cdef bint closed
    cdef object incoming     # counts of pods that enter; None for none
    cdef readonly Waiting active
    cdef readonly BackoffQueue backoff
    cdef readonly UnschedulablePods unschedulable
    cdef readonly InFlight flights
    cdef readonly object settings, hints, pod_events, nominator
    cdef object make_active, gates
    cdef Entrance entrance
    cdef dict nominated      # the nodes of nominated pods by UID
    cdef readonly bint groups_pods
    cdef bint pop_from_backoff
    cdef str added, updated  # labels of the events with which pods are new
    cdef public int64_t changes
    cdef int64_t number      # that of the last entry into a place
    cdef tuple saved         # the last result of `save`, while it is valid

    cdef int clear(self) except -1
    cdef bint has_next(self) except -1
    cdef tuple others(self)
    cdef Waiting queue_of(self, QueuedPodInfo entry)
    cdef int count(self, QueuedPodInfo entry, str label) except -1
    cpdef QueuedPodInfo entry_of(self, QueuedPodInfo info)
    cdef list pods_of(self, entries)
    cdef list gated_groups(self)
    cdef int put(self, QueuedPodInfo entry, place) except -1
    cdef int leave(self, QueuedPodInfo entry) except -1
    cdef int move(self, QueuedPodInfo entry, place, str label) except -1
    cdef int follow(self, strategy, QueuedPodInfo entry, str label) except -1
    cdef bint is_gated(self, QueuedPodInfo entry, set passing) except -1
    cdef bint stays_gated(self, QueuedGroupInfo group) except -1
    cdef int nominate_new(self, QueuedPodInfo info, str label) except -1
    cdef bint has_nominations(self, pod) except -1
    cdef int enter(self, QueuedPodInfo info, str label, dict tops, set passing) except -1
    cdef int join(self, QueuedPodInfo info, unit, str label, set passing) except -1
    cdef int add_member(self, QueuedGroupInfo group, QueuedPodInfo info) except -1
    cdef int put_anew(self, QueuedPodInfo group, place, str label) except -1
    cdef int remove(self, QueuedPodInfo info, str label) except -1
    cdef list take(self, Py_ssize_t limit)
    cdef int divide(self, QueuedGroupInfo group, deleted, str label) except -1
    cdef int give_one_back(self, QueuedPodInfo info, pod, plugins, change) except -1
    cdef int take_back(self, QueuedPodInfo info, plugins) except -1
    cdef int put_back_one(self, QueuedPodInfo info) except -1
    cdef bint take_newer(self, QueuedGroupInfo group) except -1
    cdef int end_attempt(self, QueuedGroupInfo group, bint succeeded, bint is_error) except -1
    cdef bint follow_nomination(self, Notice notice) except -1
    cdef tuple save_entries(self)
    cdef int adopt(self, list entries) except -1
    cdef int rebuild(self) except -1
