/* Row-local kernels of the in-tree plugins. Each rule is implemented once; scans, diagnosis and explain call it.
 * A filter returns its reason bits (0: passes), a score its raw value. Normalization, which depends on the other
 * feasible nodes, is a function of the raw value. */
#ifndef MOORAGE_PLUGINS_H
#define MOORAGE_PLUGINS_H

#include "rows.h"
#include "terms.h"

/* The free resources of a row: allocatable less requested. */
typedef struct {
    int64_t cpu, memory;                   /* millicores, bytes */
    int64_t others[MR_MAX_OTHER_REQUESTS]; /* aligned with mr_shape.others */
    int32_t slots;                         /* number of further pods */
} mr_room;
void mr_room_read(mr_room *room, const mr_cluster *cluster, const mr_shape *shape, int32_t row);

uint64_t mr_fit_filter_in(const mr_plan *plan, const mr_cluster *cluster, const mr_shape *shape, const mr_pod *pod,
                          int32_t row, const mr_room *room);
uint64_t mr_fit_filter(const mr_plan *plan, const mr_cluster *cluster, const mr_shape *shape, const mr_pod *pod,
                       int32_t row);
int mr_node_affinity_matches(const mr_cluster *cluster, const mr_shape *shape, const mr_pod *pod, int32_t row);
int64_t mr_node_affinity_score(const mr_cluster *cluster, const mr_shape *shape, const mr_pod *pod, int32_t row);
int mr_ports_conflict(const mr_port *wanted, int32_t n_wanted, const mr_port *used, int32_t n_used, int32_t any_ip);
int64_t mr_fit_score(const mr_plan *plan, const mr_cluster *cluster, const mr_shape *shape, int32_t row);
int64_t mr_balanced_allocation(const mr_plan *plan, const mr_cluster *cluster, const mr_shape *shape, int32_t row);
int64_t mr_image_locality(const mr_cluster *cluster, const mr_shape *shape, int32_t row);

/* 1 if a kernel is one of the filters. */
static inline int mr_filters(const mr_plan *plan, int32_t kernel)
{
    for (int32_t i = 0; i < plan->n_filters; i++)
        if (plan->filters[i] == kernel) return 1;
    return 0;
}

/* The reason bits of one filter. */
uint64_t mr_filter(int32_t kernel, const mr_plan *plan, const mr_cluster *cluster, const mr_shape *shape,
                   const mr_pod *pod, int32_t row);

/* The verdict of the first filter, in profile order, that rejects a row; 0 if the row is feasible. Plugins that are not
 * kernels are skipped. For pods with a demand of volumes it comes last. */
uint64_t mr_verdict(const mr_plan *plan, const mr_cluster *cluster, const mr_shape *shape, const mr_pod *pod,
                    int32_t row);

/* 1 if no host port of the pod conflicts with one in use on the row. */
static inline int mr_ports_fit(const mr_cluster *cluster, const mr_pod *pod, int32_t row)
{
    return !pod->ports || !pod->ports[cluster->port_set[row]];
}

/* Number of PreferNoSchedule taints that are not tolerated, from a value of mr_pod.taints. */
static inline int32_t mr_prefer_no_schedule(int16_t taints)
{
    return taints < 0 ? -1 - taints : taints;
}

/* 0 if PreScore of the plugin returns Skip for the pod. */
int mr_scores(int32_t kernel, const mr_plan *plan, const mr_shape *shape, const mr_pod *pod);

/* 1 if the volumes of a driver exceed the attach limit of a node where none of them is. */
static inline int mr_lacks_room(const mr_attachment *attachment, int32_t row)
{
    return attachment->room[row] < attachment->volumes;
}

/* 1 if a node meets the demand of a pod, none of whose volumes is there. */
static inline int mr_volumes_fit(const mr_volume_demand *demand, int32_t row)
{
    int fits = (!demand->reachable || demand->reachable[row]) && (!demand->devices || demand->devices[row]);
    for (int32_t i = 0; i < demand->n; i++) fits &= !mr_lacks_room(&demand->attachments[i], row);
    return fits;
}

/* Counts the volumes of a pod that is added to a row. */
static inline void mr_volumes_attach(const mr_volume_demand *demand, int32_t row)
{
    for (int32_t i = 0; i < demand->n; i++) demand->attachments[i].room[row] -= demand->attachments[i].volumes;
}

/* Raw score of one plugin on a feasible row; the weights of soft constraints must have been derived. */
int64_t mr_score(int32_t kernel, const mr_plan *plan, const mr_cluster *cluster, const mr_shape *shape,
                 const mr_pod *pod, int32_t row);

/* 1 if the plugin has a NormalizeScore. */
static inline int mr_is_normalized(int32_t kernel)
{
    return kernel == MR_TAINT_TOLERATION || kernel == MR_NODE_AFFINITY || kernel == MR_POD_TOPOLOGY_SPREAD
        || kernel == MR_INTER_POD_AFFINITY;
}

/* The normalized score of a raw score, given the extreme raw scores among the feasible nodes. */
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

/* Normalizes the raw scores of all feasible rows, in place. */
void mr_normalize(int32_t kernel, const mr_pod *pod, const int32_t *rows, int64_t *scores, int32_t n);

#endif
