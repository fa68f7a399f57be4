from libc.stdint cimport int32_t

from moorage._core.base cimport Buffer
from moorage._core.state cimport ClusterState, Replicas


cpdef enum Route:
    """What the placement of a pod needs beyond the kernels, as bits."""
    TERMINATING = 1  # it is being deleted, which counters leave out
    NOMINATED = 2    # its nominated node is tried first
    NAMED = 4        # spec.nodeName is set
    PINNED = 8       # its affinity names one node
    PORTS = 16       # it has host ports
    VOLUMES = 32     # plugins read its volumes
    SIGNED = 64      # opportunistic batching knows it by its signature
    REJECTED = 128   # PreFilter or PreScore objects to it
    EXTENDERS = 256  # an extender is interested in it
    PYTHON = 512     # plugins outside the core have a say
    WAITS = 1024     # it waits on Permit for others of its group
    PROFILE = 65536  # the number of its profile is in the bits from here on
    # A cycle of its own decides: counters leave terminating pods out, a nominated node is tried first, a
    # signature may bring a hint, and a rejection is PreFilter's to word.
    ALONE = TERMINATING | NOMINATED | SIGNED | REJECTED


cdef struct PodSpan:
    int32_t end  # of the run; the run before ends where this one begins
    int32_t pod_class, node_name, pinned, route


cdef class Routes:
    cdef object of_class, of_pod
    cdef dict known  # class, or ~class with volumes, to bits
    cdef int32_t key, bits  # of the pod before

    cdef int32_t of(self, object pod, const PodSpan* span) except? -1


cdef class PodBatch:
    cdef ClusterState state
    cdef Routes routes
    cdef readonly object pods
    cdef Replicas replicas  # of a template
    cdef PodSpan only  # the run of a batch that has no other
    cdef Buffer memory
    cdef PodSpan* spans
    cdef int32_t n_spans
    cdef int32_t of_class

    cdef int32_t until(self, int32_t mask, int32_t first, int32_t end) noexcept
    cdef int32_t until_one_of(self, dict uids, int32_t first, int32_t end) except -1
    cdef int32_t span_at(self, int32_t at) noexcept nogil
    cdef PodSpan* _span(self, int32_t at) except NULL


cdef class Placements:
    cdef Py_ssize_t n
    cdef int32_t* data  # `own` until somebody asks for the array, then the array's
    cdef int32_t* own
    cdef int32_t* symbols
    cdef object array
    cdef readonly ClusterState state
    cdef readonly PodBatch batch
    cdef readonly dict failures

    cpdef int resize(self, Py_ssize_t n) except -1
    cpdef int note_names(self) except -1


cdef class Sink:
    cpdef int enter(self, PodBatch batch, Placements out, int32_t first, int32_t end) except -1
