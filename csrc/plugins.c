#include "plugins.h"

#include <stddef.h>

#define MIB (1024.0 * 1024.0)

/* NodeResourcesFit (kube-scheduler v1.36, fit.go): pods first, then each requested resource against what is free. */
uint64_t mr_fit_filter_in(const mr_plan *plan, const mr_cluster *cluster, const mr_shape *shape, const mr_pod *pod,
                          int32_t row, const mr_room *room)
{
    const mr_ledger *ledger = &cluster->ledger;
    uint64_t reasons = 0;
    int above = 0;
    if (room->slots < 1) reasons |= MR_TOO_MANY_PODS;
    if (shape->need_cpu > 0 && shape->need_cpu > room->cpu) {
        reasons |= MR_INSUFFICIENT_CPU;
        above |= shape->need_cpu > mr_row_value(ledger, row, 0);
    }
    if (shape->need_memory > 0 && shape->need_memory > room->memory) {
        reasons |= MR_INSUFFICIENT_MEMORY;
        above |= shape->need_memory > mr_row_value(ledger, row, 1);
    }
    for (int32_t i = 0; i < shape->n_others; i++) {
        const mr_request *request = &shape->others[i];
        if (pod->ignored >> i & 1) continue;
        if (request->need > 0 && request->need > room->others[i]) {
            const int64_t allocatable = *mr_other(ledger, row, request->resource);
            if (allocatable == 0 && pod->delegated >> i & 1) continue;
            reasons |= MR_INSUFFICIENT_OTHER(i);
            above |= request->need > allocatable;
        }
    }
    return above && plan->fit_unresolvable ? reasons | MR_UNRESOLVABLE : reasons;
}

void mr_room_read(mr_room *room, const mr_cluster *cluster, const mr_shape *shape, int32_t row)
{
    const mr_ledger *ledger = &cluster->ledger;
    room->cpu = mr_row_value(ledger, row, 0) - mr_row_value(ledger, row, 2);
    room->memory = mr_row_value(ledger, row, 1) - mr_row_value(ledger, row, 3);
    room->slots = ledger->rows[row].pods_max - ledger->rows[row].pods;
    for (int32_t i = 0; i < shape->n_others; i++) {
        const int64_t *other = mr_other(ledger, row, shape->others[i].resource);
        room->others[i] = other[0] - other[1];
    }
}

uint64_t mr_fit_filter(const mr_plan *plan, const mr_cluster *cluster, const mr_shape *shape, const mr_pod *pod,
                       int32_t row)
{
    mr_room room;
    mr_room_read(&room, cluster, shape, row);
    return mr_fit_filter_in(plan, cluster, shape, pod, row, &room);
}

static int has_value(const mr_shape *shape, const mr_requirement *requirement, int32_t symbol)
{
    for (int32_t i = 0; i < requirement->count; i++)
        if (shape->values[requirement->first + i] == symbol) return 1;
    return 0;
}

static int requirement_matches(const mr_cluster *cluster, const mr_shape *shape, const mr_pod *pod,
                               const mr_requirement *requirement, int32_t row)
{
    int32_t value = requirement->column < 0 ? cluster->name[row] : cluster->labels[requirement->column][row];
    switch (requirement->op) {
    case MR_IN: return value != 0 && has_value(shape, requirement, value);
    case MR_NOT_IN: return value == 0 || !has_value(shape, requirement, value);
    case MR_EXISTS: return value != 0;
    case MR_DOES_NOT_EXIST: return value == 0;
    case MR_GT: return cluster->is_number[value] && cluster->number[value] > requirement->number;
    case MR_LT: return cluster->is_number[value] && cluster->number[value] < requirement->number;
    case MR_NAME_IN: return has_value(shape, requirement, value);
    case MR_NAME_NOT_IN: return !has_value(shape, requirement, value);
    default: return value == pod->pinned_name;
    }
}

static int term_matches(const mr_cluster *cluster, const mr_shape *shape, const mr_pod *pod, const mr_term *term,
                        int32_t row)
{
    for (int32_t i = 0; i < term->count; i++)
        if (!requirement_matches(cluster, shape, pod, &shape->requirements[term->first + i], row)) return 0;
    return term->count > 0;
}

/* spec.nodeSelector and required node affinity: selector AND (any term). */
int mr_node_affinity_matches(const mr_cluster *cluster, const mr_shape *shape, const mr_pod *pod, int32_t row)
{
    if (shape->selector.count && !term_matches(cluster, shape, pod, &shape->selector, row)) return 0;
    if (!(shape->flags & MR_SHAPE_REQUIRED)) return 1;
    for (int32_t i = 0; i < shape->n_required; i++)
        if (term_matches(cluster, shape, pod, &shape->required[i], row)) return 1;
    return 0;
}

/* Sum of the weights of the matching preferred terms. */
int64_t mr_node_affinity_score(const mr_cluster *cluster, const mr_shape *shape, const mr_pod *pod, int32_t row)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < shape->n_preferred; i++)
        if (term_matches(cluster, shape, pod, &shape->preferred[i], row)) sum += shape->preferred[i].weight;
    return sum;
}

/* HostPortInfo.CheckConflict: same protocol and port, and the same address or 0.0.0.0 on either side. */
int mr_ports_conflict(const mr_port *wanted, int32_t n_wanted, const mr_port *used, int32_t n_used, int32_t any_ip)
{
    for (int32_t i = 0; i < n_wanted; i++)
        for (int32_t j = 0; j < n_used; j++)
            if (used[j].port == wanted[i].port && used[j].protocol == wanted[i].protocol
                && (used[j].ip == wanted[i].ip || used[j].ip == any_ip || wanted[i].ip == any_ip))
                return 1;
    return 0;
}

/* The request of a pod for a resource: that of NodeResourcesFit's score (`fit`), else that of BalancedAllocation. */
static int64_t request_of(const mr_shape *shape, int32_t resource, int fit)
{
    if (resource == MR_CPU) return fit ? shape->score_cpu : shape->cpu;
    if (resource == MR_MEMORY) return fit ? shape->score_memory : shape->memory;
    for (int32_t i = 0; i < shape->n_others; i++)
        if (shape->others[i].resource == resource) return fit ? shape->others[i].score : shape->others[i].value;
    return 0;
}

static int requests_any(const mr_weighted *resources, int32_t n, const mr_shape *shape)
{
    for (int32_t i = 0; i < n; i++)
        if (request_of(shape, resources[i].resource, 0)) return 1;
    return 0;
}

/* Capacity, usage and request of one resource for a scoring strategy; returns 0 if the resource is left out. */
static int score_inputs(const mr_cluster *cluster, const mr_shape *shape, int32_t row, const mr_weighted *weighted,
                        int fit, int64_t *capacity, int64_t *used, int64_t *request)
{
    const mr_ledger *ledger = &cluster->ledger;
    int32_t resource = weighted->resource;
    *request = request_of(shape, resource, fit);
    if (resource < 0) {
        int which = resource == MR_MEMORY;
        *capacity = mr_row_value(ledger, row, which);
        *used = mr_row_value(ledger, row, (fit ? 4 : 2) + which);
        return *capacity != 0;
    }
    *capacity = mr_other(ledger, row, resource)[0];
    *used = mr_other(ledger, row, resource)[1];
    if (resource != MR_EPHEMERAL_STORAGE && *request == 0) return 0; /* not requested: left out */
    if (*capacity == 0 && weighted->devices) {
        *capacity = weighted->devices[2 * row];
        *used = weighted->devices[2 * row + 1];
    }
    return *capacity != 0;
}

/* The function of RequestedToCapacityRatio (requested_to_capacity_ratio.go): linear between its points, constant
 * outside. Truncates. */
static int64_t ratio_score(const mr_plan *plan, int64_t utilization)
{
    const mr_point *points = plan->points;
    for (int32_t i = 0; i < plan->n_points; i++) {
        if (utilization > points[i].utilization) continue;
        if (i == 0) return points[0].score;
        int64_t rise = points[i].score - points[i - 1].score, run = points[i].utilization - points[i - 1].utilization;
        return points[i - 1].score + rise * (utilization - points[i - 1].utilization) / run;
    }
    return points[plan->n_points - 1].score;
}

/* The share of a part in percent; a part outside 0..whole counts as the nearest one. */
static int64_t percent_of(int64_t part, int64_t whole)
{
    const int64_t clamped = part < 0 ? 0 : part > whole ? whole : part;
    return (int64_t)((__int128)clamped * 100 / whole);
}

/* One resource by the plan's strategy, in 0..100. */
static int64_t strategy_score(const mr_plan *plan, int64_t requested, int64_t capacity)
{
    if (plan->exact_shares) {
        if (plan->fit_strategy == MR_LEAST_ALLOCATED)
            return requested > capacity ? 0 : percent_of(capacity - (requested > 0 ? requested : 0), capacity);
        const int64_t percent = percent_of(requested, capacity);
        return plan->fit_strategy == MR_MOST_ALLOCATED ? percent : ratio_score(plan, percent);
    }
    switch (plan->fit_strategy) {
    case MR_MOST_ALLOCATED: return (requested > capacity ? capacity : requested) * 100 / capacity;
    case MR_REQUESTED_TO_CAPACITY_RATIO:
        return ratio_score(plan, requested > capacity ? 100 : requested * 100 / capacity);
    default: return requested > capacity ? 0 : (capacity - requested) * 100 / capacity;
    }
}

/* NodeResourcesFit's score: the weighted mean over resources of LeastAllocated (least_allocated.go), MostAllocated
 * (most_allocated.go) or RequestedToCapacityRatio, which alone leaves out resources that score 0, and rounds. */
int64_t mr_fit_score(const mr_plan *plan, const mr_cluster *cluster, const mr_shape *shape, int32_t row)
{
    int64_t sum = 0, weights = 0, capacity, used, request;
    int ratio = plan->fit_strategy == MR_REQUESTED_TO_CAPACITY_RATIO;
    for (int32_t i = 0; i < plan->n_fit; i++) {
        if (!score_inputs(cluster, shape, row, &plan->fit[i], 1, &capacity, &used, &request)) continue;
        int64_t score = strategy_score(plan, mr_sum(&cluster->ledger, used, request), capacity);
        if (ratio && score <= 0) continue;
        sum += score * plan->fit[i].weight;
        weights += plan->fit[i].weight;
    }
    if (weights == 0) return 0;
    return ratio ? mr_round((double)sum / (double)weights) : sum / weights;
}

/* b of balanced_allocation.go: (1 - std) * 100 over the fractions in use, with the pod or without it. */
static int64_t balance(const mr_plan *plan, const mr_cluster *cluster, const mr_shape *shape, int32_t row, int with_pod)
{
    double fraction[MR_MAX_RESOURCES], sum = 0.0, std = 0.0;
    int n = 0;
    for (int32_t i = 0; i < plan->n_balanced; i++) {
        int64_t capacity, used, request;
        if (!score_inputs(cluster, shape, row, &plan->balanced[i], 0, &capacity, &used, &request)) continue;
        const int64_t requested = with_pod ? mr_sum(&cluster->ledger, used, request) : used;
        fraction[n] = mr_fraction((double)requested, (double)capacity);
        sum += fraction[n++];
    }
    if (n == 2) std = __builtin_fabs((fraction[0] - fraction[1]) / 2.0);
    if (n > 2) {
        double mean = sum / n, squares = 0.0;
        for (int i = 0; i < n; i++) squares += (fraction[i] - mean) * (fraction[i] - mean);
        std = __builtin_sqrt(squares / n);
    }
    return (int64_t)((1.0 - std) * 100.0);
}

/* NodeResourcesBalancedAllocation: since 1.36 half of what the pod changes, around 75; before, b with the pod. */
int64_t mr_balanced_allocation(const mr_plan *plan, const mr_cluster *cluster, const mr_shape *shape, int32_t row)
{
    int64_t with = balance(plan, cluster, shape, row, 1);
    if (!plan->balanced_difference) return with;
    return 50 + (50 + with - balance(plan, cluster, shape, row, 0)) / 2;
}

/* ImageLocality (image_locality.go): sizes scaled by the share of nodes that have the image, clamped, to 0..100. */
int64_t mr_image_locality(const mr_cluster *cluster, const mr_shape *shape, int32_t row)
{
    const int32_t *seen = &cluster->images[cluster->image_first[row]];
    int64_t sum = 0;
    for (int32_t i = 0; i < shape->n_images; i++)
        for (int32_t j = 0; j < cluster->image_count[row]; j += 2)
            if (seen[j] == shape->images[i]) {
                double spread = (double)seen[j + 1] / (double)cluster->nodes;
                sum += (int64_t)((double)cluster->image_size[seen[j]] * spread);
                break;
            }
    int64_t low = (int64_t)(23 * MIB), high = (int64_t)(1000 * MIB) * shape->image_containers;
    if (sum < low) sum = low;
    else if (sum > high) sum = high;
    return 100 * (sum - low) / (high - low);
}

uint64_t mr_filter(int32_t kernel, const mr_plan *plan, const mr_cluster *cluster, const mr_shape *shape,
                   const mr_pod *pod, int32_t row)
{
    const uint64_t rejected = 1 | MR_UNRESOLVABLE;
    switch (kernel) {
    case MR_NODE_UNSCHEDULABLE:
        return cluster->ledger.rows[row].flags & MR_UNSCHEDULABLE
            && !(shape->flags & MR_SHAPE_TOLERATES_UNSCHEDULABLE) ? rejected : 0;
    case MR_NODE_NAME: return pod->node_name && pod->node_name != cluster->name[row] ? rejected : 0;
    case MR_TAINT_TOLERATION: return pod->taints[cluster->taint_set[row]] < 0 ? rejected : 0;
    case MR_NODE_AFFINITY:
        if (plan->added && !mr_node_affinity_matches(cluster, plan->added, pod, row))
            return MR_AFFINITY_ADDED | MR_UNRESOLVABLE;
        return mr_node_affinity_matches(cluster, shape, pod, row) ? 0 : MR_AFFINITY_OF_POD | MR_UNRESOLVABLE;
    case MR_NODE_PORTS: return !mr_ports_fit(cluster, pod, row);
    case MR_NODE_RESOURCES_FIT: return mr_fit_filter(plan, cluster, shape, pod, row);
    case MR_POD_TOPOLOGY_SPREAD: return pod->terms ? mr_spread_filter(pod->terms, row, NULL) : 0;
    case MR_INTER_POD_AFFINITY: return pod->terms ? mr_inter_pod_filter(pod->terms, row, NULL) : 0;
    case MR_NODE_DECLARED_FEATURES:
        return shape->flags & ~cluster->ledger.rows[row].flags & MR_FEATURES ? rejected : 0;
    case MR_VOLUMES: return pod->volumes && !mr_volumes_fit(pod->volumes, row);
    default: return 0;
    }
}

uint64_t mr_verdict(const mr_plan *plan, const mr_cluster *cluster, const mr_shape *shape, const mr_pod *pod,
                    int32_t row)
{
    for (int32_t i = 0; i < plan->n_filters; i++) {
        uint64_t reasons = mr_filter(plan->filters[i], plan, cluster, shape, pod, row);
        if (reasons) return (uint64_t)(i + 1) << MR_VERDICT_SHIFT | reasons;
    }
    if (pod->volumes && !mr_volumes_fit(pod->volumes, row)) return (uint64_t)(plan->n_filters + 1) << MR_VERDICT_SHIFT | 1;
    return 0;
}

int64_t mr_score(int32_t kernel, const mr_plan *plan, const mr_cluster *cluster, const mr_shape *shape,
                 const mr_pod *pod, int32_t row)
{
    switch (kernel) {
    case MR_TAINT_TOLERATION: return mr_prefer_no_schedule(pod->taints[cluster->taint_set[row]]);
    case MR_NODE_AFFINITY:
        return mr_node_affinity_score(cluster, shape, pod, row)
            + (plan->added ? mr_node_affinity_score(cluster, plan->added, pod, row) : 0);
    case MR_NODE_RESOURCES_FIT: return mr_fit_score(plan, cluster, shape, row);
    case MR_BALANCED_ALLOCATION: return mr_balanced_allocation(plan, cluster, shape, row);
    case MR_IMAGE_LOCALITY: return mr_image_locality(cluster, shape, row);
    case MR_POD_TOPOLOGY_SPREAD: return pod->terms ? mr_spread_score(pod->terms, row) : 0;
    case MR_INTER_POD_AFFINITY: return pod->terms ? mr_inter_pod_score(pod->terms, row) : 0;
    default: return 0;
    }
}

int mr_scores(int32_t kernel, const mr_plan *plan, const mr_shape *shape, const mr_pod *pod)
{
    const mr_terms *terms = pod->terms;
    switch (kernel) {
    case MR_NODE_AFFINITY: return shape->n_preferred > 0 || (plan->added && plan->added->n_preferred > 0);
    case MR_BALANCED_ALLOCATION: return requests_any(plan->balanced, plan->n_balanced, shape);
    case MR_POD_TOPOLOGY_SPREAD: return terms && terms->n_soft > 0;
    case MR_INTER_POD_AFFINITY: return terms && mr_inter_pod_scores(terms);
    default: return 1;
    }
}

/* NormalizeScore of the plugins that have one, in place. */
void mr_normalize(int32_t kernel, const mr_pod *pod, const int32_t *rows, int64_t *scores, int32_t n)
{
    int spread = kernel == MR_POD_TOPOLOGY_SPREAD;
    int64_t min = INT64_MAX, max = kernel == MR_INTER_POD_AFFINITY ? INT64_MIN : 0;
    for (int32_t i = 0; i < n; i++) {
        if (spread && mr_spread_ignores(pod->terms, rows[i])) continue;
        min = scores[i] < min ? scores[i] : min;
        max = scores[i] > max ? scores[i] : max;
    }
    for (int32_t i = 0; i < n; i++)
        scores[i] = spread && mr_spread_ignores(pod->terms, rows[i]) ? 0 : mr_constant(kernel, scores[i], min, max);
}
