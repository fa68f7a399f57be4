from libc.stdint cimport int64_t

from moorage._core.queue.queued_pods cimport QueuedPodInfo, Waiting
from moorage._core.state cimport PodClasses


cpdef object microseconds(double seconds)
cdef double waits_since(QueuedPodInfo info) except? -1


cdef class RejectedPods:
    cdef object rejection
    cdef readonly dict pods, by_class
    cdef dict indexes


cdef class UnschedulablePods(Waiting):
    cdef PodClasses classes
    cdef int64_t generation  # of the classes in `places`
    cdef readonly dict by_rejection
    cdef dict places  # UID: rejection and class
    cdef RejectedPods last  # the one that received a pod last, or None

    cdef object class_of(self, object pod)
    cdef int classify(self, QueuedPodInfo info, RejectedPods rejected) except -1
    cdef int classify_anew(self) except -1
    cdef RejectedPods declassify(self, str uid)
    cdef int replace(self, QueuedPodInfo info, pod) except -1
    cdef list select(self)
    cdef list older_than(self, end)
    cdef list times(self, bint gated)
