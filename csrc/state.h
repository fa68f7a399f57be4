/* The state that kernels read: rows of the node table, compiled pod shapes, plans. No Python here. */
#ifndef MOORAGE_STATE_H
#define MOORAGE_STATE_H

#include <stdint.h>

/* Row flags. */
#define MR_PRESENT 1u       /* the node exists */
#define MR_HELD 2u          /* the row is kept without node and pods, since an NMNode or a CNR describes it */
#define MR_UNSCHEDULABLE 4u /* spec.unschedulable */
#define MR_WIDE 8u          /* a value is not in 0..2^53: `wide` holds the exact ones */
#define MR_SLOW 16u         /* the reciprocal form of LeastAllocated is not proven for this row */

/* Features that a node declares (row flags) and that a pod needs (shape flags). */
#define MR_RESTARTS_ALL_CONTAINERS 32u /* RestartAllContainersOnContainerExits */
#define MR_USERS_IN_HOST_NETWORK 64u   /* UserNamespacesHostNetworkSupport */
#define MR_FEATURES (MR_RESTARTS_ALL_CONTAINERS | MR_USERS_IN_HOST_NETWORK)

/* The fields that decisions read most, in one cache line. Millicores and bytes; exact unless MR_WIDE. */
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
    int32_t saturates; /* 1: sums stop at the bounds of 64 bits (since v1.38); 0: they wrap */
} mr_ledger;

/* A request of a resource other than cpu and memory. */
typedef struct {
    int32_t resource; /* its index among the other resources */
    int32_t reserved;
    int64_t value; /* effective request */
    int64_t need;  /* what must be free: effective request without resizes in progress */
    int64_t score; /* request that LeastAllocated and MostAllocated use for the incoming pod */
} mr_request;

/* A host port. */
typedef struct {
    int32_t ip, protocol; /* symbols */
    int32_t port;
} mr_port;

/* Operators of node selector requirements. MR_NAME_* compare metadata.name; MR_NAME_PARAMETER compares it with
 * mr_pod.pinned_name. */
enum { MR_IN, MR_NOT_IN, MR_EXISTS, MR_DOES_NOT_EXIST, MR_GT, MR_LT, MR_NAME_IN, MR_NAME_NOT_IN, MR_NAME_PARAMETER };

/* A node selector requirement. */
typedef struct {
    int32_t column; /* label column; -1 for metadata.name */
    int32_t op;
    int32_t first, count; /* range of its values (symbols) in mr_shape.values */
    int64_t number;       /* for MR_GT and MR_LT */
} mr_requirement;

/* A node selector term: the conjunction of its requirements. A term without requirements matches nothing. */
typedef struct {
    int32_t first, count; /* range in mr_shape.requirements */
    int32_t weight; /* preferred terms only */
} mr_term;

/* Shape flags. */
#define MR_SHAPE_WIDE 1u                    /* a request is not in 0..2^53 */
#define MR_SHAPE_TOLERATES_UNSCHEDULABLE 2u /* tolerates node.kubernetes.io/unschedulable:NoSchedule */
#define MR_SHAPE_REQUIRED 4u                /* has required node affinity, possibly without terms */

/* A compiled pod shape: the data of a pod that decisions depend on. Requests in millicores and bytes. */
typedef struct {
    int64_t need_cpu, need_memory;       /* what must be free: effective requests without resizes in progress */
    int64_t cpu, memory;                 /* effective requests, for Requested and BalancedAllocation */
    int64_t score_cpu, score_memory;     /* requests that LeastAllocated and MostAllocated use for the incoming pod */
    int64_t nonzero_cpu, nonzero_memory; /* what a placed pod adds to NonZeroRequested */
    const mr_request *others;
    const mr_port *ports;
    const int32_t *images;  /* image ids, with repetitions */
    const mr_requirement *requirements;
    const int32_t *values;
    const mr_term *required;
    const mr_term *preferred;
    mr_term selector; /* spec.nodeSelector */
    int32_t n_others, n_ports, n_images, n_required, n_preferred;
    int32_t image_containers; /* number of containers, by which the upper threshold of ImageLocality grows */
    int32_t priority;
    uint32_t flags;
} mr_shape;

/* Number of matching pods per domain, i.e. per value of a topology key. Domain 0 stands for nodes without the label;
 * pods[0] is the sum over all other domains. Domain 1 is the empty value. */
#define MR_EMPTY_DOMAIN 1
typedef struct {
    int32_t *pods;         /* [domain] */
    int32_t *nodes;        /* [domain] eligible nodes */
    const int32_t *domain; /* [row] */
    const uint8_t *counts; /* [row] 1 if the node is eligible */
    int32_t domains;       /* upper bound of domain numbers */
    int32_t absent;        /* domain of nodes without the label; 0: they do not count */
    int32_t min, at_min;   /* minimum of pods over domains with nodes, number of domains with it; at_min 0: unknown */
    int32_t live;          /* number of domains with nodes, valid with min */
} mr_counter;

/* The pods that a selector or a term matches: their number per row, and the counters over it. */
typedef struct {
    int32_t *pods; /* [row] */
    mr_counter *const *counters;
    int32_t n;
} mr_matched;

/* A topology spread constraint of the incoming pod. */
typedef struct {
    mr_counter *counter;
    const int32_t *row_pods; /* soft constraints over hostname: [row] matching pods on any node; else NULL */
    int32_t max_skew, min_domains;
    int32_t self;  /* 1 if the pod matches its own selector */
    int32_t min;   /* hard constraints: the global minimum, derived before a decision */
    double weight; /* soft constraints: derived from the feasible nodes */
    int32_t size;  /* number of domains that the weight was derived from, plus 1; 0: no weight yet */
} mr_constraint;

/* An inter-pod affinity term, of the incoming pod or of existing pods, that affects the incoming pod. */
typedef struct {
    mr_counter *counter;
    int64_t weight;
} mr_pod_term;

/* The constraints and terms of a decision that read counters over domains. */
typedef struct {
    mr_constraint *hard, *soft;
    const mr_pod_term *affinity, *anti, *existing, *preferred;
    int32_t n_hard, n_soft, n_affinity, n_anti, n_existing, n_preferred;
    int32_t self_affine;    /* 1: the pod matches all its own required affinity terms */
    int32_t affinity_off;   /* 1: PreFilter of InterPodAffinity returned Skip, before nominated pods were added */
    int32_t soft_needs_all; /* 1: nodes that lack a topology key of a soft constraint are not scored */
    int32_t soft_ignores;   /* 1: some feasible node lacks such a key; derived with the weights */
} mr_terms;

/* The volumes of a driver that a pod would attach to its node. */
#define MR_MAX_DRIVERS 8
typedef struct {
    int32_t *room; /* [row] number of further volumes below the node's attach limit */
    int32_t volumes, reserved;
} mr_attachment;

/* What the volumes and the claims of a pod demand of its node. */
typedef struct {
    const uint8_t *reachable; /* [row] 1 if the volumes are accessible from the node; NULL: from all nodes */
    const uint8_t *devices;   /* [row] 1 if the node has the devices of the pod's claims; NULL: they need none */
    mr_attachment attachments[MR_MAX_DRIVERS];
    int32_t n;
} mr_volume_demand;

/* The data of a decision about one pod that are not part of its shape. Names are symbols; 0 means none. */
typedef struct {
    const int16_t *taints; /* [taint set] n PreferNoSchedule taints not tolerated; -1 - n if another taint rejects */
    const uint8_t *ports;  /* [port set] 1: a host port of the pod conflicts with it; NULL: none does */
    mr_terms *terms;       /* NULL for none */
    const mr_volume_demand *volumes; /* NULL for none */
    uint64_t ignored;      /* bits of the shape's other requests that NodeResourcesFit does not check */
    uint64_t delegated;    /* bits of those that it does not check on nodes without the resource */
    int32_t node_name;   /* spec.nodeName */
    int32_t pinned_name; /* the node name that MR_NAME_PARAMETER requires */
} mr_pod;

/* The arrays that row-local kernels read. */
typedef struct {
    mr_ledger ledger;
    const int32_t *name;          /* [row] symbol */
    const int32_t *taint_set;     /* [row] */
    const int32_t *port_set;      /* [row] */
    const int32_t *const *labels; /* [column][row] symbol of the value; 0 without the label */
    const int64_t *number;        /* [symbol] its value as an integer */
    const uint8_t *is_number;     /* [symbol] */
    const mr_port *ports;         /* the ports of all port sets */
    const int32_t *port_first, *port_count; /* [port set] */
    int32_t any_ip;               /* symbol of 0.0.0.0 */
    const int32_t *images;        /* pairs (image id, number of nodes that had it when the row was last copied) */
    const int32_t *image_first, *image_count; /* [row], in int32 units */
    const int64_t *image_size;    /* [image id] bytes */
    int32_t nodes;                /* nodes in the view */
} mr_cluster;

/* Numbers of the in-tree plugins that are kernels. */
enum {
    MR_NODE_UNSCHEDULABLE, MR_NODE_NAME, MR_TAINT_TOLERATION, MR_NODE_AFFINITY, MR_NODE_PORTS,
    MR_NODE_RESOURCES_FIT, MR_BALANCED_ALLOCATION, MR_IMAGE_LOCALITY, MR_POD_TOPOLOGY_SPREAD, MR_INTER_POD_AFFINITY,
    MR_NODE_DECLARED_FEATURES,
    MR_VOLUMES /* the filters about volumes together; in no plan, and asked for pods with a demand */
};

/* A plugin that is not a kernel; its number in a plan is MR_EXTERNAL + its index. `view` is its view of the search
 * (csrc/native.h). Rows are in the order of the search. Both functions return 0; another value means that the plugin
 * failed, and ends the search. MR_FAILED: for one of the rows, before which the search looks for others; another value:
 * it does not answer as it must. */
#define MR_EXTERNAL 64
#define MR_FAILED 1
typedef struct {
    void *context;
    int (*filter)(void *context, void *view, const int32_t *rows, int32_t n, uint8_t *codes); /* status codes: 0 passes */
    int (*score)(void *context, void *view, const int32_t *rows, int32_t n, int64_t *scores); /* normalized */
} mr_external;

#define MR_MAX_PLUGINS 16
#define MR_MAX_RESOURCES 16

/* A resource with its weight in a scoring strategy: MR_CPU, MR_MEMORY or the index of another resource. */
#define MR_CPU (-1)
#define MR_MEMORY (-2)
#define MR_EPHEMERAL_STORAGE 0
typedef struct {
    int32_t resource;
    int32_t weight;
    const int64_t *devices; /* [row][2] number of the node's devices that provide it, and of those in use; or NULL */
} mr_weighted;

/* Scoring strategies of NodeResourcesFit. */
enum { MR_LEAST_ALLOCATED, MR_MOST_ALLOCATED, MR_REQUESTED_TO_CAPACITY_RATIO };

/* A point of the shape of RequestedToCapacityRatio: utilization in percent, score in 0..100. */
typedef struct {
    int32_t utilization, score;
} mr_point;

/* A compiled profile: the filter and score plugins in profile order, with their arguments. */
typedef struct {
    int32_t n_filters, filters[MR_MAX_PLUGINS];
    int32_t n_scores, scores[MR_MAX_PLUGINS];
    int64_t weights[MR_MAX_PLUGINS];
    int32_t n_fit, n_balanced;
    mr_weighted fit[MR_MAX_RESOURCES], balanced[MR_MAX_RESOURCES];
    int32_t balanced_difference; /* 1: compares the balance with and without the pod (v1.36); 0: with it (to v1.35) */
    int32_t fit_unresolvable;    /* 1: a request above allocatable is unresolvable (since v1.34) */
    int32_t exact_shares;        /* 1: shares are computed in 128 bits (since v1.38); 0: products wrap */
    int32_t fit_strategy;
    int32_t n_points;
    const mr_point *points;      /* of RequestedToCapacityRatio, by utilization */
    const mr_shape *added;       /* NodeAffinity's addedAffinity, as a shape; NULL for none */
    const mr_external *externals;
} mr_plan;

/* A verdict of the filters on a row. 0: feasible; else index of the rejecting plugin in the plan + 1 (from bit 56 on),
 * MR_UNRESOLVABLE for the code UnschedulableAndUnresolvable, and the reasons of the plugin as bits. */
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
