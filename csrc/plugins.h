/* Row-local kernels of the in-tree plugins: each rule is written here once; scans, diagnosis and explain call it.
 * A filter answers its reason bits (0: passes), a score its raw value; what depends on the other feasible nodes
 * enters as a constant per bucket (the raw value is the bucket). */
#ifndef MOORAGE_PLUGINS_H
#define MOORAGE_PLUGINS_H

#include "rows.h"
#include "terms.h"

/* What is left of a row: allocatable less requested, and places for pods. Others by the shape's requests. */
typedef struct {
    int64_t cpu, memory;
    int64_t others[MR_MAX_OTHER_REQUESTS];
    int32_t slots;
} mr_room;
void mr_room_read(mr_room *room, const mr_cluster *cluster, const mr_shape *shape, int32_t row);

uint64_t mr_fit_filter_in(const mr_plan *plan, const mr_cluster *cluster, const mr_shape *shape, const mr_pod *pod,
                          int32_t row, const mr_room *room);
uint64_t mr_fit_filter(const mr_plan *plan, const mr_cluster *cluster, const mr_shape *shape, const mr_pod *pod,
                       int32_t row);
int mr_node_affinity_matches(const mr_cluster *cluster, const mr_shape *shape, const mr_pod *pod, int32_t row);
int64_t mr_node_affinity_score(const mr_cluster *cluster, const mr_shape *shape, const mr_pod *pod, int32_t row);
int mr_port_conflicts(const mr_cluster *cluster, const mr_shape *shape, const mr_port *used);
int mr_ports_conflict(const mr_cluster *cluster, const mr_shape *shape, int32_t row);
int64_t mr_fit_score(const mr_plan *plan, const mr_cluster *cluster, const mr_shape *shape, int32_t row);
int64_t mr_balanced_allocation(const mr_plan *plan, const mr_cluster *cluster, const mr_shape *shape, int32_t row);
int64_t mr_image_locality(const mr_cluster *cluster, const mr_shape *shape, int32_t row);

/* 1 where a kernel is among the filters. */
static inline int mr_filters(const mr_plan *plan, int32_t kernel)
{
    for (int32_t i = 0; i < plan->n_filters; i++)
        if (plan->filters[i] == kernel) return 1;
    return 0;
}

/* One filter's reason bits. */
uint64_t mr_filter(int32_t kernel, const mr_plan *plan, const mr_cluster *cluster, const mr_shape *shape,
                   const mr_pod *pod, int32_t row);

/* First rejecting filter in profile order, as a verdict; 0 when the row is feasible. Plugins that are no kernels here
 * pass. */
uint64_t mr_verdict(const mr_plan *plan, const mr_cluster *cluster, const mr_shape *shape, const mr_pod *pod,
                    int32_t row);

/* PreferNoSchedule taints that count against a pod, from mr_pod.taints. */
static inline int32_t mr_prefer_no_schedule(int16_t taints)
{
    return taints < 0 ? -1 - taints : taints;
}

/* 0 where the plugin's PreScore skips for this pod. */
int mr_scores(int32_t kernel, const mr_plan *plan, const mr_shape *shape, const mr_pod *pod);

/* Raw score of one plugin on a feasible row; the weights of soft constraints must have been derived. */
int64_t mr_score(int32_t kernel, const mr_plan *plan, const mr_cluster *cluster, const mr_shape *shape,
                 const mr_pod *pod, int32_t row);

/* 1 where the plugin has a NormalizeScore, i.e. its raw value is a bucket key. */
static inline int mr_is_normalized(int32_t kernel)
{
    return kernel == MR_TAINT_TOLERATION || kernel == MR_NODE_AFFINITY || kernel == MR_POD_TOPOLOGY_SPREAD
        || kernel == MR_INTER_POD_AFFINITY;
}

/* The constant of a bucket: the normalized score given the extreme raw values among the feasible nodes. */
static inline int64_t mr_constant(int32_t kernel, int64_t raw, int64_t min, int64_t max)
{
    switch (kernel) {
    case MR_TAINT_TOLERATION: return max == 0 ? 100 : 100 - 100 * raw / max;
    case MR_NODE_AFFINITY: return max == 0 ? raw : 100 * raw / max;
    case MR_POD_TOPOLOGY_SPREAD: return max == 0 ? 100 : 100 * (max + min - raw) / max;
    case MR_INTER_POD_AFFINITY:
        return max == min ? 0 : (int64_t)(100.0 * ((double)(raw - min) / (double)(max - min)));
    default: return raw;
    }
}

/* Raw scores to normalized ones, in place; aligned with the feasible rows. */
void mr_normalize(int32_t kernel, const mr_pod *pod, const int32_t *rows, int64_t *scores, int32_t n);

#endif
