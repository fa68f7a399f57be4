/* The state that kernels read: rows of the node table, compiled pod shapes, plans. No Python here. */
#ifndef MOORAGE_STATE_H
#define MOORAGE_STATE_H

#include <stdint.h>

/* Row flags. */
#define MR_PRESENT 1u       /* the node exists */
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
    int64_t value;
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
#define MR_SHAPE_BEST_EFFORT 8u             /* requests neither cpu nor memory */

/* A pod shape, compiled. Requests in millicores and bytes. */
typedef struct {
    int64_t cpu, memory;                 /* effective requests: filter, Requested, BalancedAllocation */
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
    uint32_t flags;
} mr_shape;

/* What a decision about one pod knows beyond its shape. Symbols of node names; 0 is none. */
typedef struct {
    const int16_t *taints; /* [taint set]: -1 a taint rejects the shape, else PreferNoSchedule taints not tolerated */
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
    MR_NODE_RESOURCES_FIT, MR_BALANCED_ALLOCATION, MR_IMAGE_LOCALITY, MR_KERNELS
};

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

/* A profile, compiled: kernels in profile order. */
typedef struct {
    int32_t n_filters, filters[MR_MAX_PLUGINS];
    int32_t n_scores, scores[MR_MAX_PLUGINS];
    int64_t weights[MR_MAX_PLUGINS];
    int32_t n_fit, n_balanced;
    mr_weighted fit[MR_MAX_RESOURCES], balanced[MR_MAX_RESOURCES];
    int32_t balanced_difference; /* 1: with and without the pod (1.36); 0: with it (up to 1.35) */
    int32_t fit_unresolvable;    /* 1: a request above allocatable is unresolvable (since 1.34) */
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

#endif
