"""The C kernels, as Cython sees them."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t


cdef extern from "state.h" nogil:
    const uint32_t MR_PRESENT, MR_UNSCHEDULABLE, MR_WIDE, MR_SLOW
    const int MR_FIELDS, MR_CPU, MR_MEMORY, MR_EPHEMERAL_STORAGE
    const int MR_MAX_PLUGINS, MR_MAX_RESOURCES, MR_MAX_OTHER_REQUESTS
    const int MR_VERDICT_SHIFT
    const uint64_t MR_UNRESOLVABLE, MR_REASONS
    const uint64_t MR_TOO_MANY_PODS, MR_INSUFFICIENT_CPU, MR_INSUFFICIENT_MEMORY
    const uint32_t MR_SHAPE_WIDE, MR_SHAPE_TOLERATES_UNSCHEDULABLE, MR_SHAPE_REQUIRED, MR_SHAPE_BEST_EFFORT
    enum:
        MR_IN, MR_NOT_IN, MR_EXISTS, MR_DOES_NOT_EXIST, MR_GT, MR_LT
        MR_NAME_IN, MR_NAME_NOT_IN, MR_NAME_PARAMETER
    enum:
        MR_NODE_UNSCHEDULABLE, MR_NODE_NAME, MR_TAINT_TOLERATION, MR_NODE_AFFINITY, MR_NODE_PORTS
        MR_NODE_RESOURCES_FIT, MR_BALANCED_ALLOCATION, MR_IMAGE_LOCALITY, MR_KERNELS

    ctypedef struct mr_row:
        double alloc_cpu, alloc_memory, req_cpu, req_memory, nonzero_cpu, nonzero_memory
        int32_t balanced, pods, pods_max
        uint32_t flags

    ctypedef struct mr_ledger:
        mr_row* rows
        int64_t* wide
        int64_t** others

    ctypedef struct mr_request:
        int32_t resource
        int64_t value

    ctypedef struct mr_port:
        int32_t ip, protocol, port

    ctypedef struct mr_requirement:
        int32_t column, op, first, count
        int64_t number

    ctypedef struct mr_term:
        int32_t first, count, weight

    ctypedef struct mr_shape:
        int64_t cpu, memory, score_cpu, score_memory, nonzero_cpu, nonzero_memory
        const mr_request* others
        const mr_port* ports
        const int32_t* images
        const mr_requirement* requirements
        const int32_t* values
        const mr_term* required
        const mr_term* preferred
        mr_term selector
        int32_t n_others, n_ports, n_images, n_required, n_preferred, image_containers
        uint32_t flags

    ctypedef struct mr_pod:
        const int16_t* taints
        int32_t node_name, pinned_name

    ctypedef struct mr_cluster:
        mr_ledger ledger
        const int32_t* name
        const int32_t* taint_set
        const int32_t* port_set
        const int32_t** labels
        const int64_t* number
        const uint8_t* is_number
        const mr_port* ports
        const int32_t* port_first
        const int32_t* port_count
        int32_t any_ip
        const int32_t* images
        const int32_t* image_first
        const int32_t* image_count
        const int64_t* image_size
        int32_t nodes

    ctypedef struct mr_weighted:
        int32_t resource, weight

    ctypedef struct mr_plan:
        int32_t n_filters
        int32_t* filters
        int32_t n_scores
        int32_t* scores
        int64_t* weights
        int32_t n_fit, n_balanced
        mr_weighted* fit
        mr_weighted* balanced
        int32_t balanced_difference, fit_unresolvable


cdef extern from "rows.h" nogil:
    int64_t mr_row_value(const mr_ledger* ledger, int32_t row, int field)
    int64_t mr_other_allocatable(const mr_ledger* ledger, int32_t row, int32_t resource)
    int64_t mr_other_requested(const mr_ledger* ledger, int32_t row, int32_t resource)
    void mr_row_set(mr_ledger* ledger, int32_t row, const int64_t* values)
    void mr_row_add_pod(mr_ledger* ledger, int32_t row, const mr_shape* shape, int32_t sign)


cdef extern from "plugins.h" nogil:
    uint64_t mr_verdict(const mr_plan* plan, const mr_cluster* cluster, const mr_shape* shape,
                        const mr_pod* pod, int32_t row)
    int64_t mr_score(int32_t kernel, const mr_plan* plan, const mr_cluster* cluster, const mr_shape* shape,
                     const mr_pod* pod, int32_t row)
    int mr_is_normalized(int32_t kernel)
    int64_t mr_constant(int32_t kernel, int64_t raw, int64_t max)


cdef extern from "scan.h" nogil:
    ctypedef struct mr_columns:
        double* alloc_cpu
        double* alloc_memory
        double* free_cpu
        double* free_memory
        double* used_cpu
        double* used_memory
        double* nonzero_free_cpu
        double* nonzero_free_memory
        double* per_cpu
        double* per_memory
        int32_t* balanced
        int32_t* slots
        int32_t* fixed
        uint8_t* slow
        int32_t n_fixed, n_slow

    ctypedef struct mr_found:
        int32_t* positions
        int64_t* totals
        int32_t feasible, evaluated

    ctypedef struct mr_search:
        const mr_plan* plan
        const mr_cluster* cluster
        const mr_shape* shape
        const mr_columns* columns
        const int8_t* fixed_ok
        const int32_t* order
        int32_t n, has_images
        mr_pod pod

    void mr_columns_set(mr_columns* columns, int32_t position, const mr_ledger* ledger,
                        const int32_t* taint_set, int32_t row)
    int mr_is_fused(const mr_search* search)
    void mr_search_run(const mr_search* search, int32_t start, int32_t wanted, mr_found* found)
    int32_t mr_pick_first(const int64_t* totals, int32_t n)
    int32_t mr_pick_heap(const int64_t* totals, int32_t n)
    int32_t mr_pick_random(const int64_t* totals, int32_t n, uint64_t* state)
