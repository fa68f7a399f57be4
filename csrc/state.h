/* The state that kernels read: rows of the node table, compiled pod shapes, plans. No Python here. */
#ifndef MOORAGE_STATE_H
#define MOORAGE_STATE_H

#include <stdint.h>

/* Row flags. */
#define MR_PRESENT 1u       /* the node exists */
#define MR_HELD 2u          /* the row stays without node and pods: other objects describe it */
#define MR_UNSCHEDULABLE 4u /* spec.unschedulable */
#define MR_WIDE 8u          /* a value is beyond 2^53: `wide` holds the exact ones */
#define MR_SLOW 16u         /* the reciprocal form of LeastAllocated is not proven for this row */

/* What decisions touch most, in one cache line. Millicores and bytes; exact unless MR_WIDE. */
typedef struct {
    double alloc_cpu, alloc_memory;
    double req_cpu, req_memory;
    double nonzero_cpu, nonzero_memory;
    int32_t balanced; /* BalancedAllocation over cpu and memory before any further pod */
    int32_t pods, pods_max;
    uint32_t flags;
} mr_row;
_Static_assert(sizeof(mr_row) == 64, "a row is one cache line");

#define MR_FIELDS 6 /* the doubles of mr_row, in order; the columns of `wide` */

/* One resource ledger of the node table. */
typedef struct {
    mr_row *rows;
    int64_t *wide;    /* [row][MR_FIELDS], valid where MR_WIDE */
    int64_t **others; /* [resource][row][2]: allocatable, requested of the other resources */
} mr_ledger;

typedef struct {
    int32_t resource; /* among the other resources */
    int32_t reserved;
    int64_t value; /* effective request */
    int64_t need;  /* what must be free */
    int64_t score; /* what Least- and MostAllocated add for the incoming pod */
} mr_request;

typedef struct {
    int32_t ip, protocol; /* symbols */
    int32_t port;
} mr_port;

/* Requirement operators of a node selector; MR_NAME_* look at metadata.name, MR_NAME_PARAMETER at the pod's own. */
enum { MR_IN, MR_NOT_IN, MR_EXISTS, MR_DOES_NOT_EXIST, MR_GT, MR_LT, MR_NAME_IN, MR_NAME_NOT_IN, MR_NAME_PARAMETER };

typedef struct {
    int32_t column; /* label column; -1 for names */
    int32_t op;
    int32_t first, count; /* its values (symbols) in mr_shape.values */
    int64_t number;       /* for MR_GT and MR_LT */
} mr_requirement;

/* Requirements ANDed; a term without any matches nothing. */
typedef struct {
    int32_t first, count;
    int32_t weight; /* preferred terms only */
} mr_term;

/* Shape flags. */
#define MR_SHAPE_WIDE 1u                    /* a request is beyond 2^53 */
#define MR_SHAPE_TOLERATES_UNSCHEDULABLE 2u /* tolerates node.kubernetes.io/unschedulable:NoSchedule */
#define MR_SHAPE_REQUIRED 4u                /* has required node affinity (which may have no terms) */

/* A pod shape, compiled. Requests in millicores and bytes. */
typedef struct {
    int64_t need_cpu, need_memory;       /* what must be free: effective requests without resizes in progress */
    int64_t cpu, memory;                 /* effective requests: Requested, BalancedAllocation */
    int64_t score_cpu, score_memory;     /* what Least- and MostAllocated add for the incoming pod */
    int64_t nonzero_cpu, nonzero_memory; /* what a placed pod adds to NonZeroRequested */
    const mr_request *others;
    const mr_port *ports;
    const int32_t *images;  /* image ids, one per mention */
    const mr_requirement *requirements;
    const int32_t *values;
    const mr_term *required;
    const mr_term *preferred;
    mr_term selector; /* spec.nodeSelector */
    int32_t n_others, n_ports, n_images, n_required, n_preferred;
    int32_t image_containers; /* containers that share the upper threshold of ImageLocality */
    int32_t priority;
    uint32_t flags;
} mr_shape;

/* Matching pods per domain, that is per value of one topology key. Domain 0 stands for the nodes without the label;
 * its place in `pods` holds the sum over all others. Domain 1 is the empty value. */
#define MR_EMPTY_DOMAIN 1
typedef struct {
    int32_t *pods;         /* [domain] */
    int32_t *nodes;        /* [domain] nodes that count */
    const int32_t *domain; /* [row] */
    const uint8_t *counts; /* [row] 1 where the node counts */
    int32_t domains;       /* all are below this */
    int32_t absent;        /* the domain in which nodes without the label count; 0 for none */
    int32_t min, at_min;   /* the least pods of any domain that has nodes, and how many have so few; at_min 0: unknown */
    int32_t live;          /* domains that have nodes, as min is known */
} mr_counter;

/* Pods that match one matcher: per row, and in the counters over them. */
typedef struct {
    int32_t *pods; /* [row] */
    mr_counter *const *counters;
    const uint8_t *listed; /* [row] 1 where pods that come or leave count; NULL: everywhere */
    int32_t n;
} mr_matched;

/* A topology spread constraint of the pod at hand. */
typedef struct {
    mr_counter *counter;
    const int32_t *row_pods; /* soft constraints over hosts: [row] matching pods, whatever counts; else NULL */
    int32_t max_skew, min_domains;
    int32_t self;  /* 1 where the pod matches its own selector */
    int32_t min;   /* of hard ones, derived before a decision: the global minimum */
    double weight; /* of soft ones, derived from the feasible nodes */
    int32_t size;  /* 1 more than the domains that the weight stands for; 0: no weight yet */
} mr_constraint;

/* An inter-pod affinity term that concerns the pod at hand: its own, or one of the pods there. */
typedef struct {
    const mr_counter *counter;
    int64_t weight;
} mr_pod_term;

/* What counters over domains are read for: constraints and terms of the pod at hand. */
typedef struct {
    mr_constraint *hard, *soft;
    const mr_pod_term *affinity, *anti, *existing, *preferred;
    int32_t n_hard, n_soft, n_affinity, n_anti, n_existing, n_preferred;
    int32_t self_affine;    /* the pod matches all its own required affinity terms */
    int32_t affinity_off;   /* InterPodAffinity's PreFilter skipped, before nominated pods came to a node */
    int32_t soft_needs_all; /* nodes that lack a key of a soft constraint are not scored */
    int32_t soft_ignores;   /* 1 where some feasible node is one of those; derived with the weights */
} mr_terms;

/* What a decision about one pod knows beyond its shape. Symbols of node names; 0 is none. */
typedef struct {
    const int16_t *taints; /* [taint set] PreferNoSchedule taints not tolerated, as -1 - n where a taint rejects */
    mr_terms *terms;       /* NULL for none */
    uint64_t ignored;      /* of the shape's other requests, those that NodeResourcesFit does not check, as bits */
    int32_t node_name;   /* spec.nodeName */
    int32_t pinned_name; /* the value of MR_NAME_PARAMETER */
} mr_pod;

/* Everything a row-local kernel may read. */
typedef struct {
    mr_ledger ledger;
    const int32_t *name;          /* [row] symbol */
    const int32_t *taint_set;     /* [row] */
    const int32_t *port_set;      /* [row] */
    const int32_t *const *labels; /* [column][row] symbol of the value, 0 where the key is absent */
    const int64_t *number;        /* [symbol] its value as an integer */
    const uint8_t *is_number;     /* [symbol] */
    const mr_port *ports;         /* of all port sets */
    const int32_t *port_first, *port_count; /* [port set] */
    int32_t any_ip;               /* symbol of 0.0.0.0 */
    const int32_t *images;        /* pairs (image id, nodes that had it when the row was last seen) */
    const int32_t *image_first, *image_count; /* [row], in int32 units */
    const int64_t *image_size;    /* [image id] bytes */
    int32_t nodes;                /* nodes in the view */
} mr_cluster;

/* Native plugins; the value is the kernel's number. */
enum {
    MR_NODE_UNSCHEDULABLE, MR_NODE_NAME, MR_TAINT_TOLERATION, MR_NODE_AFFINITY, MR_NODE_PORTS,
    MR_NODE_RESOURCES_FIT, MR_BALANCED_ALLOCATION, MR_IMAGE_LOCALITY, MR_POD_TOPOLOGY_SPREAD, MR_INTER_POD_AFFINITY,
    MR_KERNELS
};

/* A plugin that is not one of these kernels; its number in a plan is MR_EXTERNAL + its index. `view` is what the search
 * shows to it (csrc/native.h). Rows come in the order of the search. Both answer 0, or another value where the plugin
 * failed, which ends the search. */
#define MR_EXTERNAL 64
typedef struct {
    void *context;
    int (*filter)(void *context, void *view, const int32_t *rows, int32_t n, uint8_t *codes); /* status codes: 0 passes */
    int (*score)(void *context, void *view, const int32_t *rows, int32_t n, int64_t *scores); /* normalized */
} mr_external;

#define MR_MAX_PLUGINS 16
#define MR_MAX_RESOURCES 16

/* A resource that a scoring strategy weighs: -1 cpu, -2 memory, else one of the other resources. */
#define MR_CPU (-1)
#define MR_MEMORY (-2)
#define MR_EPHEMERAL_STORAGE 0
typedef struct {
    int32_t resource;
    int32_t weight;
} mr_weighted;

/* Scoring strategies of NodeResourcesFit. */
enum { MR_LEAST_ALLOCATED, MR_MOST_ALLOCATED, MR_REQUESTED_TO_CAPACITY_RATIO };

/* A point of RequestedToCapacityRatio's function: percent in use, score in 0..100. */
typedef struct {
    int32_t utilization, score;
} mr_point;

/* A profile, compiled: kernels in profile order. */
typedef struct {
    int32_t n_filters, filters[MR_MAX_PLUGINS];
    int32_t n_scores, scores[MR_MAX_PLUGINS];
    int64_t weights[MR_MAX_PLUGINS];
    int32_t n_fit, n_balanced;
    mr_weighted fit[MR_MAX_RESOURCES], balanced[MR_MAX_RESOURCES];
    int32_t balanced_difference; /* 1: with and without the pod (1.36); 0: with it (up to 1.35) */
    int32_t fit_unresolvable;    /* 1: a request above allocatable is unresolvable (since 1.34) */
    int32_t fit_strategy;
    int32_t n_points;
    const mr_point *points;      /* of RequestedToCapacityRatio, by utilization */
    const mr_shape *added;       /* NodeAffinity's addedAffinity, as a shape; NULL for none */
    const mr_external *externals;
} mr_plan;

/* A verdict: 0 feasible; else plugin index + 1, the code bit, and the plugin's reasons as bits. */
#define MR_VERDICT_SHIFT 56
#define MR_UNRESOLVABLE (1ull << 55)
#define MR_REASONS (MR_UNRESOLVABLE - 1)
/* Reason bits of NodeResourcesFit; the rest follow the shape's other requests. */
#define MR_TOO_MANY_PODS 1ull
#define MR_INSUFFICIENT_CPU 2ull
#define MR_INSUFFICIENT_MEMORY 4ull
#define MR_INSUFFICIENT_OTHER(i) (8ull << (i))
#define MR_MAX_OTHER_REQUESTS 48
/* Reason bits of the plugins that have several. */
#define MR_AFFINITY_OF_POD 1ull
#define MR_AFFINITY_ADDED 2ull
#define MR_SPREAD_SKEW 1ull
#define MR_SPREAD_MISSING_LABEL 2ull
#define MR_POD_AFFINITY_RULES 1ull
#define MR_POD_ANTI_AFFINITY_RULES 2ull
#define MR_EXISTING_ANTI_AFFINITY_RULES 4ull

#endif
