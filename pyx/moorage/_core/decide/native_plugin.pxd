from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from moorage._core.base cimport Buffer
from moorage._core.csrc cimport mr_cluster
from moorage._core.decide.external cimport External
from moorage._core.state cimport ClusterState


cdef extern from "native.h" nogil:
    const uint32_t MOORAGE_ABI_MAJOR
    const int MOORAGE_ERROR_SIZE
    const size_t MR_NATIVE_FIRST_SIZE

    ctypedef struct moorage_row:
        pass

    ctypedef struct moorage_argument:
        const char* text
        double number
        int32_t is_number

    ctypedef struct moorage_context:
        uint32_t struct_size
        int32_t nodes
        void* state
        const moorage_row* rows
        const int64_t* wide
        const int64_t** resources
        const int32_t** labels
        const int32_t* values
        const int32_t* names
        const char** texts
        const int64_t* numbers
        const uint8_t* are_numbers
        char* error
        const moorage_argument* arguments

    ctypedef struct moorage_container:
        int64_t cpu_request, cpu_limit, memory_request, memory_limit

    ctypedef struct moorage_class:
        uint32_t struct_size
        int32_t name_space
        int64_t cpu, memory, nonzero_cpu, nonzero_memory
        const int64_t* requests
        const int32_t* labels
        const moorage_container* containers
        int32_t n_containers

    struct moorage_plugin:
        uint32_t abi_major, struct_size
        const char* name
        void* filter
        void* score
        void* normalize
        void (*add_pod)(const moorage_context* context, const moorage_class* pod,
                        const moorage_class* other, int32_t row) noexcept nogil
        void (*remove_pod)(const moorage_context* context, const moorage_class* pod,
                           const moorage_class* other, int32_t row) noexcept nogil
        void (*destroy)(void* state) noexcept nogil
        void* state
        const char* reason
        int32_t weight
        const char** resources
        const char** labels
        const char** values
        const char** arguments

    ctypedef struct mr_native_view:
        moorage_context context
        moorage_class pod
        int32_t failure, row
        int64_t value
        char* error

    int mr_native_filter(void* plugin, void* view, const int32_t* rows, int32_t n, uint8_t* codes) noexcept
    int mr_native_score(void* plugin, void* view, const int32_t* rows, int32_t n, int64_t* scores) noexcept
    int mr_native_raw(void* plugin, void* view, const int32_t* rows, int32_t n, int64_t* scores) noexcept
    int mr_native_normalize(void* plugin, void* view, const int32_t* rows, int32_t n,
                            int64_t* scores) noexcept


cdef class NativeExternal(External):
    cdef moorage_plugin table  # a copy of the plugin's struct
    cdef readonly str reason
    cdef tuple resources  # that it reads, except cpu, memory and pods
    cdef tuple labels  # the keys that it reads
    cdef tuple values  # the texts that it compares label values with
    cdef Buffer arguments  # moorage_argument of each argument that it declares
    cdef list texts  # of the arguments
    cdef object keep, explain
    cdef bint is_loaded  # the struct is valid, so `destroy` is called in the end


cdef class NativeView:
    cdef mr_native_view c
    cdef moorage_class other
    cdef NativeExternal plugin
    cdef ClusterState state
    cdef list resource_ids, label_columns
    cdef Buffer resources, labels, values, requests, pod_labels, other_requests, other_labels
    cdef Buffer containers, other_containers
    cdef int32_t pod_class  # of `c.pod`; -1: not set yet
    cdef int64_t generation  # of `pod_class`
    cdef object held        # references to the memory of symbols that `c` points to

    cdef int set_pod(self, int32_t pod_class) except -1
    cdef int bind_cluster(self, const mr_cluster* cluster) except -1
    cdef int set_other_pod(self, int32_t pod_class) except -1
    cdef int notify_pod_change(self, int32_t row, bint adds) except -1
    cdef tuple scores(self, const int32_t[::1] rows)
    cdef object take_failure(self)
