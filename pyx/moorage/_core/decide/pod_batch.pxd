from libc.stdint cimport int32_t

from moorage._core.base cimport Buffer
from moorage._core.state cimport ClusterState, Replicas


cpdef enum Route:
    """What the placement of a pod needs beyond the kernels, as bits."""
    TERMINATING = 1  # metadata.deletionTimestamp is set: counters do not count the pod
    NOMINATED = 2    # status.nominatedNodeName is set: this node is tried first
    NAMED = 4        # spec.nodeName is set
    PINNED = 8       # its node affinity names one node by matchFields
    PORTS = 16       # it has host ports
    VOLUMES = 32     # it has volumes that plugins read
    SIGNED = 64      # opportunistic batching has a signature for it
    REJECTED = 128   # PreFilter or PreScore rejects it
    EXTENDERS = 256  # an extender is interested in it
    PYTHON = 512     # plugins outside the core run for it
    WAITS = 1024     # it waits on Permit for other pods of its group
    CLAIMS = 2048    # its class has the demand of its bound claims; where it fits nowhere, plugins say why
    SHARES = 4096    # some of its volumes may be on a row already, or it has the devices of an earlier pod
    DEVICES = 8192   # its claims take devices of the node, so it is placed by itself
    SIGNATURE = 16384  # differs from that of the signed pod before it where their signatures differ
    PROFILE = 65536  # the bits from here on are the number of its profile
    # Pods that need a scheduling cycle of their own: counters omit terminating pods, a nominated node is
    # tried first, a signature may yield a hint, and PreFilter gives the text of a rejection.
    ALONE = TERMINATING | NOMINATED | SIGNED | REJECTED


cdef struct PodSpan:
    int32_t end  # the index after the last pod of the run; the run begins at the end of the one before
    # node_name, pinned: symbols of spec.nodeName and of the node that matchFields names, 0: none; route: bits
    # of Route
    int32_t pod_class, node_name, pinned, route


cdef struct SharedVolume:  # a volume of a pod that may be on a row already
    int32_t pod     # the index of the pod
    int32_t place   # the row, or ~index of an earlier pod of the batch that has the volume
    int32_t driver  # its index in the attachments of the pod's demand
    int32_t volume  # differs between the volumes of the pod


cdef int count_pods(ClusterState state, int32_t pod_class, int32_t row, int32_t n) except -1


cdef class Routes:
    cdef object of_class, of_pod
    cdef bint repeats
    cdef dict known  # bits by class, or by ~class for pods with volumes
    cdef int32_t key, bits  # key in `known` and bits of the previous pod

    cdef int32_t of(self, object pod, const PodSpan* span) except? -1


cdef class RepeatedNeeds:
    cpdef bint note(self, object pod, int32_t at) except -1


cdef class PodBatch:
    cdef ClusterState state
    cdef Routes routes
    cdef readonly object pods
    cdef object class_with_volumes
    cdef RepeatedNeeds repeated  # notes pods that get the last answer of `class_with_volumes`
    cdef int32_t repeated_of, repeated_class, takes_devices  # the class of these pods, and the answer
    cdef frozenset delegated
    cdef bint delegates  # whether pods of the last class ask for such a resource
    cdef bint reads_volumes  # whether the last pod has volumes, or asks for such a resource
    cdef bint is_cut  # whether it ends before the last of the pods
    cdef Replicas replicas  # the pods of a template; None: `pods` has them
    cdef PodSpan only  # the memory of a single run
    cdef Buffer memory  # that of several runs
    cdef PodSpan* spans
    cdef Buffer shared  # SharedVolume by pod, and one after the last pod; None: there are none
    cdef Py_ssize_t n_shared
    cdef int32_t n_spans
    cdef int32_t of_class  # the bits of the route that all pods of the last class have

    cdef int32_t until(self, int32_t mask, int32_t first, int32_t end) noexcept
    cdef int32_t until_one_of(self, dict uids, int32_t first, int32_t end) except -1
    cdef int32_t span_at(self, int32_t at) noexcept nogil
    cdef PodSpan* _span(self, int32_t at) except NULL
