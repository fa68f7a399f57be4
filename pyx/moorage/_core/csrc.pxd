"""The headers of csrc/, as Cython sees them, and what the compiler has for bits.

A module that calls many of the kernels cimports all names.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from *:
    int ctz "__builtin_ctzll"(uint64_t word) noexcept nogil
    int popcount "__builtin_popcountll"(uint64_t word) noexcept nogil


cdef extern from "state.h" nogil:
    const uint32_t MR_PRESENT, MR_HELD, MR_UNSCHEDULABLE
    const uint32_t MR_RESTARTS_ALL_CONTAINERS, MR_USERS_IN_HOST_NETWORK, MR_FEATURES
    const int MR_FIELDS, MR_CPU, MR_MEMORY
    const int MR_MAX_PLUGINS, MR_MAX_RESOURCES, MR_MAX_OTHER_REQUESTS
    const int MR_MAX_DRIVERS
    const int MR_VERDICT_SHIFT
    const uint64_t MR_UNRESOLVABLE, MR_REASONS
    const uint32_t MR_SHAPE_WIDE, MR_SHAPE_TOLERATES_UNSCHEDULABLE, MR_SHAPE_REQUIRED
    enum:
        MR_IN, MR_NOT_IN, MR_EXISTS, MR_DOES_NOT_EXIST, MR_GT, MR_LT
        MR_NAME_IN, MR_NAME_NOT_IN, MR_NAME_PARAMETER
    enum:
        MR_NODE_UNSCHEDULABLE, MR_NODE_NAME, MR_TAINT_TOLERATION, MR_NODE_AFFINITY, MR_NODE_PORTS
        MR_NODE_RESOURCES_FIT, MR_BALANCED_ALLOCATION, MR_IMAGE_LOCALITY, MR_POD_TOPOLOGY_SPREAD
        MR_INTER_POD_AFFINITY, MR_NODE_DECLARED_FEATURES
    enum:
        MR_LEAST_ALLOCATED, MR_MOST_ALLOCATED, MR_REQUESTED_TO_CAPACITY_RATIO
    const int MR_EXTERNAL, MR_EMPTY_DOMAIN

    ctypedef struct mr_row:
        double alloc_cpu, alloc_memory, req_cpu, req_memory, nonzero_cpu, nonzero_memory
        int32_t balanced, pods, pods_max
        uint32_t flags

    ctypedef struct mr_ledger:
        mr_row* rows
        int64_t* wide
        int64_t** others
        int32_t saturates

    ctypedef struct mr_request:
        int32_t resource
        int64_t value, need, score

    ctypedef struct mr_port:
        int32_t ip, protocol, port

    ctypedef struct mr_requirement:
        int32_t column, op, first, count
        int64_t number

    ctypedef struct mr_term:
        int32_t first, count, weight

    ctypedef struct mr_shape:
        int64_t need_cpu, need_memory, cpu, memory, score_cpu, score_memory, nonzero_cpu, nonzero_memory
        const mr_request* others
        const mr_port* ports
        const int32_t* images
        const mr_requirement* requirements
        const int32_t* values
        const mr_term* required
        const mr_term* preferred
        mr_term selector
        int32_t n_others, n_ports, n_images, n_required, n_preferred, image_containers, priority
        uint32_t flags

    ctypedef struct mr_counter:
        int32_t* pods
        int32_t* nodes
        const int32_t* domain
        const uint8_t* counts
        int32_t domains, absent, at_min

    ctypedef struct mr_matched:
        int32_t* pods
        mr_counter** counters
        int32_t n

    ctypedef struct mr_constraint:
        mr_counter* counter
        const int32_t* row_pods
        int32_t max_skew, min_domains, self
        double weight

    ctypedef struct mr_pod_term:
        mr_counter* counter
        int64_t weight

    ctypedef struct mr_terms:
        mr_constraint* hard
        mr_constraint* soft
        const mr_pod_term* affinity
        const mr_pod_term* anti
        const mr_pod_term* existing
        const mr_pod_term* preferred
        int32_t n_hard, n_soft, n_affinity, n_anti, n_existing, n_preferred
        int32_t self_affine, affinity_off, soft_needs_all

    ctypedef struct mr_attachment:
        int32_t* room
        int32_t volumes

    ctypedef struct mr_volume_demand:
        const uint8_t* reachable
        const uint8_t* devices
        mr_attachment* attachments
        int32_t n

    ctypedef struct mr_pod:
        const int16_t* taints
        const uint8_t* ports
        mr_terms* terms
        const mr_volume_demand* volumes
        uint64_t ignored, delegated
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
        const int64_t* devices

    ctypedef struct mr_external:
        void* context
        int (*filter)(void* context, void* view, const int32_t* rows, int32_t n, uint8_t* codes) noexcept
        int (*score)(void* context, void* view, const int32_t* rows, int32_t n, int64_t* scores) noexcept

    ctypedef struct mr_point:
        int32_t utilization, score

    ctypedef struct mr_plan:
        int32_t n_filters
        int32_t* filters
        int32_t n_scores
        int32_t* scores
        int64_t* weights
        int32_t n_fit, n_balanced
        mr_weighted* fit
        mr_weighted* balanced
        int32_t balanced_difference, fit_unresolvable, exact_shares, fit_strategy, n_points
        const mr_point* points
        const mr_shape* added
        const mr_external* externals


cdef extern from "rows.h" nogil:
    int64_t mr_row_value(const mr_ledger* ledger, int32_t row, int field)
    void mr_row_set(mr_ledger* ledger, int32_t row, const int64_t* values)
    bint mr_row_is_saturated(const mr_ledger* ledger, int32_t row, int32_t n_others)
    void mr_row_clear(mr_ledger* ledger, int32_t row, int32_t n_others)
    void mr_row_add_pod(mr_ledger* ledger, int32_t row, const mr_shape* shape, int32_t sign)


cdef extern from "terms.h" nogil:
    int32_t mr_domain_of(const mr_counter* counter, int32_t row)
    void mr_counter_add(mr_counter* counter, int32_t row, int32_t pods, int32_t nodes)
    void mr_matched_add(const mr_matched* matched, int32_t row, int32_t sign)
    void mr_terms_prepare(mr_terms* terms)
    int mr_inter_pod_scores(const mr_terms* terms)
    int mr_inter_pod_skips(const mr_terms* terms)
    int32_t mr_matchers(const mr_terms* terms)


cdef extern from "plugins.h" nogil:
    int mr_ports_conflict(const mr_port* wanted, int32_t n_wanted, const mr_port* used, int32_t n_used,
                          int32_t any_ip)
    int mr_node_affinity_matches(const mr_cluster* cluster, const mr_shape* shape, const mr_pod* pod,
                                 int32_t row)
    uint64_t mr_verdict(const mr_plan* plan, const mr_cluster* cluster, const mr_shape* shape,
                        const mr_pod* pod, int32_t row)
    int32_t mr_prefer_no_schedule(int16_t taints)
    int mr_lacks_room(const mr_attachment* attachment, int32_t row)
    int mr_volumes_fit(const mr_volume_demand* demand, int32_t row)
    void mr_volumes_attach(const mr_volume_demand* demand, int32_t row)
    int mr_filters(const mr_plan* plan, int32_t kernel)
    int mr_scores(int32_t kernel, const mr_plan* plan, const mr_shape* shape, const mr_pod* pod)
    void mr_normalize(int32_t kernel, const mr_pod* pod, const int32_t* rows, int64_t* scores, int32_t n)
    int mr_is_normalized(int32_t kernel)


cdef extern from "scan.h" nogil:
    ctypedef struct mr_columns:
        int32_t* fixed
        int32_t* free_milli
        uint8_t* slow
        int32_t n_fixed, n_slow

    ctypedef struct mr_found:
        int32_t* positions
        int64_t* totals
        int32_t* rows
        int64_t* scores
        uint8_t* seen
        int32_t* lanes
        int32_t feasible, evaluated
        int64_t parallel

    ctypedef struct mr_search:
        const mr_plan* plan
        const mr_cluster* cluster
        const mr_shape* shape
        const mr_columns* columns
        const int8_t* fixed_ok
        const uint64_t* static_ok
        int32_t taints_alike, scarce
        const int32_t* order
        int32_t n, has_images
        const uint64_t* nominated
        void** views
        int32_t threads, parallel_from
        mr_pod pod

    ctypedef struct mr_local:
        pass

    const int MR_BLOCK, MR_LANES, MR_CODE_UNSCHEDULABLE, MR_CODE_UNRESOLVABLE
    const int32_t MR_NO_SLOT
    void mr_local_read(mr_local* local, const mr_search* search)
    int mr_status_by_columns(const mr_search* search, const mr_local* local)
    void mr_status_block(const mr_search* search, const mr_local* local, int32_t first, int32_t n,
                         uint8_t* codes)
    void mr_columns_set(mr_columns* columns, int32_t position, const mr_ledger* ledger,
                        const int32_t* taint_set, int32_t row)
    int mr_asks_for_statics(const mr_search* search)
    void mr_static_lanes(const mr_search* search, uint64_t* ok)
    void mr_static_lanes_of(const mr_search* search, const int32_t* holders, int32_t n,
                            const int32_t* position, uint64_t* ok)
    int mr_is_fused(const mr_search* search)
    const int MR_CALL
    int mr_verdicts(const mr_search* search, uint64_t asked, const int32_t* rows, int32_t n,
                    uint64_t* verdicts)
    void mr_score_rows(const mr_search* search, int32_t kernel, const int32_t* rows, int32_t n, int64_t* raw,
                       uint8_t* seen)
    ctypedef struct mr_decision:
        int32_t position, looked_at, feasible

    const int32_t MR_UNDECIDED
    int mr_has_external_filters(const mr_plan* plan)
    int mr_scan_suits(const mr_search* search)
    const int MR_PLAIN
    int mr_search_find(const mr_search* search, int32_t start, int32_t wanted, mr_found* found)
    int mr_search_score(const mr_search* search, mr_found* found)
    int mr_search_run(const mr_search* search, int32_t start, int32_t wanted, mr_found* found)
    int32_t mr_pick_first(const int64_t* totals, int32_t n)
    int32_t mr_pick_heap(const int64_t* totals, int32_t n)
    int32_t mr_pick_random(const int64_t* totals, int32_t n, uint64_t* state)


cdef extern from "candidates.h" nogil:
    const int MR_UNMADE, MR_VALID, MR_MORE_BUCKETS

    ctypedef struct mr_bucket_key:
        int32_t size

    ctypedef struct mr_candidates:
        mr_search search
        mr_bucket_key key
        int16_t* supers
        int32_t stride, n, state
        int64_t cursor

    ctypedef struct mr_changes:
        const uint8_t* kind
        const int32_t* id
        int64_t mask, head
        const int32_t* position
        int32_t rows

    int mr_candidates_suit(const mr_search* search)
    void mr_candidates_point(mr_candidates* candidates, const mr_search* search)
    size_t mr_candidates_layout(mr_candidates* candidates, char* memory, int32_t stride)
    int mr_candidates_build(mr_candidates* candidates, const mr_changes* changes, int32_t* lanes,
                            uint8_t* seen)
    int mr_scan_decide(mr_candidates* room, const mr_local* local, int32_t start, int32_t wanted, int heap,
                       mr_decision* decision)
    void mr_candidates_refresh(mr_candidates* candidates, int32_t position)
    void mr_candidates_follow(mr_candidates* candidates, const mr_changes* changes)
    void mr_candidates_decide(mr_candidates* candidates, int32_t start, int32_t wanted, int heap,
                              uint8_t* seen, mr_decision* decision)


cdef extern from "verdict_histogram.h" nogil:
    ctypedef struct mr_verdict_histogram:
        uint64_t* verdicts
        uint64_t* values
        int32_t* counts
        int32_t used, n, state
        int64_t cursor

    void mr_verdict_histogram_build(mr_verdict_histogram* histogram, const mr_search* search,
                                    const mr_changes* changes)
    void mr_verdict_histogram_follow(mr_verdict_histogram* histogram, const mr_search* search,
                                     const mr_changes* changes)


cdef extern from "preemption.h" nogil:
    const int64_t MR_NOT_STARTED
    const int32_t MR_ANY_CUT
    const uint64_t MR_NO_VICTIMS
    const int MR_NOBODY

    ctypedef struct mr_pod_entry:
        int64_t start
        int32_t pod_class, number, priority, members

    ctypedef struct mr_pod_span:
        int32_t first, count, room, read, cut

    ctypedef struct mr_member:
        int64_t start
        int32_t row, pod_class, number

    ctypedef struct mr_unit:
        const mr_member* members
        int64_t start
        int32_t count, priority

    ctypedef struct mr_class_usage:
        int64_t cpu, memory
        const mr_shape* shape
        int32_t priority

    ctypedef struct mr_budgets:
        const int32_t* of_class
        const int32_t* of_pod
        const int32_t* first
        const int32_t* count
        const int32_t* members
        const int32_t* only
        const int32_t* allowed
        int32_t* taken
        int32_t stops

    ctypedef struct mr_preemptor:
        const mr_search* search
        const mr_class_usage* usages
        const mr_budgets* budgets
        const mr_unit* units
        const uint64_t* matches
        const int32_t* nominated
        int32_t n_nominated, words, settled, adds_up, has_groups, explains
        int32_t* removed
        int32_t* removed_with
        uint64_t* victims
        uint64_t* violating
        int32_t* costs

    ctypedef struct mr_eviction:
        uint64_t verdict
        int32_t violations, victims, first

    ctypedef struct mr_outcomes:
        uint8_t* codes
        mr_eviction* results
        uint64_t* potential
        uint64_t* known
        uint64_t* helps
        uint64_t* clean
        int8_t* winners
        int32_t n, potentials, feasible

    ctypedef struct mr_walk:
        int32_t first, word, best

    int32_t mr_unit_of(const mr_pod_entry* entry)
    void mr_preemptor_read(mr_preemptor* preemptor)
    void mr_dry_run(const mr_preemptor* preemptor, int32_t row, const mr_pod_entry* pods, int32_t n,
                    mr_eviction* out)
    void mr_sort_as_upstream(mr_pod_entry* pods, int32_t n)
    int32_t mr_sort_for(int32_t priority, mr_pod_entry* pods, int32_t n, mr_pod_entry* scratch)
    bint mr_is_sorted_for(int32_t priority, const mr_pod_entry* pods, const mr_pod_span* span)
    void mr_outcomes_begin(mr_outcomes* outcomes)
    void mr_outcomes_set_code(mr_outcomes* outcomes, int32_t position, uint8_t code)
    void mr_outcomes_forget(mr_outcomes* outcomes)
    void mr_outcomes_note(mr_outcomes* outcomes, int32_t position, const mr_eviction* result)
    void mr_outcomes_try(mr_outcomes* outcomes, const mr_preemptor* preemptor, const mr_pod_span* spans,
                         const mr_pod_entry* entries, int32_t word, uint64_t bits)
    void mr_walk_begin(mr_walk* walk, const mr_outcomes* outcomes, int64_t offset, int32_t percentage,
                       int32_t least)
    uint64_t mr_walk_on(mr_walk* walk, const mr_outcomes* outcomes)


cdef extern from "gpu_share.h" nogil:
    const int MR_GPUS, MR_GPU_WHOLE, MR_NO_GPU

    enum: MR_FRAGMENT_CLASSES

    ctypedef struct mr_gpu_node:
        int64_t cpu
        int32_t* free
        int32_t n, kinds
        uint64_t model

    ctypedef struct mr_gpu_demand:
        int64_t cpu
        int32_t milli, count
        uint64_t models

    ctypedef struct mr_gpu_shape:
        mr_gpu_demand demand
        double share

    int mr_gpu_fits(const mr_gpu_node* node, const mr_gpu_demand* demand)
    uint32_t mr_gpu_choose(const mr_gpu_node* node, const mr_gpu_demand* demand, int rule, uint64_t draw)
    void mr_gpu_fragment_classes(const mr_gpu_node* node, const mr_gpu_shape* shapes, int32_t n, double* sums)
    double mr_gpu_fragmentation(const mr_gpu_node* node, const mr_gpu_shape* shapes, int32_t n)
    int32_t mr_gpu_gradient(const mr_gpu_node* node, double before, const mr_gpu_demand* demand,
                            const mr_gpu_shape* shapes, int32_t n, int32_t* gpu)
    int32_t mr_gpu_packing(const mr_gpu_node* node, const mr_gpu_demand* demand)
    int32_t mr_gpu_clustering(const mr_gpu_node* node, const mr_gpu_demand* demand, int64_t most)
